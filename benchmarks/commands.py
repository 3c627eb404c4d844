"""How long a command takes as a whole, from its start to its end."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import calibration
from benchmarks.daemon import COMMAND, installed
from benchmarks.figures import Figure, Gate, percentile

if TYPE_CHECKING:
    from collections.abc import Iterator

RUNS = 15
_EXAMPLE = Path(__file__).parent.parent / "etc" / "fusion.yaml"


def measure(scale: float = 1.0) -> Iterator[Figure]:
    """The median of some runs, each after a bare start of Python; the first, which compiles, is not counted."""
    runs = max(3, int(RUNS * scale))
    yield _command("fusiond --help", [COMMAND, "--help"], runs, 8)
    yield _command("fusiond validate etc/fusion.yaml", [COMMAND, "validate", str(_EXAMPLE)], runs, 20)


def _command(name: str, words: list[str], runs: int, ceiling: float) -> Figure:
    _once(words)
    walls, cpus, ratios = [], [], []
    for _ in range(runs):
        bare = calibration.interpreter() * 1e3
        wall, cpu = _once(words)
        walls.append(wall)
        cpus.append(cpu)
        ratios.append(wall / bare)
    gate = Gate(percentile(ratios, 0.5), "a bare start of Python", ceiling=ceiling)
    return Figure(name, percentile(walls, 0.5), "ms", gate, f"CPU {percentile(cpus, 0.5):.0f} ms, median of {runs}")


def _once(words: list[str]) -> tuple[float, float]:
    """Milliseconds of the clock, and of CPU."""
    began = time.monotonic()
    process = subprocess.Popen(words, env=installed(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(words)} ended with {process.returncode}")
    return (time.monotonic() - began) * 1e3, (used.ru_utime + used.ru_stime) * 1e3
