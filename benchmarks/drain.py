"""
How fast a backlog of jobs that do nothing is worked off, results kept.

1. enqueue   while the queue is suspended
2. resume    and count until every job is finished
"""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING

from benchmarks import calibration
from benchmarks.daemon import Daemon, group
from benchmarks.figures import Figure, Gate, spread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: of each measure
RUNS = 3


def measure(scale: float = 1.0) -> Iterator[Figure]:
    """50,000 jobs with children that are reused, 5,000 with a fork for each."""
    # The job's share of the time, against what the machine takes for the least of it.
    yield _drain("process", 8, 50_000, scale, calibration.ping, "a bare PING", 2.3)
    for count, ceiling in ((2, 2.5), (4, 2.0), (8, 1.7)):
        yield _drain("fork", count, 5_000, scale, calibration.fork, "a bare fork", ceiling)


def _drain(
    isolation: str, count: int, jobs: int, scale: float, bare: Callable[[], float], name: str, ceiling: float
) -> Figure:
    jobs = int(jobs * scale)
    runs, ratios = [], []
    for _ in range(max(1, int(RUNS * scale))):
        least = bare()
        runs.append(_fresh_run(isolation, count, jobs))
        ratios.append(runs[-1][0] / jobs / least)
    speed, note = spread([jobs / seconds for seconds, _, _ in runs])
    ours, redis = (min(run[kind] for run in runs) / jobs * 1e3 for kind in (1, 2))
    note += f"; CPU per job {ours:.3f} ms, Redis {redis:.3f} ms"
    gate = Gate(statistics.median(ratios), name, ceiling=ceiling)
    return Figure(f"drain {jobs:,} jobs, {isolation}, {count} children", speed, "jobs/s", gate, note)


def _fresh_run(isolation: str, count: int, jobs: int) -> tuple[float, float, float]:
    """With nothing kept from a run before: each result that is has Redis take longer over the next."""
    with Daemon(group(isolation, count)) as daemon:
        return run(daemon, jobs)


def run(daemon: Daemon, jobs: int, task: str = "noop") -> tuple[float, float, float]:
    """Work off a backlog: seconds, and CPU seconds of the daemon and of Redis."""
    daemon.suspend(on=True)
    with daemon.client() as client:
        client.enqueue_many((task,) for _ in range(jobs))
    goal = daemon.finished() + jobs
    before = daemon.use()
    began = time.monotonic()
    daemon.suspend(on=False)
    daemon.await_finished(goal)
    seconds = time.monotonic() - began
    after = daemon.use()
    ours, redis = (after[kind].cpu - before[kind].cpu for kind in ("fusiond", "redis"))
    return seconds, ours, redis
