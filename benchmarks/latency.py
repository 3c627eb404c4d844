"""
How long it takes from the call of `enqueue` until the job's function begins, on a daemon that has nothing else to do.

The job returns the monotonic clock as it begins; the results are read when all have run, so that nobody asks meanwhile.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from benchmarks import calibration
from benchmarks.daemon import Daemon, group
from benchmarks.figures import Figure, Gate, percentile

if TYPE_CHECKING:
    from collections.abc import Iterator


def measure(scale: float = 1.0) -> Iterator[Figure]:
    """p50 and p99 of 500 jobs, for both kinds of children, each in turn with a PING after a pause."""
    for isolation in ("process", "fork"):
        waits, pings = _waits(isolation, int(500 * scale))
        name = f"enqueue → start, idle daemon, {isolation}"
        for share, percent, ceiling in ((0.5, "p50", 10), (0.99, "p99", 12)):
            wait, least = percentile(waits, share), percentile(pings, share)
            note = f"{len(waits)} jobs one by one, PING {least:.2f} ms"
            gate = Gate(wait / least, f"{percent} of a PING after a pause", ceiling=ceiling)
            yield Figure(f"{name}, {percent}", wait, "ms", gate, note)


def _waits(isolation: str, jobs: int) -> tuple[list[float], list[float]]:
    """Milliseconds that each job waited, and that each PING took."""
    with Daemon(group(isolation, 2)) as daemon, daemon.client() as client:
        client.enqueue("clock").result(timeout=10)
        pings, sent, bare = calibration.Pings(daemon.socket), [], []
        for _ in range(jobs):
            bare.append(pings.after_pause() * 1e3)
            calibration.pause()
            sent.append((time.monotonic(), client.enqueue("clock")))
        pings.close()
        return [(job.result(timeout=10) - at) * 1e3 for at, job in sent], bare
