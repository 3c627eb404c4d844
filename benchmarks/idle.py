"""What a daemon with two groups takes while nothing is to be done."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from benchmarks import calibration
from benchmarks.daemon import Daemon, group
from benchmarks.figures import Figure, Gate

if TYPE_CHECKING:
    from collections.abc import Iterator


def measure(scale: float = 1.0) -> Iterator[Figure]:
    """CPU over 20 s after 5 s of rest, and memory at the end; Redis apart."""
    with Daemon(group("process", 2, "quick"), group("fork", 2, "careful")) as daemon:
        with daemon.client() as client:
            for _ in range(20):
                client.enqueue("noop").result(timeout=10)
        time.sleep(5 * scale)
        before, began = daemon.use(), time.monotonic()
        time.sleep(20 * scale)
        after, seconds = daemon.use(), time.monotonic() - began
        timer = calibration.timer(20 * scale) * 100
    share = {kind: (after[kind].cpu - before[kind].cpu) / seconds * 100 for kind in after}
    count = after["fusiond"].processes
    cpu = Gate(share["fusiond"] / timer, "a process that wakes every 50 ms", ceiling=8)
    memory = Gate(after["fusiond"].pss / calibration.interpreter_memory(), "a Python that waits", ceiling=24)
    yield Figure("idle, two groups, without Redis", share["fusiond"], "% of a core", cpu, f"{seconds:.0f} s")
    yield Figure("idle, Redis", share["redis"], "% of a core")
    name = "memory, two groups of 2, without Redis"
    yield Figure(name, after["fusiond"].pss / 1e6, "MB PSS", memory, f"{count} processes")
    yield Figure("memory, Redis", after["redis"].pss / 1e6, "MB PSS")
