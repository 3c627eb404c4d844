"""
A one-job child: wait for one job, run it, say how it ended, end.

A program that has succeeded leaves nothing in the child that waited for it. Such a child takes another job.

Its way to the job's function is short on purpose; see run.py for what a function more would cost each job.

Standard library only, CPython 3.9 and later: it runs under the application's own interpreter.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import _socket
import json
import os
import posix
import struct
import sys
import time

from . import run, task, task_errors, tasklog, usage, wire

# Kept from before a task's module may replace them; and each look-up of a name in a module would have pages copied in
# each child.
_read, _close, _getpid, _putenv, _setitimer = posix.read, posix.close, posix.getpid, posix.putenv, _signal.setitimer
_used, _own, _below = usage.used, usage.own, usage.below
_monotonic_ns, _monotonic, _ITIMER_REAL = time.monotonic_ns, time.monotonic, _signal.ITIMER_REAL
#: what os.environ and os.environb keep their variables in: to set one by them takes four functions more
_variables: dict[bytes, bytes] = os.environ._data  # type: ignore[attr-defined]
#: bytes of a job at once, as nearly all have room in; memory for more would come from the kernel first
_MOST = 1 << 12
_ANOTHER = wire.frame(wire.ANOTHER, b"")
#: KiB; a child may grow by so much with its jobs, as each child does a little, and still take another one
_GROWN = 2048


class OneJobChild:
    """Made before the fork, alive after it."""

    # Slots and bare descriptors: few objects, so few pages that are copied.
    __slots__ = ("_deadline", "_streams", "_tasks", "page", "pid", "told")

    def __init__(self, page: wire.Page, tasks: task.Tasks) -> None:
        """A child that has not begun; `page`: where its slot's will be mapped."""
        self.page, self._tasks, self.told = page, tasks, b""
        #: monotonic seconds when the job's soft timeout is over
        self._deadline: float | None = None
        # They keep nothing back (see forkserver), so there is nothing to flush unless task code puts its own in place.
        self._streams = sys.stdout, sys.stderr

    def serve(self, fd: int, out: int) -> None:
        """
        Run one job, or programs and then one job; return when it has ended, or the dispatcher has closed the socket.

        Args:
            fd: the socket that the job comes on.
            out: descriptor of the output pipe, which 1 and 2 are as well; closed.
        """
        _close(out)
        run.serving, self.pid = self, _getpid()
        self.page.words[2] = self.pid  # no property: each call costs copies of pages here
        another, before, least = True, 0.0, _used()[1]
        while another:
            try:
                received = _read(fd, _MOST)
            except BlockingIOError:
                received = self._make_ready(fd)
            job = wire.read_one_job(received) or self._receive(fd, received)
            if job is None:
                return
            began = _monotonic_ns()
            if not self.page.begin(job[0], began):
                run.write_all(fd, wire.one_outcome_frame(b"", job[0], wire.RETURNED, False, 0.0, -1.0, 0))
                return
            kind, retry, payload = run.run(self, self._tasks, job)
            ran, (cpu, peak) = (_monotonic_ns() - began) / 1e9, _used()
            another = job[3] in self._tasks.commands and kind == wire.FINISHED and _is_as_forked(least)
            outcome = wire.one_outcome_frame(payload, job[0], kind, retry, ran, cpu - before, peak)
            run.write_all(fd, self.told + (_ANOTHER if another else b"") + outcome)
            self.told, before = b"", cpu

    def _make_ready(self, fd: int) -> bytes:
        """No job yet: have the pages copied now for which it would have to wait, 0.25 ms, and wait on."""
        try:
            rehearse(1)
        except OSError:
            pass  # no descriptor is left: the job will take longer
        run.serving = self
        _wait_for_ever(fd)
        return _read(fd, _MOST)

    def _receive(self, fd: int, received: bytes) -> wire.JobMessage | None:
        """The job, where it came in parts, behind a table, or is large; None: no more will come."""
        _wait_for_ever(fd)
        buffer, at = received, 0
        while received:
            while found := wire.cut(buffer, at):
                kind, start, at = found
                if kind == wire.TABLE:
                    self._tasks.replace(buffer[start:at])
                    tasklog.set_level(self._tasks.level)
                else:
                    return wire.read_jobs(buffer[start:at])[0]
            received = _read(fd, 1 << 16)
            buffer += received
        return None

    def begin(self, id_: bytes, soft: float) -> None:
        """Let the job know its id, and the alarm ring at its soft timeout."""
        _variables[b"FUSION_JOB_ID"] = id_
        _putenv(b"FUSION_JOB_ID", id_)
        self._deadline = _monotonic() + soft
        _setitimer(_ITIMER_REAL, soft if soft > 1e-6 else 1e-6)  # noqa: FURB136 - without another function

    def end(self) -> None:
        """A fork of the job's that came back up to here must not speak for its parent."""
        self._deadline = None
        if _getpid() != self.pid:
            posix._exit(1)
        if sys.stdout is not self._streams[0] or sys.stderr is not self._streams[1]:
            run.flush()

    def on_alarm(self) -> None:
        """Raise SoftTimeout in the task; an alarm of the task's own may have rung before."""
        if self._deadline is None:
            return
        left = self._deadline - _monotonic()
        if left <= 0:
            self._deadline = None
            raise task_errors.SoftTimeout
        _setitimer(_ITIMER_REAL, left)


def _is_as_forked(least: int) -> bool:
    """
    Whether this child can take another job: no process is left below it, and no job has needed much memory.

    The kernel tells only the peak of a process in its whole life, which would be taken for the next job's.

    `least`: KiB, the peak of this process before its first job. A large result, for example, raises it.
    """
    try:
        posix.waitpid(-1, posix.WNOHANG)
    except ChildProcessError:
        return _below[4] <= _own[4] <= least + _GROWN
    return False


def _wait_for_ever(fd: int) -> None:
    """Take back the patience of 10 ms that a one-job child's socket comes with (pool/child_socket.py)."""
    sock = _socket.socket(fileno=fd)
    sock.setsockopt(_socket.SOL_SOCKET, _socket.SO_RCVTIMEO, struct.pack("ll", 0, 0))
    sock.detach()
    # A default time-out, which a task's module may have set, is every new socket's.
    posix.set_blocking(fd, True)


#: a job that does nothing, and its task; made here, since a child would have 150 pages copied for it
_NOTHING = wire.lone_frame((1, 1, b"", b"", b"", b"[[],{}]"))
_ROW = ["builtins.dict", 60.0, (), (), (), None, True]
_DOES_NOTHING = task.Tasks(
    json.dumps({"tasks": {"": _ROW}, "max_jobs": None, "max_memory": None, "level": 30}).encode()
)


def rehearse(times: int = 20) -> None:
    """
    Run a job that does nothing, in this process, as a child would.

    The interpreter rewrites byte code when it has run a few times. Done here once, it is not done again in each child,
    which would have the page copied for it: measured on 3.11, a sixth fewer pages.
    """
    ours, theirs = _socket.socketpair()
    page = wire.Page(bytearray(wire.page_bytes(1)))
    page.allow(1, 1 << 63)
    for _ in range(times):
        ours.sendall(_NOTHING)
        OneJobChild(page, _DOES_NOTHING).serve(theirs.fileno(), posix.open(os.devnull, posix.O_WRONLY))
    run.stop_serving()
    for end in (ours, theirs):
        end.close()
    page.close()
