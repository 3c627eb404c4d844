"""
Say how far a long run has come.

On a terminal: one line that redraws itself, at most ten times a second. Elsewhere: nothing.
"""

from __future__ import annotations

import shutil
import sys
import time
from typing import TYPE_CHECKING, Final, Self, TextIO

from fusiond.cli.table import plain, span

if TYPE_CHECKING:
    from types import TracebackType

_REDRAW: Final = 0.1
CLEAR: Final = "\r\x1b[K"


class Progress:
    """
    A count that grows; a context that leaves its last state behind.

    `noun` is what is counted, such as `jobs enqueued`.
    """

    def __init__(self, noun: str, *, stream: TextIO | None = None) -> None:
        self._noun, self._stream = noun, stream or sys.stderr
        self._live = self._stream.isatty()
        self._begun = self._drawn = time.monotonic()
        self.done = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, _: object, __: TracebackType | None) -> None:
        if self._live:
            self._draw("\n")

    def to(self, done: int) -> None:
        """So many are done now."""
        self.done = done
        now = time.monotonic()
        if self._live and now - self._drawn >= _REDRAW:
            self._drawn = now
            self._draw()

    def add(self, more: int = 1) -> None:
        """So many more are done."""
        self.to(self.done + more)

    def note(self, text: str) -> None:
        """A line of its own; the count is drawn anew below it."""
        self.clear()
        self._stream.write(f"{plain(text)}\n")

    def clear(self) -> None:
        """Make room for a line on another stream; the count is drawn anew below it."""
        if self._live:
            self._stream.write(CLEAR)
            self._stream.flush()
        self._drawn = 0.0

    def _draw(self, end: str = "") -> None:
        seconds = max(time.monotonic() - self._begun, 0.001)
        text = f"{self.done:,} {self._noun}, {self.done / seconds:,.0f}/s, {span(seconds)}"
        wide = shutil.get_terminal_size().columns - 1
        self._stream.write(f"{CLEAR}{text[:wide]}{end}")
        self._stream.flush()
