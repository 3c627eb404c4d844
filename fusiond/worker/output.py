"""
What a child prints, as lines with the job's id and the level of the log.

A child that is reused writes a mark, NUL and the job's serial in hex, before each job; whatever stands between two
marks was printed during the first one's job, by Python, by a library in C or by a program that the job started. What a
child of one job prints is that job's.

A line that a task logged is marked too (tasklog.py): NUL, L, the number of its level, a space and the line.
"""

from __future__ import annotations

import array
import fcntl
import logging
import os
import termios
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

#: bytes of one line; a longer one is cut into several
MAX_LINE = 8192
#: bytes that wait for us at most, and that are read at once. A line costs 20 µs: at two bytes a line, as `yes` prints
#: them, a drain takes 0.2 s and a read 50 ms
_PIPE, _CHUNK = 1 << 14, 1 << 12


class Output:
    """One slot's output pipe: the dispatcher reads, one child after another writes."""

    #: called with the serial of each mark
    on_mark: Callable[[int], None]
    #: called with each line, and its level in the log
    on_line: Callable[[str, int], None]

    def __init__(self) -> None:
        self.reader, self.writer = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self.reader, False)
        fcntl.fcntl(self.reader, fcntl.F_SETPIPE_SZ, _PIPE)
        self._rest = b""

    def read(self, most: int = _CHUNK) -> int:
        """Take what is there, at most so many bytes; returns their number."""
        try:
            data = os.read(self.reader, most)
        except BlockingIOError:
            return 0
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._line(line)
        if len(self._rest) > MAX_LINE:
            self._line(self._rest)
            self._rest = b""
        return len(data)

    def drain(self) -> None:
        """
        Take all that was printed so far, a last line without its end included.

        What is printed meanwhile stays: something that prints without end must not hold up an outcome.
        """
        size = array.array("i", [0])
        fcntl.ioctl(self.reader, termios.FIONREAD, size)
        left = size[0]
        while left > 0 and (count := self.read(min(left, _CHUNK))):
            left -= count
        if self._rest and not self._rest.startswith(b"\0"):
            self._line(self._rest)
            self._rest = b""

    def close(self) -> None:
        """Close both ends."""
        os.close(self.reader)
        os.close(self.writer)

    def _line(self, line: bytes) -> None:
        before, mark, serial = line.partition(b"\0")
        for start in range(0, len(before), MAX_LINE):
            self.on_line(before[start : start + MAX_LINE].decode(errors="backslashreplace"), logging.INFO)
        if mark:
            try:
                self.on_mark(int(serial, 16))
            except ValueError:
                self.on_line(*logged(mark + serial))


def logged(line: bytes) -> tuple[str, int]:
    """A line of a job or an import without what marks its level, and that level; without such a mark it is INFO."""
    level, space, text = line[2:].partition(b" ")
    if line.startswith(b"\0L") and space and level.isdigit() and len(level) <= 3:
        return text.decode(errors="backslashreplace"), max(1, int(level))
    return line.decode(errors="backslashreplace"), logging.INFO
