"""
The jobs of a child that runs many at once, and the threads in which the plain functions among them run.

A job that is to stop before its end gets an exception: a task of the event loop is cancelled, and in a thread
CPython's `PyThreadState_SetAsyncExc` raises it between two byte codes.

Standard library only, CPython 3.9 and later: it runs under the application's own interpreter.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import ctypes
import functools
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import CoroutineType

from . import command, errortext, payload, run, task_errors, wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Callable

    from . import task

NEVER = float("inf")

_raise_in_thread = ctypes.pythonapi.PyThreadState_SetAsyncExc


class Canceled(BaseException):
    """The job was canceled: the task should clean up and end before it is killed at its hard timeout."""

    __module__ = "fusiond"


class ConcurrentJob:
    """One job that runs."""

    __slots__ = (
        "began", "cell", "deadline", "is_interrupted", "message", "soft", "stopped_by", "task", "thread", "timer",
    )  # fmt: skip

    def __init__(self, message: wire.JobMessage, cell: int) -> None:
        self.message, self.began = message, time.monotonic()
        #: of the page, where it says how far it is
        self.cell = cell
        #: s; its soft timeout, and when that is over, while task code runs
        self.soft, self.deadline = 0.0, NEVER
        #: the exception that says why it is stopped, and the timer that stops it
        self.stopped_by: type[BaseException] | None = None
        self.timer: asyncio.TimerHandle | None = None
        #: the alarm has raised SoftTimeout in it
        self.is_interrupted = False
        #: what runs it now: the task that awaits its coroutine, or a thread
        self.task: asyncio.Task[Any] | None = None
        self.thread: int | None = None

    def raise_if_stopped(self) -> None:
        """Raise what says why it is stopped, if it is."""
        if self.stopped_by:
            raise self.stopped_by


class JobThreads:
    """The threads of one child."""

    def __init__(self, most: int, *, run_coroutines: bool) -> None:
        """`most`: so many at once; `run_coroutines`: a coroutine that a function returns runs in its thread, too."""
        self._threads, self._run_coroutines = ThreadPoolExecutor(most, "fusion"), run_coroutines
        #: thread → the job that runs in it
        self._jobs: dict[int, ConcurrentJob] = {}
        command.uninterrupted = self._uninterrupted
        #: guards `ConcurrentJob.thread`, so that an exception for one job never meets the next one in the same thread
        self._lock = threading.Lock()

    async def call(
        self, job: ConcurrentJob, function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]
    ) -> Any:
        """What the function returns, or raises."""
        work = functools.partial(contextvars.copy_context().run, self._work, job, function, args, kwargs)
        result, error = await asyncio.get_running_loop().run_in_executor(self._threads, work)
        if error is not None:
            raise error
        return result

    def stop(self, job: ConcurrentJob, by: type[BaseException]) -> None:
        """Raise this exception in the job's thread; nothing if no thread runs it."""
        with self._lock:
            if job.thread is not None:
                _raise_in_thread(ctypes.c_ulong(job.thread), ctypes.py_object(by))

    @contextlib.contextmanager
    def _uninterrupted(self) -> Iterator[None]:
        """A block of the job in this thread that nothing stops before its end."""
        thread = threading.get_ident()
        job = self._jobs[thread]
        with self._lock:
            job.thread = None
        _raise_in_thread(ctypes.c_ulong(thread), None)
        try:
            yield
        finally:
            with self._lock:
                job.thread = thread
            job.raise_if_stopped()

    def _work(
        self, job: ConcurrentJob, function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]
    ) -> tuple[Any, BaseException | None]:
        """
        In a thread: what the function returns, and what it raises.

        The exception is returned, since a future cannot have each one: StopIteration, for example.
        """
        result, failure = None, None
        try:
            try:
                with self._lock:
                    job.thread = threading.get_ident()
                self._jobs[job.thread] = job
                job.raise_if_stopped()
                result = call(function, args, kwargs)
                if self._run_coroutines and isinstance(result, CoroutineType):
                    result = asyncio.run(result)
            except BaseException as error:  # noqa: BLE001 - whatever task code raises is an outcome
                failure = error
        except (task_errors.SoftTimeout, Canceled) as error:  # it came a moment later
            failure = failure or error
        while True:
            try:
                with self._lock:
                    job.thread = None
                # One that is on its way must not meet the next job of this thread.
                _raise_in_thread(ctypes.c_ulong(threading.get_ident()), None)
            except (task_errors.SoftTimeout, Canceled):
                continue
            return result, failure


def call(function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Call the function. Raises TaskFailed where the arguments do not fit."""
    try:
        return function(*args, **kwargs)
    except TypeError as error:
        # If the call itself has raised it, and no code of the task, the arguments did not fit.
        if (frames := errortext.frames(error)) is not None and frames.tb_next is None:
            payload.check_arguments(function, args, kwargs)
        raise


def described(error: BaseException, row: task.TaskRow, soft: float) -> tuple[int, int, bytes]:
    """The outcome of a job that has raised: (kind, what follows, the error as JSON)."""
    try:
        known = run.own_failure(error)
        if known is not None:
            return known
        code, words, follows = run.cause(error, row, soft)
        delay = follows != wire.GIVE_UP
        return wire.FAILED, follows, payload.error_json(code, error, words, with_delay=delay)
    except BaseException as broken:  # noqa: BLE001 - an exception of the task's that cannot be formatted
        name = errortext.type_name(type(error))
        words = f"(cannot be formatted: {errortext.type_name(type(broken))})"
        return wire.FAILED, wire.GIVE_UP, payload.plain_error_json("EXCEPTION", name, words)
