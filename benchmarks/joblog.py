"""
What the line that each job leaves at its end costs of a drain, `process`, 8 children.

Pairs of drains, each on a daemon of its own, with `logging: {jobs: true}` and with `false`, the one first in turn: a
machine that is busier now than before makes both slower.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from benchmarks.daemon import Daemon, group
from benchmarks.drain import run
from benchmarks.figures import Figure, Gate

if TYPE_CHECKING:
    from collections.abc import Iterator

PAIRS = 12
#: a drain with the lines, to one without
MOST = 1.03


def measure(scale: float = 1.0) -> Iterator[Figure]:
    """CPU of the daemon for each job, and jobs in a second."""
    jobs, count = int(40_000 * scale), max(2, round(PAIRS * scale))
    pairs = []
    for number in range(count):
        pair = {lines: _drain(jobs, lines=lines) for lines in ((True, False) if number % 2 else (False, True))}
        pairs.append((pair[True], pair[False]))
    for at, name in enumerate(("CPU per job", "time")):
        more = [(lined[at] / bare[at] - 1) * 100 for lined, bare in pairs]
        low, middle, high = statistics.quantiles(more, n=4)
        note = f"of {count} pairs; half of them {low:.1f} to {high:.1f}"
        gate = Gate(1 + middle / 100, "a drain without the lines", ceiling=MOST)
        yield Figure(f"lines of jobs: {name} more, {jobs:,} jobs", middle, "%", gate, note)


def _drain(jobs: int, *, lines: bool) -> tuple[float, float]:
    """CPU seconds of the daemon, and seconds."""
    with Daemon(group("process", 8) + f"logging: {{jobs: {str(lines).lower()}}}\n") as daemon:
        seconds, ours, _ = run(daemon, jobs)
    return ours, seconds
