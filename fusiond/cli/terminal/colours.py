"""Colour on a terminal; none in a pipe, under NO_COLOR, or if TERM is `dumb`."""

import os
import sys
from typing import Final

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
    "draining": "yellow",
    "silent": "red",
    "gone": "red",
    "running": "green",
    "fatal": "red",
}


def paint(text: str, colour: str) -> str:
    """The text in that colour if standard output shows colours."""
    if not (colour and text and sys.stdout.isatty()):
        return text
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return f"\x1b[{_CODES[colour]}m{text}\x1b[0m"


def paint_state(word: str) -> str:
    """The name of a state in its colour; any other word as it is."""
    return paint(word, colour_of_state(word))


def colour_of_state(word: str) -> str:
    """`red` and the like; "" for any other word."""
    return _STATES.get(word.lower(), "")
