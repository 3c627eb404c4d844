"""
Publish what one daemon's file declares, and keep it in Redis.

1. configure  what enqueue and claim must know of each queue: its length, suspension, defaults for the inbox
2. declare    the catalogue: tasks and queues, so that producers need nothing but the URL, and cron entries. It is
              declared again each minute, since Redis may have lost it
3. renew      the daemon's sign of life
4. end        tell that the daemon has ended: from then on the catalogue of another daemon counts

What Redis refuses, at maxmemory for example, is logged; what it has from before stays in force.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from typing import TYPE_CHECKING, Any

from fusiond.broker.daemons import ALIVE_AGAIN
from fusiond.errors import BrokerError, BrokerUnavailable
from fusiond.schedule import drift

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

    from fusiond.broker.call import Call, Plan
    from fusiond.broker.daemons import Published
    from fusiond.broker.redis.connection import AsyncConnection
    from fusiond.broker.verbs import Verbs
    from fusiond.config.accepted.snapshot import Snapshot
    from fusiond.config.model import Config

log = logging.getLogger(__name__)

#: seconds after which the catalogue is published again, ± a quarter
PUBLISH = 60.0
#: seconds for the last message; where it does not arrive, the sign of life expires
_LAST_MESSAGE = 2.0
#: what producers are told of a task
_TASK_FIELDS = ("queue", "priority", "expires", "run", "log_tag", "description")


class Publisher:
    """What one daemon has published."""

    def __init__(
        self, broker: Verbs, connection: AsyncConnection, snapshot: Snapshot, daemon: str, rand: Random, *, ticks: bool
    ) -> None:
        """`daemon`: its id; `ticks`: whether it ticks the cron entries of its file."""
        self._broker, self._connection, self._snapshot, self._daemon = broker, connection, snapshot, daemon
        self._rand, self._ticks = rand, ticks
        #: what Redis was told last
        self.published: Published | None = None
        self._configured = False
        #: monotonic seconds
        self._publish_at = self._renew_at = 0.0

    def set_snapshot(self, snapshot: Snapshot) -> None:
        """Publish this configuration from now on."""
        self._snapshot = snapshot
        self.start_over()

    def start_over(self) -> None:
        """Publish everything in the next round: Redis may have come back empty, or be another one."""
        self._configured, self._publish_at = False, 0.0

    def until_next(self) -> float:
        """Seconds to the next round."""
        return max(0.0, min(self._publish_at, self._renew_at) - time.monotonic())

    async def run_once(self) -> bool:
        """Do what is due; whether the newest file was published. Raises BrokerUnavailable or BrokerUnfit."""
        if time.monotonic() >= self._renew_at:
            await self._renew()
        return time.monotonic() >= self._publish_at and await self._publish()

    async def end(self) -> None:
        """Tell that the daemon has ended."""
        if self.published:
            try:
                async with asyncio.timeout(_LAST_MESSAGE):
                    await self._connection.run(self._broker.end_daemon(self._daemon, self.published))
            except (BrokerError, TimeoutError) as error:
                log.debug("this daemon's end did not reach Redis: %s", error)

    async def _renew(self) -> None:
        """Tell that the daemon is alive; publish everything again where Redis no longer has what was published."""
        self._renew_at = time.monotonic() + ALIVE_AGAIN
        known = True
        if self.published:
            with refusals_logged("this daemon's sign of life did not reach Redis"):
                known = await self._connection.run(self._broker.stay_alive(self._daemon, self.published))
        if not known:
            log.warning(
                "Redis no longer has what this daemon published; it is published again. Where this is said again and"
                " again, two daemons have the same id: remove daemon-id from a state directory that was copied"
            )
            self.start_over()

    async def _publish(self) -> bool:
        """Publish the file; false if a newer one has come meanwhile, which the next round publishes."""
        snapshot = self._snapshot
        if not self._configured:
            await self._connection.check()
            await self._configure(snapshot.config)
        again = ALIVE_AGAIN
        with refusals_logged("the catalogue did not reach Redis"):
            await self._declare(snapshot)
            again = PUBLISH * self._rand.uniform(0.75, 1.25)
        if snapshot is not self._snapshot:
            return False
        self._configured, self._publish_at = True, time.monotonic() + again
        return True

    async def _configure(self, config: Config) -> None:
        with refusals_logged("the list of queues did not reach Redis"):
            await self._connection.run(self._broker.declare(config.queues))
        for reply in await self._connection.run_many(queue_settings(self._broker, config)):
            with refusals_logged("a queue's settings did not reach Redis"):
                if isinstance(reply, BrokerError):
                    raise reply

    async def _declare(self, snapshot: Snapshot) -> None:
        """Publish the catalogue. Raises BrokerError."""
        before = self.published.hash if self.published else None
        declared = catalogue(self._broker, snapshot, self._daemon, before=before, ticks=self._ticks)
        self.published = await self._connection.run(declared)
        self._renew_at = time.monotonic() + ALIVE_AGAIN
        if not self._configured:
            tasks, entries = len(snapshot.config.tasks), len(snapshot.config.cron) if self._ticks else 0
            fields = {"generation": self.published.generation}
            log.info("published; tasks: %d, cron entries that tick: %d", tasks, entries, extra=fields)


@contextlib.contextmanager
def refusals_logged(what: str) -> Iterator[None]:
    """Log what Redis refuses, and go on; an absent Redis is left to the caller. Raises BrokerUnavailable."""
    try:
        yield
    except BrokerUnavailable:
        raise
    except BrokerError as error:
        log.error("%s: %s", what, error)  # noqa: TRY400 - one sentence


def catalogue(
    broker: Verbs, snapshot: Snapshot, daemon: str, *, before: str | None = None, ticks: bool = True
) -> Plan[Published]:
    """
    Publish what may be enqueued, and which cron entries tick.

    Args:
        broker: the verbs.
        snapshot: the configuration.
        daemon: the daemon's id.
        before: the hash that this process has published last.
        ticks: whether the daemon ticks the entries of its file.
    """
    config = snapshot.config
    entries = config.cron if ticks else {}
    return broker.publish_catalogue(
        daemon,
        snapshot.hash,
        {
            name: {field: value for field in _TASK_FIELDS if (value := getattr(task, field)) is not None}
            for name, task in config.tasks.items()
        },
        priorities=config.priorities,
        queues=config.queues,
        cron={name: drift.declaration(entry, config.tasks[entry.task]) for name, entry in entries.items()},
        digests=drift.digests(config),
        before=before,
    )


def queue_settings(broker: Verbs, config: Config) -> list[Call[Any]]:
    """Write each queue's settings; the queues are declared before."""
    calls: list[Call[Any]] = []
    for name, queue in config.queues.items():
        tasks = {
            task.name: (task.priority, None if task.expires is None else round(task.expires * 1000))
            for task in config.tasks.values()
            if task.queue == name
        }
        calls.append(broker.configure(name, max_length=queue.max_length, tasks=tasks))
        calls.append(broker.suspend(name, by="file", on=queue.suspended))
    return calls
