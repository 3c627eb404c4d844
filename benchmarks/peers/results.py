"""What the rounds have found: medians, ratios within one turn with their quartiles, gates; as Markdown."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.figures import Gate, number, quartiles

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    Turn = int | tuple[int, int]


class Bound(NamedTuple):
    """A gate: ours divided by theirs, measured side by side."""

    table: str
    quantity: str
    ours: str
    theirs: str
    floor: float | None = None
    ceiling: float | None = None


class Ratio(NamedTuple):
    """The median of all ratios, and the quartiles."""

    low: float
    middle: float
    high: float
    turns: int

    def __str__(self) -> str:
        spread = f" ({number(self.low)}–{number(self.high)})" if self.turns > 1 else ""
        return f"{number(self.middle)}{spread}"


class Results:
    """Figures by table, row, quantity and turn: a round, or its part. What was measured side by side has one turn."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, str], dict[Turn, float]] = defaultdict(dict)

    def add(self, table: str, row: str, turn: Turn, figures: Mapping[str, float]) -> None:
        """What one row was in one turn."""
        for quantity, value in figures.items():
            self._found[table, row, quantity][turn] = value

    def rows(self, table: str) -> list[str]:
        """In the order in which they came."""
        return list(dict.fromkeys(row for at, row, _ in self._found if at == table))

    def median(self, table: str, row: str, quantity: str) -> float | None:
        """Of all turns; None where nothing was found."""
        values = self._found.get((table, row, quantity))
        return quartiles(list(values.values()))[1] if values else None

    def ratio(self, table: str, quantity: str, ours: str, theirs: str) -> Ratio | None:
        """Ours divided by theirs; None where no turn has both."""
        mine, other = (self._found.get((table, row, quantity), {}) for row in (ours, theirs))
        ratios = [mine[turn] / other[turn] for turn in mine.keys() & other.keys() if other[turn] > 0]
        return Ratio(*quartiles(ratios), len(ratios)) if ratios else None

    def table(self, table: str, quantities: Mapping[str, str], base: Mapping[str, str]) -> str:
        """
        Two tables: the medians; and fusiond's figure divided by each one's.

        `quantities`: quantity → its column's heading. `base`: row → the row that is divided by it; a row without one is
        not compared.
        """
        rows = self.rows(table)
        medians = [[row, *(_cell(self.median(table, row, name)) for name in quantities)] for row in rows]
        compared = [
            [row, *(str(self.ratio(table, name, base[row], row) or "–") for name in quantities)]
            for row in rows
            if base.get(row, row) != row
        ]
        text = _markdown(["median", *quantities.values()], medians)
        if compared:
            text += "\n\n" + _markdown(["fusiond ÷", *quantities.values()], compared)
        return text

    def gate(self, bound: Bound) -> tuple[Ratio, Gate] | None:
        """What became of a gate; None where one of both was not measured."""
        ratio = self.ratio(bound.table, bound.quantity, bound.ours, bound.theirs)
        if ratio is None:
            return None
        return ratio, Gate(ratio.middle, bound.theirs, floor=bound.floor, ceiling=bound.ceiling)

    def gates(self, bounds: Iterable[Bound], titles: Mapping[str, str]) -> tuple[str, bool]:
        """A table of the gates, and whether all are kept; one of which there is no figure is not."""
        lines, kept = [], True
        for bound in bounds:
            what = f"{titles[bound.quantity]}: {bound.ours} ÷ {bound.theirs}"
            found = self.gate(bound)
            if found is None:
                lines.append([what, Gate(0.0, bound.theirs, bound.floor, bound.ceiling).bound, "–", "**not measured**"])
                kept = False
                continue
            ratio, gate = found
            lines.append([what, gate.bound, str(ratio), "kept" if gate.kept else "**missed**"])
            kept = kept and gate.kept
        return _markdown(["gate", "", "median (quartiles)", ""], lines), kept


def _cell(value: float | None) -> str:
    return "–" if value is None else number(value)


def _markdown(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
