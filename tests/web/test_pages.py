"""The pages of queues, cron, workers, flows, broken bodies, limits, configuration and audit, over HTTP."""

import json
import re
import time
from dataclasses import replace

import pytest

from fusiond import paths
from fusiond.broker.call import as_is, plain
from fusiond.broker.event_records import DAEMONS
from fusiond.broker.outbox_verbs import OutboxState, RefusedRow
from fusiond.broker.pool_verbs import PoolAction
from fusiond.broker.records import NewJob
from fusiond.config.accepted import history, snapshot
from fusiond.config.model import Config
from fusiond.config.model.limits import SharedPool
from fusiond.flows.run_control import deliver_effects
from fusiond.web.application import ENDPOINTS
from tests.support.fusiond_desk import QUEUES, TASKS

#: pages without a name in their address that need no daemon
PAGES = sorted(
    each.path
    for each in ENDPOINTS
    if each.template and each.method == "GET" and "{" not in each.path and each.path != "/configuration/plan"
)


@pytest.mark.parametrize("path", PAGES)
def test_a_page_needs_neither_jobs_nor_a_daemon(dashboard, path):
    """What is not there is said in words."""
    page = dashboard.get(path)
    assert page.status == 200
    assert "<h1>" in page.text


def test_the_overview_says_what_needs_attention(dashboard, desk):
    """Jobs that nobody serves, drained hosts, a daemon that does not answer; the worst first."""
    desk.run(desk.verbs.enqueue("reports", [NewJob("a", "report", b"[[],{}]")]))
    desk.run(desk.verbs.serve("test", "host.1", []))
    found = dashboard.get("/api/v1/overview").json
    sentences = [each["sentence"] for each in found["attention"]]
    assert "1 job in queue reports, which no living worker group serves" in sentences
    assert "the daemon of this host does not answer on its control socket" in sentences
    levels = [each["level"] for each in found["attention"]]
    assert levels == sorted(levels, key=("bad", "warning", "note").index)
    assert (found["waiting"], found["running"]) == (1, 0)
    drained = {"queues": "reports", "state": "draining", "phase": "serving", "answers": 0}
    desk.run(desk.verbs.announce("web-2.1", drained))
    queues = {each["name"]: each for each in dashboard.get("/api/v1/queues").json["queues"]}
    assert queues["reports"]["drained_on"] == ["web-2"]
    overview = dashboard.get("/").text
    assert "1 job in queue reports, whose worker groups are drained on web-2" in overview
    assert "which no living worker group serves" not in overview


def test_hosts_are_told_with_the_generation_that_they_run(dashboard, desk):
    """One whose file is not the newest is marked."""
    desk.run(desk.verbs.publish_catalogue("newer", "other", TASKS, priorities={}, queues=QUEUES))
    desk.run(desk.verbs.serve("newer", "web-2.5", ["default"]))
    hosts = dashboard.get("/api/v1/overview").json["hosts"]
    assert [(each["host"], each["newest"]) for each in hosts] == [("web-2", True), ("host", False)]
    assert hosts[0]["generation"] > hosts[1]["generation"]
    assert dashboard.get("/").text.count("not the newest") == 1


def test_queues_are_suspended_resumed_and_purged(dashboard, desk):
    """By name; another queue is 404."""
    desk.run(desk.verbs.enqueue("reports", [NewJob(name, "report", b"[[],{}]") for name in "ab"]))
    for action, check in (("suspend", True), ("resume", False)):
        assert dashboard.post(f"/api/v1/queues/reports/{action}").status == 200
        assert desk.run(desk.verbs.counts("reports")).suspended_by_operator is check
    assert dashboard.post("/api/v1/queues/reports/purge").json["jobs"] == 2
    assert desk.run(desk.verbs.counts("reports")).canceled == 2
    assert dashboard.post("/api/v1/queues/none/purge").status == 404


def test_cron_entries_run_and_are_suspended(dashboard, desk):
    """A run outside the schedule is a job of the entry's task; events say who asked."""
    desk.run(desk.verbs.keep_events(DAEMONS, "1000 0"))
    assert "is enqueued" in dashboard.post("/api/v1/cron/nightly/run").json["sentence"]
    assert desk.run(desk.verbs.counts("reports")).queued == 1
    entry = lambda: dashboard.get("/api/v1/cron").json["entries"][0]  # noqa: E731
    assert len(entry()["coming"]) == 3
    assert dashboard.post("/api/v1/cron/nightly/suspend").status == 200
    assert (entry()["suspended_by"], entry()["coming"]) == ("operator", [])
    assert dashboard.post("/api/v1/cron/nightly/resume").status == 200
    assert entry()["suspended_by"] == ""
    assert dashboard.post("/api/v1/cron/none/run").status == 404
    told = [event.document() for event in desk.run(desk.verbs.events_behind(DAEMONS, 0, 99)).events]
    assert [each["event"] for each in told] == ["cron.run", "cron.suspended", "cron.resumed"]
    assert all(each["asked_by"].startswith("dashboard by ") for each in told)


@pytest.mark.parametrize(
    ("timetable", "schedule", "coming"),
    [
        ("every 90s", "every 1m30s", 3),
        ("0 3 * * * Europe/Berlin", "0 3 * * *", 3),
        ("0 3 * * * No/Zone", "0 3 * * *", 0),
    ],
)
def test_a_cron_entry_is_told_as_it_ticks(dashboard, desk, timetable, schedule, coming):
    """By the newer file of another host, also where this host does not have its time zone."""
    state = desk.run(desk.verbs.cron_state("nightly"))
    said = {"definition": "other", "generation": 9, "timetable": timetable, "first_seen": 1, "counted": "reports"}
    desk.run(desk.verbs.cron_write(state, **said))
    [entry] = dashboard.get("/api/v1/cron").json["entries"]
    assert (entry["schedule"], len(entry["coming"]), entry["by_other_file"]) == (schedule, coming, True)
    assert f"<code>{schedule}</code>" in dashboard.get("/cron").text
    assert "by another host" in dashboard.get("/cron").text


def test_workers_tell_what_they_run(dashboard, desk):
    """One that has long said nothing is gone; a record that cannot be read has no jobs."""
    jobs = json.dumps([{"job": "default/a", "task": "send", "ms": 1500, "share": 0.5, "message": "half"}])
    busy = {
        "group": "main",
        "state": "busy",
        "running": 1,
        "slots": 4,
        "queues": "default",
        "jobs": jobs,
    }
    desk.run(desk.verbs.announce("web-1.7", busy))
    desk.run(desk.verbs.announce("web-2.8", busy | {"jobs": "[["}))
    desk.run(plain(as_is, "PEXPIRE", desk.verbs.keys.worker("web-2.8"), 60_000 - 15_001))
    found = dashboard.get("/api/v1/workers").json
    assert [(each["state"], len(each["jobs"])) for each in found["workers"]] == [("busy", 1), ("gone", 0)]
    assert found["groups"][0] | {"hosts": 0} == {
        "name": "main", "running": 1, "slots": 4, "workers": 2, "hosts": 0, "gone": 1, "here": True,
    }  # fmt: skip
    assert "50% half" in dashboard.get("/workers").text
    assert found["pools"] == []


def test_pools_tell_what_is_held(dashboard, desk):
    """Beside the workers, for who may see all queues."""
    for call in desk.verbs.declare_pools(Config(max_running=3)):
        desk.run(call)
    take = PoolAction("take", b"token a", "(max_running)=1=web-1.7")
    desk.run(desk.verbs.pools({"(max_running)": SharedPool("", 3)}, 60_000, [take]))
    [pool] = dashboard.get("/api/v1/workers").json["pools"]
    assert (pool["name"], pool["slots"], pool["held"], pool["waiters"]) == ("(max_running)", 3, 1, [])
    assert '<th scope="row">(max_running)</th>' in dashboard.get("/workers").text
    assert dashboard.post("/api/v1/workers/none/restart").status == 404
    assert dashboard.post("/api/v1/workers/main/restart").status == 503


def test_a_run_of_a_flow_is_shown_and_steered(dashboard, desk):
    """As a graph, with the state of each step; what its state does not allow is 409."""
    started = dashboard.post("/api/v1/flows/etl/start").json["sentence"]
    [run] = dashboard.get("/api/v1/flows").json["runs"]
    assert run["name"] in started
    page = dashboard.get(f"/flows/{run['name']}").text
    assert '<g class="running"><title>extract: running</title>' in page
    assert '<g class="waiting"><title>load: waiting</title>' in page
    assert page.count("<path d=") == 1
    job = f"default/{run['name'].partition('/')[2]}.extract"
    assert f'<a href="/jobs/{job}">extract</a>' in page
    desk.settle("failed", "default", code="EXCEPTION", message="no stock")
    desk.run(deliver_effects(desk.verbs, "default"))
    page = dashboard.get(f"/flows/{run['name']}").text
    assert '<svg class="bar-of failed"' in page
    assert "EXCEPTION: no stock</td>" in dashboard.get(f"/flows/{run['name']}/steps/extract").text
    assert dashboard.get(f"/flows/{run['name']}/steps/none").status == 404
    assert dashboard.post(f"/api/v1/flows/{run['name']}/requeue").status == 200
    assert f'step extract of <a href="/flows/{run["name"]}">' in dashboard.get(f"/jobs/{job}").text
    ask = lambda verb: dashboard.post(f"/api/v1/flows/{run['name']}/{verb}")  # noqa: E731
    assert ask("requeue").status == 409
    assert ask("suspend").json["sentence"].endswith("is suspended")
    assert ask("resume").json["sentence"].endswith("is running")
    assert ask("cancel").status == 200
    assert ask("cancel").status == 409
    assert ask("requeue").json["sentence"].endswith("is running")
    assert dashboard.post("/api/v1/flows/etl/start", {"inputs": {"day": 1}}).status == 400
    assert dashboard.post("/api/v1/flows/none/start").status == 404
    assert dashboard.get("/flows/reports/none").status == 404


def test_broken_bodies_are_looked_at_requeued_and_dropped(open_dashboard, desk):
    """As text; the page of queues counts those that are kept."""
    for body in ("{<b>", "nothing"):
        push(desk, body)
    desk.run(desk.verbs.rescue("default"))
    with open_dashboard() as dashboard:
        bodies = dashboard.get("/api/v1/broken").json["bodies"]
        assert {each["text"] for each in bodies} == {"{<b>", "nothing"}
        assert "{&lt;b&gt;" in dashboard.get("/broken").text
        first, second = (f"/api/v1/broken/default/{each['digest']}" for each in bodies)
        broken = lambda: dashboard.get("/api/v1/queues").json["queues"][0]["broken"]  # noqa: E731
        assert broken() == 2
        assert dashboard.post(f"{first}/drop").status == 200
        assert dashboard.post(f"{first}/drop").status == 404
        assert broken() == 1
        assert dashboard.post(f"{second}/requeue").status == 200


def test_nothing_of_a_broken_body_is_shown_where_arguments_are_hidden(open_dashboard, desk):
    """It cannot be told what in it is an argument."""
    push(desk, "{secret")
    desk.run(desk.verbs.rescue("default"))
    with open_dashboard(secret=("args.0",)) as dashboard:
        assert "secret" not in dashboard.get("/broken").text


def push(desk, body):
    """As another program does."""
    desk.run(plain(as_is, "LPUSH", desk.verbs.keys.of("default", "inbox"), body))


def test_locks_are_shown_and_released(dashboard, desk):
    """Of the queue that is named."""
    desk.run(desk.verbs.enqueue("reports", [NewJob("a", "report", b"[[],{}]", unique="ended,skip,0,x")]))
    [lock] = dashboard.get("/api/v1/limits?queue=reports").json["locks"]
    assert lock["job"] == "reports/a"
    assert dashboard.post("/api/v1/limits/reports/release", {"lock": lock["name"]}).status == 200
    assert dashboard.post("/api/v1/limits/reports/release", {"lock": lock["name"]}).status == 409
    assert dashboard.get("/api/v1/limits?queue=reports").json["locks"] == []


def test_outboxes_are_shown_with_the_rows_that_were_refused(dashboard, desk):
    """Of all living daemons' files; what is wrong is on the overview, too."""
    digests = {"outboxes": {"shop": "abc", "idle": "def"}}
    desk.run(desk.verbs.publish_catalogue("other", "h2", TASKS, priorities={}, queues=QUEUES, digests=digests))
    rows = (RefusedRow("<b>7", "send", "args: this is not JSON", 7.5),)
    state = OutboxState(waiting=3, refused=1, oldest=2.0, rows=rows, host="box", at=time.time())
    desk.run(desk.verbs.hold_outbox("shop", "token", 60_000, state))
    idle, shop = dashboard.get("/api/v1/outboxes").json["outboxes"]
    assert (idle["name"], idle["at"]) == ("idle", 0)
    assert idle["notes"] == ["outbox 'idle': no daemon has handed over rows yet; is the program outbox:idle running?"]
    assert (shop["waiting"], shop["host"], shop["rows"][0]["at"]) == (3, "box", 7500)
    assert shop["notes"] == ["outbox 'shop' has refused 1 row: fusiond outbox list shop"]
    page = dashboard.get("/outboxes").text
    assert "<code>&lt;b&gt;7</code>" in page
    assert "fusiond outbox retry shop" in page
    found = dashboard.get("/api/v1/overview").json["attention"]
    assert {each["sentence"] for each in found if each["link"] == "/outboxes"} == {*idle["notes"], *shop["notes"]}


def test_the_history_is_told_as_differences(dashboard, tmp_path):
    """Keys and values, but no secret; a generation that is not kept is 404."""
    config, source = dashboard.config, str(tmp_path / "fusion.yaml")
    group = config.workers["main"]
    for number, variable in ((1, "hunter1"), (2, "hunter2")):
        changed = replace(
            config, workers={"main": replace(group, processes=number + 3, environment={"PASSWORD": variable})}
        )
        written = snapshot.write(tmp_path / "x.json", changed, generation=number, source=source)
        history.record(paths.history(tmp_path), written, None, ("fusiond reload by ada",), accepted_at=1.0)
    found = dashboard.get("/api/v1/configuration").json
    assert [each["generation"] for each in found["history"]] == [2, 1]
    lines = dashboard.get("/api/v1/configuration/history/2").json["lines"]
    assert [line.strip() for line in lines if line[0] in "+-"] == ['-   "processes": 4,', '+   "processes": 5,']
    assert "hunter" not in dashboard.get("/configuration/history/1").text
    assert dashboard.get("/configuration/history/9").status == 404


def test_a_value_is_told_with_its_line(dashboard, tmp_path):
    """From the file as it is now."""
    (tmp_path / "fusion.yaml").write_text(
        "version: 1\nbroker: {url: 'redis://localhost'}\ntasks:\n  send:\n    run: shop.send\n    timeout: 5s\n"
    )
    page = dashboard.get("/configuration/tasks/send")
    assert page.status == 200
    assert "fusion.yaml:6" in page.text
    assert "built in" in page.text
    assert dashboard.get("/configuration/tasks/none").status == 404
    assert dashboard.get("/configuration/nothing/send").status == 400


def test_a_daemon_that_does_not_answer_is_503(dashboard):
    """With one sentence; the page that asks it later comes all the same."""
    assert 'data-load="/configuration/plan"' in dashboard.get("/configuration/plan?later=1").text
    for reply in (dashboard.get("/configuration/plan"), dashboard.post("/api/v1/configuration/reload")):
        assert reply.status == 503
        assert "no daemon listens" in reply.text


def test_redis_away_is_one_sentence(open_dashboard, redis_server):
    """The overview shows it, and every other page is 503."""
    with open_dashboard() as dashboard:
        redis_server.kill()
        assert dashboard.get("/").status == 200
        assert "cannot be reached" in dashboard.get("/").text
        for path in ("/jobs", "/queues", "/api/v1/failures"):
            reply = dashboard.get(path)
            assert reply.status == 503
            assert "Traceback" not in reply.text


def test_queues_tell_how_fast_jobs_come_and_go(dashboard, desk):
    """And when each is empty."""
    for _ in range(3):
        desk.enqueued("send")
    minute = int(time.time()) // 60
    key = desk.verbs.keys.of("default", "metrics", "minutes")
    desk.run(plain(as_is, "HSET", key, f"i {minute - 2}", 3, f"f {minute - 2}", 600))
    found = {queue["name"]: queue for queue in dashboard.get("/api/v1/queues").json["queues"]}
    assert found["default"]["in_per_s"] == 0
    assert found["default"]["empty_in_s"] == pytest.approx(3 / found["default"]["out_per_s"])
    assert found["reports"]["in_per_s"] is None
    for path in ("/queues", "/"):
        assert re.search(r"0 in, [0-9.]+ out per s; empty in [0-9]+ ms<", dashboard.get(path).text), path


def test_the_overview_names_jobs_that_run_for_far_longer_than_usual(dashboard, desk):
    """The worst five; not those of a task that has hardly run, nor such as are short."""
    hour = desk.verbs.keys.of("default", "metrics", "hour", str(int(time.time()) // 3600 - 30))
    desk.run(plain(as_is, "HSET", hour, "f send", 20, "R7 send", 20, "R0 report", 19))
    jobs = [{"job": f"default/{n}", "task": "send", "ms": 10_000} for n in range(7)]
    jobs += [{"job": "default/b", "task": "send", "ms": 9_000}, {"job": "default/c", "task": "report", "ms": 90_000}]
    jobs += [{"job": "default/d", "task": "send", "ms": 40_000}]
    fields = {"group": "main", "queues": "default", "state": "busy", "phase": "serving", "jobs": json.dumps(jobs)}
    desk.run(desk.verbs.announce("web1.7", fields))
    found = [
        each for each in dashboard.get("/api/v1/overview").json["attention"] if "longer than usual" in each["sentence"]
    ]
    assert [each["link"] for each in found] == ["/jobs/default/d"]
    assert found[0]["sentence"] == (
        "job default/d of task send runs 40 × longer than usual: for 40 s, and half of its task's others ran below 1 s"
    )
    many = [{"job": f"default/{n}", "task": "send", "ms": 20_000 + n} for n in range(7)]
    desk.run(desk.verbs.announce("web1.7", {**fields, "jobs": json.dumps(many)}))
    links = re.findall(r'/jobs/default/(\d)">job default', dashboard.get("/").text)
    assert links == ["6", "5", "4", "3", "2"]
