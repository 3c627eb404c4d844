"""
A child that runs many jobs at once, in one event loop and its threads.

1. take    jobs from the socket, and begin them in their order, as many at once as the group's `concurrency`
2. run     a coroutine as a task of the loop, a plain function in a thread; with `executor: thread` each in a thread
3. stop    a job whose soft timeout is over, or that the dispatcher wants to end: a task is cancelled, and in a thread
           an exception is raised. The other jobs go on
4. report  the outcomes of one turn of the loop in one message
5. tell    on the page, when the loop has last turned, and, by a thread that watches it, which job keeps it from turning
6. end     with the last job, after the group's `max_jobs`, or above its `max_memory`; what was not begun goes back

Knows tasks and one socket. No Redis; of a task's policies it knows exception names only.

Standard library only, CPython 3.9 and later: it runs under the application's own interpreter.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import _thread
import asyncio
import contextvars
import functools
import inspect
import json
import posix
import queue
import sys
import threading
import time
from collections import deque
from types import CoroutineType

from . import errortext, job_output, job_trace, payload, run, task_errors, tasklog, wire
from .child import resident_bytes
from .job_threads import NEVER, Canceled, ConcurrentJob, JobThreads, call, described
from .loop_socket import LoopSocket, new_loop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from . import task

# Kept from before a task's module may replace them.
_monotonic, _monotonic_ns = time.monotonic, time.monotonic_ns
_start_thread, _new_lock, _sleep = _thread.start_new_thread, _thread.allocate_lock, time.sleep
#: what the threads of jobs are made of
_THREADS: tuple[tuple[Any, str], ...] = (_thread, "start_new_thread"), (threading, "Lock"), (queue, "SimpleQueue")
_OWN = [getattr(module, name) for module, name in _THREADS]
_RUN_HANDLE = asyncio.Handle._run.__code__
#: s; between two looks at the resident memory, and between two signs of life of the loop
_LOOK, _BEAT = 0.1, 0.5
#: s; if the loop has not turned for so long, the job that runs in it is named on the page
_BLOCKED = 1.0


class ConcurrentChild:
    """One child, from its first job to its last; made before the fork, alive after it."""

    def __init__(self, page: wire.Page, tasks: task.Tasks, concurrency: int, *, all_in_threads: bool) -> None:
        """
        A child that has not begun.

        Args:
            page: where its slot's will be mapped.
            tasks: the table.
            concurrency: how many jobs it runs at once.
            all_in_threads: no job is a task of the loop.
        """
        self.page, self._tasks, self._concurrency, self._all_in_threads = page, tasks, concurrency, all_in_threads
        #: handed out and not begun; serial → job of those that run
        self._waiting: deque[wire.JobMessage] = deque()
        self._running: dict[int, ConcurrentJob] = {}
        #: the cells of the page that no running job has
        self._cells = list(range(concurrency))
        self._outcomes: list[wire.OutcomeMessage] = []
        #: frames that go before them: how far jobs were at their end
        self.told = b""
        #: jobs that it has begun; it begins no more
        self._begun, self._is_ending = 0, False
        self._looked_at = 0.0
        #: path → whether its function is awaited in the loop
        self._awaited: dict[str, bool] = {}
        self._beat: asyncio.TimerHandle | None = None
        #: the thread that watches the loop waits for it while there are no jobs; None: no job runs in the loop
        self._idle = None if all_in_threads else _new_lock()

    def open(self) -> asyncio.AbstractEventLoop:
        """The loop, made behind the fork."""
        self._loop = new_loop()
        self._threads = JobThreads(self._concurrency, run_coroutines=self._all_in_threads)
        return self._loop

    def serve(self, fd: int, out: int) -> None:
        """
        Run jobs until the dispatcher closes the socket, or this child is to be replaced.

        Args:
            fd: the socket on which jobs come.
            out: descriptor of the output pipe, which 1 and 2 are as well; closed.
        """
        posix.close(out)
        self.pid, run.serving = posix.getpid(), self
        self._socket = LoopSocket(self._loop, fd, self._on_messages, self._on_sent, self._end)
        self.page.words[2] = self.pid
        self._is_over, self._context = False, contextvars.copy_context()
        if self._idle:
            self._idle.acquire()
            _start_thread(self._watch, (_thread.get_ident(),))
        while not self._is_over:
            try:
                self._loop.run_forever()
            except (SystemExit, KeyboardInterrupt):
                continue  # of a task that a job has started: it ends that task alone

    def _end(self) -> None:
        self._is_over = True
        self._loop.stop()

    def _on_messages(self, messages: list[tuple[bytes, bytes]]) -> None:
        for kind, body in messages:
            if kind == wire.JOBS:
                self._waiting.extend(wire.read_jobs(body))
            elif kind == wire.STOP:
                self._stop(wire.read_stop(body), Canceled)
            else:
                self._tasks.replace(body)
                self._awaited.clear()
                tasklog.set_level(self._tasks.level)
        self._begin_next()

    def _on_sent(self) -> None:
        if self._is_ending and not (self._running or self._outcomes or self._socket.has_unsent):
            self._end()

    def _report(self) -> None:
        outcomes, self._outcomes = self._outcomes, []
        told, self.told = self.told, b""
        self._socket.send(told + wire.outcomes_frame(outcomes))

    def _keep(self, outcome: wire.OutcomeMessage) -> None:
        if not self._outcomes:
            self._loop.call_soon(self._report)
        self._outcomes.append(outcome)

    # -- which jobs run ----------------------------------------------------------------------------------------------

    def _begin_next(self) -> None:
        """Begin what waits, as far as there is room; give it back if this child is to end."""
        waiting = self._waiting
        while waiting and (self._is_ending or len(self._running) < self._concurrency):
            message = waiting.popleft()
            if not self.page.begin(message.serial, _monotonic_ns()) or self._is_ending:
                self._keep(wire.OutcomeMessage(message.serial, wire.RETURNED, wire.GIVE_UP, 0.0, b""))
                continue
            job = self._running[message.serial] = ConcurrentJob(message, self._cells.pop())
            # A job that begins when another ends must not inherit what that one has set in its context.
            self._context.run(self._loop.create_task, self._run(job))
            self._begun += 1
            if self._is_worn():
                self._is_ending = True
                self._socket.send(wire.frame(wire.ENDING, b""))
        if self._running and self._beat is None:
            self._keep_beating()

    def _is_worn(self) -> bool:
        """Whether it has had its jobs, or is too large."""
        most, limit = self._tasks.max_jobs, self._tasks.max_memory
        if most is not None and self._begun >= most:
            return True
        if limit is None or _monotonic() - self._looked_at < _LOOK:
            return False
        self._looked_at = _monotonic()
        return resident_bytes() > limit

    def _keep_beating(self) -> None:
        """Say that the loop turns."""
        words = self.page.words
        words[3], words[4] = 0, _monotonic_ns()
        is_busy = bool(self._running)
        self._beat = self._loop.call_later(_BEAT, self._keep_beating) if is_busy else None
        _signal.signal(_signal.SIGALRM, run.on_alarm)
        if is_busy and self._idle and self._idle.locked():
            self._idle.release()

    def _watch(self, loop_thread: int) -> None:
        """
        In a thread: name the job that keeps the loop from turning, and interrupt it once its soft timeout is over.

        No alarm rings before that: it would interrupt system calls of the job, which C libraries take for an error.
        """
        words = self.page.words
        while self._idle and self._idle.acquire():
            while self._running:
                _sleep(_BEAT / 2)
                if _monotonic_ns() - words[4] < _BLOCKED * 1e9:
                    continue
                job = self._running.get(_serial_in(loop_thread))
                words[3] = job.message.serial if job else 0
                if job and _monotonic() >= job.deadline and not job.is_interrupted:
                    _signal.pthread_kill(loop_thread, _signal.SIGALRM)

    # -- one job -------------------------------------------------------------------------------------------------------

    async def _run(self, job: ConcurrentJob) -> None:
        """Run a begun job, and keep its outcome."""
        serial = job.message.serial
        job_output.serial.set(serial)
        kind, follows, document = await self._outcome(job)
        if posix.getpid() != self.pid:  # a fork that the job has made
            posix._exit(1)
        job_output.end(serial)
        self._keep(wire.OutcomeMessage(serial, kind, follows, _monotonic() - job.began, document))
        del self._running[serial]
        self._cells.append(job.cell)
        self._begin_next()

    async def _outcome(self, job: ConcurrentJob) -> tuple[int, int, bytes]:
        """Run the function: (kind, what follows a failure, result or error as JSON)."""
        message = job.message
        row = self._tasks.rows.get(message.task)
        if row is None:
            unknown = payload.plain_error_json("TASK_NOT_FOUND", "", f"no task {message.task!r} in this child's table")
            return wire.FAILED, wire.GIVE_UP, unknown
        job.soft = row.soft
        try:
            args, kwargs, options = payload.arguments(message.args)
            if message.header or row.pass_job:
                say = functools.partial(self.page.report, job.cell)
                job.soft = run.apply_header(message, row, options, kwargs, say)
            function = self._tasks.function(row.run)
            if b'"traceparent"' in message.header:
                # Of the job's own task of the event loop; its thread gets a copy.
                job_trace.enter(json.loads(message.header).get("traceparent"), alone=False)
            try:
                job.deadline = job.began + job.soft
                job.timer = self._loop.call_at(job.deadline, self._stop, message.serial, task_errors.SoftTimeout)
                if self._is_awaited(row.run, function):
                    result = await self._awaitable(job, call(function, args, kwargs))
                else:
                    result = await self._threads.call(job, function, args, kwargs)
                    # A plain function may return a coroutine, too; with `executor: thread` it has run in its thread.
                    if isinstance(result, CoroutineType) and not self._all_in_threads:
                        result = await self._awaitable(job, result)
            finally:
                job.deadline, job.task = NEVER, None
                if row.pass_job:
                    self.told += self.page.last_report(job.cell, message.serial)
                if job.timer is not None:
                    job.timer.cancel()
            return wire.FINISHED, wire.GIVE_UP, payload.result_json(result, keep=row.keeps_result)
        except BaseException as error:  # noqa: BLE001 - whatever task code raises is an outcome
            return self._failure(job, error, self._tasks.row_of_call(row, message.header))

    @staticmethod
    def _awaitable(job: ConcurrentJob, coroutine: CoroutineType[Any, Any, Any]) -> CoroutineType[Any, Any, Any]:
        """What the job's task awaits now, unless the job is to stop already."""
        if job.stopped_by:
            coroutine.close()
        job.raise_if_stopped()
        job.task = asyncio.current_task()
        return coroutine

    def _is_awaited(self, path: str, function: Callable[..., Any]) -> bool:
        known = self._awaited.get(path)
        if known is None:
            # A partial or a method counts as its function; an object is called by its class.
            called = (function, getattr(type(function), "__call__", None))  # noqa: B004
            coroutine = any(map(inspect.iscoroutinefunction, called))
            known = self._awaited[path] = coroutine and not self._all_in_threads
        return known

    def _failure(self, job: ConcurrentJob, error: BaseException, row: task.TaskRow) -> tuple[int, int, bytes]:
        """The outcome of a job that has raised."""
        stopped_by = job.stopped_by
        if stopped_by and isinstance(error, (stopped_by, asyncio.CancelledError)):
            if stopped_by is Canceled:
                return wire.STOPPED, wire.GIVE_UP, b""
            error = stopped_by().with_traceback(errortext.frames(error))
        return described(error, row, job.soft)

    # -- stop ----------------------------------------------------------------------------------------------------------

    def _stop(self, serial: int, by: type[BaseException]) -> None:
        """Have a job end, by this exception; nothing if it has ended or is being stopped already."""
        job = self._running.get(serial)
        if job is None or job.stopped_by is by:
            return
        job.stopped_by = by
        if job.task:
            job.task.cancel()
            return
        self._threads.stop(job, by)

    def on_alarm(self) -> None:
        """End the job that keeps the loop, if its soft timeout is over; runs between two byte codes of that job."""
        job = self._running.get(job_output.serial.get())
        if job and _monotonic() >= job.deadline and not job.is_interrupted:
            job.is_interrupted = True
            raise task_errors.SoftTimeout

    # -- what run.py asks of a child ------------------------------------------------------------------------------

    def begin(self, _id: bytes, _soft: float) -> None:
        """No job has the whole process."""

    def end(self) -> None:
        """No job has had the whole process."""


def replaced_by() -> str:
    """What a module has replaced that the threads of jobs need, as a sentence; empty: nothing."""
    for (module, name), own in zip(_THREADS, _OWN):
        if (new := getattr(module, name, None)) is not own:
            who = str(getattr(new, "__module__", None) or "a module of a task").partition(".")[0]
            what = f"{who} has replaced {module.__name__}.{name}"
            return f"{what}, which `executor: thread` and `executor: asyncio` need; write `executor: sync`"
    return ""


def _serial_in(thread: int) -> int:
    """Serial of the job whose code runs in the event loop of this thread; 0: none is known."""
    frame = sys._current_frames().get(thread)
    while frame is not None and frame.f_code is not _RUN_HANDLE:
        frame = frame.f_back
    return frame.f_locals["self"]._context.get(job_output.serial, 0) if frame else 0
