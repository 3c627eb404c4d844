"""`progress` of what `pass_job` hands over: stored while the job runs, and no job waits for it or fails by it."""

import functools
import os
import signal
from pathlib import Path

import pytest

from fusiond.broker.records import NewJob, Outcome, ProgressReport
from fusiond.config.model import RetryPolicy
from fusiond.job import JobProgress, new_id, new_token
from tests.support.cases import few
from tests.support.job_text import change_job
from tests.support.queue_state import findings
from tests.support.running import until

GROUPS = [
    {"isolation": "fork"},
    {"isolation": "process"},
    {"executor": "thread", "concurrency": 2},
    {"executor": "asyncio"},
]
AGAIN = RetryPolicy(max_attempts=2, delay=0.0, jitter_share=0.0)


@few("group", GROUPS, 2)
def test_how_far_a_job_is(place, group):
    """The newest is stored, of the attempt that runs; a new attempt begins without any."""
    task = {"pass_job": "job", "retry": "again"}
    tasks = {"report": task, "report_last": {"pass_job": "job"}}
    program = place.start(**group, tasks=tasks, policies={"again": AGAIN})
    path, go_on = place.path(), place.path()
    id_ = place.enqueue("report", path, go_on)
    first = until(lambda: place.job(id_).progress, program.text)
    assert (round(first.share, 3), first.message) == (0.333, "a third")
    Path(go_on).touch()

    def of_the_second_attempt():
        job = place.job(id_)
        return job.attempts == 2 and job.progress and job.progress.message != "a third" and job.progress

    last = until(of_the_second_attempt, program.text)
    assert last == JobProgress(2 / 3, "two thirds: π", last.at)
    assert last.at >= first.at
    Path(go_on + ".end").touch()
    record = place.until(id_)
    assert (record.status, record.attempts, record.progress) == ("finished", 2, last)
    for record in [place.until(id_) for id_ in [place.enqueue("report_last", fails) for fails in (False, True)]]:
        assert (record.progress.share, record.progress.message) == (0.9, "nearly: ü")


def test_a_job_waits_for_nothing_while_redis_hangs(place, redis_server):
    """It says how far it is to nobody, and ends as if Redis were there."""
    program = place.start(isolation="fork", tasks={"report_often": {"pass_job": "job"}})
    path, go_on = place.path(), place.path()
    id_ = place.enqueue("report_often", path, go_on)
    place.until_lines(path)
    os.kill(redis_server.process.pid, signal.SIGSTOP)
    try:
        Path(go_on).touch()
        place.until_lines(path, 2)
    finally:
        os.kill(redis_server.process.pid, signal.SIGCONT)
    assert place.until(id_).status == "finished", program.text()


def test_what_is_stored_is_of_the_attempt_that_runs(enqueued, run, broker):
    """A report with another token changes nothing; a new attempt begins without one. A message may be any text."""
    id_, claim, settle = enqueued
    token = claim()
    report = functools.partial(ProgressReport, id_)
    assert run(broker.report("q", [report(token, 0.25, "5 %\n of\\ é 10"), report("another", 0.5, "")])) == [1, 0]
    stored = run(broker.job("q", id_)).progress
    assert (stored.share, stored.message) == (0.25, "5 %\n of\\ é 10")
    assert settle(token, "retry") == [1]
    assert run(broker.job("q", id_)).progress == stored
    assert run(broker.report("q", [report(token, 0.5, "late")])) == [0]
    key = f"test:{{q}}:job:{id_}"
    for odd in (b"nan 1 x", b"2 1 x", b"0.5 1%b x" % (b"0" * 400), b"what"):
        change_job(run, key, progress=odd)
        assert run(broker.job("q", id_)).progress is None
    again = claim()
    assert run(broker.job("q", id_)).progress is None
    assert run(broker.report("q", [report(again, 1.0, "")])) == [1]
    assert settle(again, "finished") == [1]
    record = run(broker.job("q", id_))
    assert (record.status, record.result, record.progress.share) == ("finished", b"null", 1.0)
    assert run(findings(broker, "q")) == []


@pytest.fixture
def enqueued(run, broker):
    """A job's id, and functions that claim it and settle it."""
    id_ = new_id()
    run(broker.enqueue("q", [NewJob(id_, "t", b"[[],{}]")]))

    def claim():
        token = new_token()
        asked = broker.claim("q", 1, dispatcher="d", nonce=token, lease_ms=60_000, max_rescues=2)
        assert [job.id for job in run(asked).jobs] == [id_.encode()]
        return token

    def settle(token, kind):
        ms = 60_000 if kind == "finished" else 0
        return run(broker.settle("q", [Outcome(id_, token, kind, ms, 0, b"null")]))

    return id_, claim, settle
