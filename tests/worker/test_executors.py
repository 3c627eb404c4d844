"""Groups whose children run many jobs at once, against a real Redis: how jobs end, are stopped, killed and reported."""

import json
import os
import signal
import time

import pytest

from fusiond.config.model import RetryPolicy
from fusiond.config.model.tasks import Timeout
from tests.support.cases import few
from tests.support.running import alive, until
from tests.support.worker_program import pythons

BOTH = pytest.mark.parametrize("executor", ["asyncio", "thread"])
#: an executor and a stand-in that sleeps in it: a coroutine, a function in the loop's threads, one in a thread
EACH = pytest.mark.parametrize(
    ("executor", "held"), [("asyncio", "held_awaiting"), ("asyncio", "held"), ("thread", "held")]
)
#: an exception that is retried at once, twice
ONE_CRASH = RetryPolicy(max_attempts=2, delay=0.0, jitter_share=0.0, retry_on=("no_such.Error",), max_crashes=1)
#: the same of crashes; a soft timeout that comes before a stand-in can ignore it is retried
ONE_KILL = RetryPolicy(max_attempts=100, delay=0.0, jitter_share=0.0, retry_on=("TimeoutError",), max_crashes=1)
AGAIN = RetryPolicy(max_attempts=3, backoff="fixed", delay=0.0, jitter_share=0.0, retry_on=("TimeoutError",))


def short(name, soft=0.3, hard=20.0, **keys):
    """`tasks` with this stand-in's timeout."""
    return {name: {"timeout": Timeout(soft, hard), **keys}}


# -- how jobs end -----------------------------------------------------------------------------------------------------


@BOTH
def test_no_more_run_at_once_than_the_file_says(place, executor):
    """Two children of two: the fifth job begins when one of the four has ended."""
    program = place.start(executor=executor, concurrency=2, processes=2)
    paths = [place.path() for _ in range(5)]
    ids = [place.enqueue("meet", path, 2) for path in paths]
    until(lambda: sum(bool(place.lines(path)) for path in paths) == 4, program.text)
    last = next(path for path in paths if not place.lines(path))
    place.let_go(paths[0] if paths[0] != last else paths[1])
    place.until_lines(last)
    for path in paths:
        place.let_go(path)
    assert all(place.result(id_) >= 2 for id_ in ids)
    assert len({place.lines(path)[0] for path in paths}) == 2


@BOTH
def test_a_job_is_told_its_id_by_pass_job_alone(place, executor):
    """The environment belongs to all jobs of the process."""
    place.start(executor=executor, concurrency=2, tasks={"told": {"pass_job": "job"}})
    id_ = place.enqueue("told")
    told = place.result(id_)
    assert (told["id"], told["environment"]) == (id_, None)


@pytest.mark.proof
@BOTH
@pytest.mark.parametrize("version", ["3.9", "3.10", "3.12", "3.13", "3.14", "3.15"])
def test_under_other_interpreters(place, version, executor):
    """Results, timeouts, cancels and output are the same under the application's own Python."""
    python = pythons().get(version)
    if python is None:
        pytest.skip(f"no Python {version} here")
    tasks = {**short("held"), **short("held_awaiting"), **short("block_until_told", 0.5)}
    program = place.start(python=python, executor=executor, concurrency=4, tasks=tasks)
    path = place.path()
    ids = [place.enqueue(name, path, 4) for name in ("meet", "meet_awaiting", "meet", "meet_awaiting")]
    assert [place.result(id_) for id_ in ids] == [4] * 4
    slow = [place.enqueue(name, place.path()) for name in ("held", "held_awaiting", "block_until_told")]
    if executor == "thread":
        slow.pop()  # one call of 30 s: the exception would come after it
    assert {place.error(id_)["code"] for id_ in slow} == {"TIMEOUT"}
    say, words = place.path(), ("one", "two")
    ids = [place.enqueue("say_in_turns", say, word, 2) for word in words]
    for word, id_ in zip(words, ids, strict=True):
        place.result(id_)
        wanted = {f"{word} 0", f"{word} below", f"{word} logs 2"}
        until(lambda: wanted <= set(program.printed(id_)), program.text)  # noqa: B023
    path = place.path()
    canceled = place.enqueue("meet", path, 2)
    place.until_lines(path)
    place.cancel(canceled)
    assert place.until(canceled).status == "canceled"
    line = until(lambda: [line for line in program.records() if line["message"] == "canceled"], program.text)
    assert 0 < line[0]["duration"] < 30


@BOTH
def test_context_variables_are_of_one_job(place, executor):
    """What a job sets is not there in the one that begins when it ends."""
    place.start(executor=executor, concurrency=2)
    # The second time a child is handed some that wait in it.
    for count in (20, 200):
        ids = place.enqueue_many([("set_context",), ("set_context_awaiting",)] * count)
        assert {place.result(id_) for id_ in ids} == {"unset"}


# -- what they print --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("executor", "say"), [("asyncio", "say_in_turns"), ("thread", "say_in_a_thread")])
def test_each_line_has_its_job(place, executor, say):
    """Lines that two jobs print in parts, at the same time, are whole, and each is logged as its job's."""
    program = place.start(executor=executor, concurrency=2)
    path = place.path()
    ids = {word: place.enqueue(say, path, word, 2) for word in ("one", "two")}
    for id_ in ids.values():
        place.result(id_)
    for word, id_ in ids.items():
        last = f"{word} unfinished" if executor == "asyncio" else f"{word} err 2"
        until(lambda: last in program.printed(id_), program.text)  # noqa: B023
        lines = program.printed(id_)
        assert [line for line in lines if line in (f"{word} 0", f"{word} 1", f"{word} 2")] == [
            f"{word} 0", f"{word} 1", f"{word} 2"
        ]  # fmt: skip
        assert all(line.startswith(word) for line in lines)
        if executor == "asyncio":
            assert lines[-2:] == [f"{word} below", f"{word} unfinished"]
            assert [line for line in lines if "logs" in line] == [f"{word} logs {n}" for n in range(3)]
        else:
            assert [line for line in lines if "err" in line] == [f"{word} err {n}" for n in range(3)]


# -- timeouts and cancel ----------------------------------------------------------------------------------------------


@EACH
def test_a_soft_timeout_ends_one_job(place, executor, held):
    """It is retried as its policy says, while a job beside it goes on in the same process."""
    program = place.start(executor=executor, concurrency=2, policies={"again": AGAIN}, tasks=short(held, retry="again"))
    path, other = place.path(), place.path()
    beside = place.enqueue("meet", other, 2)
    place.until_lines(other)
    child = program.children()
    slow = place.enqueue(held, path)
    error = place.error(slow)
    assert (error["code"], error["message"]) == ("TIMEOUT", "ran longer than its soft timeout, 0.3 s")
    assert place.job(slow).attempts == 3
    assert len([line for line in place.lines(path) if "begun" in line]) == 3
    place.enqueue("meet", other, 2)
    assert place.result(beside) == 2
    assert program.children() == child


@EACH
def test_cancel_ends_one_job(place, executor, held):
    """Long before its lease is over, whether it was claimed, as here, or a wake-up has brought it."""
    path, other = place.path(), place.path()
    canceled, beside = place.enqueue(held, path), place.enqueue("meet", other, 2)
    program = place.start(executor=executor, concurrency=2)
    place.until_lines(path)
    place.until_lines(other)
    child = program.children()
    place.cancel(canceled)
    record = place.until(canceled)
    assert (record.status, record.rescues) == ("canceled", 0)
    assert len(place.until_lines(path, 2)) == 2
    place.enqueue("meet", other, 2)
    assert place.result(beside) == 2
    assert program.children() == child


def test_a_job_that_may_begin_once_is_not_run_again(place):
    """Where its process is killed for another one, it fails with the reason."""
    tasks = {**short("held", hard=1.0), "meet": {"retry": "none"}}
    place.start(executor="asyncio", concurrency=2, tasks=tasks, policies={"single": ONE_KILL})
    path, other = place.path(), place.path()
    beside = place.enqueue("meet", other, 2)
    place.until_lines(other)
    place.enqueue("held", path, ignore=True)
    error = place.error(beside)
    assert (error["code"], len(place.lines(other))) == ("INTERRUPTED", 1)


@pytest.mark.proof
def test_who_keeps_the_event_loop_is_charged(place):
    """Not the older job beside it, whose timeouts come first and cannot be told while the loop does not run."""
    place.start(
        executor="asyncio", concurrency=2, policies={"single": ONE_CRASH},
        tasks={**short("meet_awaiting", 3.0, 4.0), **short("block", 5.0, 6.0)},
    )  # fmt: skip
    path, other = place.path(), place.path()
    beside = place.enqueue("meet_awaiting", other, 2)
    # A wake-up brings the first job, the second one is claimed: neither is always first.
    place.until_lines(other)
    guilty = place.enqueue("block", path)
    assert place.result(beside) == 2  # it has met its own second attempt
    assert (place.job(beside).crashes, place.job(beside).interrupted) == (0, 1)
    record = until(lambda: (now := place.job(guilty)).crashes and now, place.logs)
    assert json.loads(record.error)["message"] == (
        "its child was killed: it kept the other jobs of its process from running"
    )
    assert place.error(guilty)["code"] == "TIMEOUT"


def test_a_soft_timeout_meets_what_keeps_the_event_loop(place):
    """A coroutine that blocks is interrupted where it is, as a plain function is in a child of its own."""
    program = place.start(executor="asyncio", concurrency=2, tasks=short("block_until_told", 0.5, 20.0))
    path = place.path()
    assert place.error(place.enqueue("block_until_told", path))["code"] == "TIMEOUT"
    assert place.result(place.enqueue("echo", 1))["args"] == [1]
    assert len(program.children()) == 1


# -- deaths -----------------------------------------------------------------------------------------------------------


def test_each_job_of_a_child_that_dies_counts_a_crash(place):
    """Nobody knows which one has ended the process; each runs again."""
    program = place.start(executor="asyncio", concurrency=3, policies={"single": RetryPolicy(max_crashes=2)})
    path = place.path()
    ids = [place.enqueue("meet_awaiting", path, 6) for _ in range(3)]
    place.until_lines(path, 3)
    os.kill(program.children()[0], signal.SIGKILL)
    assert [place.result(id_) for id_ in ids] == [6] * 3
    assert [place.job(id_).crashes for id_ in ids] == [1] * 3


def test_a_job_that_ends_its_process_fails_and_no_other_does(place):
    """Its last permitted crash is taken in a child of its own, and so is that of each job that ran beside it."""
    place.start(executor="asyncio", concurrency=3, policies={"single": RetryPolicy(max_crashes=2)})
    path, other = place.path(), place.path()
    beside = [place.enqueue("held_awaiting", other, 1.0) for _ in range(2)]
    poison = place.enqueue("die_beside", path, 1)
    assert place.error(poison)["code"] == "WORKER_CRASHED"
    assert place.job(poison).crashes == 3
    assert [place.result(id_) for id_ in beside] == ["held"] * 2
    assert all(place.job(id_).crashes <= 2 for id_ in beside)


def test_a_job_that_runs_alone_is_not_kept_back_by_others_where_no_child_can_be_added(place):
    """With a `slot_variable`, a child is replaced for it."""
    policies = {"alone": RetryPolicy(max_crashes=0)}
    place.start(executor="asyncio", concurrency=3, slot_variable="GPU", policies=policies)
    path, crowd = place.path(), 0
    for number in range(6):  # no child is idle when the next one comes
        place.enqueue("held_awaiting", path, 0.1 + number / 100)
    alone = place.enqueue("echo", header={"retry": b'"alone"'})
    while place.status(alone) != "finished":
        place.enqueue("held_awaiting", path, 0.05)
        time.sleep(0.01)  # less than a job takes of a child
        crowd += 1
        assert crowd < 1000


# -- the end of a child -----------------------------------------------------------------------------------------------


@BOTH
def test_a_drain_waits_for_what_runs(place, executor):
    """What runs ends; what was not begun goes back."""
    program = place.start(executor=executor, concurrency=2)
    paths = [place.path() for _ in range(4)]
    ids = [place.enqueue("meet", path, 2) for path in paths]
    until(lambda: sum(bool(place.lines(path)) for path in paths) == 2, program.text)
    program.signal(signal.SIGTERM)
    program.until_said("stopping: running jobs have")
    for path in paths:
        place.let_go(path)
    assert program.wait() == 0

    def statuses():
        # What a wake-up brought to a dispatcher that drained meanwhile goes back with the next look at expired leases.
        place.run(place.broker.rescue("default"))
        return sorted(place.status(id_) for id_ in ids)

    until(lambda: statuses() == ["finished", "finished", "queued", "queued"], statuses)
    assert all(place.job(id_).attempts == 0 for id_ in ids if place.status(id_) == "queued")


@BOTH
def test_max_jobs_replaces_the_child_beside_what_runs(place, executor):
    """The child that has had its jobs ends with the last of them; the next one serves meanwhile."""
    program = place.start(executor=executor, concurrency=2, max_jobs=3)
    long, path = place.path(), place.path()
    first = program.children()[0]
    slow = place.enqueue("meet", long, 2)
    place.until_lines(long)
    ids = [place.enqueue("held", path, 0.01) for _ in range(6)]
    assert [place.result(id_) for id_ in ids] == ["held"] * 6
    pids = [int(line.split()[1]) for line in place.lines(path) if "begun" in line]
    assert pids.count(first) == 2
    assert max(map(pids.count, pids)) <= 3
    assert alive(first)
    place.enqueue("meet", long, 2)
    assert place.result(slow) == 2
    until(lambda: first not in program.children(), program.text)


@few("executor", ["sync", "asyncio"])
def test_max_age_replaces_children_one_by_one(place, executor):
    """Idle ones too; a job that runs in an old one goes on."""
    program = place.start(executor=executor, processes=2, max_age=0.5)
    first = set(program.until_children(2))
    path = place.path()
    slow = place.enqueue("held", path, 3.0)
    pid = int(place.until_lines(path)[0].split()[1])
    until(lambda: not (first - {pid}) & set(program.children()), program.text)
    assert place.result(slow) == "held"
    until(lambda: not first & set(program.children()), program.text)


# -- the start of a child ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("isolation", ["fork", "process"])
def test_on_start_runs_once_before_the_first_job(place, isolation):
    place.start(isolation=isolation, on_start="jobs.start_up", nice=7)
    ids = [place.enqueue("started") for _ in range(3)]
    assert [place.result(id_) for id_ in ids] == [[True, min(19, os.nice(0) + 7)]] * 3


def test_on_start_may_be_a_coroutine_in_the_loop_of_the_jobs(place):
    """No job comes before it has ended."""
    place.start(executor="asyncio", concurrency=2, on_start="jobs.start_up_awaiting")
    ids = [place.enqueue("started_in_this_loop") for _ in range(3)]
    assert [place.result(id_) for id_ in ids] == [[True, True, 1]] * 3


@pytest.mark.parametrize("isolation", ["fork", "process"])
def test_a_child_whose_on_start_fails_has_failed_to_start(place, isolation):
    """The log says why; jobs wait in their queue."""
    program = place.start(isolation=isolation, on_start="jobs.fail_to_start")
    id_ = place.enqueue("echo")
    program.until_said("no database here")
    program.until_said("on_start: jobs.fail_to_start has failed")
    time.sleep(0.5)
    assert place.job(id_).attempts == 0


@pytest.mark.proof
def test_a_process_that_stands_still_is_nobody_s_fault_alone(place):
    """A call into C that keeps Python's lock: nobody can tell whose it is, so each job that had begun counts one."""
    place.start(
        executor="asyncio", concurrency=2, policies={"single": RetryPolicy(max_crashes=2)},
        tasks={**short("meet_awaiting", 3.0, 4.0), **short("keep_the_lock", 20.0, 30.0)},
    )  # fmt: skip
    path, other = place.path(), place.path()
    beside = place.enqueue("meet_awaiting", other, 2)
    place.until_lines(other)
    guilty = place.enqueue("keep_the_lock", path)
    assert place.result(beside) == 2  # it has met its own second attempt
    assert place.job(beside).crashes == 1
    assert place.result(guilty) == "let go"
