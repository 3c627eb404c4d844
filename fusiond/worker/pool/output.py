"""
What a slot's children print, as lines with the job's id and the level of the log.

A child that runs many jobs writes a mark before each job: NUL and the job's serial in hex. Everything between two
marks was printed while the first mark's job ran: by Python, by a library in C or by a program that the job started.
A child that is handed a single job while it has no other, as one-job children are, writes no mark: what comes out of
the pipe from the hand-out on is taken for that job's.

A child that runs many jobs at once writes such a mark before the lines of a job, and the mark of no job, a 0, behind
them.

A record that a task logged is a line with a mark of its own, which tasklog.py describes.
"""

from __future__ import annotations

import array
import asyncio
import contextlib
import fcntl
import json
import logging
import os
import termios
from collections.abc import Callable, Collection, Mapping
from typing import Any

from fusiond import logs
from fusiond.worker.pool.attempt import Attempt

#: called with the attempt that printed the line, the line, its level in the log, and its record's fields
OnLine = Callable[["Attempt | None", str, int, dict[str, Any]], None]

#: bytes of one line; a longer one is cut into several
MAX_LINE = 8192
#: bytes of a record's line: tasklog.py bounds the characters, of which JSON takes 12 bytes at most
MAX_RECORD = 1 << 20
#: bytes that the pipe holds at most, and that are read at once
_PIPE, _CHUNK = 1 << 14, 1 << 12
_RECORD = b"\0R"
#: lines that one read passes on, at 20 µs each. Without this limit a read of lines of two bytes, as `yes` prints them,
#: would take 50 ms; to drain a pipe that is full of them takes 0.2 s
LINES = 100
#: s; a longer read is followed by a pause
_LONG_READ = 0.005


class Output:
    """One slot's output pipe: the dispatcher reads, one child after another writes."""

    def __init__(self, on_line: OnLine) -> None:
        self._on_line = on_line
        self.reader, self.writer = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self.reader, False)
        fcntl.fcntl(self.reader, fcntl.F_SETPIPE_SZ, _PIPE)
        #: serial → attempt, of all attempts that the child has; and the attempt whose lines come out of the pipe
        self.attempts: Mapping[int, Attempt] = {}
        self.attempt: Attempt | None = None
        #: read and not passed on yet
        self._rest = b""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pause: asyncio.TimerHandle | None = None

    @property
    def has_lines(self) -> bool:
        """Whether whole lines were read and not passed on yet."""
        return b"\n" in self._rest

    def listen(self, loop: asyncio.AbstractEventLoop) -> None:
        """Read what the child prints. After a read that took long, wait for four times as long as it took."""
        self._loop = loop
        loop.add_reader(self.reader, self._read_and_pause, loop)
        if self.has_lines:
            self._read_and_pause(loop)

    def _read_and_pause(self, loop: asyncio.AbstractEventLoop) -> None:
        began = loop.time()
        self.read()
        spent = loop.time() - began
        if spent > _LONG_READ or self.has_lines:
            loop.remove_reader(self.reader)
            self._pause = loop.call_later(4 * spent, self.listen, loop)

    def read(self) -> None:
        """Pass on at most LINES of the lines that have arrived."""
        if not self.has_lines:
            self._receive(_CHUNK)
        self._pass_on(LINES)

    def drain(self) -> None:
        """
        Pass on all that was printed so far, and an unfinished last line too.

        What is printed meanwhile is left for later: a program that prints without end must not delay an outcome.
        """
        size = array.array("i", [0])
        fcntl.ioctl(self.reader, termios.FIONREAD, size)
        left = size[0]
        if not (left or self._rest):
            return
        self._pass_on()
        while left > 0 and (count := self._receive(min(left, _CHUNK))):
            left -= count
            self._pass_on()
        if self._rest and not self._rest.startswith(b"\0"):
            self._line(self._rest)
            self._rest = b""

    def forget(self, attempts: Collection[Attempt]) -> None:
        """What comes out of the pipe belongs to none of these: they have not begun."""
        if self.attempt in attempts:
            self.attempt = None

    def close(self) -> None:
        """Listen no more, and close both ends."""
        if self._loop:
            self._loop.remove_reader(self.reader)
        if self._pause:
            self._pause.cancel()
        os.close(self.reader)
        os.close(self.writer)

    def _receive(self, most: int) -> int:
        """Read at most so many bytes; returns how many there were."""
        try:
            data = os.read(self.reader, most)
        except BlockingIOError:
            return 0
        self._rest += data
        return len(data)

    def _pass_on(self, most: int = -1) -> None:
        """Pass on at most so many lines of what was read; -1: all of them."""
        *lines, self._rest = self._rest.split(b"\n", most)
        for line in lines:
            self._line(line)
        if len(self._rest) > (MAX_RECORD if self._rest.startswith(_RECORD) else MAX_LINE) and not self.has_lines:
            cut = _whole_characters(self._rest, len(self._rest))
            self._line(self._rest[:cut])
            self._rest = self._rest[cut:]

    def _line(self, line: bytes) -> None:
        before, mark, serial = line.partition(b"\0")
        while before:
            cut = len(before) if len(before) <= MAX_LINE else _whole_characters(before, MAX_LINE)
            self._on_line(self.attempt, before[:cut].decode(errors="backslashreplace"), logging.INFO, {})
            before = before[cut:]
        if not mark:
            return
        try:
            number = int(serial, 16)
            # If the child has no job of this serial, the job itself has printed what looks like a mark.
            self.attempt = self.attempts.get(number, self.attempt) if number else None
        except ValueError:
            self._on_line(self.attempt, *logged(mark + serial))


def _whole_characters(text: bytes, most: int) -> int:
    """How many of the first `most` bytes, at least 1, do not end within a character of UTF-8."""
    cut = most
    for back in range(1, min(4, cut)):
        byte = text[cut - back]
        if byte & 0xC0 != 0x80:  # where a character begins: its first byte says how many follow
            length = 1 if byte < 0xC0 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return cut - back if length > back else cut
    return cut


def logged(line: bytes) -> tuple[str, int, dict[str, Any]]:
    """
    The text of a line, its level, and the fields of its record, `exception` and `job_logger` among them.

    A line without a mark has the level INFO. A job may print what looks like a mark; a malformed one is text.
    """
    level, space, raw = line[2:].partition(b" ")
    if line.startswith(_RECORD) and space and level.isdigit() and len(level) <= 3:
        with contextlib.suppress(ValueError, RecursionError, TypeError, KeyError, AttributeError):
            record = json.loads(raw)
            # A field cannot have a name that `logging` itself uses in this version of Python.
            extra = {name: value for name, value in record.get("extra", {}).items() if name not in logs.STANDARD}
            own = {"job_logger": str(record["logger"]), logs.EXCEPTION: record.get("exception")}
            return str(record["message"]), max(1, int(level)), {**extra, **own}
    return line.decode(errors="backslashreplace"), logging.INFO, {}
