"""Tables with aligned columns, and lists of `name  value`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fusiond.cli.terminal.colours import paint, paint_state
from fusiond.cli.terminal.text import legible, one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def table(
    headings: Sequence[str], rows: Iterable[Sequence[object]], right: str = "", states: str = "status state"
) -> str:
    """
    Rows under headings, each column as wide as its widest cell; only the headings if there are no rows.

    Args:
        headings: one for each column.
        rows: cells; numbers get thousands separators.
        right: headings, in lower case, of the columns that are aligned to the right.
        states: headings, in lower case, of the columns whose words have the colour of a state.
    """
    from fusiond.config.problems import columns  # here: `--help` needs no dataclasses

    cells = [[one_line(_cell(value)) for value in row] for row in rows]
    widths = [max(map(columns, column)) for column in zip(headings, *cells, strict=True)]
    to_right = [heading.lower() in right.split() for heading in headings]
    is_state = [heading.lower() in states.split() for heading in headings]

    def line(words: Sequence[str], painted: Sequence[str]) -> str:
        gaps = [" " * (width - columns(word)) for word, width in zip(words, widths, strict=True)]
        padded = (gap + word if right else word + gap for gap, word, right in zip(gaps, painted, to_right, strict=True))
        return "  ".join(padded).rstrip()

    def painted(row: Sequence[str]) -> list[str]:
        return [paint_state(word) if on else word for word, on in zip(row, is_state, strict=True)]

    lines = [line(headings, [paint(heading, "dim") for heading in headings])]
    return "\n".join([*lines, *(line(row, painted(row)) for row in cells)])


def fields(pairs: Iterable[tuple[str, object]]) -> str:
    """
    One `name  value` a line; pairs whose value is None or "" are left out, further lines of a value are indented.

    The value of `status` or `state` has its colour.
    """
    shown = [(name, legible(_cell(value).rstrip("\n"))) for name, value in pairs if value not in (None, "")]
    width = max((len(name) for name, _ in shown), default=0)
    indent = "\n" + " " * (width + 2)
    lines = []
    for name, value in shown:
        painted = paint_state(value) if name in ("status", "state") else value.replace("\n", indent)
        lines.append(f"{paint(name.ljust(width), 'dim')}  {painted}")
    return "\n".join(lines)


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)
