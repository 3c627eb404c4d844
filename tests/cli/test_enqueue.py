import json
import threading
from pathlib import Path

import pytest

from fusiond.cli import enqueue
from fusiond.job import JobStatus

ROOT = Path(__file__).parents[2]


def record(desk, name):
    queue, _, id_ = name.rpartition("/")
    return desk.run(desk.verbs.job(queue, id_))


def test_enqueue_prints_the_jobs_name(desk):
    """One job, with the words as its arguments; its full name is all that is printed."""
    done = desk.fusiond("enqueue", "send", "+49", "code=1", "n:=[2]")
    job = record(desk, done.out.strip())
    assert (done.status, done.err) == (0, "")
    assert json.loads(job.args) == [["+49"], {"code": "1", "n": [2]}]
    assert (job.task, job.queue, job.status, job.priority) == ("send", "default", JobStatus.QUEUED, 1)


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (["sned"], 1, "did you mean 'send'?"),
        (["send", "--priority", "hihg"], 1, "'hihg'"),
        (["send", "--priority", "256"], 1, "0 to 255"),
        (["send", "--queue", "reprots"], 1, "did you mean 'reports'?"),
        (["send", "--in", "5"], 2, "argument --in: '5' is not a duration"),
        (["send", "--in", "9999d"], 2, "argument --in: '9999d' is not between 0 and 10 years"),
        (
            ["send", "--at", "9999-12-31T23:59:59Z"],
            2,
            "up to 100000000000, in the year 5138",
        ),
        (["send", "--wait", "region=us"], 2, "'region=us' is not a number of seconds, 0 or more; put --wait last, or"),
        (["--wait", "send"], 2, "put --wait last, or write --wait=30"),
        ([], 2, "are required: TASK\n"),
        (["send", "--at", "soon"], 2, "'soon' is not a time"),
        (["send", "--in", "5m", "--at", "2030-01-01T00:00Z"], 2, "not allowed with"),
        (["send", "--args", "{}"], 2, "not a JSON array"),
        (["-", "word"], 2, "with -"),
    ],
)
def test_what_cannot_be_enqueued_is_refused_and_nothing_is_stored(desk, words, status, says):
    """One sentence that names the value, and the queue as it was."""
    done = desk.fusiond("enqueue", *words)
    assert done.status == status
    assert says in done.err
    assert desk.run(desk.verbs.counts("default")).queued == 0


def test_wait_prints_the_result(desk):
    """The job's result as JSON, once it has ended."""
    worker = when_queued(desk, lambda: desk.settle("finished", result={"sent": "ja"}))
    done = desk.fusiond("enqueue", "send", "--wait", "30")
    worker.join()
    assert (done.status, done.json, done.err) == (0, {"sent": "ja"}, "")


def test_wait_fails_as_the_job_does(desk):
    """Status 1, the task's traceback, and where to look."""
    worker = when_queued(desk, desk.fail)
    done = desk.fusiond("enqueue", "send", "--wait")
    worker.join()
    assert (done.status, done.out) == (1, "")
    assert "ValueError: no stock" in done.err
    assert "fusiond job show default/" in done.err


@pytest.fixture
def doubts_soon(monkeypatch):
    """Who waits is told why after a tenth of a second, not after ten."""
    monkeypatch.setattr(enqueue, "_CHECK", 0.1)


@pytest.mark.usefixtures("doubts_soon")
def test_wait_says_that_nothing_serves_the_queue(desk):
    """After a while, once, with the reason: a worker that does not answer, or a suspended queue; it waits on."""
    desk.run(desk.verbs.announce("box.7", {"group": "main", "state": "idle", "phase": "serving", "queues": "default"}))
    desk.run(desk.verbs.suspend("reports", by="operator", on=True))
    trouble = {"state": "started", "trouble": "no task loads: x", "queues": "default", "answers": 10**9}
    desk.run(desk.verbs.announce("box.8", {"group": "main", "phase": "serving", **trouble}))
    send, report = (desk.fusiond("enqueue", task, "--wait", "2") for task in ("send", "report"))
    assert (send.status, report.status) == (124, 124)
    why = "box.8 is started (no task loads: x), 1 worker of it killed, frozen or cut off; fusiond status shows"
    assert send.err.count(f"waits: nothing serves queue 'default' now: {why}") == 1
    assert report.err.count("waits: queue 'reports' is suspended by an operator; fusiond resume reports") == 1


@pytest.mark.usefixtures("doubts_soon")
def test_wait_says_that_the_code_does_not_load(desk):
    """A worker claims the job and puts it back again and again: who waits is told why."""
    desk.run(desk.verbs.announce("box.7", {"state": "idle", "phase": "serving", "queues": "default", "answers": 10**9}))
    desk.enqueued("send", "--id", "it")
    desk.settle("unknown", why="not loaded", code="IMPORT_ERROR", message="no module shop")
    done = desk.fusiond("enqueue", "send", "--id", "it", "--wait", "2")
    assert done.status == 124
    assert "waits: the code of task 'send' does not load; fusiond status says why" in done.err


def when_queued(desk, act):
    """Act as a worker, once there is a job."""

    def work():
        while not desk.run(desk.verbs.counts("default")).queued:
            gone.wait(0.01)
        act()

    gone = threading.Event()
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def test_lines_become_jobs_with_options_of_their_own(desk):
    """Each line is a job; what it does not say is the command's."""
    lines = [
        {"task": "send", "args": [1]},
        {"task": "send", "args": [2], "priority": "high", "delay": "1m", "meta": {"a": []}},
        {"task": "report", "kwargs": {"x": 1.5}, "id": "mine", "delay": 60},
        {"task": "send", "priority": 7, "at": "2030-01-01T00:00:00Z"},
    ]
    done = desk.fusiond("enqueue", "-", "--priority", "low", "--json", given="\n\n".join(map(json.dumps, lines)))
    jobs = {answer["line"]: record(desk, answer["job"]) for answer in map(json.loads, done.out.splitlines())}
    assert done.status == 0
    assert sorted(jobs) == [1, 3, 5, 7]
    assert [jobs[n].priority for n in (1, 3, 5, 7)] == [0, 2, 0, 7]
    assert [jobs[n].status for n in (1, 3, 5, 7)] == ["queued", "scheduled", "scheduled", "scheduled"]
    assert json.loads(jobs[3].meta) == {"a": []}
    assert jobs[5].id == "mine"
    assert jobs[5].queue == "reports"


def test_a_refused_line_is_named_and_the_others_are_enqueued(desk):
    """The number of the line and the reason, status 1, and nothing else is lost."""
    lines = [
        '{"task": "send"}',
        "garbage",
        '{"task": "sned"}',
        '{"task": "send", "prio": 1}',
        '{"task": "send", "priority": true}',
        '["send"]',
        '{"task": "send", "args": {}}',
        '{"task": "send"}',
        "\udcff",
    ]
    done = desk.fusiond("enqueue", "-", given="\n".join(lines))
    assert done.status == 1
    assert sorted(line.split(":")[0] for line in done.err.splitlines()) == [f"line {n}" for n in (2, 3, 4, 5, 6, 7, 9)]
    assert done.out == "2 jobs enqueued, 7 lines refused\n"


@pytest.mark.parametrize("words", [("enqueue", "send"), ("enqueue", "-")])
def test_a_job_that_no_living_group_serves_is_accepted_and_said_so(desk, words):
    """The job is stored, standard output is as ever, and one warning names the queue."""
    desk.serve("reports")
    given = '{"task": "send"}\n{"task": "report"}\n' if "-" in words else ""
    done = desk.fusiond(*words, given=given)
    assert done.status == 0
    assert done.err.count("\n") == 1
    assert "warning: no living worker group serves queue 'default'" in done.err
    assert desk.run(desk.verbs.counts("default")).queued == 1
    assert not desk.fusiond("enqueue", "send", "--json").json["served"]
    assert desk.fusiond("enqueue", "report", "--json").json["served"]
    assert desk.fusiond("enqueue", "sned").status == 1
