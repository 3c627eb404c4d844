"""
One child that runs many jobs at once: how near it comes to a bare event loop, and what it takes.

1. quick   jobs that await 10 ms, 50 at once
2. slow    500 jobs of 1 s at once
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from benchmarks import calibration
from benchmarks.daemon import Daemon, group
from benchmarks.figures import Figure, Gate

if TYPE_CHECKING:
    from collections.abc import Iterator


def measure(scale: float = 1.0) -> Iterator[Figure]:
    """Both, each with a daemon of its own; the memory is that of the group: its dispatcher, fork server and child."""
    jobs = int(20_000 * scale)
    bare = calibration.naps(jobs, 50, 0.01)
    with Daemon(group("process", 1, keys="executor: asyncio, concurrency: 50")) as daemon:
        _drain(daemon, "nap", 1_000, 0.01)
        seconds, cpu = _drain(daemon, "nap", jobs, 0.01)
    gate = Gate(bare / seconds, "a bare event loop", floor=0.95)
    note = f"CPU per job {cpu / jobs * 1e3:.3f} ms"
    yield Figure("10 ms of await, 1 child of 50 at once", jobs / seconds, "jobs/s", gate, note)
    bare = calibration.naps(500, 500, 1.0)
    with Daemon(group("process", 1, keys="executor: asyncio, concurrency: 500")) as daemon:
        _drain(daemon, "nap", 500, 0.01)
        seconds, _ = _drain(daemon, "nap", 500, 1.0)
        memory = daemon.group_memory("main")
    gate = Gate(seconds / bare, "a bare event loop", ceiling=1.5)
    yield Figure("500 jobs of 1 s at once in 1 child", seconds, "s", gate)
    gate = Gate(memory / calibration.interpreter_memory(), "a waiting Python", ceiling=9.0)
    yield Figure("memory of that group", memory / 1e6, "MB PSS", gate)


def _drain(daemon: Daemon, task: str, jobs: int, *args: float) -> tuple[float, float]:
    """Work off a backlog: seconds, and CPU seconds of the daemon without Redis."""
    daemon.suspend(on=True)
    with daemon.client() as client:
        client.enqueue_many((task, args) for _ in range(jobs))
    goal, before, began = daemon.finished() + jobs, daemon.use(), time.monotonic()
    daemon.suspend(on=False)
    daemon.await_finished(goal)
    return time.monotonic() - began, daemon.use()["fusiond"].cpu - before["fusiond"].cpu
