"""
A child that runs many jobs, one after the other.

1. take    a batch of jobs from the socket
2. begin   each job, unless it was taken back or its lease is over
3. run     it under its soft timeout
4. keep    its outcome on the page, where the dispatcher finds it if the next job turns out to be long or ends the child
5. report  outcomes together: of a batch, or of 5 ms

Knows tasks and one socket. No Redis; of a task's policies it knows exception names only.

Standard library only, CPython 3.9 and later: it runs under the application's own interpreter.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import os
import posix
import time

from . import run, task_errors, tasklog, wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from . import task

# Kept from before a task's module may replace them. None replaces what is in `posix` and `_signal`.
_monotonic, _monotonic_ns, _process_time, _times = time.monotonic, time.monotonic_ns, time.process_time, posix.times
_open_file, _PAGE = open, os.sysconf("SC_PAGE_SIZE")
#: s; a job that ends so long after the oldest outcome that is kept has all of them reported
REPORT_WITHIN = 0.005


class Child:
    """One child, from its first job to its last; made before the fork, alive after it."""

    def __init__(self, page: wire.Page, tasks: task.Tasks) -> None:
        """A child that has not begun; its slot's page will be mapped at the address of `page`."""
        self.page, self._tasks, self.told = page, tasks, b""
        #: when the oldest outcome was kept that is not reported; 0: there is none
        self._oldest = 0.0
        self._deadline: float | None = None
        self._done = 0
        #: tasks whose last job was short and changed nothing that the next job needs
        self._quick: set[bytes] = set()
        #: CPU seconds of this process, and of those that it had waited for, when they were last looked at
        self._cpu = self._cpu_below = 0.0

    def serve(self, fd: int, out: int) -> None:
        """
        Run jobs until the dispatcher closes the socket, or this child is to be replaced.

        Args:
            fd: the socket on which jobs come.
            out: descriptor of the output pipe, for the marks; task code has the same pipe as 1 and 2.
        """
        self._fd, self.out, self.pid, run.serving = fd, out, posix.getpid(), self
        self.page.words[2] = self.pid
        buffer = b""
        while data := posix.read(fd, 1 << 16):
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
        self._cpu = _process_time()
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
        if self._oldest and not known:
            self._report()
            self._look()
        began = _monotonic()
        if not self.page.begin(serial, _monotonic_ns()):
            self._keep(wire.OutcomeMessage(serial, wire.RETURNED, False, 0.0, b""))
            return
        if marked:
            self._mark(serial)
        kind, retry, payload = run.run(self, self._tasks, job)
        duration = _monotonic() - began
        quick = duration < REPORT_WITHIN / 5
        if not (known and quick):
            (self._quick.add if self._restore() and quick else self._quick.discard)(name)
        self._keep(wire.OutcomeMessage(serial, kind, retry, duration, payload, self._cpu_used(quick=quick)))

    def _cpu_used(self, *, quick: bool) -> float:
        """CPU seconds since the job before; with those of processes that it has waited for, if it was not `quick`."""
        before, self._cpu = self._cpu, _process_time()
        used = self._cpu - before
        if not quick:
            times, below = _times(), self._cpu_below
            self._cpu_below = times.children_user + times.children_system
            used += self._cpu_below - below
        return used

    def _mark(self, serial: int) -> None:
        """Write the mark by which the dispatcher knows to which job the next lines belong."""
        mark = b"\0%x\n" % serial
        try:
            posix.write(self.out, mark)
        except BlockingIOError:  # a program of a job has made the pipe non-blocking, and has filled it
            posix.set_blocking(self.out, True)
            posix.write(self.out, mark)

    def _look(self) -> None:
        """Forget which tasks are quick if one of their jobs has changed something; their next runs show which."""
        if not self._restore():
            self._quick.clear()

    def _restore(self) -> bool:
        """
        Undo what a job may have changed for the next ones; False: it had changed something.

        The check costs a system call, so it is made for each batch, and for each job that is not known to be quick.
        """
        output: bool = posix.get_blocking(self.out)
        if not output:
            # A program that makes its output non-blocking changes the pipe itself, for whoever prints next.
            posix.set_blocking(self.out, True)
        return output

    # -- around the function -------------------------------------------------------------------------------------------

    def begin(self, id_: bytes, soft: float) -> None:
        """
        Let the job know its id, and the alarm ring at its soft timeout.

        It is set for each job, so that it never rings in one whose timeout is not over: it interrupts system calls, and
        C libraries take that for an error.
        """
        os.environb[b"FUSION_JOB_ID"] = id_
        self._deadline = _monotonic() + soft
        _signal.setitimer(_signal.ITIMER_REAL, max(soft, 1e-6))

    def end(self) -> None:
        """
        Undo what would last into the next job.

        A fork that the job has made and that returns to this point must neither report for its parent nor run its jobs.
        """
        self._deadline = None
        run.flush()
        if posix.getpid() != self.pid:
            posix._exit(1)
        # Not signal.getsignal, which makes an enum of the answer.
        if _signal.getsignal(_signal.SIGALRM) is not run.on_alarm:
            _signal.signal(_signal.SIGALRM, run.on_alarm)

    def on_alarm(self) -> None:
        """Runs between two byte codes of the task; does nothing without a deadline, which is when no job runs."""
        if self._deadline is None:
            return
        left = self._deadline - _monotonic()
        if left <= 0:
            self._deadline = None
            raise task_errors.SoftTimeout
        _signal.setitimer(_signal.ITIMER_REAL, left)

    # -- outcomes --------------------------------------------------------------------------------------------------

    def _keep(self, outcome: wire.OutcomeMessage) -> None:
        record, now = wire.outcome_record(outcome), _monotonic()
        if not self.page.keep(record):
            self._report(record)
            return
        self._oldest = self._oldest or now
        if self.told or now - self._oldest >= REPORT_WITHIN:
            self._report()

    def _report(self, last: bytes = b"") -> None:
        """Send the outcomes that are kept, and the record of one for which there was no room."""
        records = (self.page.kept() if self._oldest else b"") + last
        if records:
            told, self.told = self.told, b""
            run.write_all(self._fd, told + wire.frame(wire.OUTCOMES, records))
        if self._oldest:
            self._oldest = 0.0
            self.page.forget_kept()

    def _too_large(self) -> bool:
        limit = self._tasks.max_memory
        return limit is not None and resident_bytes() > limit


def resident_bytes() -> int:
    """Bytes of memory that this process has resident."""
    with _open_file("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * _PAGE
