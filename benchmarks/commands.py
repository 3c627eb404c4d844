"""How long a command takes as a whole, from its start to its end."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.daemon import COMMAND, installed
from benchmarks.figures import Figure, percentile

if TYPE_CHECKING:
    from collections.abc import Iterator

RUNS = 15
_EXAMPLE = Path(__file__).parent.parent / "etc" / "fusion.yaml"


def measure(scale: float = 1.0) -> Iterator[Figure]:
    """The median of some runs; the first, which reads from the disk and compiles, is not counted."""
    runs = max(3, int(RUNS * scale))
    yield _command("fusiond --help", [COMMAND, "--help"], runs, 150)
    yield _command("fusiond validate etc/fusion.yaml", [COMMAND, "validate", str(_EXAMPLE)], runs, 300)


def _command(name: str, words: list[str], runs: int, ceiling: float) -> Figure:
    _once(words)
    walls, cpus = zip(*(_once(words) for _ in range(runs)), strict=True)
    note = f"CPU {percentile(list(cpus), 0.5):.0f} ms, median of {runs}"
    return Figure(name, percentile(list(walls), 0.5), "ms", ceiling=ceiling, note=note)


def _once(words: list[str]) -> tuple[float, float]:
    """Milliseconds of the clock, and of CPU."""
    began = time.monotonic()
    process = subprocess.Popen(words, env=installed(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(words)} ended with {process.returncode}")
    return (time.monotonic() - began) * 1e3, (used.ru_utime + used.ru_stime) * 1e3
