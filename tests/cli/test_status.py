import re
import signal
import time
from functools import partial

import pytest

from fusiond.broker.call import as_is, plain
from fusiond.broker.outbox_verbs import OutboxState, RefusedRow
from fusiond.broker.records import NewJob
from fusiond.cli.status import workers
from fusiond.cli.status.report import program_notes
from fusiond.config.accepted.snapshot import Snapshot, content_hash
from fusiond.config.load import load
from fusiond.schedule import publishing
from tests.support.fusiond_command import fusiond_here, samples
from tests.support.running import PATIENCE, until
from tests.support.status_documents import program_status


@pytest.fixture
def no_daemon(tmp_path):
    """A runtime directory in which nobody listens."""
    return {"RUNTIME_DIRECTORY": str(tmp_path / "run")}


@pytest.fixture
def status(desk, no_daemon):
    """`fusiond status` with the test's Redis, and no daemon."""
    return partial(fusiond_here, "status", cwd=desk.cwd, FUSION_URL=desk.settings.url, **no_daemon)


def test_without_a_daemon_the_queues_are_shown(desk, no_daemon, status):
    """The daemon is away: status 3 and a sentence, and the queues all the same."""
    (desk.cwd / "fusion.yaml").write_text("version: 1\n")
    desk.enqueued("send")
    done = status()
    assert done.status == 3
    assert done.out.splitlines()[1].split()[:2] == ["default", "1"]
    assert "no daemon listens" in done.err
    seen = fusiond_here("info", "--json", cwd=desk.cwd, FUSION_URL=desk.settings.url, **no_daemon).json
    assert seen["daemon"] is None
    assert seen["queues"][0]["queued"] == 1
    assert list(seen["errors"]) == ["daemon"]


def test_entries_that_living_files_declare_differently_are_named(desk, status):
    """With what differs, and which of them ticks; entries that are the same in both are not."""

    def declare(daemon, schedule, queue):
        said = {"task": "send", "timezone": "UTC", "schedule": "0 2 * * *", "queue": "default", "digest": "same"}
        other = said | {"schedule": schedule, "queue": queue, "digest": f"{schedule} {queue}"}
        cron = {"nightly": other, "same": said}
        publish = desk.verbs.publish_catalogue(daemon, f"hash-{daemon}", {}, priorities={}, queues=[], cron=cron)
        return desk.run(publish).generation

    old, new = declare("one", "0 3 * * *", "default"), declare("two", "0 4 * * *", "default")
    assert status().out.splitlines()[-1] == (
        f"cron entry 'nightly' differs between living files and ticks by published generation {new} "
        f"(published generation {new}: schedule 0 4 * * *; published generation {old}: schedule 0 3 * * *)"
    )
    [drift] = status("--json").json["drift"]
    assert (drift["entry"], [each["generation"] for each in drift["declarations"]]) == ("nightly", [new, old])


def test_an_overdue_entry_is_named_and_counted(desk, status):
    """From its last success on, or from when it was first seen; a success of any of its jobs ends that."""
    said = {"task": "send", "timezone": "UTC", "schedule": "0 2 * * *", "queue": "default", "digest": "d"}
    cron = {"late": said | {"alert_if_no_success": 60.0}, "fine": said | {"alert_if_no_success": 3600.0}, "other": said}
    desk.run(desk.verbs.publish_catalogue("one", "hash", {}, priorities={}, queues=[], cron=cron))
    now = int(desk.run(plain(as_is, "TIME"))[0]) * 1000
    for entry in cron:
        desk.run(desk.verbs.cron_write(desk.run(desk.verbs.cron_state(entry)), first_seen=now - 600_000))
    assert status("--json").json["overdue"] == {"late": now - 540_000, "fine": None}
    assert status().out.splitlines()[-1] == (
        "cron entry 'late' became overdue 9m ago, and none of its jobs has finished since"
    )
    metrics = samples(status("--metrics").out)
    assert metrics["fusiond_cron_overdue"] == {("late",): 1, ("fine",): 0}
    desk.run(desk.verbs.enqueue("default", [NewJob(f"cron:late:{now}", "send", b"[[],{}]")]))
    desk.settle("finished", result=None)
    assert status("--json").json["overdue"] == {"late": None, "fine": None}


def test_different_files_of_living_daemons_are_named(desk, status):
    """Two hosts of one namespace: how many files there are, and what they say differently, whatever the key."""
    text = """
version: 1
broker: {url: "redis://:geheim@localhost"}
queues: {default: {}, more: {}}
tasks: {same: {run: app.f}, other: {run: app.f, timeout: 5s}, gone: {run: app.f}}
cron: {nightly: {task: same, schedule: "0 2 * * *"}, daily: {task: same, schedule: "0 3 * * *"}}
workers: {main: {processes: 1, environment: {PASSWORD: geheim}}, second: {processes: 1}}
"""

    def publish(daemon, text):
        (file := desk.cwd / "other.yaml").write_text(text)
        config = load(file, environ={}).config
        snapshot = Snapshot(1, content_hash(config), config, file)
        desk.run(publishing.catalogue(desk.verbs, snapshot, daemon))

    def differ(*changes):
        changed = text
        for old, new in changes:
            assert old in changed
            changed = changed.replace(old, new)
        publish("two", changed)
        look = status().out
        assert "geheim" not in look
        line = next(line for line in look.splitlines() if line.startswith("living daemons"))
        assert line.startswith("living daemons of this namespace run 2 different files: published generation ")
        return line.partition("; these differ: ")[2]

    for each in ("test", "one", "two"):
        publish(each, text)
    assert "different files" not in status().out
    assert differ(("timeout: 5s", "timeout: 6s"), (", gone: {run: app.f}", "")) == "tasks gone, other"
    assert differ(("more: {}", "more: {max_length: 5}"), ("processes: 1}}", "processes: 2}}")) == (
        "queues more; worker groups second"
    )
    assert differ(("0 3 * * *", "0 4 * * *")) == "cron entries daily"
    assert differ(("geheim}", "other}")).startswith("only values of `environment`")
    differ(("timeout: 5s", "timeout: 6s"))
    shown = status("--json").json
    newest, old = shown["files"]
    assert (newest["daemons"], sorted(old["daemons"])) == (["two"], ["one", "test"])
    assert shown["files_differ"] == {"tasks": ["other"]}


def test_with_neither_it_says_so_of_each(tmp_path, no_daemon):
    """Daemon and broker are away: two sentences, status 3, no traceback; a broker that nobody named included."""
    done = fusiond_here("status", cwd=tmp_path, FUSION_URL=f"unix://{tmp_path}/nothing.sock", **no_daemon)
    assert (done.status, done.err.count("\n")) == (3, 2)
    assert fusiond_here("status", cwd=tmp_path, **no_daemon).status == 3


def test_a_worker_that_does_not_answer_is_silent(desk, status):
    """Killed, it is not `idle` until its record ends: it is asked, and the last word of it is a minute old at most."""
    now = int(time.time() * 1000)
    said = {"group": "main", "state": "idle", "running": 1, "processes": 4, "queues": "default", "born": now - 180_000}
    odd = '[{"job": "q/a", "task": "t", "ms": 1, "message": "", "share": 1' + "0" * 400 + "}]"
    desk.run(desk.verbs.announce("box.7", {**said, "said": now - 9_500, "answers": 0, "jobs": odd}))
    done = status("-W", "--wide")
    line = done.out.splitlines()[-1]
    assert line.split()[:7] == ["box.7", "main", "silent", "1/4", "default", "3m", "ago"]
    assert "it does not answer; it was last heard" in line
    seen = status("-W", "--json").json
    assert (seen["workers"][0]["name"], seen["workers"][0]["jobs"]) == ("box.7", [])
    desk.run(plain(as_is, "PEXPIRE", desk.verbs.keys.worker("box.7"), 60_000 - 15_001))
    seen = status("-W", "--json").json
    assert seen["workers"][0]["state"] == "gone"


def test_workers_are_shown_as_they_are_now(place, broker_settings, run, tmp_path, monkeypatch):
    """Busy with the job's task and time, suspended with its queues, idle, silent at once after a kill."""
    # One that lives answers, however long that takes it on a busy machine.
    monkeypatch.setattr(workers, "PATIENCE", PATIENCE)

    def worker():
        (found,) = shown("--json").json["workers"]
        return found

    def shown(*words):
        words = ("status", "-W", *words, "--namespace", broker_settings.namespace)
        return fusiond_here(*words, cwd=tmp_path, FUSION_URL=broker_settings.url, RUNTIME_DIRECTORY=str(tmp_path))

    run(place.broker.declare(["default"]))
    program = place.start(processes=2, tasks={"sleep": {"run": "time.sleep"}})
    until(lambda: run(place.broker.workers()))
    until(lambda: worker()["state"] == "idle", worker)
    assert worker()["jobs"] == []
    id_ = place.enqueue("sleep", 60)
    place.until(id_, "started")
    until(lambda: worker()["jobs"])
    first, second = worker(), worker()
    assert (first["state"], first["jobs"][0]["job"], first["jobs"][0]["task"]) == ("busy", f"default/{id_}", "sleep")
    assert second["jobs"][0]["ms"] > first["jobs"][0]["ms"]
    assert f"default/{id_}  sleep" in shown().out
    place.cancel(id_)
    place.until(id_, "canceled")
    run(place.broker.suspend("default", by="operator", on=True))
    # The dispatcher tells of the end of the job a moment after it has stored it.
    until(lambda: worker()["state"] == "suspended", worker)
    assert worker()["suspended_queues"] == ["default"]
    run(place.broker.suspend("default", by="operator", on=False))
    # It asks Redis for jobs first.
    until(lambda: worker()["state"] == "idle", worker)
    program.signal(signal.SIGKILL)
    program.wait()
    monkeypatch.setattr(workers, "PATIENCE", 1.0)
    until(lambda: worker()["state"] == "silent", worker)


def test_jobs_that_cannot_be_ended_are_named(desk, status):
    """Without being asked for, and only where there are any."""
    desk.run(desk.verbs.announce("box.7", {"group": "main", "unkilled": ""}))
    assert "has not ended" not in status().out
    desk.run(desk.verbs.announce("box.7", {"group": "main", "unkilled": "default/x default/y"}))
    lines = status().out.splitlines()[-2:]
    assert [line.split()[:2] for line in lines] == [["box.7", "default/x"], ["box.7", "default/y"]]
    seen = status("--json").json
    assert seen["unkilled"] == [{"worker": "box.7", "job": "default/x"}, {"worker": "box.7", "job": "default/y"}]


def test_a_sink_that_is_behind_is_named_with_the_reason(desk, status):
    """As long as a living daemon's file has it."""
    desk.run(desk.verbs.keep_events("default", "1000 0"))
    desk.enqueued("send")
    desk.run(desk.verbs.hold_sink("audit", "token", 60_000, {}, "it is away"))
    assert status("--json").json["sinks"] == {}

    def publish():
        """A daemon counts as living for 30 s, and the commands below may take as long."""
        more = {"priorities": {}, "queues": [], "digests": {"sinks": {"audit": "abc"}}}
        return desk.run(desk.verbs.publish_catalogue("other", "h2", {}, **more))

    publish()
    [sentence] = [line for line in status().out.splitlines() if line.startswith("sink ")]
    assert re.fullmatch(r"sink 'audit' is .*s behind with events: it is away", sentence)
    publish()
    metrics = samples(status("--metrics").out)
    assert metrics["fusiond_sink_failing"] == {("audit",): 1}
    assert metrics["fusiond_sink_delay_seconds"]["audit",] > 0
    desk.run(desk.verbs.hold_sink("audit", "token", 60_000, {"default": 1}, refused=2))
    file = publish()
    assert status("--json").json["sinks"] == {"audit": {"delay": 0.0, "failing": "", "refused": 2}}
    assert "sink 'audit'" not in status().out
    desk.run(desk.verbs.end_daemon("other", file))
    assert "fusiond_sink_failing" not in samples(status("--metrics").out)


def test_an_outbox_that_is_stuck_or_has_refused_rows_is_named(desk, status):
    """As long as a living daemon's file has it; what its rows are is in the JSON, and in the metrics."""

    def publish():
        """A daemon counts as living for 30 s, and the commands below may take as long."""
        more = {"priorities": {}, "queues": [], "digests": {"outboxes": {"shop": "abc"}}}
        return desk.run(desk.verbs.publish_catalogue("other", "h2", {}, **more))

    def sentences(**said):
        state = OutboxState(host="box", at=time.time())._replace(**said)
        assert desk.run(desk.verbs.hold_outbox("shop", "token", 60_000, state))
        publish()
        return [line for line in status().out.splitlines() if line.startswith("outbox ")]

    assert status("--json").json["outboxes"] == {}
    publish()
    assert "outbox 'shop': no daemon has handed over rows yet; is the program outbox:shop running?" in status().out
    assert sentences(waiting=9, oldest=29.0) == []
    assert sentences(waiting=9, oldest=90.0) == ["outbox 'shop': the oldest of 9 rows waits for 1m 30s"]
    [silent] = sentences(at=time.time() - 3600)
    assert re.fullmatch(
        r"outbox 'shop': no daemon has handed over rows for .*; is the program outbox:shop running\?", silent
    )
    rows = (RefusedRow("a", "send", "because\x1b[31m", 7.0),)
    fails, refuses = sentences(failing="the \x1b[31mdisk is full", refused=2, rows=rows)
    assert fails == "outbox 'shop' cannot hand over rows: the  [31mdisk is full"
    assert refuses == "outbox 'shop' has refused 2 rows: fusiond outbox list shop"
    seen = status("--json").json["outboxes"]["shop"]
    assert (seen["refused"], seen["host"]) == (2, "box")
    assert seen["rows"] == [{"id": "a", "task": "send", "because": "because\x1b[31m", "at": 7.0}]
    file = publish()
    metrics = samples(status("--metrics").out)
    assert (metrics["fusiond_outbox_refused"], metrics["fusiond_outbox_failing"]) == ({("shop",): 2}, {("shop",): 1})
    desk.run(desk.verbs.end_daemon("other", file))
    assert "fusiond_outbox_refused" not in samples(status("--metrics").out)


def test_a_drained_host_is_no_reason_to_call_a_queue_unserved(desk, status):
    """Its group is there, and claims again when the drain is undone; a group that is being replaced does not."""
    desk.enqueued("send")
    desk.serve()
    worker = {"queues": "default", "state": "draining", "phase": "draining", "answers": 0}
    desk.run(desk.verbs.announce("host.1", worker))
    assert status("--json").json["unserved"]
    desk.run(desk.verbs.announce("host.1", worker | {"phase": "serving"}))
    seen = status("--json").json
    assert (seen["unserved"], seen["drained"]) == ([], [{"queue": "default", "jobs": 1, "hosts": ["host"]}])
    remedy = "1 job waits in queue 'default', whose worker groups are drained on host; fusiond drain --undo there"
    assert remedy in status().out


def test_a_program_that_has_not_said_how_many_jobs_it_runs_is_not_said_to_run_none():
    """The number is there a moment later."""
    assert [*program_notes(program_status(draining=True, busy=None))] == ["draining"]
    assert [*program_notes(program_status(draining=True, busy=1))] == ["draining, 1 job left"]


def test_a_queue_with_jobs_that_nothing_serves_is_named_with_its_remedy(desk, status):
    """A host went back to an older file, and its group is gone: how many jobs wait, and the command that moves them."""
    tasks = {"send": {"queue": "fast", "priority": 1}}
    desk.run(desk.verbs.declare(["fast"]))
    newer = desk.run(desk.verbs.publish_catalogue("newer", "h2", tasks, priorities={}, queues=["fast"]))
    desk.run(desk.verbs.serve("newer", "host.2", ["fast"]))
    names = [desk.enqueued("send") for _ in range(3)]
    assert names[0].startswith("fast/")
    assert "no living worker group" not in status().out
    desk.run(desk.verbs.serve("newer", "host.2", []))
    desk.run(desk.verbs.end_daemon("newer", newer))
    done = status()
    command = "fusiond requeue --from-queue fast --queue default"
    assert done.out.splitlines()[-1].endswith(f"or move them: {command}")
    assert "3 jobs wait in queue 'fast', which no living worker group serves" in done.out
    desk.declare()  # a daemon counts as living for 30 s, and the commands above may take as long
    seen = status("--json").json
    assert seen["unserved"] == [{"queue": "fast", "jobs": 3, "command": command}]
    metrics = samples(status("--metrics").out)
    assert metrics["fusiond_queue_unserved_jobs"] == {("default",): 0, ("fast",): 3, ("reports",): 0}
    assert desk.fusiond(*command.split()[1:]).out == "3 jobs moved from fast to default\n"
    assert "no living worker group" not in status().out
    assert [desk.claim()[0] for _ in names] == [name.partition("/")[2] for name in names]
