"""Results of simulations as tables: one file, or two side by side. Pure; who shows them writes times and numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

Result = dict[str, Any]
Kind = Literal["text", "count", "seconds", "share"]

#: what every result is shown with
NOT_SIMULATED = (
    "Run times do not grow with load: a slow database is not simulated. Nor are claiming ahead, forks, CPU,"
    " callbacks and flows."
)
#: s, and share: so much more is worse, rather than chance
_CHANCE, _CHANCE_SHARE = 0.01, 0.1


class Cell(NamedTuple):
    """One value."""

    kind: Kind
    value: Any
    #: it is worse than that of the other file
    worse: bool = False


class ResultTable(NamedTuple):
    """One of the tables of a result."""

    headings: tuple[str, ...]
    rows: list[tuple[Cell, ...]]


#: section of a result → heading of its names, and its figures
_COLUMNS = {
    "tasks": ("Task", "jobs wait_p50 wait_p95 wait_p99 wait_max retries rescued failed expired refused"),
    "queues": ("Queue", "backlog backlog_at held left"),
    "groups": ("Group", "hosts slots busy"),
    "cron": ("Cron entry", "ran skipped why"),
}
#: figures of which a higher one is not worse
_NEUTRAL = frozenset({"jobs", "backlog_at", "hosts", "slots", "ran", "why"})


def tables(result: Result, before: Result | None = None) -> Iterator[ResultTable]:
    """The tables of a result; `before`: that of the other file. Times are waits until an attempt began."""
    for section, (name, said) in _COLUMNS.items():
        figures = said.split()
        rows: list[tuple[Cell, ...]] = []
        old, new = (before or {}).get(section, {}), result[section]
        for each in sorted({*old, *new}):
            rows += _rows(each, old.get(each), new.get(each), figures, is_pair=before is not None)
        headings = [name, *(["File"] if before is not None else []), *map(_heading, figures)]
        # A column of things of which there are none says nothing, unless the next one is about it.
        says = [any(row[n].kind != "count" or row[n].value for row in rows) for n in range(len(headings))]
        shown = [n for n, heading in enumerate(headings) if says[n] or heading in ("Backlog", "Ran")]
        if rows:
            yield ResultTable(tuple(headings[n] for n in shown), [tuple(row[n] for n in shown) for row in rows])


def _heading(figure: str) -> str:
    return figure.removeprefix("wait_").removeprefix("backlog_").capitalize()


def _rows(
    name: str, old: Result | None, new: Result | None, figures: list[str], *, is_pair: bool
) -> Iterator[tuple[Cell, ...]]:
    """One row, or one for each file if they differ."""
    is_one = not is_pair or old == new
    files: list[tuple[str, Result | None, Result | None]] = [("before", old, None), ("after", new, old)]
    for file, said, other in [("both", new, None)] if is_one else files:
        if said is not None:
            cells = [_cell(figure, said[figure], other and other[figure]) for figure in figures]
            yield Cell("text", name), *([Cell("text", file)] if is_pair else []), *cells


def _cell(figure: str, value: Any, before: Any) -> Cell:
    kind: Kind = "seconds" if figure.startswith("wait_") or figure.endswith("_at") else "count"
    kind = {"busy": "share", "why": "text"}.get(figure, kind)  # type: ignore[assignment]
    if figure in _NEUTRAL or value is None or before is None:
        return Cell(kind, value)
    return Cell(kind, value, value > before * (1 + _CHANCE_SHARE) + (_CHANCE if kind != "count" else 0))
