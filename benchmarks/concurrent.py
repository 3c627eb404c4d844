"""
One child that runs many jobs at once: how near it comes to the ideal, and what it takes.

1. quick   jobs that await 10 ms, 50 at once: the ideal is 5,000 in a second
2. slow    500 jobs of 1 s at once: the ideal is 1 s
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from benchmarks.daemon import Daemon, group
from benchmarks.figures import Figure, Gate

if TYPE_CHECKING:
    from collections.abc import Iterator

#: seconds of work
_QUICK = 4.0


def measure(scale: float = 1.0) -> Iterator[Figure]:
    """Both, each with a daemon of its own; the memory is that of the group: its dispatcher, fork server and child."""
    ideal = 50 / 0.01
    with Daemon(group("process", 1, keys="executor: asyncio, concurrency: 50")) as daemon:
        _drain(daemon, "nap", int(ideal / 5), 0.01)
        jobs = int(ideal * _QUICK * scale)
        seconds, cpu = _drain(daemon, "nap", jobs, 0.01)
    speed = jobs / seconds
    gate = Gate(speed / ideal, "the ideal", floor=0.94)
    yield Figure(
        "10 ms of await, 1 child of 50 at once", speed, "jobs/s", gate, f"CPU per job {cpu / jobs * 1e3:.3f} ms"
    )
    with Daemon(group("process", 1, keys="executor: asyncio, concurrency: 500")) as daemon:
        _drain(daemon, "nap", 500, 0.01)
        seconds, _ = _drain(daemon, "nap", 500, 1.0)
        memory = daemon.group_memory("main")
    yield Figure("500 jobs of 1 s at once in 1 child", seconds, "s", Gate(seconds, "the ideal, 1 s", ceiling=1.5))
    yield Figure("memory of that group", memory / 1e6, "MB PSS", Gate(memory / 60e6, "60 MB", ceiling=1.0))


def _drain(daemon: Daemon, task: str, jobs: int, *args: float) -> tuple[float, float]:
    """Work off a backlog: seconds, and CPU seconds of the daemon without Redis."""
    daemon.suspend(on=True)
    with daemon.client() as client:
        client.enqueue_many((task, args) for _ in range(jobs))
    goal, before, began = daemon.finished() + jobs, daemon.use(), time.monotonic()
    daemon.suspend(on=False)
    daemon.await_finished(goal)
    return time.monotonic() - began, daemon.use()["fusiond"].cpu - before["fusiond"].cpu
