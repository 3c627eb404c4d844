"""
What jobs print in a child that runs many at once: each line with its job's mark.

1. know   the job by a context variable, which tasks and the child's own threads inherit
2. keep   the beginning of a line until its end is printed, or its job has ended
3. write  whole lines between two marks in one go, so that no other job's line stands among them

What a library in C, or a program that a job starts, writes to the descriptors has no mark: it belongs to no job.

Standard library only, CPython 3.9 and later: it runs under the application's own interpreter.
"""

from __future__ import annotations

import contextvars
import io
import posix
import sys
import threading

from . import tasklog

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: serial of the job whose code runs here; 0: none
serial: contextvars.ContextVar[int] = contextvars.ContextVar("fusion_job", default=0)

#: bytes; a longer line is written in parts
_LONGEST = 8192
_NO_JOB = b"\0000\n"

_lock = threading.Lock()


def install() -> None:
    """Have `sys.stdout` and `sys.stderr` mark what they write; before the tasks are loaded, which may keep them."""
    for name in ("stdout", "stderr"):
        old = getattr(sys, name)
        raw: Any = _Lines(old.fileno())
        stream = io.TextIOWrapper(raw, old.encoding, old.errors, write_through=True)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    posix.register_at_fork(after_in_child=_new_lock)
    tasklog.write = _write_lines


def _new_lock() -> None:
    """Another thread may have held it when a job forked."""
    global _lock
    _lock = threading.Lock()


def marked(lines: bytes, number: int) -> bytes:
    """These whole lines as the job's; 0: as no job's."""
    return b"\0%x\n%b%b" % (number, lines, _NO_JOB) if number else lines


def _write_lines(lines: bytes) -> None:
    """Write to standard error, as lines of the job whose code runs here."""
    with _lock:
        _write(2, marked(lines, serial.get()))


def end(number: int) -> None:
    """The job has ended: write the lines that it has begun."""
    for stream in _streams:
        stream.end(number)


class _Lines(io.RawIOBase):
    """A descriptor to which each job writes lines of its own."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        #: serial → the beginning of a line
        self._begun: dict[int, bytes] = {}
        _streams.append(self)

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._fd

    def isatty(self) -> bool:
        return False

    def write(self, data: Any) -> int:
        """Write the lines that this completes."""
        new, number = bytes(data), serial.get()
        with _lock:
            text = self._begun.pop(number, b"") + new
            cut = len(text) if len(text) > _LONGEST else text.rfind(b"\n") + 1
            if cut < len(text):
                self._begun[number] = text[cut:]
            if cut:
                self._pass_on(text[:cut], number)
        return len(new)

    def end(self, number: int) -> None:
        """Write the line that the job has begun."""
        if number in self._begun:
            with _lock:
                self._pass_on(self._begun.pop(number), number)

    def _pass_on(self, text: bytes, number: int) -> None:
        _write(self._fd, marked(text if text.endswith(b"\n") else text + b"\n", number))


_streams: list[_Lines] = []


def _write(fd: int, data: bytes) -> None:
    while data:
        try:
            data = data[posix.write(fd, data) :]
        except BlockingIOError:  # a program that a job has started has changed the pipe
            posix.set_blocking(fd, True)
