"""Jobs that a wake-up brings, against a real Redis: their dispatcher is stopped, dead, deaf, cut off, or late."""

import contextlib
import os
import signal
import socket
import time
from pathlib import Path

import pytest

from fusiond import hook
from fusiond.broker.call import as_is, plain
from fusiond.job import mark_of
from tests.chaos.package import SELDOM_POLLS, Edit
from tests.support.cases import few
from tests.support.job_text import read_job
from tests.support.running import until
from tests.support.seldom_polls import seldom_polls

#: ms; jobs wait for less beside an idle child where the wake-up was lost, or its dispatcher is gone: 6 s, and on a busy
#: machine longer; but not for the 15 s of a lease
LATEST = 14_000
#: it hears wake-ups when it is too late, and does not ask in time what it was given
LATE = (
    Edit(
        "worker/dispatcher/group.py",
        "self._dispatcher.hear(channels[channel], message)",
        "await asyncio.sleep(1.0)\n                    self._dispatcher.hear(channels[channel], message)",
    ),
    Edit("worker/dispatcher/loop.py", "        self._reservations.ask_all()\n", ""),
)
#: it waits, and hears no wake-up
DEAF = Edit("worker/dispatcher/group.py", "self._dispatcher.hear(channels[channel], message)", "pass")
#: it leaves tokens where no child is free any more
GREEDY = Edit(
    "worker/dispatcher/loop.py",
    "        self._reservations.take_back_excess(min(self._waiting.free(), self.pool_slots.most()))\n",
    "",
)
#: it hears the answers to its claims late
DELAYED = Edit(
    "worker/dispatcher/claims/lane.py",
    "            return replies[len(request.reports) :]\n",
    "            await __import__('asyncio').sleep(1.0 if request.claims else 0)\n"
    "            return replies[len(request.reports) :]\n",
)


def waits(place, program, queue="default"):
    """Whether a job of the queue would be given to this program."""
    token = place.run(plain(as_is, "GET", place.broker.keys.wake(queue))) or b""
    return token.decode().startswith(mark_of(f"{socket.gethostname()}.{program.pid}"))


def until_it_waits(place, program):
    """The last one that has asked is the one: each asks now and then."""
    until(lambda: waits(place, program), lambda: f"{program.text()}\n{place.logs()}")


def two(place, own, other_own, **keys):
    """Two dispatchers of one queue, of which the other one has asked all that it asks by itself."""
    wake = place.broker.keys.wake("default")
    other = place.start(processes=1, own=other_own, **keys)
    _until_they_listen(place, 1)
    # It asks as soon as it listens; what it is told to ask now comes after that.
    place.run(plain(as_is, "DEL", wake))
    place.run(plain(as_is, "PUBLISH", wake, "ready"))
    until_it_waits(place, other)
    program = place.start(processes=1, own=own, **keys)
    _until_they_listen(place, 2)
    return program, other


def _until_they_listen(place, number):
    until(lambda: place.run(plain(as_is, "PUBSUB", "NUMSUB", place.broker.keys.wake("default")))[1] == number)


@contextlib.contextmanager
def next_in_line(place, program, other):
    """The next job is given to `program`, as the other one stands still meanwhile and cannot ask."""
    while True:
        until_it_waits(place, program)
        os.kill(other.pid, signal.SIGSTOP)
        if waits(place, program):
            break
        os.kill(other.pid, signal.SIGCONT)
    yield
    os.kill(other.pid, signal.SIGCONT)


def waited(record):
    """Ms from the enqueue to when the last attempt was claimed, by Redis' clock."""
    return record.started_at - record.created_at


def runs_of(record):
    return record.status, record.attempts, record.rescues


@few("isolation", ["fork", "process"])
def test_a_job_that_a_wake_up_brings_runs_once(place, isolation):
    """Quick ones, which have ended before their leases are renewed, and a long one."""
    program = place.start(isolation=isolation)
    path = place.path()
    for number in range(10):
        until_it_waits(place, program)
        id_ = place.enqueue("work", path, 0, str(number))
        assert place.result(id_) == str(number)
        assert runs_of(place.job(id_)) == ("finished", 1, 0)
    assert len(place.until_lines(path, 10)) == 10
    until_it_waits(place, program)
    id_ = place.enqueue("work", path, 7.0)
    place.until_lines(path, 11)
    assert runs_of(place.until(id_)) == ("finished", 1, 0)
    assert place.job(id_).history == ()


#: a dispatcher that waits, at one moment of a job that a wake-up brings, while the test freezes somebody
_PAUSES = """
import os, time

def pause(flag):
    if os.path.exists(flag + ".armed"):
        os.rename(flag + ".armed", flag)
        while os.path.exists(flag):
            time.sleep(0.001)

def hook(process, name, find):
    if process != "dispatcher":
        return
    dispatcher, leases = find("worker.dispatcher.loop").Dispatcher, find("worker.dispatcher.claims.leases")
    begin, renew = dispatcher._begin_given, leases.renew

    def paused_begin(self, attempt):
        pause({path!r} + "brought")
        begin(self, attempt)

    async def paused_renew(broker, connection, attempts, *note):
        attempts = list(attempts)
        if attempts:
            pause({path!r} + "renewed")
        return await renew(broker, connection, attempts, *note)

    dispatcher._begin_given, leases.renew = paused_begin, paused_renew

def handed():
    return None

def main(control, setup):
    import sys
    sys.modules[__package__ + ".forkserver"].main(control, setup)
"""
#: moment, who is frozen then, and for how many seconds: before its hand-over, after it, and before its lease is renewed
FREEZES = [
    ("begun", "redis", 4.0),
    ("renewed", "dispatcher", 4.0),
    ("brought", "dispatcher", 1.0),
    *[("begun", who, seconds) for who in ("dispatcher", "server", "child") for seconds in (0.4, 1.0, 2.0, 4.0)],
    *[(at, who, s) for at in ("brought", "renewed") for who in ("dispatcher", "redis") for s in (0.4, 1.0, 2.0, 4.0)],
]


@few("freeze", FREEZES, count=3)
def test_a_freeze_at_the_moment_when_a_job_begins_runs_nothing_twice(place, redis_server, freeze):
    """Another dispatcher is there, and would have the job as soon as its lease is over."""
    at, who, seconds = freeze
    flag = f"{place.directory}/at-"
    (place.directory / "pauses.py").write_text(_PAUSES.replace("{path!r}", repr(flag)))
    first, other = two(place, {hook.VARIABLE: str(place.directory / "pauses.py")}, None)
    path, pause = place.path(), Path(flag + at)
    with next_in_line(place, first, other):
        Path(f"{pause}.armed").touch()
        # From the enqueue on: a lease counts from there, and a slow machine has used some of it when the freeze begins.
        over = time.monotonic() + seconds
        id_ = place.enqueue("work", path, 0.5)
    if at == "begun":
        place.until_lines(path)
    else:
        until(pause.exists)
    pid = _pid_of(who, path, first, redis_server)
    os.kill(pid, signal.SIGSTOP)
    pause.unlink(missing_ok=True)
    time.sleep(max(0.0, over - time.monotonic()))  # the length of the freeze, which is what this is about
    os.kill(pid, signal.SIGCONT)
    record = place.until(id_)
    assert runs_of(record) == ("finished", 1, 0), place.logs()
    assert len(place.lines(path)) == 1


def _pid_of(who, path, dispatcher, redis_server):
    if who == "dispatcher":
        return dispatcher.pid
    if who == "redis":
        return redis_server.process.pid
    child = int(Path(path).read_text().split()[1])
    return child if who == "child" else int(Path(f"/proc/{child}/stat").read_text().rpartition(") ")[2].split()[1])


@pytest.mark.parametrize(("number", "retry"), [(signal.SIGKILL, "standard"), (signal.SIGSTOP, "none")])
def test_a_dispatcher_that_is_gone_before_it_hears_of_the_job(place, number, retry):
    """Another one takes the job back after its short first lease, however the file says it is retried."""
    own, tasks = seldom_polls(place.directory), {"work": {"retry": retry}}
    first, second = two(place, own, own, tasks=tasks)
    path = place.path()
    with next_in_line(place, first, second):
        os.kill(first.pid, number)
        id_ = place.enqueue("work", path)
    record = place.until(id_)
    assert runs_of(record) == ("finished", 2, 1), second.text()
    assert waited(record) <= LATEST
    if number == signal.SIGSTOP:
        os.kill(first.pid, signal.SIGCONT)
        until_it_waits(place, first)
        # In its one child, behind what it had to do before: the other one cannot run this.
        os.kill(second.pid, signal.SIGSTOP)
        place.result(place.enqueue("echo"))
        os.kill(second.pid, signal.SIGCONT)
    assert len(place.lines(path)) == 1


BUGS = {
    "nobody looks whether a job was begun": Edit(
        "worker/dispatcher/loop.py",
        "            self.planner.claim_when_due(queue, int(FIRST_LEASE * 1000))\n",
        "            pass\n",
    ),
    "a lease that is renewed for whatever token": Edit(
        "broker/lua/shared/job.lua", "state and state:sub(1, #mark) == mark and state or nil", "state"
    ),
}


@pytest.mark.proof
@pytest.mark.parametrize("bug", BUGS)
def test_a_seeded_bug_is_found(place, bug):
    """A job whose dispatcher is stopped is never run, or is run by both."""
    own = place.edited(*SELDOM_POLLS, BUGS[bug])
    first, second = two(place, own, own)
    path = place.path()
    with next_in_line(place, first, second):
        os.kill(first.pid, signal.SIGSTOP)
        id_ = place.enqueue("work", path, 3.0)
    time.sleep(LATEST / 1000)  # nothing can be waited for: it is wrong if nothing happens
    ran = place.lines(path)
    os.kill(first.pid, signal.SIGCONT)
    if bug == "nobody looks whether a job was begun":
        assert ran == []
    else:
        place.until_lines(path)
        place.until(id_)
        assert place.job(id_).rescues or len(place.lines(path)) > 1


@pytest.mark.parametrize("retry", ["standard", "none"])
def test_a_dispatcher_that_hears_of_the_job_too_late_gives_it_back(place, retry):
    """At once, so another one has it long before its lease is over; this is no rescue."""
    tasks = {"work": {"retry": retry}}
    late, other = two(place, place.edited(*LATE, *SELDOM_POLLS), seldom_polls(place.directory), tasks=tasks)
    path = place.path()
    with next_in_line(place, late, other):
        id_ = place.enqueue("work", path)
    record = place.until(id_)
    assert runs_of(record) == ("finished", 1, 0)
    assert waited(record) <= LATEST
    assert [(past.outcome, past.counted) for past in record.history] == [("it came too late", False)]
    assert len(place.lines(path)) == 1


@pytest.mark.parametrize("how", ["deaf", "cut off"])
def test_a_wake_up_that_is_lost(place, run, how):
    """Its dispatcher asks what it was given: with its next poll, or as soon as it listens again. This is no rescue."""
    own = place.edited(DEAF) if how == "deaf" else seldom_polls(place.directory)
    program = place.start(processes=1, own=own)
    for _ in range(1 if how == "deaf" else 3):
        until_it_waits(place, program)
        if how == "cut off":
            run(plain(as_is, "CLIENT", "KILL", "TYPE", "PUBSUB"))
        path = place.path()
        record = place.until(place.enqueue("work", path))
        assert runs_of(record) == ("finished", 1, 0)
        assert waited(record) <= LATEST
        assert len(place.lines(path)) == 1


def test_a_dispatcher_without_a_free_child_gives_the_job_back(place):
    """It had one when it asked; another one has the job at once."""
    own = place.edited(GREEDY, *SELDOM_POLLS)
    programs = [place.start(processes=1, queues=("default", "other"), own=own) for _ in range(2)]
    until(lambda: any(waits(place, program) for program in programs))
    path = place.path()
    for number in range(6):
        place.enqueue("work", path, 0.4, f"a{number}", queue="other")
        record = place.until(place.enqueue("echo"))
        assert runs_of(record) == ("finished", 1, 0)
        assert waited(record) <= LATEST
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
    assert runs_of(place.until(id_)) == ("finished", 1, 0)
