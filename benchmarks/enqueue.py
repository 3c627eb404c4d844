"""How many jobs one producer hands over in a second, one call each or in one call, and what one that waits takes up."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING

from benchmarks import calibration
from benchmarks.daemon import Daemon, group
from benchmarks.figures import Figure, Gate, spread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fusiond import Client

RUNS = 3
#: a phone number and a code: what a small job has to say
ARGS, KWARGS = ("+4915112345678",), {"code": "1234"}


def measure(scale: float = 1.0) -> Iterator[Figure]:
    """Into a queue that nobody claims from."""
    with Daemon(group("process", 2)) as daemon, daemon.client() as client:
        daemon.suspend(on=True)
        client.enqueue("noop", *ARGS, **KWARGS)
        one = lambda count: _one_by_one(client, count)  # noqa: E731
        many = lambda count: _many(client, count)  # noqa: E731
        yield _speed("enqueue, one by one", int(10_000 * scale), one, daemon, 5)
        before = int(daemon.server()["used_memory"])
        jobs = int(50_000 * scale)
        yield _speed("enqueue_many", jobs, many, daemon, 1.0)
        taken = int(daemon.server()["used_memory"]) - before
        name = "Redis memory per waiting job"
        waiting, least = taken / (jobs * RUNS), calibration.bytes_of_a_job(ARGS, KWARGS)
        gate = Gate(waiting / least, "a string of JSON and its id in a sorted set", ceiling=1.5)
        yield Figure(name, waiting, "bytes", gate, f"of {jobs * RUNS:,}, used_memory")


def _speed(name: str, count: int, enqueue: Callable[[int], None], daemon: Daemon, ceiling: float) -> Figure:
    speeds, ours, redis, sent, ratios = [], [], [], [], []
    pings = calibration.Pings(daemon.socket)
    for _ in range(RUNS):
        least = pings.mean()
        taken, read = daemon.use()["redis"].cpu, _read(daemon)
        worked, began = time.process_time(), time.monotonic()
        enqueue(count)
        seconds = time.monotonic() - began
        ours.append((time.process_time() - worked) / count * 1e6)
        redis.append((daemon.use()["redis"].cpu - taken) / count * 1e6)
        sent.append((_read(daemon) - read) / count)
        speeds.append(count / seconds)
        ratios.append(seconds / count / least)
    pings.close()
    value, note = spread(speeds)
    gate = Gate(statistics.median(ratios), "a bare PING", ceiling=ceiling)
    note += f"; CPU of the producer {min(ours):.0f} µs a job, of Redis {min(redis):.3g}; {min(sent):.0f} bytes to Redis"
    return Figure(name, value, "jobs/s", gate, note)


def _read(daemon: Daemon) -> int:
    return int(daemon.server()["total_net_input_bytes"])


def _one_by_one(client: Client, count: int) -> None:
    for _ in range(count):
        client.enqueue("noop", *ARGS, **KWARGS)


def _many(client: Client, count: int) -> None:
    client.enqueue_many(("noop", ARGS, KWARGS) for _ in range(count))
