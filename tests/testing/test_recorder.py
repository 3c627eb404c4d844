import asyncio
import contextlib
import sqlite3

import pytest

from fusiond import AsyncClient, Client, JobFailed, JobStatus, ResultTimeout, UnknownTask, outbox
from fusiond.testing import NotRecorded, recorded

#: made before anything is recorded, and of a Redis that does not exist
EARLY = Client("redis://nowhere.invalid")

FILE = """
version: 1
retry_policies:
  thrice: {max_attempts: 3, backoff: fixed, delay: 10s, give_up_on: [KeyError]}
  later: {snooze_on: [tests.testing.test_recorder.NotYetError], max_snooze: 1h}
queues: {narrow: {max_length: 2}}
tasks:
  add: {run: tests.testing.test_recorder.add}
  wait: {run: tests.testing.test_recorder.wait}
  fail: {run: tests.testing.test_recorder.fail, retry: thrice, on_failure: {task: note}}
  early: {run: tests.testing.test_recorder.early, retry: later}
  known: {run: tests.testing.test_recorder.known, pass_job: job}
  chain: {run: tests.testing.test_recorder.chain}
  note: {run: tests.testing.test_recorder.note}
  narrow: {run: tests.testing.test_recorder.note, queue: narrow}
  thing: {run: tests.testing.test_recorder.thing}
  gone: {run: tests.testing.test_recorder.no_such_function}
  page: {run: tests.testing.test_recorder.fail, retry: none, on_failure: {webhook: "https://ops.invalid/failed"}}
flows:
  etl:
    steps:
      first: {task: add, args: [1], inputs: {number: input.number}}
      second: {task: note, after: [first], inputs: {event: first}}
workers: {main: {queues: "*"}}
"""
NOTED = []


class NotYetError(Exception):
    retry_after = 30


def add(first, number=0):
    return first + number


async def wait():
    await asyncio.sleep(0)
    return "waited"


def fail(error="no stock"):
    raise {"key": KeyError}.get(error, ValueError)(error)


def early():
    raise NotYetError


def known(job):
    job.progress(0.5, "half")
    return dict(job)


def chain(number):
    if number:
        EARLY.enqueue("chain", number - 1)


def note(event=None):
    NOTED.append(event)


def thing():
    return object()


@pytest.fixture
def file(tmp_path):
    (tmp_path / "fusion.yaml").write_text(FILE)
    return tmp_path / "fusion.yaml"


@pytest.fixture
def jobs(file):
    NOTED.clear()
    with recorded(file) as jobs:
        yield jobs


def test_a_call_is_recorded_and_does_not_run(jobs):
    """Clients that exist already, those that are made now, and functions in place of names: each call is a job."""
    EARLY.options(delay="5m", priority="high", meta={"by": "ada"}).enqueue("add", 1, number=2)
    Client().enqueue(add, (1, 2))
    first, second = jobs
    assert (first.task, first.args, first.kwargs, first.queue) == ("add", [1], {"number": 2}, "default")
    assert first.options == {"delay": "5m", "priority": "high", "meta": {"by": "ada"}}
    assert (first.priority, first.status, second.status) == (2, JobStatus.SCHEDULED, JobStatus.QUEUED)
    assert second.args == [[1, 2]]
    assert jobs.assert_enqueued(add, (1, 2)) is second
    assert jobs.assert_enqueued("add", 1, number=2) is first


def test_what_is_asserted_can_be_wrong(jobs):
    """Another argument, a second job, any job at all: the message lists what is recorded."""
    for _ in range(2):
        EARLY.enqueue("add", 1)
    for wrong in (
        lambda: jobs.assert_enqueued("add", 1),
        lambda: jobs.assert_enqueued("add", 2),
        jobs.assert_not_enqueued,
    ):
        with pytest.raises(AssertionError, match=r"<add\(1\) queued in default>"):
            wrong()
    jobs.assert_not_enqueued("add", 2)
    jobs.clear()
    jobs.assert_not_enqueued()


def test_a_run_goes_on_until_nothing_is_ready(jobs):
    """What a job enqueues runs, too; what waits for a time does not."""
    EARLY.enqueue("chain", 3)
    EARLY.options(delay="1h").enqueue("add", 1)
    assert [job.args for job in jobs.run()] == [[3], [2], [1], [0]]
    [late] = jobs.waiting
    jobs.forward("59m")
    assert jobs.run() == []
    jobs.forward(61)
    assert jobs.run() == [late]
    assert late.result == 1


def test_a_retry_is_decided_by_the_policy(jobs):
    """It waits for its delay; without attempts left it fails, raises, and calls back."""
    EARLY.enqueue("fail")
    [job] = jobs.run()
    assert (job.status, job.attempts, job.error["message"]) == (JobStatus.SCHEDULED, 1, "no stock")
    assert 0 < job.due_at - job.created_at - 10 < 60
    with pytest.raises(ValueError, match="no stock"):
        jobs.run(scheduled=True)
    assert (job.status, job.attempts) == (JobStatus.FAILED, 3)
    jobs.run()
    assert (NOTED[0]["status"], NOTED[0]["attempts"], NOTED[0]["error"]["type"]) == ("failed", 3, "ValueError")


def test_a_snooze_counts_no_attempt_and_ends(jobs):
    """`retry_after` says when it comes back, and `max_snooze` when it fails."""
    EARLY.enqueue("early")
    [job] = jobs.run()
    assert (job.status, job.attempts) == (JobStatus.SCHEDULED, 0)
    with pytest.raises(NotYetError):
        jobs.run(scheduled=True)
    assert job.status is JobStatus.FAILED


def test_without_raising_every_job_runs(jobs):
    """`raises=False`: the errors are to be looked at."""
    EARLY.enqueue("page")
    EARLY.enqueue("add", 1)
    assert [job.status for job in jobs.run(raises=False)] == [JobStatus.FAILED, JobStatus.FINISHED]
    assert isinstance(jobs[0].exception, ValueError)


def test_no_webhook_is_called_unasked(jobs):
    """Its job is recorded, and stays."""
    EARLY.enqueue("page")
    jobs.run(scheduled=True, raises=False)
    [call] = jobs.waiting
    assert (call.task, call.queue, call.kwargs["url"]) == ("fusiond.webhook", "callbacks", "https://ops.invalid/failed")


def test_one_attempt_by_hand(jobs):
    """`job.run()` waits for no time, returns the result, and raises whatever becomes of the job."""
    EARLY.options(delay="1h").enqueue("add", 1)
    assert jobs[0].run() == 1
    with pytest.raises(ValueError, match="cannot run now"):
        jobs[0].run()
    EARLY.enqueue("fail")
    with pytest.raises(ValueError, match="no stock"):
        jobs[1].run()
    assert jobs[1].status is JobStatus.SCHEDULED


def test_what_a_task_is_told(jobs):
    """`pass_job` has the id, the round, the attempt, key and meta."""
    EARLY.options(key="k", meta={"by": "ada"}).enqueue("known")
    jobs.run()
    told = jobs[0].result
    assert (told["id"], told["round"], told["attempt"]) == (jobs[0].id, 1, 1)
    assert (told["key"], told["meta"]) == ("k", {"by": "ada"})


@pytest.fixture
def database():
    """One without the tables of an outbox."""
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        yield connection


def test_what_is_inserted_into_an_outbox_is_recorded(jobs, database):
    """With its options; no row is written."""
    later = outbox.options(key="k", delay="5m", table="own")
    ids = [outbox.enqueue(database, "add", 1, number=2), *(later.enqueue(database, "add", 3) for _ in range(2))]
    assert [job.id for job in jobs] == ids[:2]
    assert jobs.assert_enqueued("add", 3).options == {"key": "k", "delay": "5m"}
    assert [job.result for job in jobs.run(scheduled=True)] == [3, 3]
    assert not database.in_transaction


def test_an_outbox_refuses_in_tests_what_it_refuses_elsewhere(jobs, database):
    """And what its daemon would refuse later: a task that the file has not."""
    with pytest.raises(UnknownTask, match="ad"):
        outbox.enqueue(database, "ad", 1)
    with pytest.raises(TypeError, match="no connection that is known here"):
        outbox.enqueue(None, "add", 1)
    assert not jobs


def test_who_waits_for_a_result_gets_it(jobs):
    """What is ready runs; nobody waits for what can not end."""
    assert EARLY.enqueue("add", 1, number=1).result(timeout=100) == 2
    with pytest.raises(JobFailed, match="no stock"):
        EARLY.enqueue("page").result()
    with pytest.raises(ResultTimeout, match="nothing that is recorded can run now"):
        EARLY.options(delay="1h").enqueue("add", 1).result()


def test_a_flow_runs_by_its_own_rules(jobs):
    """Its first step is a job at once; the next one is there when that has finished."""
    run = EARLY.run_flow("etl", number=2)
    assert [job.task for job in jobs] == ["add"]
    assert run.steps() == {"first": "running", "second": "waiting"}
    jobs.run()
    assert run.result() == {"second": None}
    assert NOTED == [3]
    assert [(each.flow, each.inputs, each.status) for each in jobs.runs] == [("etl", {"number": 2}, "finished")]


def test_asynchronous_code_is_recorded_too(jobs):
    """An AsyncClient, a task that is a coroutine, and both in one running loop."""

    async def application():
        client = AsyncClient("redis://nowhere.invalid")
        job = await client.enqueue("wait")
        first = await job.status()
        return first, await job.result(), await client.enqueue_many([("add", [n]) for n in range(300)])

    first, result, many = asyncio.run(application())
    assert (first, result, len(many), len(jobs)) == (JobStatus.QUEUED, "waited", 300, 301)
    jobs.run()
    assert [job.result for job in jobs[1:]] == list(range(300))


def test_what_needs_a_redis_says_so(jobs):
    """It names what to use instead."""
    with pytest.raises(NotRecorded, match="fusiond_daemon"):
        EARLY.counts()


def test_afterwards_a_client_uses_its_own_redis(file, redis_server):
    """Also one that was made meanwhile; an inner recorder gives way to the outer one."""
    with recorded(file) as outer:
        made = Client(redis_server.url)
        with recorded(file) as inner:
            made.enqueue("add", 1)
        made.enqueue("add", 2)
        assert ([job.args for job in inner], [job.args for job in outer]) == ([[1]], [[2]])
    with made, pytest.raises(UnknownTask, match="no daemon has declared any task"):
        made.enqueue("add", 1)
    with Client(redis_server.url) as other, pytest.raises(UnknownTask):
        other.run_flow("etl")
