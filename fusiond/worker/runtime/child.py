"""
A child that is used again: run jobs, one after the other.

1. take    a batch of jobs from the socket
2. begin   each, unless it was taken back or its lease is over
3. run     it under its soft timeout
4. report  outcomes: within 5 ms, so that a later crash does not take them along

Knows tasks and one socket. No Redis, no policies beyond exception names.

Standard library only, CPython 3.9 and later: it runs under the application's own interpreter.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import os
import signal
import time

from . import run, tasklog, wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from . import task

#: s; an outcome does not wait longer than this in the child
REPORT_WITHIN = 0.005
#: s; an alarm that will ring this near to when we have set it for is ours
_NEAR = 0.001


class Child:
    """One child, from its first job to its last; made before the fork, alive after it."""

    def __init__(self, page: wire.Page, tasks: task.Tasks) -> None:
        """A child that has not begun; `page`: where its slot's will be mapped."""
        self._page, self._tasks = page, tasks
        self._outcomes: list[wire.OutcomeMessage] = []
        self._oldest = 0.0
        self._deadline: float | None = None
        self._alarm_at: float | None = None
        self._done = 0
        #: tasks whose last job was short and left alone what belongs to the next one as well
        self._quick: set[bytes] = set()

    def serve(self, fd: int, out: int) -> None:
        """
        Run jobs until the dispatcher closes the socket, or this child has done its share.

        Args:
            fd: the socket that they come on.
            out: descriptor of the output pipe, for the marks; task code has the same pipe as 1 and 2.
        """
        self._fd, self.out, self._pid, run.serving = fd, out, os.getpid(), self
        self._page.pid = self._pid
        buffer = b""
        while data := os.read(fd, 1 << 16):
            buffer = buffer + data if buffer else data
            at = 0
            while found := wire.cut(buffer, at):
                kind, start, at = found
                if kind == wire.TABLE:
                    self._tasks.replace(buffer[start:at])
                    tasklog.set_level(self._tasks.level)
                elif not self._batch(buffer[start:at]):
                    return
            buffer = buffer[at:]

    def _batch(self, body: bytes) -> bool:
        """Run a batch; False: this child is to be replaced. What it has not begun the dispatcher takes back."""
        goes_on = True
        self._look()
        for job in wire.read_jobs(body):
            self._run(job)
            self._done += 1
            if self._tasks.max_jobs is not None and self._done >= self._tasks.max_jobs:
                goes_on = False
                break
        self._report()
        return goes_on and not self._too_large()

    # -- one job -------------------------------------------------------------------------------------------------

    def _run(self, job: wire.JobMessage) -> None:
        """Begin a job, run it, keep its outcome."""
        known = job.task in self._quick
        if self._outcomes and not known:
            self._report()
            self._look()
        began = time.monotonic()
        if not self._page.begin(job.serial, time.monotonic_ns()):
            self._keep(wire.OutcomeMessage(job.serial, wire.RETURNED, False, 0.0, b""))
            return
        self._mark(job.serial)
        kind, retry, payload = run.run(self, self._tasks, job)
        duration = time.monotonic() - began
        quick = duration < REPORT_WITHIN / 5
        if not (known and quick):
            self._learn(job.task, quick)
        self._keep(wire.OutcomeMessage(job.serial, kind, retry, duration, payload))

    def _mark(self, serial: int) -> None:
        """The mark by which the dispatcher knows whose lines follow, whoever writes them."""
        mark = b"\0%x\n" % serial
        try:
            os.write(self.out, mark)
        except BlockingIOError:  # a neighbour has changed the pipe, and filled it
            os.set_blocking(self.out, True)
            os.write(self.out, mark)

    def _learn(self, task: bytes, quick: bool) -> None:
        (self._quick.add if self._restore() and quick else self._quick.discard)(task)

    def _look(self) -> None:
        """Look whether one of the quick jobs has touched what it never did; which one, their next runs show."""
        if not self._restore():
            self._quick.clear()

    def _restore(self) -> bool:
        """
        Take back what a job may have changed for the next ones; False: it had.

        To find out costs two system calls: for each batch, and beside jobs that are not known to be quick, but not for
        each quick one.
        """
        alarm, output = self._restore_alarm(), self._restore_output()
        return alarm and output

    def _restore_output(self) -> bool:
        """Programs that make their output non-blocking change the pipe itself, for whoever prints next."""
        if os.get_blocking(self.out):
            return True
        os.set_blocking(self.out, True)
        return False

    def _restore_alarm(self) -> bool:
        """Many put our handler back and leave no timer: nothing would ring."""
        expected, now = self._alarm_at, time.monotonic()
        if expected is None:
            return True
        left = signal.getitimer(signal.ITIMER_REAL)[0]
        if left and abs(now + left - expected) < _NEAR:
            return True
        self._alarm_at = None
        return False

    # -- around the function: the soft timeout and the 5 ms, on one alarm -------------------------------------------

    def begin(self, id_: bytes, soft: float) -> None:
        """Let the job know its id, and set the deadline; the alarm is touched only where it would ring too late."""
        os.environb[b"FUSION_JOB_ID"] = id_
        now = time.monotonic()
        self._deadline = now + soft
        self._ring_by(self._deadline if not self._outcomes else min(self._deadline, self._oldest + REPORT_WITHIN), now)

    def end(self) -> None:
        """
        Undo what of the job's would go on into the next one's.

        A fork of the job's that came back up to here must neither speak for its parent nor run what that one runs.
        """
        self._deadline = None
        run.flush()
        if os.getpid() != self._pid:
            os._exit(1)
        # Not signal.getsignal, which makes an enum of the answer.
        if _signal.getsignal(signal.SIGALRM) is not run.on_alarm:
            signal.signal(signal.SIGALRM, run.on_alarm)
            signal.setitimer(signal.ITIMER_REAL, 0)
            self._alarm_at = None

    def _ring_by(self, at: float, now: float) -> None:
        # One that should have rung by now never will.
        if self._alarm_at is None or at < self._alarm_at or self._alarm_at <= now:
            self._alarm_at = at
            signal.setitimer(signal.ITIMER_REAL, max(at - now, 1e-6))

    def on_alarm(self) -> None:
        """Runs between two byte codes of the task; without a deadline, while this file is at work, it does nothing."""
        self._alarm_at = None
        deadline = self._deadline
        if deadline is None:
            return
        if self._outcomes:
            self._report()
        now = time.monotonic()
        if now >= deadline:
            self._deadline = None
            raise run.SoftTimeout
        self._ring_by(deadline, now)

    # -- outcomes --------------------------------------------------------------------------------------------------

    def _keep(self, outcome: wire.OutcomeMessage) -> None:
        now = time.monotonic()
        if not self._outcomes:
            self._oldest = now
        self._outcomes.append(outcome)
        if now - self._oldest >= REPORT_WITHIN:
            self._report()

    def _report(self) -> None:
        outcomes, self._outcomes = self._outcomes, []
        if outcomes and os.getpid() == self._pid:  # a fork of the job's hears its alarm, if it sets one
            run.write_all(self._fd, wire.outcomes_frame(outcomes))

    def _too_large(self) -> bool:
        limit = self._tasks.max_memory
        return limit is not None and resident_bytes() > limit


def resident_bytes() -> int:
    """Bytes of memory that this process has resident."""
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
