"""
Publish what one daemon's file declares, and keep it in Redis.

1. configure  what enqueue and claim must know of each queue: its length, suspension, defaults for the inbox
2. declare    the catalogue: tasks and queues, so that producers need nothing but the URL, and cron entries. It is
              declared again each minute, since Redis may have lost it
3. renew      the daemon's sign of life
4. end        say that the daemon has ended; from then on the catalogues of other daemons count

If Redis refuses a write, for example at maxmemory, the refusal is logged, what Redis has stays in force, and the write
is tried again.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import time
from collections.abc import Iterator
from random import Random
from typing import Any

from fusiond.broker.call import Call, Plan
from fusiond.broker.event_records import DAEMONS
from fusiond.broker.hosts.daemons import ALIVE_AGAIN, Published
from fusiond.broker.maintenance.operator import TaskDefaults
from fusiond.broker.records import TaskLimit
from fusiond.broker.redis.connection import AsyncConnection
from fusiond.broker.verbs import Verbs
from fusiond.config.accepted.snapshot import Snapshot
from fusiond.config.model import Config
from fusiond.config.model.limits import RateLimit
from fusiond.errors import BrokerError, BrokerUnavailable
from fusiond.flows.following import follow_of
from fusiond.flows.shapes import shape_of, shape_of_entry
from fusiond.schedule import drift

log = logging.getLogger(__name__)

#: seconds after which the catalogue is published again, ± a quarter
PUBLISH = 60.0
#: seconds for the last message; if it does not arrive, the sign of life expires
_LAST_MESSAGE = 2.0
#: the fields of a task that producers get
_TASK_FIELDS = (
    "queue", "priority", "expires", "run", "log_tag", "description", "limit_by", "secret",
)  # fmt: skip


class Publisher:
    """What one daemon has published."""

    def __init__(
        self, broker: Verbs, connection: AsyncConnection, snapshot: Snapshot, daemon: str, rand: Random, *, ticks: bool
    ) -> None:
        """`daemon`: its id; `ticks`: whether it ticks the cron entries of its file."""
        self._broker, self._connection, self._snapshot, self._daemon = broker, connection, snapshot, daemon
        self._rand, self._ticks = rand, ticks
        #: what was published last
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
        """Say that the daemon has ended."""
        if self.published:
            try:
                async with asyncio.timeout(_LAST_MESSAGE):
                    await self._connection.run(self._broker.end_daemon(self._daemon, self.published))
            except (BrokerError, TimeoutError) as error:
                log.debug("this daemon's end did not reach Redis: %s", error)

    async def _renew(self) -> None:
        """Say that the daemon is alive; publish everything again if Redis no longer has it."""
        self._renew_at = time.monotonic() + ALIVE_AGAIN
        known = True
        if self.published:
            with refusals_logged("this daemon's sign of life did not reach Redis"):
                known = await self._connection.run(self._broker.stay_alive(self._daemon, self.published))
        if not known:
            log.warning(
                "Redis no longer has what this daemon published; it is published again. If this line is repeated, two"
                " daemons have the same id: remove the file daemon-id from the state directory that is a copy"
            )
            self.start_over()

    async def _publish(self) -> bool:
        """Publish the configuration; false if a newer one has come meanwhile, which the next round publishes."""
        snapshot, is_configured, again = self._snapshot, self._configured, ALIVE_AGAIN
        if not is_configured:
            await self._connection.check()
            is_configured = await self._configure(snapshot.config)
        with refusals_logged("the catalogue did not reach Redis"):
            await self._declare(snapshot)
            if is_configured:
                again = PUBLISH * self._rand.uniform(0.75, 1.25)
        if snapshot is not self._snapshot:
            return False
        self._configured, self._publish_at = is_configured, time.monotonic() + again
        return True

    async def _configure(self, config: Config) -> bool:
        """Write the list of queues and their settings; false if Redis has refused any of it."""
        is_written = False
        with refusals_logged("the list of queues did not reach Redis"):
            await self._connection.run(self._broker.declare(config.queues))
            is_written = True
        for reply in await self._connection.run_many(list(queue_settings(self._broker, config))):
            with refusals_logged("a queue's settings did not reach Redis"):
                if isinstance(reply, BrokerError):
                    is_written = False
                    raise reply
        return is_written

    async def _declare(self, snapshot: Snapshot) -> None:
        """Publish the catalogue. Raises BrokerError."""
        before = self.published.hash if self.published else None
        declared = catalogue(self._broker, snapshot, self._daemon, before=before, ticks=self._ticks)
        self.published = await self._connection.run(declared)
        self._renew_at = time.monotonic() + ALIVE_AGAIN
        if not self._configured or any(task.suspended for task in snapshot.config.tasks.values()):
            await self._connection.run(_suspend_tasks(self._broker))
        if not self._configured:
            tasks, entries = len(snapshot.config.tasks), len(snapshot.config.cron) if self._ticks else 0
            fields = {"published_generation": self.published.generation}
            log.info("published; tasks: %d, cron entries that tick: %d", tasks, entries, extra=fields)


@contextlib.contextmanager
def refusals_logged(what: str) -> Iterator[None]:
    """Log that Redis refused something, and go on. Raises BrokerUnavailable if Redis is away."""
    try:
        yield
    except BrokerUnavailable:
        raise
    except BrokerError as error:
        log.error("%s: %s", what, error)


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
    # as worker groups have said: producers go on to know it while all of them restart
    positional = config.to_name((yield from broker.catalogue()).positional)
    entries = config.cron if ticks else {}
    return (
        yield from broker.publish_catalogue(
            daemon,
            snapshot.hash,
            {
                name: {field: value for field in _TASK_FIELDS if (value := getattr(task, field)) not in (None, (), "")}
                | ({"unique": task.unique.to_text()} if task.unique else {})
                | ({"follow": follow} if (follow := follow_of(config, task)) else {})
                | ({"positional": names} if (names := positional.get(name)) else {})
                | ({"suspended": True} if task.suspended else {})
                for name, task in config.tasks.items()
            },
            priorities=config.priorities,
            queues=config.queues,
            cron={
                name: drift.declaration(entry, config.work_of(entry), shape_of_entry(config, entry))
                for name, entry in entries.items()
            },
            digests=drift.digests(config),
            flows={name: dataclasses.asdict(shape_of(config, name)) for name in config.flows},
            owners=config.owners,
            before=before,
        )
    )


def _suspend_tasks(broker: Verbs) -> Plan[None]:
    """Have no queue begin jobs of the tasks that a living daemon's file suspends, this one's included."""
    suspended = (yield from broker.catalogue()).suspended
    names: list[str] = yield broker.queues()
    yield [broker.suspend_tasks(name, suspended, by="file", on=None) for name in names]


def queue_settings(broker: Verbs, config: Config) -> Iterator[Call[Any]]:
    """Write each queue's settings; the queues are declared before."""
    # in each queue: a call may send a job of any task there
    failure_ttls = {task.name: round(task.failure_ttl * 1000) for task in config.tasks.values()}
    wanted = config.events.wanted() if config.events else ""
    yield broker.keep_events(DAEMONS, wanted)
    yield from broker.declare_pools(config)
    for name, queue in config.queues.items():
        tasks = [task for task in config.tasks.values() if task.queue == name]
        yield broker.configure(
            name,
            tasks={
                task.name: TaskDefaults(
                    task.priority,
                    None if task.expires is None else round(task.expires * 1000),
                    task.unique.to_text() if task.unique else "",
                    follow_of(config, task),
                )
                for task in tasks
            },
            max_length=queue.max_length,
            max_running=queue.max_running,
            rate=_rate(queue.rate_limit),
            fair_by=queue.fair_by,
            metrics=config.counts_jobs,
            elsewhere={task.name: task.queue for task in config.tasks.values() if task.limit and task.queue != name},
            limits={
                task.name: TaskLimit(task.limit.by, task.limit.max_running, _rate(task.limit.rate_limit))
                for task in tasks
                if task.limit
            },
        )
        yield broker.declare_policies(name, config.retry_policies)
        if failure_ttls:
            yield broker.declare_failure_ttls(name, failure_ttls)
        yield broker.keep_events(name, wanted)
        yield broker.suspend(name, by="file", on=queue.suspended)


def _rate(limit: RateLimit | None) -> tuple[float, int] | None:
    return (limit.every_ms, limit.burst) if limit else None
