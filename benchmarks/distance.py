"""
One host whose Redis is near or far. Needs root, iproute2 and /dev/net/tun.

The network between them is a process, which can hold each frame back. It takes CPU time that a network would not take,
so what a job costs is not told.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from benchmarks import hosts
from benchmarks.network import network
from benchmarks.rounds import rounds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.figures import Figure
    from benchmarks.rounds import Block

#: what is measured → seconds for which each frame is held back
WAYS = {"near": 0.0, "far": 0.0002}
ROUNDS = 5
TOLD = {
    "PING", "speed", "of what the slots could do", "enqueue → start, p50", "enqueue → start, p99", "scripts called",
}  # fmt: skip


def measure(scale: float = 1.0) -> Iterator[Figure]:
    """The round trip, a backlog of jobs that wait, and single jobs at half of what the slots could do."""
    turns, seconds = max(2, round(ROUNDS * scale)), max(0.5, hosts.BLOCK * scale)
    with (
        network(hosts.REDIS, *hosts.HOSTS, far=hosts.REDIS) as lan,
        hosts.fleet_of(lan, *hosts.OF_SLOTS) as fleet,
    ):
        blocks: dict[str, Callable[[], Block]] = {
            "a round trip": lambda: {"PING": fleet.ping() * 1e3},
            "jobs of 20 ms": lambda: hosts.naps(fleet, hosts.WAYS[0], seconds),
            "half load": lambda: hosts.half_load(fleet, hosts.WAYS[0], seconds),
        }

        def block(name: str, way: str) -> Block:
            lan.delay(WAYS[way])
            return {quantity: value for quantity, value in blocks[name]().items() if quantity in TOLD}

        for name in blocks:
            yield from rounds(name, list(WAYS), turns, partial(block, name))
