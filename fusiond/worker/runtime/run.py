"""
Run one job's function, and say how that went.

1. look    which function, which arguments, how long
2. call    it, under its soft timeout, imports included
3. tell    the result or the error as JSON, and whether another attempt may follow

Few functions, few objects: in a one-job child each page of memory that is written to on this way is copied for it, at
2.5 µs, and every object that is used is written to (its reference count).

Standard library only, CPython 3.9 and later: it runs under the application's own interpreter.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from types import CoroutineType

from . import errortext, payload, task, wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any, Protocol

    class Runner(Protocol):
        """A child, as a run sees it."""

        def begin(self, _id: bytes, soft: float, /) -> None:
            """The function is about to be called; it has so many seconds."""

        def end(self) -> None:
            """The function has ended, however it did."""

        def on_alarm(self) -> None:
            """Runs between two byte codes of the task."""


#: s; for an exception to be formatted
FORMAT_WITHIN = 5.0
#: the child that this process is, once it serves
serving: Runner | None = None


class SoftTimeout(BaseException):
    """The job's soft timeout is over: end, clean up, or be killed at the hard one."""

    __module__ = "fusiond"  # in a traceback the private package would only puzzle


def run(runner: Runner, tasks: task.Tasks, job: tuple[int, int, bytes, bytes, bytes, bytes]) -> tuple[int, bool, bytes]:
    """Run a job, given as JobMessage's fields: (kind, whether it may be retried, result or error as JSON)."""
    _, _, id_, name, header, raw = job
    row = tasks.rows.get(name)
    if row is None:
        unknown = payload.error_json("TASK_NOT_FOUND", None, f"no task {name!r} in this child's table")
        return wire.FAILED, False, unknown
    soft = row.soft
    try:
        try:
            args, kwargs, options = payload.arguments(raw)
            if header or row.pass_job:
                soft = _heed(wire.JobMessage._make(job), row, options, kwargs)
            runner.begin(id_, soft)
            function = tasks.function(name)
            try:
                result = function(*args, **kwargs)
            except TypeError as error:
                # Raised at the call itself, not below: the arguments did not fit.
                if (frames := errortext.frames(error)) is not None and frames.tb_next is None:
                    payload.check_arguments(function, args, kwargs)
                raise
            if isinstance(result, CoroutineType):
                import asyncio

                result = asyncio.run(result)
        finally:
            runner.end()
        return wire.FINISHED, False, payload.result_json(result if row.keeps_result else None)
    except BaseException as error:  # noqa: BLE001 - whatever task code raises is an outcome
        return _failure(runner, error, row, soft)


def _heed(job: wire.JobMessage, row: task.TaskRow, options: dict[str, Any], kwargs: dict[str, Any]) -> float:
    """What only some jobs have: a timeout of their own, and being told about; returns the soft timeout in seconds."""
    header = json.loads(job.header) if job.header else {}
    soft: float = header["timeout"]["soft"] if "timeout" in header else row.soft
    if row.pass_job:
        kwargs[row.pass_job] = _job_dict(job, {**options, **header}, soft)
    return soft


def _job_dict(job: wire.JobMessage, options: dict[str, Any], soft: float) -> dict[str, Any]:
    """What `pass_job` hands to the function; `deadline` is epoch seconds."""
    return {
        "id": job.id.decode(),
        "attempt": job.attempt,
        "deadline": time.time() + soft,
        "key": options.get("key"),
        "meta": options.get("meta"),
    }


def _failure(runner: Runner, error: BaseException, row: task.TaskRow, soft: float) -> tuple[int, bool, bytes]:
    """What the task has raised, whatever that does when it is formatted, which has a timeout of its own."""
    kind, code, also, words = type(error), "EXCEPTION", None, ""
    # Not isinstance, which asks the exception for its __class__.
    if issubclass(kind, (payload.TaskFailed, task.TaskError)):
        outcome = wire.UNLOADED if issubclass(kind, task.TaskError) else wire.FAILED
        return outcome, False, payload.error_json(error.code, None, errortext.message(error))  # type: ignore[attr-defined]
    if issubclass(kind, SoftTimeout):
        code, also, words = "TIMEOUT", "TimeoutError", f"ran longer than its soft timeout, {soft:g} s"
    retry = task.may_retry(error, row.retry_on, row.give_up_on, also=also)
    try:
        try:
            # Again and again: Python's own formatting goes on after whatever a part of the exception raises.
            signal.signal(signal.SIGALRM, _on_overrun)
            signal.setitimer(signal.ITIMER_REAL, FORMAT_WITHIN, FORMAT_WITHIN / 10)
            document = payload.error_json(code, error, words)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except BaseException:  # noqa: BLE001 - an overrun, wherever it was noticed
        signal.setitimer(signal.ITIMER_REAL, 0)
        words = words or f"(not formatted within {FORMAT_WITHIN:g} s)"
        document = payload.plain_error_json(code, errortext.type_name(kind), words)
    try:
        runner.end()
    except BaseException:  # noqa: BLE001, S110 - a stream of the task's cannot be flushed, as before
        pass
    return wire.FAILED, retry, document


def _on_overrun(_signal: int, _frame: FrameType | None) -> None:
    """An exception takes too long to be formatted."""
    raise SoftTimeout


def on_alarm(_signal: int, _frame: FrameType | None) -> None:
    """The handler of SIGALRM, set once, before the forks."""
    if serving is not None:
        serving.on_alarm()


def rest() -> None:
    """Serve no more: the process goes on as what it was before."""
    global serving  # noqa: PLW0603
    serving = None
    signal.setitimer(signal.ITIMER_REAL, 0)
    os.environ.pop("FUSION_JOB_ID", None)


def flush() -> None:
    """What the job printed leaves before its outcome does. Task code may have closed or replaced the streams."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:  # noqa: BLE001, S112 - its own stream, its own loss
            continue


def write_all(fd: int, data: bytes) -> None:
    """Write it all, however often the socket takes a part only."""
    while sent := os.write(fd, data):
        if sent == len(data):
            return
        data = data[sent:]
