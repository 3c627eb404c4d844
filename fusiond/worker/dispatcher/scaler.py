"""
Have as many children as the load needs, in a group whose `processes` is a range (scaling.py decides how many).

1. look    each LOOK seconds at what runs; Redis is asked what waits only while every slot is in use
2. change  the number of children
3. tell    the log, the supervisor, and so `fusiond status` and its metrics: how many there are, and why

A group without a range looks at nothing.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import Callable

from fusiond.broker.records import Counts
from fusiond.broker.redis.connection import AsyncConnection
from fusiond.broker.verbs import Verbs
from fusiond.errors import BrokerError
from fusiond.status_document import ChildNumbers, ScalingReason
from fusiond.worker.dispatcher import scaling
from fusiond.worker.dispatcher.loop import Dispatcher
from fusiond.worker.dispatcher.scaling import Change, Look, next_size

log = logging.getLogger(__name__)

#: s; between two looks
LOOK = 1.0


class Scaler:
    """Scales the pool of one dispatcher."""

    def __init__(
        self, dispatcher: Dispatcher, broker: Verbs, connection: AsyncConnection, tell: Callable[[ChildNumbers], None]
    ) -> None:
        """`tell`: called with how many children there are, when that has changed."""
        self._dispatcher, self._broker, self._connection, self._tell = dispatcher, broker, connection, tell
        self._looks: deque[Look] = deque()
        #: monotonic s
        self._changed_at = 0.0
        self._reasons: Counter[ScalingReason] = Counter()
        self._last = ""
        self._has_range = asyncio.Event()

    def follow(self) -> None:
        """The file may have another range now, or none."""
        if self._dispatcher.conf.group.scaling:
            self._has_range.set()
        else:
            self._has_range.clear()
            self._looks.clear()
        self._tell(self.describe())

    def describe(self) -> ChildNumbers:
        """How many children there are, and why."""
        group, capacity = self._dispatcher.conf.group, self._dispatcher.pool.capacity
        if group.scaling is None:
            return {}
        least, most = group.scaling.min, group.scaling.max
        return {
            "processes": capacity.processes,
            "range": [least, most],
            "changes": dict(self._reasons),
            "why": self._last,
        }

    async def keep(self) -> None:
        """Look, again and again, until cancelled."""
        self.follow()
        while True:
            await self._has_range.wait()
            if self._dispatcher.claims and not self._dispatcher.pool.servers.trouble:
                try:
                    await self._look()
                except BrokerError as error:
                    log.debug("what waits is not known: %s", error)
            else:
                self._looks.clear()
            await asyncio.sleep(LOOK)

    async def _look(self) -> None:
        """Look, and change the number if it must be. Raises BrokerError."""
        dispatcher, capacity = self._dispatcher, self._dispatcher.pool.capacity
        running, ended, full = capacity.running, sum(dispatcher.counts.values()), self._is_full()
        waiting, oldest = await self._waiting(running) if full else (0.0, 0.0)
        self._looks.append(Look(time.monotonic(), running, ended, full, waiting, oldest))
        group = dispatcher.conf.group
        if group.scaling is None or not dispatcher.claims:
            return
        change = next_size(capacity.processes, group.concurrency, group.scaling, self._looks, since=self._changed_at)
        # One look from before the last minute, so that it is known to be over.
        while len(self._looks) > 1 and self._looks[1].at <= time.monotonic() - scaling.QUIET:
            self._looks.popleft()
        if change:
            self._scale(change)

    def _is_full(self) -> bool:
        """Whether every slot is in use. Between two quick jobs one may not be, though more jobs wait for it."""
        dispatcher, capacity = self._dispatcher, self._dispatcher.pool.capacity
        slots = capacity.processes * dispatcher.conf.group.concurrency
        is_pressed = bool(dispatcher.planner.queues.deep) and capacity.running >= 0.75 * slots
        return capacity.has_started and (capacity.unused() <= 0 or is_pressed)

    async def _waiting(self, running: int) -> tuple[float, float]:
        """This group's share of what waits, and how long a job has waited at most, s. Raises BrokerError."""
        if not (queues := self._dispatcher.planner.queues.may_have_jobs):
            return 0.0, 0.0
        found = await self._connection.run_many([self._broker.counts(queue) for queue in queues])
        return scaling.waiting_share([one for one in found if isinstance(one, Counts)], running)

    def _scale(self, change: Change) -> None:
        group, former = self._dispatcher.conf.group, self._dispatcher.pool.capacity.processes
        self._changed_at = time.monotonic()
        self._reasons[change.reason] += 1
        self._last = f"{former} → {change.processes}: {change.why}"
        log.info(
            "group '%s': processes: %s", group.name, self._last,
            extra={"group": group.name, "reason": change.reason, "processes": change.processes},
        )  # fmt: skip
        self._dispatcher.scale(change.processes)
        self._tell(self.describe())
