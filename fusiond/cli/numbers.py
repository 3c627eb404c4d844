"""Numbers of the command line, as argparse types: one that means nothing is refused before anything is asked for."""

from __future__ import annotations

import argparse
from typing import Final

#: seconds, a day: no daemon needs so long to answer, and a socket's clock ends somewhere
_LONGEST: Final = 86400.0
#: of how many to show: more is no page, and Redis must be able to count it
_DIGITS: Final = 9


def patience(text: str) -> float:
    """Seconds to wait for an answer: above 0, a day at most."""
    found = _float(text)
    if not 0 < found <= _LONGEST:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds above 0 and up to {_LONGEST:g}, a day")
    return found


def wait(text: str) -> float:
    """Seconds to wait for a job: not below 0."""
    found = _float(text)
    if not found >= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds, 0 or more")
    return found


def many(text: str) -> int:
    """How many to show: 1 or more."""
    if not (text.isascii() and text.isdecimal() and len(text) <= _DIGITS and int(text)):
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1 to {10**_DIGITS - 1}")
    return int(text)


def _float(text: str) -> float:
    """The number, or nan, which is neither above nor below anything."""
    try:
        return float(text)
    except ValueError:
        return float("nan")
