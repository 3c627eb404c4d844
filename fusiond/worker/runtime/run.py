"""
Run one job's function, and say how that went.

1. look up  the function, the arguments, the timeout
2. call     the function under its soft timeout, which includes the import of its module
3. return   the result or the error as JSON, and whether another attempt may follow

There are few functions and few objects here on purpose. Every object that is used is written to (its reference count),
and each page of memory that a one-job child writes to is copied for it, at 2.5 µs.

Standard library only, CPython 3.9 and later: it runs under the application's own interpreter.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import functools
import json
import os
import posix
import sys
import time
from types import CoroutineType

from . import errortext, job_trace, passed_job, payload, task, task_errors, wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any, Callable, Protocol

    class Runner(Protocol):
        """What a child does before and after it runs a function."""

        #: where it says what no message could say in time
        page: wire.Page
        #: frames that go before the next outcome: how far jobs were at their end
        told: bytes
        #: of its process
        pid: int

        def begin(self, _id: bytes, soft: float, /) -> None:
            """The function is about to be called, with `soft` seconds as its timeout."""

        def end(self) -> None:
            """The function has returned or raised."""

        def on_alarm(self) -> None:
            """Runs between two byte codes of the task."""


# Each look-up of a name in a module would have pages copied in each child.
_write = posix.write
#: s; for an exception to be formatted
FORMAT_WITHIN = 5.0
#: the child that this process is, once it serves
serving: Runner | None = None


def run(runner: Runner, tasks: task.Tasks, job: wire.JobFields) -> tuple[int, int, bytes]:
    """Run a job, given as JobMessage's fields: (kind, what follows a failure, result or error as JSON)."""
    _, _, id_, name, header, raw = job
    row = tasks.rows.get(name)
    if row is None:
        unknown = payload.plain_error_json("TASK_NOT_FOUND", "", f"no task {name!r} in this child's table")
        return wire.FAILED, wire.GIVE_UP, unknown
    path, soft, _, _, _, pass_job, keeps_result = row
    leave = None
    try:
        try:
            args, kwargs, options = payload.arguments(raw)
            if header or pass_job:
                say = functools.partial(runner.page.report, 0)
                soft = apply_header(wire.JobMessage._make(job), row, options, kwargs, say)
            runner.begin(id_, soft)
            function = tasks.function(path)
            if b'"traceparent"' in header:
                leave = job_trace.enter(json.loads(header).get("traceparent"), alone=True)
            try:
                result = function(*args, **kwargs)
            except TypeError as error:
                # If the call itself has raised it, and no code of the task, the arguments did not fit.
                if (frames := errortext.frames(error)) is not None and frames.tb_next is None:
                    payload.check_arguments(function, args, kwargs)
                raise
            if result is not None and isinstance(result, CoroutineType):
                import asyncio

                result = asyncio.run(result)
        finally:
            runner.end()
            if leave is not None:
                leave()
            if pass_job:
                runner.told += runner.page.last_report(0, job[0])
        return wire.FINISHED, wire.GIVE_UP, payload.result_json(result, keep=keeps_result)
    except BaseException as error:  # noqa: BLE001 - whatever task code raises is an outcome
        return _failure(runner, error, tasks.row_of_call(row, header), soft)


def apply_header(
    job: wire.JobMessage,
    row: task.TaskRow,
    options: dict[str, Any],
    kwargs: dict[str, Any],
    say: Callable[[int, float, str], None],
) -> float:
    """
    The soft timeout in seconds, the job's own if it has one; `pass_job` adds what the function learns of its job.

    `say`: called with the job's serial and how far it is.
    """
    header = json.loads(job.header) if job.header else {}
    soft: float = header["timeout"]["soft"] if "timeout" in header else row.soft
    if row.pass_job:
        own = {name: {**options, **header}.get(name) for name in ("key", "meta", "traceparent")}
        job_id, round_ = job.id.decode(), header.get("round", 1)
        known = {"id": job_id, "round": round_, "attempt": job.attempt, "deadline": time.time() + soft, **own}
        kwargs[row.pass_job] = passed_job.PassedJob(known, functools.partial(say, job.serial))
    return soft


def _failure(runner: Runner, error: BaseException, row: task.TaskRow, soft: float) -> tuple[int, int, bytes]:
    """The outcome of a job that has raised; formatting the exception may run code of the task, for a limited time."""
    known = own_failure(error)
    if known is not None:
        return known
    if type(error) is task_errors.ProgramFailed and error.status < 0:
        # It counts as a crash, like the death of a process that runs a function.
        if -error.status not in (9, 19):  # SIGKILL and SIGSTOP have no handler
            _signal.signal(-error.status, _signal.SIG_DFL)
        posix.kill(posix.getpid(), -error.status)
    code, words, follows = cause(error, row, soft)
    try:
        try:
            # The alarm repeats, since Python's own formatting goes on after a part of the exception has raised.
            _signal.signal(_signal.SIGALRM, _on_overrun)
            _signal.setitimer(_signal.ITIMER_REAL, FORMAT_WITHIN, FORMAT_WITHIN / 10)
            document = payload.error_json(code, error, words, with_delay=bool(follows))
        finally:
            _signal.setitimer(_signal.ITIMER_REAL, 0)
    except BaseException as failure:  # noqa: BLE001 - an overrun, wherever it was noticed, or a module that does not load
        _signal.setitimer(_signal.ITIMER_REAL, 0)
        why = f"(not formatted within {FORMAT_WITHIN:g} s)"
        if not issubclass(type(failure), task_errors.SoftTimeout):
            why = f"(not formatted: {errortext.type_name(type(failure))}: {errortext.message(failure)})"
        words = words or why
        document = payload.plain_error_json(code, errortext.type_name(type(error)), words)
    try:
        runner.end()
    except BaseException:  # noqa: BLE001, S110 - a stream of the task's cannot be flushed, as before
        pass
    return wire.FAILED, follows, document


def own_failure(error: BaseException) -> tuple[int, int, bytes] | None:
    """The outcome where this package has raised: the function does not load, or the arguments do not fit."""
    kind = type(error)
    # Not isinstance, which asks the exception for its __class__.
    if not issubclass(kind, (payload.TaskFailed, task_errors.TaskError)):
        return None
    outcome = wire.UNLOADED if issubclass(kind, task_errors.TaskError) else wire.FAILED
    return outcome, wire.GIVE_UP, payload.plain_error_json(error.code, "", errortext.message(error))  # type: ignore[attr-defined]


def cause(error: BaseException, row: task.TaskRow, soft: float) -> tuple[str, str, int]:
    """Of what the task has raised: the code, the words where they are ours, what follows."""
    code, also, words = "EXCEPTION", None, ""
    if issubclass(type(error), task_errors.SoftTimeout):
        code, also, words = "TIMEOUT", "TimeoutError", f"ran longer than its soft timeout, {soft:g} s"
    return code, words, task.what_next(error, row, also=also)


def _on_overrun(_number: int, _frame: FrameType | None) -> None:
    """An exception takes too long to be formatted."""
    raise task_errors.SoftTimeout


def on_alarm(_number: int, _frame: FrameType | None) -> None:
    """The handler of SIGALRM, set once, before the forks; in a process that a job has forked, the default action."""
    if serving is not None and serving.pid == posix.getpid():
        serving.on_alarm()
    elif serving is not None:
        _signal.signal(_signal.SIGALRM, _signal.SIG_DFL)
        posix.kill(posix.getpid(), _signal.SIGALRM)


def stop_serving() -> None:
    """Serve no more: the process goes on as what it was before."""
    global serving
    serving = None
    _signal.setitimer(_signal.ITIMER_REAL, 0)
    os.environ.pop("FUSION_JOB_ID", None)


def flush() -> None:
    """Write what the job has printed, before its outcome. Task code may have closed or replaced the streams."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:  # noqa: BLE001, S112 - a stream of the task's own
            continue


def write_all(fd: int, data: bytes) -> None:
    """Write it all, however often the socket takes a part only."""
    while sent := _write(fd, data):
        if sent == len(data):
            return
        data = data[sent:]
