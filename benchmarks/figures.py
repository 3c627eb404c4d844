"""A figure that was measured, and how figures are shown."""

from __future__ import annotations

import os
import platform
import statistics
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Figure:
    """One number, its unit, and the gate that it is to keep."""

    name: str
    value: float
    unit: str
    #: at least this
    floor: float | None = None
    #: at most this
    ceiling: float | None = None
    #: what belongs beside it: spread, CPU
    note: str = ""

    @property
    def gate(self) -> str:
        """The gate in words; "" where there is none."""
        if self.floor is not None:
            return f"≥ {_number(self.floor)}"
        return "" if self.ceiling is None else f"≤ {_number(self.ceiling)}"

    @property
    def kept(self) -> bool:
        """Whether the gate is kept; true where there is none."""
        above = self.floor is None or self.value >= self.floor
        return above and (self.ceiling is None or self.value <= self.ceiling)

    def line(self) -> str:
        """One line of the table."""
        verdict = "" if not self.gate else "ok" if self.kept else "MISSED"
        value = f"{_number(self.value)} {self.unit}"
        return f"{self.name:<46} {value:>20}  {self.gate:<9} {verdict:<6}  {self.note}".rstrip()

    def to_dict(self) -> dict[str, object]:
        """For --json."""
        gate = self.floor if self.floor is not None else self.ceiling
        kept = None if gate is None else self.kept
        return {
            "name": self.name,
            "value": self.value,
            "unit": self.unit,
            "gate": gate,
            "kept": kept,
            "note": self.note,
        }


def spread(values: list[float]) -> tuple[float, str]:
    """The median of some runs, and the runs in words."""
    runs = ", ".join(_number(value) for value in values)
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


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
