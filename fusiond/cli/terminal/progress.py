"""
Show how far a long command has come.

On a terminal: one line, redrawn at most ten times a second. Elsewhere: nothing.
"""

import shutil
import sys
import time
from typing import Final, Self, TextIO

from fusiond.cli.terminal.text import span

_REDRAW: Final = 0.1
_CLEAR: Final = "\r\x1b[K"


class Progress:
    """A count that grows. Used as a context; at the end the last state stays on the screen."""

    def __init__(self, noun: str, *, stream: TextIO | None = None) -> None:
        """`noun`: what is counted, such as `jobs enqueued`. `stream`: by default standard error."""
        self._noun, self._stream = noun, stream or sys.stderr
        self._live = self._stream.isatty()
        self._begun = self._drawn = time.monotonic()
        self.done = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._draw("\n")

    def to(self, done: int) -> None:
        """Set the count."""
        self.done = done
        now = time.monotonic()
        if self._live and now - self._drawn >= _REDRAW:
            self._drawn = now
            self._draw()

    def advance(self, base: int, more: int) -> None:
        """Set the count to the sum of the two."""
        self.to(base + more)

    def clear(self) -> None:
        """Remove the count from the screen, so that a line can be printed there; it is drawn again below that line."""
        if self._live:
            self._stream.write(_CLEAR)
            self._stream.flush()
        self._drawn = 0.0

    def _draw(self, end: str = "") -> None:
        seconds = max(time.monotonic() - self._begun, 0.001)
        text = f"{self.done:,} {self._noun}, {self.done / seconds:,.0f}/s, {span(seconds)}"
        width = shutil.get_terminal_size().columns - 1
        self._stream.write(f"{_CLEAR}{text[:width]}{end}")
        self._stream.flush()
