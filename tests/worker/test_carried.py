"""Jobs that a wake-up brings, against a real Redis: their dispatcher is stopped, dead, deaf or cut off."""

import os
import signal
import socket
import time

import pytest

from fusiond.broker.call import as_is, plain
from fusiond.job import mark_of
from tests.chaos.package import SELDOM_POLLS, Edit
from tests.support.cases import few
from tests.support.job_text import read_job
from tests.support.running import alive, until
from tests.support.seldom_polls import seldom_polls

#: ms; shorter than a lease
SOON = 14_000
#: jobs that are tried: on a busy machine one that a wake-up brings may come too late to begin before it is confirmed
TRIES = 10
#: it hears wake-ups when it is too late
LATE = Edit(
    "worker/dispatcher/group.py",
    "await self._dispatcher.wake_ups.hear(channels[channel], message)",
    "await asyncio.sleep(1.0)\n                await self._dispatcher.wake_ups.hear(channels[channel], message)",
)
#: it never asks Redis about the jobs that it has begun
SILENT = Edit("worker/dispatcher/claims/confirming.py", "        if begun:\n", "        if False:\n")
#: it asks Redis a moment later
SLOW = Edit(
    "worker/dispatcher/claims/confirming.py",
    "        failures = 0\n        while attempts := _not_ended(attempts):\n",
    "        failures = 0\n        await asyncio.sleep(0.2)\n        while attempts := _not_ended(attempts):\n",
)
#: it leaves tokens where no child is free any more
GREEDY = Edit("worker/dispatcher/loop.py", "        self._leave_excess()\n", "")
#: it hears the answers to its claims late
DELAYED = Edit(
    "worker/dispatcher/claims/exchange.py",
    "            return replies[len(request.reports) :]\n",
    "            await __import__('asyncio').sleep(1.0 if request.claims else 0)\n"
    "            return replies[len(request.reports) :]\n",
)
#: it waits, and hears no wake-up
DEAF = Edit("worker/dispatcher/group.py", "await self._dispatcher.wake_ups.hear(channels[channel], message)", "pass")


def waits(place, program, queue="default"):
    """Whether a job of the queue would be given to this program."""
    token = place.run(plain(as_is, "GET", place.broker.keys.wake(queue))) or b""
    return token.decode().startswith(mark_of(f"{socket.gethostname()}.{program.pid}"))


def until_it_waits(place, program):
    """The last one that has asked is the one: each asks now and then."""
    until(lambda: waits(place, program), lambda: f"{program.text()}\n{place.logs()}")


def began_by_the_wake_up(record):
    """Whether it did not wait for the end of a lease; nor for a poll, which is far away. By Redis' clock."""
    return record.started_at - record.created_at < SOON


@few("isolation", ["fork", "process"])
def test_a_job_that_a_wake_up_brings_runs_once(place, isolation):
    """Quick ones, which are settled in the round trip that would confirm them, and a long one that is confirmed."""
    program = place.start(isolation=isolation)
    path = place.path()
    for number in range(10):
        until_it_waits(place, program)
        id_ = place.enqueue("work", path, 0, str(number))
        assert place.result(id_) == str(number)
        assert (place.job(id_).attempts, place.job(id_).rescues) == (1, 0)
    assert len(place.until_lines(path, 10)) == 10
    until_it_waits(place, program)
    long = place.enqueue("work", path, 1.0)
    place.until_lines(path, 11)
    until(lambda: place.is_confirmed(long), program.text)
    place.result(long)
    assert place.job(long).attempts == 1


@few("number", [signal.SIGSTOP, signal.SIGKILL])
@few("retry", ["standard", "none"])
def test_a_dispatcher_that_is_gone_loses_the_job_at_once(place, number, retry):
    """Another one runs it, long before a lease is over, as its first attempt; the first one goes on without it."""
    is_lost_at_once(place, number, retry, seldom_polls(place.directory))


def is_lost_at_once(place, number, retry, own, timeout=60.0):
    """`own`: the code; a poll makes up for nothing. `timeout`: s, for the job to end."""
    # One after the other: Redis gives the job to the dispatcher that has asked last, which must be `first`.
    second = place.start(processes=1, tasks={"work": {"retry": retry}}, own=own)
    until_it_waits(place, second)
    first = place.start(processes=1, tasks={"work": {"retry": retry}}, own=own)
    channel = place.broker.keys.wake("default")
    until(lambda: place.run(plain(as_is, "PUBSUB", "NUMSUB", channel))[1] == 2)
    until_it_waits(place, first)
    os.kill(first.pid, number)
    path = place.path()
    record = place.until(place.enqueue("work", path), timeout=timeout)
    assert (record.status, record.attempts, record.rescues) == ("finished", 1, 0), second.text()
    assert began_by_the_wake_up(record)
    if number == signal.SIGSTOP:
        os.kill(first.pid, signal.SIGCONT)
        until_it_waits(place, first)
        # In its one child, behind what it had to do before: the other one cannot run this.
        os.kill(second.pid, signal.SIGSTOP)
        place.result(place.enqueue("echo"))
        os.kill(second.pid, signal.SIGCONT)
    assert len(place.lines(path)) == 1


BUGS = {
    "nobody looks whether a job is confirmed": Edit(
        "worker/dispatcher/claims/wake_ups.py",
        "            self._asking.claim_when_due(queue, CARRIED)\n",
        "            pass\n",
    ),
    "a job that comes late and begins before it is confirmed": Edit(
        "worker/dispatcher/waiting.py",
        "        return attempt.lease > boot_ns() and self._pool.hand_one(attempt)\n",
        "        attempt.lease = boot_ns() + 10**10\n"
        "        begins = self._pool.hand_one(attempt)\n"
        "        time.sleep(0.5)  # on a busy machine Redis might be asked before the child begins\n"
        "        return begins\n",
    ),
    "a job that is not confirmed counts as rescued": Edit(
        "broker/lua/shared/rescue.lua", "found[i + 1] % 1 ~= 0", "false"
    ),
    "a confirmation of whatever job": Edit(
        "broker/lua/shared/job.lua", "if not state or state:sub(1, #mark) == mark then", "if true then"
    ),
}


@pytest.mark.proof
@pytest.mark.parametrize("bug", BUGS)
def test_a_seeded_bug_is_found(place, bug):
    """Each of the mistakes that this is about is seen."""
    own = place.edited(*SELDOM_POLLS, BUGS[bug])
    with pytest.raises(AssertionError):
        is_lost_at_once(place, signal.SIGSTOP, "standard", own, timeout=10.0)


@pytest.mark.proof
@pytest.mark.parametrize("retry", ["standard", "none"])
def test_a_dispatcher_that_hears_of_the_job_too_late_does_not_begin_it(place, retry):
    """By then another one has run the job, or has it; to this one the job is lost."""
    quick = place.start(processes=1, tasks={"work": {"retry": retry}}, own=seldom_polls(place.directory))
    until_it_waits(place, quick)
    late = place.start(processes=1, tasks={"work": {"retry": retry}}, own=place.edited(LATE, *SELDOM_POLLS))
    path = place.path()
    for seconds in (0, 2.0):
        until_it_waits(place, late)
        record = place.until(place.enqueue("work", path, seconds))
        assert (record.status, record.attempts, record.rescues) == ("finished", 1, 0)
        assert began_by_the_wake_up(record)
    until_it_waits(place, late)
    assert len(place.lines(path)) == 2


@pytest.mark.proof
@pytest.mark.parametrize("kind", [{}, {"executor": "thread"}, {"executor": "asyncio"}], ids=str)
def test_a_job_that_nobody_confirms_has_ended_when_another_dispatcher_begins_it(place, kind):
    """
    Who has begun it gives it up while Redis still keeps it; this is no rescue.

    It is in a C call: in a child of many jobs it does not end when it is asked to.
    """
    place.start(processes=1, own=seldom_polls(place.directory), **kind)
    silent = place.start(processes=1, own=place.edited(SILENT, *SELDOM_POLLS), **kind)
    for _ in range(TRIES):
        until_it_waits(place, silent)
        path = place.path()
        id_ = place.enqueue("work", path, 3.0)
        until(lambda path=path, id_=id_: len(place.lines(path)) > 1 or place.status(id_).ended, place.logs)
        if len(place.lines(path)) > 1:
            break
    pids = [int(line.split()[1]) for line in place.lines(path)]
    assert not alive(pids[0]), place.logs()
    place.result(id_)
    record = place.job(id_)
    assert (record.attempts, record.rescues) == (1, 0)
    assert len(place.lines(path)) == 2


@pytest.mark.proof
def test_a_job_that_nobody_confirms_does_not_end_one_beside_it_that_may_begin_once(place):
    """It has time to stop before its child is killed: the other one would fail for good."""
    own = place.edited(SILENT, *SELDOM_POLLS)
    tasks = {"held_awaiting": {"retry": "none"}}
    silent = place.start(processes=1, executor="asyncio", concurrency=2 * TRIES, tasks=tasks, own=own)
    for _ in range(TRIES):
        beside, path = place.path(), place.path()
        once = place.enqueue("held_awaiting", beside, 3.0)
        place.until_lines(beside)
        until_it_waits(place, silent)
        id_ = place.enqueue("stop_slowly", path, 0.3)
        until(lambda path=path, id_=id_: len(place.lines(path)) > 1 or place.is_confirmed(id_), silent.text)
        if place.lines(path) == ["begun", "stopped"]:
            break
    assert place.result(once) == "held"
    assert place.lines(path)[:2] == ["begun", "stopped"]


@pytest.mark.proof
def test_a_wake_up_that_its_dispatcher_does_not_hear(place):
    """Another one that has heard it claims the job a moment later."""
    place.start(processes=1, own=seldom_polls(place.directory))
    deaf = place.start(processes=1, own=place.edited(DEAF, *SELDOM_POLLS))
    until_it_waits(place, deaf)
    record = place.until(place.enqueue("echo"))
    assert (record.status, record.attempts, record.rescues) == ("finished", 1, 0)
    assert began_by_the_wake_up(record)


@pytest.mark.proof
def test_a_wake_up_that_nobody_hears(place, run):
    """A dispatcher that was cut off asks once it hears them again, and is told when the job is there for it."""
    program = place.start(processes=1, own=seldom_polls(place.directory))
    for _ in range(3):
        until_it_waits(place, program)
        run(plain(as_is, "CLIENT", "KILL", "TYPE", "PUBSUB"))
        record = place.until(place.enqueue("echo"))
        assert (record.status, record.attempts, record.rescues) == ("finished", 1, 0)
        assert began_by_the_wake_up(record)


def test_a_dispatcher_without_a_free_child_gives_the_job_back(place):
    """It had one when it asked; another one has the job at once."""
    own = place.edited(GREEDY, *SELDOM_POLLS)
    programs = [place.start(processes=1, queues=("default", "other"), own=own) for _ in range(2)]
    until(lambda: any(waits(place, program) for program in programs))
    path = place.path()
    for number in range(6):
        place.enqueue("work", path, 0.4, f"a{number}", queue="other")
        record = place.until(place.enqueue("echo"))
        assert (record.status, record.attempts, record.rescues) == ("finished", 1, 0)
        assert began_by_the_wake_up(record)
    place.until_lines(path, 6)


def test_a_job_that_may_begin_once_has_no_permit_while_no_child_is_free(place, run):
    """It is given back without one: with one, it would fail if the dispatcher died now, and it has not begun."""
    own = place.edited(GREEDY)
    program = place.start(processes=1, queues=("default", "other"), tasks={"echo": {"retry": "none"}}, own=own)
    until_it_waits(place, program)
    path = place.path()
    place.enqueue("work", path, 60, queue="other")
    place.until_lines(path)
    id_ = place.enqueue("echo")
    place.until(id_, "queued")
    assert "permit" not in read_job(run, place.broker.keys.of("default", "job", id_))


@pytest.mark.proof
def test_a_job_for_which_no_child_is_free_is_not_given_away(place):
    """The child that was free for it has a job of another queue by then, so it is queued from the beginning."""
    queues = ("default", "other")
    program = place.start(processes=1, queues=queues, own=seldom_polls(place.directory))
    path = place.path()
    for number in range(3):
        chosen = until(lambda: next((name for name in queues if waits(place, program, name)), None), program.text)
        another = queues[chosen == "default"]
        busy = place.enqueue("meet", path, 2 * number + 2, queue=another)
        place.until_lines(path, 2 * number + 1)
        # Sooner than the token would be over by itself.
        until(lambda name=chosen: not waits(place, program, name), program.text, timeout=10.0)
        id_ = place.enqueue("echo", queue=chosen)
        assert place.status(id_, chosen) == "queued"
        place.let_go(path)
        place.result(busy, another)
        place.result(id_, chosen)
        assert place.job(id_, chosen).history == ()


@pytest.mark.proof
@pytest.mark.parametrize("seconds", [0.6, 1.5])
def test_a_job_that_redis_confirms_too_late_runs_again_at_once(place, redis_server, seconds):
    """Redis hangs while it is asked: this keeps the job for nobody, is no rescue, and the job's history has it."""
    program = place.start(processes=1, own=place.edited(SLOW, *SELDOM_POLLS))
    path = place.path()
    for _ in range(TRIES):
        until_it_waits(place, program)
        before = len(place.lines(path))
        id_ = place.enqueue("work", path, 2.0)
        place.until_lines(path, before + 1)
        redis_server.stop()
        time.sleep(seconds)  # the length of the hang, which is what this is about
        redis_server.resume()
        place.result(id_)
        record = place.job(id_)
        if record.history:
            break
    assert (record.attempts, record.rescues) == (1, 0)
    assert [(past.outcome, past.counted) for past in record.history] == [("not confirmed", False)], program.text()
    assert began_by_the_wake_up(record)
    assert len(place.lines(path)) == before + 2


@pytest.mark.proof
def test_a_drain_during_a_claim_takes_its_token_back(place):
    """Nobody would run the job that the next call begins under it."""
    program = place.start(processes=1, own=place.edited(DELAYED))
    until_it_waits(place, program)
    program.process.send_signal(signal.SIGTERM)
    assert program.wait() == 0
    assert not waits(place, program)
    assert place.status(place.enqueue("echo")) == "queued"


def test_a_drain_gives_the_job_back(place):
    """One that drains, or has ended, begins nothing; the next one does."""
    first = place.start(processes=1)
    until_it_waits(place, first)
    first.process.send_signal(signal.SIGTERM)
    id_ = place.enqueue("echo")
    assert first.wait() == 0
    place.start(processes=1)
    record = place.until(id_)
    assert (record.status, record.attempts, record.rescues) == ("finished", 1, 0)
