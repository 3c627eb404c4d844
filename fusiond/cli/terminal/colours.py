"""Colour on a terminal; none in a pipe, under NO_COLOR, or if TERM is `dumb`."""

from __future__ import annotations

import os
import sys
from typing import Final, TextIO

#: colour, or severity of a problem → its code
_CODES: Final = {"red": 31, "green": 32, "yellow": 33, "blue": 34, "dim": 2, "bold": 1, "error": 31, "warning": 33}
#: state of a job, a worker or a program → its colour
_STATES: Final = {
    "finished": "green",
    "failed": "red",
    "canceled": "yellow",
    "started": "blue",
    "busy": "blue",
    "suspended": "yellow",
    "running": "green",
    "fatal": "red",
}


def paint(text: str, colour: str, stream: TextIO | None = None) -> str:
    """The text in that colour if the stream, by default standard output, shows colours."""
    if not (colour and text and (stream or sys.stdout).isatty()):
        return text
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return f"\x1b[{_CODES[colour]}m{text}\x1b[0m"


def paint_state(word: str) -> str:
    """The name of a state in its colour; any other word as it is."""
    return paint(word, _STATES.get(word.lower(), ""))
