"""
A child that runs many jobs, one after the other.

1. take    a batch of jobs from the socket
2. begin   each job, unless it was taken back or its lease is over
3. run     it under its soft timeout
4. report  outcomes within 5 ms, so that a later crash does not lose them

Knows tasks and one socket. No Redis; of a task's policies it knows exception names only.

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
    from collections.abc import Sequence

    from . import task

#: s; an outcome does not wait longer than this in the child
REPORT_WITHIN = 0.005
#: s; an alarm that rings so close to the time that was set here is this file's own
_NEAR = 0.001


class Child:
    """One child, from its first job to its last; made before the fork, alive after it."""

    def __init__(self, page: wire.Page, tasks: task.Tasks) -> None:
        """A child that has not begun; its slot's page will be mapped at the address of `page`."""
        self.page, self._tasks = page, tasks
        self._outcomes: list[wire.OutcomeMessage] = []
        self.told = b""
        self._oldest = 0.0
        self._deadline: float | None = None
        self._alarm_at: float | None = None
        self._done = 0
        #: tasks whose last job was short and changed nothing that the next job needs
        self._quick: set[bytes] = set()

    def serve(self, fd: int, out: int) -> None:
        """
        Run jobs until the dispatcher closes the socket, or this child is to be replaced.

        Args:
            fd: the socket on which jobs come.
            out: descriptor of the output pipe, for the marks; task code has the same pipe as 1 and 2.
        """
        self._fd, self.out, self._pid, run.serving = fd, out, os.getpid(), self
        self.page.words[2] = self._pid
        buffer = b""
        while data := os.read(fd, 1 << 16):
            lone = None if buffer else wire.read_one_job(data)
            if lone is not None:
                if not self._batch([lone], marked=False):
                    return
                continue
            buffer = buffer + data if buffer else data
            at = 0
            while found := wire.cut(buffer, at):
                kind, start, at = found
                if kind == wire.TABLE:
                    self._tasks.replace(buffer[start:at])
                    tasklog.set_level(self._tasks.level)
                elif not self._batch(wire.read_jobs(buffer[start:at]), marked=kind == wire.JOBS):
                    return
            buffer = buffer[at:]

    def _batch(self, jobs: Sequence[wire.JobFields], *, marked: bool) -> bool:
        """
        Run a batch; False: this child is to be replaced. The dispatcher takes back what it has not begun.

        `marked`: the dispatcher needs a mark of each job to know what it prints.
        """
        most = float("inf") if self._tasks.max_jobs is None else self._tasks.max_jobs
        for job in jobs:
            self._run(job, marked=marked)
            self._done += 1
            if self._done >= most:
                break
        self._report()
        # Behind the batch, where nobody waits: a program that a job has left behind may change these at any time.
        self._look()
        return self._done < most and not self._too_large()

    # -- one job -------------------------------------------------------------------------------------------------

    def _run(self, job: wire.JobFields, *, marked: bool) -> None:
        """Begin a job, run it, keep its outcome."""
        serial, _, _, name, _, _ = job
        known = name in self._quick
        if self._outcomes and not known:
            self._report()
            self._look()
        began = time.monotonic()
        if not self.page.begin(serial, time.monotonic_ns()):
            self._keep(wire.OutcomeMessage(serial, wire.RETURNED, False, 0.0, b""))
            return
        if marked:
            self._mark(serial)
        kind, retry, payload = run.run(self, self._tasks, job)
        duration = time.monotonic() - began
        quick = duration < REPORT_WITHIN / 5
        if not (known and quick):
            (self._quick.add if self._restore() and quick else self._quick.discard)(name)
        self._keep(wire.OutcomeMessage(serial, kind, retry, duration, payload))

    def _mark(self, serial: int) -> None:
        """Write the mark by which the dispatcher knows to which job the next lines belong."""
        mark = b"\0%x\n" % serial
        try:
            os.write(self.out, mark)
        except BlockingIOError:  # a program of a job has made the pipe non-blocking, and has filled it
            os.set_blocking(self.out, True)
            os.write(self.out, mark)

    def _look(self) -> None:
        """Forget which tasks are quick if one of their jobs has changed something; their next runs show which."""
        if not self._restore():
            self._quick.clear()

    def _restore(self) -> bool:
        """
        Undo what a job may have changed for the next ones; False: it had changed something.

        The check costs two system calls, so it is made for each batch, and for each job that is not known to be quick.
        """
        alarm, output = self._restore_alarm(), os.get_blocking(self.out)
        if not output:
            # A program that makes its output non-blocking changes the pipe itself, for whoever prints next.
            os.set_blocking(self.out, True)
        return alarm and output

    def _restore_alarm(self) -> bool:
        """Forget an alarm that will not ring: a job may put our handler back, but leave no timer."""
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
        Undo what would last into the next job.

        A fork that the job has made and that returns to this point must neither report for its parent nor run its jobs.
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
        # An alarm that should have rung by now never will.
        if self._alarm_at is None or at < self._alarm_at or self._alarm_at <= now:
            self._alarm_at = at
            signal.setitimer(signal.ITIMER_REAL, max(at - now, 1e-6))

    def on_alarm(self) -> None:
        """Runs between two byte codes of the task; does nothing without a deadline, which is when no job runs."""
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
        told, self.told = self.told, b""
        if outcomes and os.getpid() == self._pid:  # a fork that a job has made may get here by its own alarm
            run.write_all(self._fd, told + wire.outcomes_frame(outcomes))

    def _too_large(self) -> bool:
        limit = self._tasks.max_memory
        return limit is not None and resident_bytes() > limit


def resident_bytes() -> int:
    """Bytes of memory that this process has resident."""
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
