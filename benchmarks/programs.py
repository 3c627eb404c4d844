"""
How many commands that do nothing, `true`, a group runs in a second, beside empty functions with a fork for each.

A program is a process of its own however its child is isolated, so both kinds of children are measured.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks import drain
from benchmarks.daemon import Daemon, group
from benchmarks.figures import Figure, Gate, spread

if TYPE_CHECKING:
    from collections.abc import Iterator

_CHILDREN, _JOBS, _RUNS = 4, 2_000, 3
_TASKS = "  command: {command: ['true']}\n"


def measure(scale: float = 1.0) -> Iterator[Figure]:
    """Alternately: functions with a fork for each, and commands with children of both kinds."""
    jobs = int(_JOBS * scale)
    speeds: dict[str, list[float]] = {"noop": [], "fork": [], "process": []}
    for _ in range(_RUNS):
        for name, values in speeds.items():
            with Daemon(group("fork" if name == "noop" else name, _CHILDREN), tasks=_TASKS) as daemon:
                values.append(jobs / drain.run(daemon, jobs, "noop" if name == "noop" else "command")[0])
    least, _ = spread(speeds["noop"])
    for name in ("process", "fork"):
        speed, note = spread(speeds[name])
        gate = Gate(speed / least, "an empty forked function", floor=0.6)
        yield Figure(f"run {jobs:,} × true, {name}, {_CHILDREN} children", speed, "jobs/s", gate, note)
