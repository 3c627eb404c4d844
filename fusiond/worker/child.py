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

import json
import os
import signal
import sys
import time
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Callable, NamedTuple

from . import task, wire

if TYPE_CHECKING:
    from types import FrameType

#: s; an outcome does not wait longer than this in the child
REPORT_WITHIN = 0.005
#: bytes; what is kept of a message and of a traceback (its end, where the error is)
MAX_MESSAGE, MAX_TRACEBACK = 4096, 16384

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_scan = json.JSONDecoder().scan_once  # type: ignore[attr-defined]
_monotonic_ns = time.monotonic_ns


#: the child that this process is, once it serves
_serving: Child | None = None


class SoftTimeout(BaseException):
    """The job's soft timeout is over: end, clean up, or be killed at the hard one."""


class Settings(NamedTuple):
    """What the group wants of each of its children."""

    #: a fresh child for each job
    fork: bool
    max_jobs: int | None
    #: bytes
    max_memory: int | None


class TaskRow(NamedTuple):
    """What a child must know of a task."""

    run: str
    #: s
    soft: float
    retry_on: tuple[str, ...]
    give_up_on: tuple[str, ...]
    pass_job: str | None


class TaskFailed(Exception):  # noqa: N818 - what the job did, not what went wrong here
    """A failure that has a code of its own and is not retried."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        super().__init__(message)


class Tasks:
    """The table, and the functions that were loaded for it; made by the fork server, copied by each fork."""

    def __init__(self, body: bytes) -> None:
        """`body`: of a TABLE frame."""
        self.replace(body)

    def replace(self, body: bytes) -> None:
        """Follow a new table; a path that did not change keeps its function."""
        self.rows = {name.encode(): TaskRow(*row) for name, row in json.loads(body).items()}
        self._functions: dict[bytes, Callable[..., Any]] = {}

    def function(self, name: bytes) -> Callable[..., Any]:
        """The function of a task that is in the table. Raises TaskError."""
        found = self._functions.get(name)
        if found is None:
            found = self._functions[name] = task.load(self.rows[name].run)
        return found


class Child:
    """One child, from its first job to its last; made before the fork, alive after it."""

    # Slots, a bare descriptor, few objects: each page that is written to on the way to the task is copied for it.
    __slots__ = (
        "_alarm_at",
        "_deadline",
        "_done",
        "_fd",
        "_oldest",
        "_outcomes",
        "_page",
        "_pid",
        "_quick",
        "_settings",
        "_tasks",
        "out",
    )

    def __init__(self, out: int, page: wire.Page, tasks: Tasks, settings: Settings) -> None:
        """`out`: descriptor of the output pipe, for the marks; task code has the same pipe as 1 and 2."""
        self.out, self._page, self._tasks, self._settings = out, page, tasks, settings
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
                elif not self._batch(buffer[start:at]):
                    return
            buffer = buffer[at:]

    def _batch(self, body: bytes) -> bool:
        """Run a batch; False: this child is to be replaced. What it has not begun the dispatcher takes back."""
        goes_on = True
        for job in wire.read_jobs(body):
            self._run(job)
            self._done += 1
            if self._settings.fork or self._done == self._settings.max_jobs:
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
        if not self._page.begin(job.serial, _monotonic_ns()):
            self._keep(wire.OutcomeMessage(job.serial, wire.RETURNED, False, 0.0, b""))
            return
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
            return wire.FAILED, False, _error("TASK_NOT_FOUND", None, f"no task {job.task!r} in this child's table")
        try:
            try:
                result = self._call(job, row)
            finally:
                self._deadline = None
                _flush()
            return wire.FINISHED, False, _result(result)
        except (TaskFailed, task.TaskError) as failure:
            return wire.FAILED, False, _error(failure.code, None, str(failure))
        except SoftTimeout as error:
            self._deadline = None
            retry = task.may_retry(error, row.retry_on, row.give_up_on, also="TimeoutError")
            return wire.FAILED, retry, _error("TIMEOUT", error, f"ran longer than its soft timeout, {row.soft:g} s")
        except BaseException as error:  # noqa: BLE001 - whatever task code raises is an outcome
            return wire.FAILED, task.may_retry(error, row.retry_on, row.give_up_on), _error("EXCEPTION", error)

    def _call(self, job: wire.JobMessage, row: TaskRow) -> Any:
        """Call the task's function; under its soft timeout, imports included."""
        header = json.loads(job.header) if job.header else {}
        args, kwargs, options = _arguments(job.args)
        soft = header["timeout"]["soft"] if "timeout" in header else row.soft
        if row.pass_job:
            kwargs[row.pass_job] = _job_dict(job, {**options, **header}, soft)
        if self._settings.fork:
            os.environ["FUSION_JOB_ID"] = job.id.decode()
        self._arm(soft)
        function = self._tasks.function(job.task)
        try:
            result = function(*args, **kwargs)
        except TypeError as error:
            # Raised at the call itself, not below: the arguments did not fit.
            if error.__traceback__ is not None and error.__traceback__.tb_next is None:
                _check_arguments(function, args, kwargs)
            raise
        if isinstance(result, CoroutineType):
            import asyncio

            return asyncio.run(result)
        return result

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
        if os.getpid() != self._pid:
            os._exit(1)  # a fork of the task's own came back up to here: it must not speak for its parent
        if outcomes:
            _write_all(self._fd, wire.outcomes_frame(outcomes))

    def _too_large(self) -> bool:
        limit = self._settings.max_memory
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


def _decode(raw: bytes) -> Any:
    """JSON out of UTF-8; the scanner in C alone, where nothing stands around the value. Raises ValueError."""
    text = raw.decode()
    try:
        value, end = _scan(text, 0)
    except StopIteration:
        end = -1
    return value if end == len(text) else json.loads(text)


def _arguments(raw: bytes) -> tuple[list[Any], dict[str, Any], dict[str, Any]]:
    """Args, kwargs, and the other keys of an object that came through the inbox, out of raw JSON."""
    rest: dict[str, Any] = {}
    try:
        value = _decode(raw)
        if isinstance(value, dict):
            rest, value = value, [value.get("args", []), value.get("kwargs", {})]
        args, kwargs = value
    except (ValueError, TypeError) as error:
        raise TaskFailed("BAD_ARGUMENTS", f"the arguments are not JSON of [args, kwargs]: {error}") from None
    if not isinstance(args, list) or not isinstance(kwargs, dict):
        raise TaskFailed("BAD_ARGUMENTS", "args must be a list and kwargs an object")
    return args, kwargs, rest


def _check_arguments(function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> None:
    """Raise TaskFailed where the arguments do not fit the signature."""
    import inspect

    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some built-ins have none
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        raise TaskFailed("BAD_ARGUMENTS", f"{function.__name__}{signature}: {error}") from None


def _job_dict(job: wire.JobMessage, options: dict[str, Any], soft: float) -> dict[str, Any]:
    """What `pass_job` hands to the function; `deadline` is epoch seconds."""
    return {
        "id": job.id.decode(),
        "attempt": job.attempt,
        "deadline": time.time() + soft,
        "key": options.get("key"),
        "meta": options.get("meta"),
    }


def _result(value: Any) -> bytes:
    """The result as JSON. Raises TaskFailed."""
    if value is None:
        return b"null"
    try:
        raw: bytes = _encode(value).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise TaskFailed("RESULT_NOT_SERIALIZABLE", f"the result is not JSON: {error}") from None
    if len(raw) > wire.MAX_RESULT:
        raise TaskFailed("RESULT_TOO_LARGE", f"the result has {len(raw)} bytes; at most {wire.MAX_RESULT} are kept")
    return raw


def _error(code: str, error: BaseException | None, message: str = "") -> bytes:
    """The error as JSON, bounded."""
    try:
        message = message or str(error)
    except BaseException as broken:  # noqa: BLE001 - an exception may fail to describe itself
        message = f"({type(broken).__name__} in its own __str__)"
    name, text = "", ""
    if error is not None:
        import traceback

        kind = type(error)
        name = kind.__qualname__
        if kind.__module__ not in ("builtins", __name__):
            name = f"{kind.__module__}.{name}"
        lines = traceback.format_exception(kind, error, _own_frames_off(error))
        # The frame that raises a soft timeout is ours as well; it stands last but for the exception itself.
        text = "".join(line for line in lines if not line.startswith(f'  File "{__file__}"'))[-MAX_TRACEBACK:]
    document = {"code": code, "type": name, "message": message[:MAX_MESSAGE], "traceback": text}
    return json.dumps(document).encode()


def _own_frames_off(error: BaseException) -> Any:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    return trace


def _flush() -> None:
    """What the job printed leaves before its outcome does. Task code may have closed or replaced the streams."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:  # noqa: BLE001, S112 - its own stream, its own loss
            continue
