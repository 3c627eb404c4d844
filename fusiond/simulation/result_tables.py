"""Results of simulations as tables: one file, or two side by side. Pure; who shows them writes times and numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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


class _Column(NamedTuple):
    heading: str
    kind: Kind
    value: Callable[[dict[str, Any]], Any]
    #: a higher value is worse
    is_bad: bool = True


def _field(heading: str, kind: Kind, name: str, *, bad: bool = True) -> _Column:
    return _Column(heading, kind, lambda said: said[name], bad)


#: what became of a tick whose job was enqueued
RAN = ("finished", "failed", "canceled", "enqueued")
_TABLES: dict[str, tuple[str, tuple[_Column, ...]]] = {
    "tasks": (
        "Task",
        (
            _field("Jobs", "count", "jobs", bad=False),
            _field("p50", "seconds", "wait_p50"),
            _field("p95", "seconds", "wait_p95"),
            _field("p99", "seconds", "wait_p99"),
            _field("Max", "seconds", "wait_max"),
            _field("Retries", "count", "retries"),
            _field("Rescued", "count", "rescued"),
            _field("Failed", "count", "failed"),
            _field("Expired", "count", "expired"),
            _field("Refused", "count", "refused"),
        ),
    ),
    "queues": (
        "Queue",
        (
            _field("Backlog", "count", "backlog"),
            _field("At", "seconds", "backlog_at", bad=False),
            _field("Held", "count", "held"),
            _field("Left", "count", "left"),
        ),
    ),
    "groups": (
        "Group",
        (
            _field("Hosts", "count", "hosts", bad=False),
            _field("Slots", "count", "slots", bad=False),
            _field("Busy", "share", "busy"),
        ),
    ),
    "cron": (
        "Cron entry",
        (
            _Column("Ran", "count", lambda said: sum(said.get(word, 0) for word in RAN), is_bad=False),
            _Column("Skipped", "count", lambda said: sum(n for word, n in said.items() if word not in RAN)),
            _Column("Why", "text", lambda said: ", ".join(sorted(said.keys() - set(RAN))), is_bad=False),
        ),
    ),
}


def tables(result: Result, before: Result | None = None) -> Iterator[ResultTable]:
    """The tables of a result; `before`: that of the other file. Times are waits until an attempt began."""
    for section, (name, columns) in _TABLES.items():
        old, new = (before or {}).get(section, {}), result[section]
        rows: list[tuple[Cell, ...]] = []
        for each in sorted({*old, *new}):
            rows += _rows(each, old.get(each), new.get(each), columns, is_pair=before is not None)
        file = ("File",) if before is not None else ()
        headings = (name, *file, *(column.heading for column in columns))
        # A column of bad things of which there are none says nothing.
        shown = [
            n for n in range(len(headings)) if not all(row[n].kind == "count" and not row[n].value for row in rows)
        ]
        if rows:
            yield ResultTable(tuple(headings[n] for n in shown), [tuple(row[n] for n in shown) for row in rows])


def _rows(
    name: str, old: dict[str, Any] | None, new: dict[str, Any] | None, columns: tuple[_Column, ...], *, is_pair: bool
) -> Iterator[tuple[Cell, ...]]:
    """One row, or one for each file if they differ."""
    if not is_pair or old == new:
        both = [Cell("text", "both")] if is_pair else []
        yield Cell("text", name), *both, *_cells(new or {}, None, columns)
        return
    for file, said, other in (("before", old, None), ("after", new, old)):
        if said is not None:
            yield Cell("text", name), Cell("text", file), *_cells(said, other, columns)


def _cells(said: dict[str, Any], other: dict[str, Any] | None, columns: tuple[_Column, ...]) -> Iterator[Cell]:
    for column in columns:
        value = column.value(said)
        worse = column.is_bad and other is not None and _is_worse(value, column.value(other), column.kind)
        yield Cell(column.kind, value, worse)


def _is_worse(value: float | None, before: float | None, kind: Kind) -> bool:
    if value is None or before is None:
        return False
    return value > before * (1 + _CHANCE_SHARE) + (_CHANCE if kind != "count" else 0)
