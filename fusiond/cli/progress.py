"""
Say how far a long run has come.

On a terminal: one line that redraws itself, at most ten times a second. Elsewhere: nothing, or a line now and
then where the caller asked for lines.
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
_LINE: Final = 2.0
CLEAR: Final = "\r\x1b[K"


class Progress:
    """
    A bar where the total is known, a count where not; a context that leaves the last state behind.

    `noun` is what is counted, such as `jobs enqueued`; `lines` asks for a line every 2 s where there is no terminal.
    """

    def __init__(
        self, noun: str, total: int | None = None, *, stream: TextIO | None = None, lines: bool = False
    ) -> None:
        self._noun, self._total, self._stream = noun, total, stream or sys.stderr
        self._live = self._stream.isatty()
        self._pause = _REDRAW if self._live else _LINE if lines else None
        self._begun = self._drawn = time.monotonic()
        self.done = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, _: object, __: TracebackType | None) -> None:
        if self._pause is not None:
            self._write(last=True)

    def to(self, done: int) -> None:
        """So many are done now."""
        self.done = done
        now = time.monotonic()
        if self._pause is not None and now - self._drawn >= self._pause:
            self._drawn = now
            self._write(last=False)

    def add(self, more: int = 1) -> None:
        """So many more are done."""
        self.to(self.done + more)

    def note(self, text: str) -> None:
        """A line of its own; a bar is drawn anew below it."""
        self.clear()
        self._stream.write(f"{plain(text)}\n")

    def clear(self) -> None:
        """Make room for a line on another stream; a bar is drawn anew below it."""
        if self._live:
            self._stream.write(CLEAR)
            self._stream.flush()
        self._drawn = 0.0

    def _write(self, *, last: bool) -> None:
        seconds = max(time.monotonic() - self._begun, 0.001)
        text = f"{self.done:,}{f'/{self._total:,}' if self._total else ''} {self._noun}"
        text += f", {self.done / seconds:,.0f}/s, {span(seconds)}"
        if self._total:
            text = f"{self._bar()} {text}"
        if self._live:
            wide = shutil.get_terminal_size().columns - 1
            self._stream.write(f"{CLEAR}{text[:wide]}{chr(10) if last else ''}")
        else:
            self._stream.write(f"{text}\n")
        self._stream.flush()

    def _bar(self, width: int = 24) -> str:
        filled = width if not self._total else min(width, self.done * width // self._total)
        return "█" * filled + "░" * (width - filled)
