"""
A host that is suspended to memory: CLOCK_BOOTTIME goes on, the monotonic clock stands still, other hosts take its jobs.

The groups' programs run a copy of the code whose boot clock is ahead by what a file says; they are stopped meanwhile.
"""

import os
import signal
from contextlib import contextmanager

import pytest

from fusiond.broker.call import as_is, plain
from tests.chaos.package import Edit, copy
from tests.support.cases import few
from tests.support.running import until

CLOCK = "_clock, _BOOT = time.clock_gettime_ns, time.CLOCK_BOOTTIME\n"
#: s; longer than any lease
NIGHT = 3600


class Host:
    """One that can be suspended, with a group of one child; `edits`: of its code."""

    def __init__(self, place, *edits, **group):
        self.place = place
        self.ahead = place.directory / "ahead"
        self.ahead.write_text("0")
        self.ahead.chmod(0o644)
        shifted = (
            "_BOOT = time.CLOCK_BOOTTIME\n\n\n"
            f"def _clock(which):\n    with open({str(self.ahead)!r}) as file:\n"
            "        return time.clock_gettime_ns(which) + int(file.read())\n"
        )
        code = copy(place.directory / "code", (Edit("worker/runtime/wire.py", CLOCK, shifted), *edits))
        self.program = place.start(own={"PYTHONPATH": str(code)}, **group)

    @contextmanager
    def suspended(self):
        """Its processes stand still; when they go on, the children first, a night has passed."""
        server = self.program.fork_server()
        pids = [*self.program.children(), server, self.program.pid]
        for pid in reversed(pids):
            os.kill(pid, signal.SIGSTOP)
        yield
        self.ahead.write_text(str(NIGHT * 10**9))
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def until_parked(place):
    """
    Until the dispatcher waits for a wake-up: Redis has its flag.

    Before a claim, a dispatcher looks whether its leases have expired. If it were stopped between this look and the
    claim, the claim would rescue its own job.
    """
    until(lambda: place.run(plain(as_is, "EXISTS", place.broker.keys.of("default", "wake"))), place.logs)


def expire(place, id_):
    """In Redis, whose clock goes on."""
    place.run(plain(as_is, "ZADD", place.broker.keys.of("default", "started"), "XX", 1, id_))


@few("isolation", ["fork", "process"])
def test_what_was_handed_to_a_child_does_not_begin_after_it(place, isolation):
    """Another host has run it meanwhile; the one that wakes up serves on."""
    host = Host(place, isolation=isolation)
    for child in host.program.children():
        os.kill(child, signal.SIGSTOP)
    path = place.path()
    id_ = place.enqueue("work", path)
    place.until(id_, "started")
    with host.suspended():
        expire(place, id_)
        other = place.start()
        assert place.result(id_) == "work"
    other.signal(signal.SIGTERM)
    other.wait()
    assert place.result(place.enqueue("echo"))
    assert len(place.lines(path)) == 1


@pytest.mark.proof
@pytest.mark.parametrize("woken", [False, True])
def test_what_runs_and_nobody_has_taken_goes_on(place, woken):
    """Its lease is over, but whoever wakes up asks before it judges, and before a claim of its own rescues the job."""
    host = Host(place, isolation="process", processes=2)
    path = place.path()
    id_ = place.enqueue("work", path, 3)
    place.until_lines(path)
    until_parked(place)
    with host.suspended():
        expire(place, id_)
        behind = woken and place.enqueue("echo")
    assert not woken or place.result(behind)
    assert place.result(id_) == "work"
    record = place.job(id_)
    assert (record.attempts, record.rescues, len(place.lines(path))) == (1, 0, 1)


def test_what_another_host_has_taken_is_ended(place):
    """Its child is killed, and nothing settled."""
    host = Host(place, isolation="process")
    path = place.path()
    id_ = place.enqueue("work", path, 60)
    pid = int(place.until_lines(path)[0].split()[1])
    with host.suspended():
        expire(place, id_)
        place.start(tasks={"work": {"run": "jobs.echo"}})
        assert place.result(id_)
    host.program.until_said("its lease was lost")
    until(lambda: pid not in host.program.children())
    assert place.job(id_).attempts == 2
