"""
The scheduler's program: one in each daemon, none of them a leader.

1. publish  what the file declares (publishing.py); say ready once it is published
2. tick     the cron entries (ticking.py)
3. sweep    the queues (sweeping.py)
4. wait     with one timer for what comes first; nothing is polled
5. obey     apply: publish the new snapshot. SIGTERM, SIGINT and the death of the supervisor end it at once: what was
            not decided is still due for the next scheduler

While Redis is away it tries again without end, and then publishes everything anew. A daemon whose scheduler runs on
another host (`--only`) has a publisher in its place, which does 1, 4 and 5.
"""

from __future__ import annotations

import asyncio
import logging
import random
import signal
import time
from typing import TYPE_CHECKING, Any

from fusiond import hook, logs
from fusiond.broker import script
from fusiond.broker.outage import Outage, pause, trouble
from fusiond.broker.redis.connection import connect_async
from fusiond.broker.verbs import Verbs
from fusiond.config.accepted.snapshot import Snapshot, read_snapshot
from fusiond.errors import BrokerError, BrokerUnfit, ConfigError
from fusiond.identity import daemon_id
from fusiond.program import on_failed_callback, wait_until_set
from fusiond.schedule.publishing import Publisher, refusals_logged
from fusiond.schedule.sweeping import Sweeper
from fusiond.schedule.ticking import Ticker

if TYPE_CHECKING:
    from pathlib import Path

    from fusiond.program import Link

log = logging.getLogger(__name__)


async def run(snapshot: Snapshot, link: Link, runtime: Path, *, ticks: bool = True) -> None:
    """
    Serve until told to end. Raises BrokerUnfit if it could never begin.

    `ticks`: whether it ticks and sweeps, or publishes only.
    """
    hook.run("scheduler")
    scheduler = Scheduler(snapshot, link, runtime, ticks=ticks)
    serving = asyncio.create_task(scheduler.serve())

    def end() -> None:
        serving.cancel()

    on_failed_callback(end)
    link.start(scheduler.on_command, end, scheduler.trouble)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, end)
    try:
        # `wait` tells the end of what it waits for from an end of our own.
        await asyncio.wait([serving])
        if not serving.cancelled():
            serving.result()
    finally:
        await scheduler.close()


class Scheduler:
    """Publishes, ticks and sweeps for one daemon."""

    def __init__(self, snapshot: Snapshot, link: Link, runtime: Path, *, ticks: bool = True) -> None:
        settings, daemon = snapshot.config.broker, daemon_id(snapshot.path.parent)
        self._link, self._ticks = link, ticks
        script.load_all()
        broker, connection = Verbs(settings.namespace), connect_async(settings, runtime)
        rand = random.Random()  # noqa: S311 - spreads load
        self._broker, self._connection = broker, connection
        self._outage = Outage(connect_async(settings, runtime), broker.keys)
        self.publisher = Publisher(broker, connection, snapshot, daemon, rand, ticks=ticks)
        self._ticker = Ticker(broker, connection, daemon)
        self._ticker.set_config(snapshot.config)
        self._sweeper = Sweeper(broker, connection, snapshot.config, rand)
        self._changed = asyncio.Event()
        #: commands that wait until what they changed is published
        self._unanswered: list[dict[str, Any]] = []
        self._ready = False

    async def serve(self) -> None:
        """Work until cancelled. Raises BrokerUnfit if Redis is unfit from the start."""
        failures, lost_at = 0, 0.0
        while True:
            self._changed.clear()
            try:
                await self.run_once()
            except BrokerError as error:
                if isinstance(error, BrokerUnfit) and not self._ready:
                    raise
                if not failures:
                    lost_at = time.monotonic()
                    log.error("%s - trying again for as long as it takes", error)  # noqa: TRY400 - one sentence
                failures += 1
                self.publisher.start_over()
                self._ticker.look_at_all()
                self._answer()
                await self._outage.wait(pause(failures), self._changed)
            else:
                if failures:
                    log.info("Redis is back after %.0f s", time.monotonic() - lost_at)
                failures = 0
                await wait_until_set(self._changed, self._until_next())

    async def close(self) -> None:
        """Say that the daemon ends, and end the connection."""
        await self.publisher.end()
        await self._connection.close()

    async def trouble(self) -> str:
        """Why it cannot tick just now; "" where it can."""
        return await trouble(self._connection, self._broker.keys)

    def on_command(self, command: dict[str, Any]) -> None:
        """Do what the supervisor says; of its commands only `apply` concerns the scheduler."""
        if command.get("do") == "apply":
            self._apply(command)

    def _apply(self, command: dict[str, Any]) -> None:
        """Follow a new snapshot; it is answered once producers can see it, or Redis is away."""
        try:
            snapshot = read_snapshot(command["snapshot"])
        except ConfigError as error:
            log.error("%s", error)  # noqa: TRY400 - one sentence
            return
        self.publisher.set_snapshot(snapshot)
        self._ticker.set_config(snapshot.config)
        self._sweeper.config = snapshot.config
        logs.set_level(snapshot.config.logging.level)
        self._unanswered.append(command)
        self._changed.set()

    def _answer(self) -> None:
        for command in self._unanswered:
            self._link.say(**{"is": "applied", "generation": command["generation"]})
        self._unanswered.clear()

    async def run_once(self) -> None:
        """Do what is due. Raises BrokerUnavailable or BrokerUnfit."""
        if await self.publisher.run_once():
            await self._on_published()
        if self._ticks:
            await self._ticker.run_once()
            with refusals_logged("a sweep failed"):
                await self._sweeper.run_once()

    async def _on_published(self) -> None:
        # First: a command that comes from now on waits for its own snapshot.
        self._answer()
        if not self._ready:
            self._ready = True
            self._link.say(**{"is": "ready"})
        if self.publisher.published:
            self._ticker.generation = self.publisher.published.generation
        if self._ticks:
            with refusals_logged("cron entries that are in no file were not looked after"):
                await self._ticker.tidy()

    def _until_next(self) -> float:
        publish = self.publisher.until_next()
        return min(publish, self._ticker.until_next(), self._sweeper.until_next()) if self._ticks else publish
