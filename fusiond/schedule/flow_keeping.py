"""
Look after the runs of flows whose steps or ends nobody has brought on: a dispatcher that settles does so at once, but
it may be killed in between. And runs that go on at a time: those that a schedule delays, those that are canceled.

A file without flows costs nothing.
"""

from __future__ import annotations

import time

from fusiond.broker.redis.connection import AsyncConnection
from fusiond.broker.verbs import Verbs
from fusiond.config.model import Config
from fusiond.flows.run_control import deliver_effects
from fusiond.schedule.publishing import refusals_logged

#: seconds between two looks
LOOK_AGAIN = 5.0


class FlowKeeper:
    """The queues of one file's flows and of their steps."""

    def __init__(self, broker: Verbs, connection: AsyncConnection, config: Config) -> None:
        self._broker, self._connection = broker, connection
        self._next = 0.0
        self.set_config(config)

    def set_config(self, config: Config) -> None:
        """Look after the flows of this configuration from now on; the sweep looks after runs of flows that are gone."""
        flows = config.flows.values()
        steps = {config.tasks[step.task].queue for flow in flows for step in flow.steps.values() if step.task}
        self._queues = sorted({flow.queue for flow in flows} | steps)

    def until_next(self) -> float:
        """Seconds to the next look."""
        return max(0.0, self._next - time.monotonic()) if self._queues else float("inf")

    async def run_once(self) -> None:
        """Look, if it is time. A refusal in one queue does not keep it from the others. Raises BrokerUnavailable."""
        if self.until_next():
            return
        self._next = time.monotonic() + LOOK_AGAIN
        for queue in self._queues:
            with refusals_logged(f"queue '{queue}': runs of flows were not looked after"):
                await self._connection.run(deliver_effects(self._broker, queue, advance=True))
