"""A figure that was measured, and how figures are shown."""

from __future__ import annotations

import os
import platform
import statistics
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Gate:
    """What a figure is held against: never a number of this machine's, always what was measured beside it."""

    #: the figure, or the time of one piece of it, divided by what it is held against
    ratio: float
    #: what it is divided by
    against: str
    #: at least this
    floor: float | None = None
    #: at most this
    ceiling: float | None = None

    @property
    def kept(self) -> bool:
        """Whether the ratio is on the right side."""
        return (self.floor is None or self.ratio >= self.floor) and (self.ceiling is None or self.ratio <= self.ceiling)

    @property
    def bound(self) -> str:
        """`≥ 2.2` or `≤ 1.1`."""
        return f"≥ {self.floor:g}" if self.floor is not None else f"≤ {self.ceiling:g}"

    def words(self) -> str:
        """The ratio, its bound and the verdict."""
        return f"{number(self.ratio)} × {self.against}, {self.bound}: {'ok' if self.kept else 'MISSED'}"


@dataclass(frozen=True, slots=True)
class Figure:
    """One number, its unit, and the gate that it is to keep."""

    name: str
    value: float
    unit: str
    gate: Gate | None = None
    #: what belongs beside it: spread, CPU
    note: str = ""

    def line(self) -> str:
        """One line of the table."""
        beside = "; ".join(filter(None, [self.gate.words() if self.gate else "", self.note]))
        return f"{self.name:<46} {number(self.value):>9} {self.unit:<11} {beside}".rstrip()

    def to_dict(self) -> dict[str, object]:
        """For --json."""
        gate = self.gate and {**asdict(self.gate), "kept": self.gate.kept}
        return {"name": self.name, "value": self.value, "unit": self.unit, "gate": gate, "note": self.note}


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """A quarter, half and three quarters of the values are below; of a single value, itself three times."""
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


def spread(values: list[float]) -> tuple[float, str]:
    """The median of some runs, and the runs in words."""
    runs = ", ".join(number(value) for value in values)
    return statistics.median(values), f"median of {runs}" if len(values) > 1 else ""


def percentile(values: list[float], share: float) -> float:
    """The value below which that share of them lies."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def machine(server: str) -> str:
    """What the figures were measured on."""
    model = next((line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")), "")
    load = " ".join(f"{value:.2f}" for value in os.getloadavg())
    return (
        f"{model.partition(': ')[2] or platform.machine()}, {os.cpu_count()} CPUs; Linux {platform.release()};"
        f" Python {platform.python_version()}; {server}; load before {load}"
    )


def number(value: float) -> str:
    """Three digits that count, thousands apart."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
