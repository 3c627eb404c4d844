"""
Run task code, and nothing else.

1. take    a batch of jobs from the socket
2. begin   each, unless it was taken back or its lease is over
3. run     it under its soft timeout
4. report  outcomes: within 5 ms, so that a later crash does not take them along

Knows tasks and one socket. No Redis, no policies beyond exception names.

Standard library only, CPython 3.9 and later: it runs under the application's own interpreter.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import json
import os
import signal
import sys
import time
from types import CoroutineType
from typing import TYPE_CHECKING, Any

from . import payload, task, wire

if TYPE_CHECKING:
    from types import FrameType

#: s; an outcome does not wait longer than this in the child
REPORT_WITHIN = 0.005

#: the child that this process is, once it serves
_serving: Child | None = None


class SoftTimeout(BaseException):
    """The job's soft timeout is over: end, clean up, or be killed at the hard one."""

    __module__ = "fusiond"  # in a traceback the private package would only puzzle


class Child:
    """One child, from its first job to its last; made before the fork, alive after it."""

    # Slots, a bare descriptor, few objects: each page that is written to on the way to the task is copied for it.
    __slots__ = (
        "_alarm_at",
        "_deadline",
        "_done",
        "_fd",
        "_fork",
        "_oldest",
        "_outcomes",
        "_page",
        "_pid",
        "_quick",
        "_tasks",
        "out",
    )

    def __init__(self, out: int, page: wire.Page, tasks: task.Tasks, fork: bool) -> None:
        """
        A child that has not begun.

        Args:
            out: descriptor of the output pipe, for the marks; task code has the same pipe as 1 and 2.
            page: the slot's.
            tasks: the table.
            fork: a fresh child for each job.
        """
        self.out, self._page, self._tasks, self._fork = out, page, tasks, fork
        self._outcomes: list[wire.OutcomeMessage] = []
        self._oldest = 0.0
        self._deadline: float | None = None
        self._alarm_at: float | None = None
        self._done = 0
        self._quick: set[bytes] = set()

    def close(self) -> None:
        """Give back pipe and page, in the fork server."""
        os.close(self.out)
        self._page.close()

    def serve(self, fd: int) -> None:
        """Run jobs from the socket until the dispatcher closes it, or this child has done its share."""
        global _serving
        self._fd, self._pid, _serving = fd, os.getpid(), self
        buffer = b""
        while data := os.read(fd, 1 << 16):
            buffer = buffer + data if buffer else data
            at = 0
            while found := wire.cut(buffer, at):
                kind, start, at = found
                if kind == wire.TABLE:
                    self._tasks.replace(buffer[start:at])
                elif start == at:
                    _write_all(fd, wire.outcomes_frame(()))
                elif not self._batch(buffer[start:at]):
                    return
            buffer = buffer[at:]

    def _batch(self, body: bytes) -> bool:
        """Run a batch; False: this child is to be replaced. What it has not begun the dispatcher takes back."""
        goes_on = True
        for job in wire.read_jobs(body):
            self._run(job)
            self._done += 1
            if self._fork or (self._tasks.max_jobs is not None and self._done >= self._tasks.max_jobs):
                goes_on = False
                break
        self._report()
        return goes_on and not self._too_large()

    # -- one job -------------------------------------------------------------------------------------------------

    def _run(self, job: wire.JobMessage) -> None:
        """Begin a job, run it, keep its outcome."""
        if self._outcomes and job.task not in self._quick:
            self._report()
        began = time.monotonic()
        if not self._page.begin(job.serial, time.monotonic_ns()):
            self._keep(wire.OutcomeMessage(job.serial, wire.RETURNED, False, 0.0, b""))
            return
        if not self._fork:
            # The mark by which the dispatcher knows whose lines follow, whoever writes them.
            os.write(self.out, b"\0%x\n" % job.serial)
        kind, retry, payload = self._outcome(job)
        duration = time.monotonic() - began
        (self._quick.add if duration < REPORT_WITHIN / 5 else self._quick.discard)(job.task)
        self._keep(wire.OutcomeMessage(job.serial, kind, retry, duration, payload))

    def _outcome(self, job: wire.JobMessage) -> tuple[int, bool, bytes]:
        """Run a job: (kind, whether it may be retried, result or error as JSON)."""
        row = self._tasks.rows.get(job.task)
        if row is None:
            return (
                wire.FAILED,
                False,
                payload.error_json("TASK_NOT_FOUND", None, f"no task {job.task!r} in this child's table"),
            )
        try:
            try:
                result = self._call(job, row)
            finally:
                self._deadline = None
                _flush()
                self._be_alone()
            return wire.FINISHED, False, payload.result_json(result)
        except (payload.TaskFailed, task.TaskError) as failure:
            return wire.FAILED, False, payload.error_json(failure.code, None, str(failure))
        except SoftTimeout as error:
            self._deadline = None
            retry = task.may_retry(error, row.retry_on, row.give_up_on, also="TimeoutError")
            return (
                wire.FAILED,
                retry,
                payload.error_json("TIMEOUT", error, f"ran longer than its soft timeout, {row.soft:g} s"),
            )
        except BaseException as error:  # noqa: BLE001 - whatever task code raises is an outcome
            return (
                wire.FAILED,
                task.may_retry(error, row.retry_on, row.give_up_on),
                payload.error_json("EXCEPTION", error),
            )

    def _call(self, job: wire.JobMessage, row: task.TaskRow) -> Any:
        """Call the task's function; under its soft timeout, imports included."""
        header = json.loads(job.header) if job.header else {}
        args, kwargs, options = payload.arguments(job.args)
        soft = header["timeout"]["soft"] if "timeout" in header else row.soft
        if row.pass_job:
            kwargs[row.pass_job] = _job_dict(job, {**options, **header}, soft)
        if self._fork:
            os.environ["FUSION_JOB_ID"] = job.id.decode()
        self._arm(soft)
        function = self._tasks.function(job.task)
        try:
            result = function(*args, **kwargs)
        except TypeError as error:
            # Raised at the call itself, not below: the arguments did not fit.
            if error.__traceback__ is not None and error.__traceback__.tb_next is None:
                payload.check_arguments(function, args, kwargs)
            raise
        if isinstance(result, CoroutineType):
            import asyncio

            return asyncio.run(result)
        return result

    def _be_alone(self) -> None:
        """
        Undo what of the job's would go on into the next one's.

        A fork of the job's that came back up to here must neither speak for its parent nor run what that one runs.
        """
        if os.getpid() != self._pid:
            os._exit(1)
        # Not signal.getsignal, which makes an enum of the answer: 40 pages, in each child.
        if not self._fork and _signal.getsignal(signal.SIGALRM) is not on_alarm:
            signal.signal(signal.SIGALRM, on_alarm)
            signal.setitimer(signal.ITIMER_REAL, 0)
            self._alarm_at = None

    # -- the soft timeout and the 5 ms, on one alarm ---------------------------------------------------------------

    def _arm(self, soft: float) -> None:
        """Set the deadline; the alarm is touched only where it would ring too late."""
        now = time.monotonic()
        self._deadline = now + soft
        self._ring_by(self._deadline if not self._outcomes else min(self._deadline, self._oldest + REPORT_WITHIN), now)

    def _ring_by(self, at: float, now: float) -> None:
        if self._alarm_at is None or at < self._alarm_at:
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
            raise SoftTimeout
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
            _write_all(self._fd, wire.outcomes_frame(outcomes))

    def _too_large(self) -> bool:
        limit = self._tasks.max_memory
        return limit is not None and resident_bytes() > limit


def on_alarm(_signal: int, _frame: FrameType | None) -> None:
    """The handler of SIGALRM, set once, before the forks."""
    if _serving is not None:
        _serving.on_alarm()


def rest() -> None:
    """Serve no more: the process goes on as what it was before."""
    global _serving  # noqa: PLW0603
    _serving = None
    signal.setitimer(signal.ITIMER_REAL, 0)
    os.environ.pop("FUSION_JOB_ID", None)


def _write_all(fd: int, data: bytes) -> None:
    while sent := os.write(fd, data):
        if sent == len(data):
            return
        data = data[sent:]


def resident_bytes() -> int:
    """Bytes of memory that this process has resident."""
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _job_dict(job: wire.JobMessage, options: dict[str, Any], soft: float) -> dict[str, Any]:
    """What `pass_job` hands to the function; `deadline` is epoch seconds."""
    return {
        "id": job.id.decode(),
        "attempt": job.attempt,
        "deadline": time.time() + soft,
        "key": options.get("key"),
        "meta": options.get("meta"),
    }


def _flush() -> None:
    """What the job printed leaves before its outcome does. Task code may have closed or replaced the streams."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:  # noqa: BLE001, S112 - its own stream, its own loss
            continue
