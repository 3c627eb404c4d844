"""
What a call of a script costs Redis: as a whole, and for each job where one call brings several.

1. fill    a queue with jobs that have ended, which Redis may drop after a minute
2. batch   enqueue, claim and settle jobs of other queues, 1, 16 and 256 in a call; one call after the other
3. drop    when the minute is over, settle jobs of the first queue: each call also drops as many as it ends
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.enqueue import ARGS, KWARGS
from benchmarks.figures import Figure, number, quartiles
from benchmarks.server import Server
from fusiond.broker.call import as_is, plain
from fusiond.broker.records import NewJob, Outcome
from fusiond.broker.redis.connection import connect
from fusiond.broker.verbs import Verbs
from fusiond.config import model

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from fusiond.broker.call import Call

ROUNDS = 5
SIZES = (1, 16, 256)
#: calls of a block of each size
CALLS = {1: 1_000, 16: 200, 256: 40}
#: s for which Redis remembers an id after its end, and a second more
REMEMBERED = 61.0
#: ms, longer than all this takes
LEASE = 3_600_000


def measure(scale: float = 1.0) -> Iterator[Figure]:
    """Medians over rounds, in µs of Redis' CPU."""
    turns = max(2, round(ROUNDS * scale))
    with Server() as server:
        bench = Bench(server, scale)
        try:
            before = bench.appended()
            bench.batch("old", 256, turns)
            filled = time.monotonic()
            note = "enqueue, claim and settle; about what a replica is sent"
            yield Figure("append-only file", (bench.appended() - before) / bench.jobs, "bytes a job", note=note)
            yield _figure("PING", "µs a call", bench.pings(turns))
            for size in SIZES:
                for verb, costs in bench.batch(f"of{size}", size, turns).items():
                    yield _figure(f"{verb}, {size} in a call", "µs a job", costs)
            time.sleep(max(0.0, filled + REMEMBERED - time.monotonic()))
            pairs = [[bench.batch(queue, 256, 1)["settle"][0] for queue in ("new", "old")] for _ in range(turns)]
            ratios = quartiles([dropping / others for others, dropping in pairs])
            note = "; {1} × one beside it that drops none ({0} to {2})".format(*map(number, ratios))
            costs = [dropping for _, dropping in pairs]
            yield _figure("settle that drops as many, 256 in a call", "µs a job", costs, note)
        finally:
            bench.close()


def _figure(name: str, unit: str, costs: list[float], note: str = "") -> Figure:
    low, middle, high = quartiles([cost * 1e6 for cost in costs])
    return Figure(name, middle, unit, note=f"{number(low)} to {number(high)}{note}")


class Bench:
    """One connection, on which one call follows another."""

    def __init__(self, server: Server, scale: float) -> None:
        """`scale`: a share of the calls."""
        self._server, self._scale = server, scale
        self._connection = connect(model.Broker(url=server.url), Path("/tmp"))
        self._verbs, self._batches = Verbs(model.Broker().namespace), 0
        #: that have ended so far
        self.jobs = 0

    def close(self) -> None:
        """Hang up."""
        self._connection.close()

    def appended(self) -> int:
        """Bytes of the append-only file, which is not rewritten before it has 64 MB."""
        return int(self._server.info("persistence")["aof_current_size"])

    def pings(self, turns: int) -> list[float]:
        """Seconds of Redis' CPU of a PING, in each turn."""
        count = max(10, int(CALLS[1] * self._scale))
        return [self._cost([plain(as_is, "PING")] * count) / count for _ in range(turns)]

    def batch(self, queue: str, size: int, turns: int) -> dict[str, list[float]]:
        """Enqueue, claim and settle jobs, `size` in a call; of each turn the seconds of Redis' CPU for a job."""
        count = max(10, int(CALLS[size] * self._scale))
        found = defaultdict(list)
        for _ in range(turns):
            self._batches, self.jobs = self._batches + 1, self.jobs + count * size
            names = [f"{self._batches}-{call}" for call in range(count)]
            for verb, make in self._makers(queue, size).items():
                found[verb].append(self._cost([make(name) for name in names]) / count / size)
        counts = self._connection.run(self._verbs.counts(queue))
        if counts.queued or counts.started:
            raise SystemExit(f"{counts.queued + counts.started} jobs of queue '{queue}' have not ended")
        return found

    def _makers(self, queue: str, size: int) -> dict[str, Callable[[str], Call[Any]]]:
        """Verb → what makes a call of the batch of this name; its token is the name, too."""
        args = json.dumps([ARGS, KWARGS], separators=(",", ":")).encode()

        def ids(name: str) -> list[str]:
            return [f"{name}-{at}" for at in range(size)]

        return {
            "enqueue": lambda name: self._verbs.enqueue(queue, [NewJob(id_, "noop", args) for id_ in ids(name)]),
            "claim": lambda name: self._verbs.claim(
                queue, size, dispatcher="bench", nonce=name, lease_ms=LEASE, max_rescues=1
            ),
            "settle": lambda name: self._verbs.settle(
                queue, [Outcome(id_, name, "finished", 0, payload=b"null") for id_ in ids(name)]
            ),
        }

    def _cost(self, calls: list[Call[object]]) -> float:
        before = self._server.use().cpu
        for call in calls:
            self._connection.run(call)
        return self._server.use().cpu - before
