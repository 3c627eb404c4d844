"""
How long it takes from the call of `enqueue` until the job's function begins, on a daemon that has nothing else to do.

The job returns the monotonic clock as it begins; the results are read when all have run, so that nobody asks meanwhile.
"""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

from benchmarks.daemon import Daemon, group
from benchmarks.figures import Figure, percentile

if TYPE_CHECKING:
    from collections.abc import Iterator

#: seconds between two jobs
SHORTEST, LONGEST = 0.02, 0.04


def measure(scale: float = 1.0) -> Iterator[Figure]:
    """p50 and p99 of 500 jobs, for both kinds of children."""
    for isolation in ("process", "fork"):
        waits = _waits(isolation, int(500 * scale))
        name = f"enqueue → start, idle daemon, {isolation}"
        yield Figure(f"{name}, p50", percentile(waits, 0.5), "ms", ceiling=1.0)
        yield Figure(f"{name}, p99", percentile(waits, 0.99), "ms", note=f"{len(waits)} jobs one by one")


def _waits(isolation: str, jobs: int) -> list[float]:
    """Milliseconds that each job waited."""
    with Daemon(group(isolation, 2)) as daemon, daemon.client() as client:
        client.enqueue("clock").result(timeout=10)
        sent = []
        for _ in range(jobs):
            time.sleep(random.uniform(SHORTEST, LONGEST))
            sent.append((time.monotonic(), client.enqueue("clock")))
        return [(job.result(timeout=10) - at) * 1e3 for at, job in sent]
