"""Who did what, and the events of one job, among many events of other jobs."""

import pytest

from fusiond.broker.event_records import DAEMONS
from fusiond.broker.records import NewJob
from fusiond.config.model.event_log import Events
from tests.support.dashboard import Dashboard
from tests.web.conftest import CONFIG


@pytest.fixture
def dashboard(desk, tmp_path):
    """One whose Redis keeps events."""
    desk.run(desk.verbs.keep_events("reports", "100000 0"))
    with Dashboard(desk.settings, tmp_path, events=Events(), **CONFIG) as found:
        yield found


def test_acts_of_operators_are_found_among_events_of_jobs(dashboard, desk):
    """The newest first, by name if one is asked for; the jobs' own events are not among them."""
    desk.run(desk.verbs.enqueue("reports", [NewJob(f"a{n}", "report", b"[[],{}]") for n in range(1200)]))
    dashboard.post("/api/v1/queues/reports/suspend")
    for n in range(30):
        desk.run(desk.verbs.enqueue("reports", [NewJob(f"b{n}", "report", b"[[],{}]")]))
    dashboard.post("/api/v1/queues/reports/resume")
    found = dashboard.get("/api/v1/audit").json
    assert [act["what"] for act in found["acts"]] == ["resumed", "suspended"]
    assert {act["who"] for act in found["acts"]} == {"dashboard by the token from 127.0.0.1"}
    what = lambda query: [act["what"] for act in dashboard.get(f"/api/v1/audit?{query}").json["acts"]]  # noqa: E731
    assert (what("event=suspended"), what("limit=1")) == (["suspended"], ["resumed"])
    assert (what("by=THE+TOKEN&since=1h"), what("by=ada")) == (["resumed", "suspended"], [])
    assert (what("thing=REPORT"), what("thing=mail")) == (["resumed", "suspended"], [])
    assert "suspended" in dashboard.get("/audit").text


def test_charts_mark_reloads_and_releases(dashboard, desk):
    """Not what was refused, and not what did not change; with who asked and what happened."""
    desk.run(desk.verbs.keep_events(DAEMONS, "100000 0"))
    for event in ("reload.refused", "reload.applied", "cron.tick", "release.loaded", "rollback"):
        desk.run(desk.verbs.record_event(DAEMONS, event, "ada", [("m", "<generation 2>")]))
    marked = [each["event"] for each in dashboard.get("/api/v1/queues/reports").json["marks"]]
    assert marked == ["reload.applied", "release.loaded", "rollback"]
    assert dashboard.get("/queues/reports").text.count('class="mark"') == 3


def test_what_operators_did_outlives_the_events_of_jobs(dashboard, desk):
    """Though the queue keeps only some 100 events; many jobs of one command are one row with their number."""
    desk.run(desk.verbs.keep_events("reports", "100 0"))
    dashboard.post("/api/v1/queues/reports/suspend")
    names = [f"a{n}" for n in range(60)]
    for start in range(0, 3000, 60):
        desk.run(desk.verbs.enqueue("reports", [NewJob(f"{start}{name}", "report", b"[[],{}]") for name in names]))
    assert "suspended" not in [event.name for event in desk.run(desk.verbs.events_behind("reports", 0, 1000)).events]
    ids = [f"0{name}" for name in names]
    for id_ in ids:
        desk.run(desk.verbs.cancel("reports", id_))
    desk.run(desk.verbs.requeue("reports", ids, who="ann"))
    found = dashboard.get("/api/v1/audit").json["acts"]
    assert [(act["what"], act["who"], act["number"]) for act in found] == [
        ("requeued", "ann", 60), ("suspended", "dashboard by the token from 127.0.0.1", 1),
    ]  # fmt: skip
    assert "60 jobs" in dashboard.get("/audit").text
    dashboard.post("/api/v1/jobs/bulk", {"job": [f"reports/{id_}" for id_ in ids], "action": "cancel"})
    act = dashboard.get("/api/v1/audit").json["acts"][0]
    assert (act["what"], act["who"], act["number"]) == ("canceled", "dashboard by the token from 127.0.0.1", 60)


def test_an_event_names_the_entry_and_the_lock(dashboard, desk):
    """That it is about, whoever looks: an operator wants to know which one was suspended or freed."""
    desk.run(desk.verbs.keep_events(DAEMONS, "1000 0"))
    desk.run(desk.verbs.record_event(DAEMONS, "cron.suspended", "ann", words=[("o", "nightly")]))
    job = NewJob("u", "report", b"[[],{}]", unique='ended,error,0,"u"')
    desk.run(desk.verbs.enqueue("reports", [job]))
    _, locks = desk.run(desk.verbs.locks("reports"))
    assert dashboard.post("/api/v1/limits/reports/release", {"lock": locks[0].name}).json["done"]
    found = {act["what"]: act["about"] for act in dashboard.get("/api/v1/audit").json["acts"]}
    assert found == {"cron.suspended": "nightly", "unlocked": locks[0].name}
    assert "nightly" in dashboard.get("/audit").text


def test_a_jobs_events_are_found_among_those_of_others(dashboard, desk):
    """Also if its id has characters that events escape; those of a job that begins with its id are not among them."""
    desk.run(desk.verbs.enqueue("reports", [NewJob("in:voice.7", "report", b"[[],{}]")]))
    others = [NewJob(f"in:voice.7{n}", "report", b"[[],{}]") for n in range(700)]
    desk.run(desk.verbs.enqueue("reports", others))
    dashboard.post("/api/v1/jobs/reports/in:voice.7/cancel")
    story = dashboard.get("/api/v1/jobs/reports/in:voice.7").json
    assert [(event["name"], event["job"]) for event in story["events"]] == [
        ("canceled", "reports/in:voice.7"), ("enqueued", "reports/in:voice.7"),
    ]  # fmt: skip
