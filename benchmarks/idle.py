"""What a daemon with two groups takes while nothing is to be done."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from benchmarks.daemon import Daemon, group
from benchmarks.figures import Figure

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
    share = {kind: (after[kind].cpu - before[kind].cpu) / seconds * 100 for kind in after}
    count = after["fusiond"].processes
    yield Figure(
        "idle, two groups, without Redis", share["fusiond"], "% of a core", ceiling=0.5, note=f"{seconds:.0f} s"
    )
    yield Figure("idle, Redis", share["redis"], "% of a core")
    yield Figure(
        "memory, two groups of 2, without Redis", after["fusiond"].pss / 1e6, "MB PSS", note=f"{count} processes"
    )
    yield Figure("memory, Redis", after["redis"].pss / 1e6, "MB PSS")
