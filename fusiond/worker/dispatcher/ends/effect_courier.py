"""
Deliver what the ends of jobs have put into the effects of their queues: callbacks, and word to the jobs that wait.

1. note     a queue that has effects, as a reply or a message of Redis says
2. deliver  it, beside the round trips of the lanes, on a connection that is opened when it is first needed

What is not delivered, since this process ends or Redis refuses it, stays in the effects: other dispatchers and the
sweeps of all daemons deliver it, too.
"""

from __future__ import annotations

import asyncio
import contextlib

from fusiond.broker.redis.connection import AsyncConnection
from fusiond.broker.redis.outage import Outage
from fusiond.broker.verbs import Verbs
from fusiond.errors import BrokerError, BrokerUnavailable
from fusiond.flows.run_control import deliver_effects
from fusiond.worker.dispatcher.ends.outcomes import Refusals

#: s; at the end of the program, for what the last jobs have left
_LAST = 1.0


class EffectCourier:
    """Delivers the effects of one group's queues."""

    def __init__(self, broker: Verbs, connection: AsyncConnection, outage: Outage) -> None:
        self._broker, self._connection, self._outage = broker, connection, outage
        self._queues: set[str] = set()
        self._noted = asyncio.Event()
        self._refusals = Refusals()

    def note(self, queue: str) -> None:
        """There is something in the effects of this queue."""
        self._queues.add(queue)
        self._noted.set()

    async def keep(self) -> None:
        """Until cancelled."""
        # The lanes log that Redis is away.
        await self._outage.repeat(self._deliver, self._noted, lambda: float("inf"), lambda _: None)

    async def end(self) -> None:
        """Deliver what is noted, if Redis answers soon."""
        with contextlib.suppress(BrokerUnavailable, TimeoutError):
            async with asyncio.timeout(_LAST):
                await self._deliver()

    async def _deliver(self) -> None:
        """Raises BrokerUnavailable; the queue stays noted then."""
        while self._queues:
            # What is noted of it meanwhile may have come behind the last look, and needs another one.
            queue = self._queues.pop()
            try:
                await self._connection.run(deliver_effects(self._broker, queue))
            except BrokerUnavailable:
                self._queues.add(queue)
                raise
            except BrokerError as error:
                self._refusals.log(f"queue '{queue}': its effects are kept for the next sweep: {error}")
