"""
Output for people: tables, colours, times.

Colour is for a terminal alone, and not where NO_COLOR or TERM=dumb says otherwise: what is piped is plain text.
"""

from __future__ import annotations

import json
import os
import re
import sys
from typing import TYPE_CHECKING, Any, Final, Literal, TextIO

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Colour = Literal["red", "green", "yellow", "blue", "dim", "bold"]
_CODES: Final[dict[Colour, str]] = {"red": "31", "green": "32", "yellow": "33", "blue": "34", "dim": "2", "bold": "1"}
_UNUSUAL: Final = re.compile(r"[^\x00-\x7e]")
_UNITS: Final = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))
#: the colour of each word that is a state of a job, a worker or a program
_STATES: Final[dict[str, Colour]] = {
    "finished": "green",
    "failed": "red",
    "canceled": "yellow",
    "started": "blue",
    "busy": "blue",
    "suspended": "yellow",
    "running": "green",
    "fatal": "red",
}


def coloured(stream: TextIO | None = None) -> bool:
    """Whether what is written to the stream, standard output by default, may carry colour."""
    stream = stream or sys.stdout
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str, colour: Colour | None, stream: TextIO | None = None) -> str:
    """The text in that colour, where the stream takes any."""
    return f"\x1b[{_CODES[colour]}m{text}\x1b[0m" if colour and text and coloured(stream) else text


def state(word: str) -> Colour | None:
    """The colour of a state."""
    return _STATES.get(word.lower())


def plain(text: str, most: int | None = None) -> str:
    """The text on one line, with no control character that could move the terminal's cursor, cut to `most`."""
    line = "".join(ch if ch.isprintable() else " " for ch in text)
    return line if most is None or len(line) <= most else line[: most - 1] + "…"


def legible(text: str) -> str:
    """The same of each of its lines: what another wrote, of which the lines are to be kept."""
    return "\n".join(map(plain, text.split("\n")))


def table(
    headings: Sequence[str], rows: Iterable[Sequence[object]], right: str = "", states: str = "status state"
) -> str:
    """
    Rows under headings, each column as wide as its widest cell; the headings alone where there are no rows.

    `right` names the columns that hold figures and `states` those whose words have a colour, by their headings in
    lower case.
    """
    from fusiond.config.problems import columns  # here: `--help` needs no dataclasses

    cells = [[plain(_cell(value)) for value in row] for row in rows]
    widths = [max(map(columns, column)) for column in zip(headings, *cells, strict=True)]
    rights = [heading.lower() in right.split() for heading in headings]
    lights = [heading.lower() in states.split() for heading in headings]

    def line(row: Sequence[str], colours: Sequence[Colour | None]) -> str:
        padded = [
            (" " * gap + paint(cell, colour)) if to_right else (paint(cell, colour) + " " * gap)
            for cell, colour, width, to_right in zip(row, colours, widths, rights, strict=True)
            for gap in [width - columns(cell)]
        ]
        return "  ".join(padded).rstrip()

    return "\n".join(
        [line(headings, ["dim"] * len(headings))]
        + [line(row, [state(cell) if on else None for cell, on in zip(row, lights, strict=True)]) for row in cells]
    )


def fields(pairs: Iterable[tuple[str, object]]) -> str:
    """
    One `name  value` a line; pairs without a value are left out, further lines of a value are indented.

    The value of `status` or `state` has its colour.
    """
    shown = [(name, legible(_cell(value).rstrip("\n"))) for name, value in pairs if value not in (None, "")]
    width = max((len(name) for name, _ in shown), default=0)

    def line(name: str, value: str) -> str:
        light = state(value) if name in ("status", "state") else None
        indented = value.replace("\n", "\n" + " " * (width + 2))
        return f"{paint(name.ljust(width), 'dim')}  {paint(indented, light)}"

    return "\n".join(line(*pair) for pair in shown)


def span(seconds: float) -> str:
    """A length of time in its two largest units: `250ms`, `3s`, `4m 10s`, `2h`, `3d 4h`."""
    if seconds < 1:
        return f"{max(0, round(seconds * 1000))}ms"
    left, parts = int(seconds), []
    for unit, size in _UNITS:
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count}{unit}")
        elif parts:
            break
    return " ".join(parts[:2])


def when(at_ms: float | None, now_ms: float) -> str:
    """A moment beside now: `3m ago`, `in 5s`, `now`; empty for no moment."""
    if at_ms is None:
        return ""
    seconds = (at_ms - now_ms) / 1000
    if abs(seconds) < 1:
        return "now"
    text = span(abs(seconds)).split()[0]
    return f"in {text}" if seconds > 0 else f"{text} ago"


def count(number: int, noun: str) -> str:
    """`1 job`, `2,000 jobs`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def print_json(value: Any) -> None:
    """One document for programs: indented, in UTF-8, keys as they come."""
    print(json_text(value, indent=2))


def json_text(value: Any, indent: int | None = None) -> str:
    """JSON in UTF-8; DEL, C1 and what has no shape are escaped as well: it may end on a terminal after all."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return text if text.isascii() and "\x7f" not in text else _UNUSUAL.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    found = match[0]
    if found == "\x7f":
        return "\\u007f"  # which JSON itself has no need to escape
    return found if found.isprintable() else json.dumps(found)[1:-1]


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)
