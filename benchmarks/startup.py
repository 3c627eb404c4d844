"""How soon a daemon serves after its start, and after its file was saved."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from benchmarks.daemon import Daemon, group
from benchmarks.figures import Figure, spread

if TYPE_CHECKING:
    from collections.abc import Iterator

RUNS = 5


def measure(scale: float = 1.0) -> Iterator[Figure]:
    """Start; then the same file changed so that a group is added, changed in place, replaced."""
    runs = max(1, int(RUNS * scale))
    starts, added, changed, replaced = [], [], [], []
    for _ in range(runs):
        quick = group("process", 2, "quick")
        with Daemon(quick, group("fork", 2, "careful")) as daemon:
            starts.append(daemon.started_in * 1e3)
            added.append(_saved(daemon, quick, group("fork", 2, "careful"), group("process", 2, "third")))
            changed.append(_saved(daemon, quick, group("fork", 3, "careful"), group("process", 2, "third")))
            replaced.append(_saved(daemon, quick, group("fork", 3, "careful", "again"), group("process", 2, "third")))
    names = (
        "start → all programs ready",
        "save → added group ready",
        "save → changed in place",
        "save → replaced group ready",
    )
    for name, times in zip(names, (starts, added, changed, replaced), strict=True):
        value, note = spread(times)
        yield Figure(name, value, "ms", note=note)


def _saved(daemon: Daemon, *groups: str) -> float:
    """Milliseconds from the save of this file until the daemon says that it serves so."""
    daemon.write(*groups)
    began = time.monotonic()
    daemon.await_ready()
    return (time.monotonic() - began) * 1e3
