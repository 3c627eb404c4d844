"""
Sweep: the housekeeping that no other operation does.

1. list     the queues about once a minute, each daemon at a moment of its own
2. rescue   the jobs whose lease had expired before the last sweep: no dispatcher claims from their queue
3. deliver  the effects that the queue has for other queues
4. sweep    each queue in a bounded number of steps, one round trip each; the next sweep goes on from there. Only
            jobs that are to be placed again, since `fair_by` has changed, are not left to it

Each daemon sweeps: a step that another daemon has done finds nothing to do.
"""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from random import Random

from fusiond.broker import reclaimed
from fusiond.broker.redis.connection import AsyncConnection
from fusiond.broker.verbs import Verbs
from fusiond.config.model import Config
from fusiond.flows.lost_jobs import end_lost_jobs
from fusiond.flows.run_control import deliver_effects

log = logging.getLogger(__name__)

#: seconds between two sweeps, ± a quarter
PERIOD = 60.0
#: steps in one queue in one sweep; a step looks at some 500 keys
STEPS = 10
#: ended jobs that one step drops from each set
LIMIT = 500
#: expired leases that one claim takes back (claim.lua)
RESCUED = 100


class Sweeper:
    """The progress of the sweep of each queue."""

    def __init__(self, broker: Verbs, connection: AsyncConnection, config: Config, rand: Random) -> None:
        """`config`: says which lines about jobs are logged."""
        self._broker, self._connection, self.config, self._rand = broker, connection, config, rand
        self._next = time.monotonic() + rand.uniform(0, PERIOD)
        #: queue and steps left in this sweep
        self._todo: deque[tuple[str, int]] = deque()
        self._cursors: dict[str, int] = {}
        #: queues in which the last sweep has seen expired leases
        self._expired: set[str] = set()

    def until_next(self) -> float:
        """Seconds to the next step."""
        return 0.0 if self._todo else max(0.0, self._next - time.monotonic())

    async def run_once(self) -> None:
        """Do one step, if it is time. Raises BrokerError; the next calls sweep the other queues."""
        if self._todo:
            await self._step(*self._todo.popleft())
        elif time.monotonic() >= self._next:
            self._next = time.monotonic() + PERIOD * self._rand.uniform(0.75, 1.25)
            self._todo.extend((queue, STEPS) for queue in await self._connection.run(self._broker.queues()))

    async def _step(self, queue: str, steps: int) -> None:
        cursor = self._cursors.get(queue, 0)
        swept = await self._connection.run(self._broker.sweep(queue, cursor=cursor, limit=LIMIT))
        if swept.mended:
            log.warning("queue '%s': jobs that were in no set and are in one again: %d", queue, swept.mended)
        if steps == STEPS:
            await self._rescue(queue, swept.expired)
            await self._connection.run(end_lost_jobs(self._broker, queue, self._rand))
            await self._connection.run(deliver_effects(self._broker, queue, advance=True))
        self._cursors[queue] = swept.cursor
        if swept.placing or (steps > 1 and (swept.cursor or swept.trimmed >= LIMIT)):
            self._todo.append((queue, max(1, steps - 1)))

    async def _rescue(self, queue: str, expired: int) -> None:
        """Rescue at the second sweep that sees expired leases, since a host that has woken up may renew its own."""
        if not expired:
            self._expired.discard(queue)
        elif queue not in self._expired:
            self._expired.add(queue)
        else:
            for _ in range(min(STEPS, math.ceil(expired / RESCUED))):
                claim = await self._connection.run(self._broker.rescue(queue))
                await reclaimed.log_reclaimed(self._broker, self._connection, self.config, [(queue, claim.reclaimed)])
            log.warning("queue '%s': expired leases whose jobs no worker had rescued: %d", queue, expired)
