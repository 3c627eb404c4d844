"""Who did what, and the events of one job, among many events of other jobs."""

import pytest

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
    assert [event["name"] for event in found["events"]] == ["resumed", "suspended"]
    assert found["looked_back_to"] is None
    assert {event["by"] for event in found["events"]} == {"dashboard by the token"}
    assert [event["name"] for event in dashboard.get("/api/v1/audit?event=suspended").json["events"]] == ["suspended"]
    assert "suspended" in dashboard.get("/audit").text


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
