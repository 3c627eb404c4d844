"""
Tables with aligned columns, and lists of `name  value`.

A table is as wide as the terminal at most, in a pipe 80 columns. If the last column would have too little of that, it
stands below each row. Other cells are cut between words, the widest column first. The first column, which names the
row, is cut last. With `--wide` every cell is whole, and stands in its column.
"""

import shutil
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from fusiond.cli.terminal.colours import paint, paint_state
from fusiond.cli.terminal.text import legible, one_line

#: terminal columns of a cell that is cut only where nothing longer is left, and that each cell keeps
_SHORT: Final = 12
_LEAST: Final = 6
#: of the last column, below which it stands below the rows; before each line there, and lines of one cell
_ENOUGH: Final = 60
_BELOW: Final = "    "
_MOST_LINES: Final = 3
_LEAST_ROOM: Final = 20
#: the end of a cell whose value is worse than another one; such a cell is red
WORSE: Final = " !"


def table(
    headings: Sequence[str],
    rows: Iterable[Sequence[object]],
    right: str = "",
    states: str = "status state",
    indent: int = 0,
) -> str:
    """
    Rows under headings, each column as wide as its widest cell; only the headings if there are no rows.

    Args:
        headings: one for each column.
        rows: cells; numbers get thousands separators.
        right: headings, in lower case, of the columns that are aligned to the right.
        states: headings, in lower case, of the columns whose words have the colour of a state.
        indent: terminal columns that stand before each line.
    """
    from fusiond.config.problems import columns  # here: `--help` needs no dataclasses

    cells = [[one_line(_cell(value)) for value in row] for row in rows]
    room = shutil.get_terminal_size().columns - indent
    widths, below = _layout(headings, cells, room, numbers_last=headings[-1].lower() in right.split())
    last = [_BELOW + paint(headings[-1], "dim")] if any(below) and headings[-1] else []
    headings = headings[: len(widths)]
    to_right = [heading.lower() in right.split() for heading in headings]
    is_state = [heading.lower() in states.split() for heading in headings]

    def line(row: Sequence[str], paint_cell: Callable[[str, bool], str]) -> str:
        words = [cut(word, width) for word, width in zip(row, widths, strict=True)]
        gaps = [" " * (width - columns(word)) for word, width in zip(words, widths, strict=True)]
        painted = (
            paint(word, "red") if word.endswith(WORSE) else paint_cell(word, state)
            for word, state in zip(words, is_state, strict=True)
        )
        padded = (gap + word if right else word + gap for gap, word, right in zip(gaps, painted, to_right, strict=True))
        return "  ".join(padded).rstrip()

    lines = [line(headings, lambda word, _: paint(word, "dim")), *last]
    for row, text in zip(cells, below or [""] * len(cells), strict=True):
        lines += [line(row, lambda word, state: paint_state(word) if state else word), *_wrapped(text, room)]
    return "\n".join(lines)


def _layout(
    headings: Sequence[str], cells: list[list[str]], room: int, *, numbers_last: bool
) -> tuple[list[int], list[str]]:
    """The widths of the columns, and the cells of the last one if it stands below the rows: `cells` loses them then."""
    from fusiond.config.problems import columns  # here: `--help` needs no dataclasses

    widths = [max(map(columns, column)) for column in zip(headings, *cells, strict=True)]
    least = [min(len(heading), _LEAST) for heading in headings]
    fit = fitted(widths, least, room)
    if len(fit) < 2 or numbers_last or fit[-1] >= min(widths[-1], _ENOUGH):
        return fit, []
    return fitted(widths[:-1], least[:-1], room), [row.pop() for row in cells]


def _wrapped(text: str, room: int) -> list[str]:
    """The lines of a cell that stands below its row."""
    if not text:
        return []
    import textwrap

    room = max(room, _LEAST_ROOM)
    return textwrap.wrap(
        text, room, initial_indent=_BELOW, subsequent_indent=_BELOW, max_lines=_MOST_LINES, placeholder="…"
    )


def fitted(widths: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """
    The widths of columns that fit into the room, two blanks between them.

    Args:
        widths: what the columns would take.
        least: what each must keep; if even that is too much, the lines are longer than the room.
        room: terminal columns.
    """
    fit = list(widths)
    short = [max(low, min(width, _SHORT)) for low, width in zip(least, widths, strict=True)]
    last = range(len(fit) - 1, len(fit))
    for several, floors in ((range(1, len(fit)), short), (last, least), (range(1), short), (range(len(fit)), least)):
        _shrink(fit, several, floors, sum(fit) + 2 * (len(fit) - 1) - room)
    return fit


def _shrink(fit: list[int], several: Sequence[int], floors: Sequence[int], excess: int) -> None:
    """Make the widest of several columns smaller, again and again, until `excess` is gone or each is at its floor."""
    while excess > 0 and (above := [n for n in several if fit[n] > floors[n]]):
        widest = max(above, key=fit.__getitem__)
        following = max((fit[n] for n in above if fit[n] < fit[widest]), default=0)
        step = min(excess, fit[widest] - max(floors[widest], following))
        fit[widest] -= step
        excess -= step


def cut(text: str, width: int) -> str:
    """The text, or as many words of it as fit into so many terminal columns, with … at its end."""
    from fusiond.config.problems import columns

    if columns(text) <= width:
        return text
    kept = text[: max(0, width - 1)]
    while kept and columns(kept) > width - 1:
        kept = kept[:-1]
    # A word that takes more than half of the room is cut, so that a cell says something.
    words = kept.rpartition(" ")[0].rstrip()
    return (words if len(words) * 2 >= len(kept) and text[len(kept)] != " " else kept.rstrip()) + "…"


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
