"""
The scheduler's program: one in each daemon, none of them a leader.

1. publish  the catalogue and the queues' settings; say ready once they are there, and renew the daemon's sign of life
2. tick     the cron entries (ticking.py)
3. sweep    the queues (sweeping.py)
4. wait     with one timer for what comes first; nothing is polled
5. obey     apply: the new snapshot, then publish again. SIGTERM, SIGINT and a lost supervisor end it at once: what was
            not decided is still due for the next one

While Redis is away it tries again for ever, and then tells everything anew. A daemon whose scheduler runs on another
host (`--only`) has a publisher in its place, which does 1, 4 and 5.
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
from fusiond.broker.fleet import ALIVE_AGAIN
from fusiond.broker.outage import Outage, pause, trouble
from fusiond.broker.redis.connection import connect_async
from fusiond.broker.verbs import Verbs
from fusiond.config.accepted.snapshot import Snapshot, read_snapshot
from fusiond.errors import BrokerError, BrokerUnavailable, BrokerUnfit, ConfigError
from fusiond.identity import daemon_id
from fusiond.program import on_failed_callback
from fusiond.schedule import declaring
from fusiond.schedule.sweeping import Sweeper
from fusiond.schedule.ticking import Ticker

if TYPE_CHECKING:
    from pathlib import Path

    from fusiond.broker.fleet import Published
    from fusiond.program import Link

log = logging.getLogger(__name__)

#: seconds after which the catalogue is published again, ± a quarter: Redis may have lost it
PUBLISH = 60.0
#: seconds that the last word may take: another daemon's outranks this one's sooner, and nothing depends on it
_LAST_WORD = 2.0


async def run(snapshot_path: Path, link: Link, runtime: Path, *, ticks: bool = True) -> None:
    """
    Serve until told to end. Raises BrokerUnfit or ConfigError if it could never begin.

    `ticks`: whether it ticks and sweeps, or publishes only.
    """
    hook.run("scheduler")
    snapshot = read_snapshot(snapshot_path)
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
    """Ticks, sweeps and publishes for one daemon."""

    def __init__(self, snapshot: Snapshot, link: Link, runtime: Path, *, ticks: bool = True) -> None:
        settings = snapshot.config.broker
        self._snapshot, self._link, self._ticks = snapshot, link, ticks
        self._daemon = daemon_id(snapshot.path.parent)
        self._published: Published | None = None
        self._rand = random.Random()  # noqa: S311 - spreads load
        script.load_all()
        self._broker = Verbs(settings.namespace)
        self._connection = connect_async(settings, runtime)
        self._outage = Outage(connect_async(settings, runtime), self._broker.keys)
        self._ticker = Ticker(self._broker, self._connection, self._daemon)
        self._ticker.set_config(snapshot.config)
        self._sweeper = Sweeper(self._broker, self._connection, self._rand)
        self._sweeper.set_config(snapshot.config)
        self._changed = asyncio.Event()
        #: commands that wait for what they changed to be published
        self._unanswered: list[dict[str, Any]] = []
        self._publish_at = self._renew_at = 0.0
        self._configured = self._ready = False

    async def serve(self) -> None:
        """Go round until cancelled. Raises BrokerUnfit if that is so from the start."""
        failures, lost_at = 0, 0.0
        while True:
            self._changed.clear()
            try:
                await self._run_once()
            except BrokerError as error:
                if isinstance(error, BrokerUnfit) and not self._ready:
                    raise
                if not failures:
                    lost_at = time.monotonic()
                    log.error("%s - trying again for as long as it takes", error)  # noqa: TRY400 - one sentence
                failures += 1
                self._lose_redis()
                await self._outage.wait(pause(failures), self._changed)
            else:
                if failures:
                    log.info("Redis is back after %.0f s", time.monotonic() - lost_at)
                failures = 0
                await self._wait(self._until_next())

    async def close(self) -> None:
        """Say that the daemon ends, and end the connection."""
        if self._published:
            try:
                async with asyncio.timeout(_LAST_WORD):
                    await self._connection.run(self._broker.end_daemon(self._daemon, self._published))
            except (BrokerError, TimeoutError) as error:
                log.debug("this daemon's end did not reach Redis: %s", error)
        await self._connection.close()

    async def trouble(self) -> str:
        """Why it cannot tick just now; "" where it can."""
        return await trouble(self._connection, self._broker.keys)

    def on_command(self, command: dict[str, Any]) -> None:
        """Do what the supervisor says; it knows more words than concern us."""
        if command.get("do") == "apply":
            self._apply(command)

    def _apply(self, command: dict[str, Any]) -> None:
        """Follow a new snapshot; the answer comes when producers can see it, or Redis is away."""
        try:
            snapshot = read_snapshot(command["snapshot"])
        except ConfigError as error:
            log.error("%s", error)  # noqa: TRY400 - one sentence
            return
        self._ticker.set_config(snapshot.config)
        self._sweeper.set_config(snapshot.config)
        self._snapshot = snapshot
        logs.set_level(snapshot.config.logging.level)
        self._configured, self._publish_at = False, 0.0
        self._unanswered.append(command)
        self._changed.set()

    def _answer(self) -> None:
        for command in self._unanswered:
            self._link.say(**{"is": "applied", "generation": command["generation"]})
        self._unanswered.clear()

    async def _run_once(self) -> None:
        if time.monotonic() >= self._renew_at:
            await self._renew()
        if time.monotonic() >= self._publish_at:
            await self._publish()
        if self._ticks:
            await self._ticker.run_once()
            await self._sweeper.run_once()

    async def _renew(self) -> None:
        """Say that the daemon is alive; publish everything anew where Redis no longer has what was published."""
        self._renew_at = time.monotonic() + ALIVE_AGAIN
        if self._published is None:
            return
        try:
            known = await self._connection.run(self._broker.stay_alive(self._daemon, self._published))
        except BrokerUnavailable:
            raise
        except BrokerError as error:  # at maxmemory, say
            log.error("this daemon's sign of life did not reach Redis: %s", error)  # noqa: TRY400 - one sentence
            known = True
        if not known:
            log.warning(
                "Redis no longer has what this daemon published; it is published again. Where this is said again and"
                " again, two daemons have the same id: remove daemon-id from a state directory that was copied"
            )
            self._configured, self._publish_at = False, 0.0

    async def _publish(self) -> None:
        """Tell what the snapshot says, and that it was told."""
        snapshot = self._snapshot
        if not self._configured:
            await self._configure(snapshot)
        again = PUBLISH * self._rand.uniform(0.75, 1.25) if await self._declare(snapshot) else ALIVE_AGAIN
        if snapshot is not self._snapshot:
            return  # another came meanwhile: the next round tells it
        if self._ticks:
            await self._tidy()
        self._configured, self._publish_at = True, time.monotonic() + again
        self._answer()
        if not self._ready:
            self._ready = True
            self._link.say(**{"is": "ready"})

    async def _configure(self, snapshot: Snapshot) -> None:
        await self._connection.check()
        await self._list(snapshot)
        for reply in await self._connection.run_many(declaring.configuration(self._broker, snapshot.config)):
            if isinstance(reply, BrokerUnavailable):
                raise reply
            if isinstance(reply, BrokerError):
                log.error("a queue's settings did not reach Redis: %s", reply)

    async def _list(self, snapshot: Snapshot) -> None:
        try:
            await self._connection.run(self._broker.declare(snapshot.config.queues))
        except BrokerUnavailable:
            raise
        except BrokerError as error:  # at maxmemory, say: those that are listed go on
            log.error("the list of queues did not reach Redis: %s", error)  # noqa: TRY400 - one sentence

    async def _declare(self, snapshot: Snapshot) -> bool:
        """Publish the catalogue; whether that was possible."""
        before = self._published.hash if self._published else None
        try:
            published = await self._connection.run(
                declaring.catalogue(self._broker, snapshot, self._daemon, before=before, ticks=self._ticks)
            )
        except BrokerUnavailable:
            raise
        except BrokerError as error:  # at maxmemory, say: what was published before still stands
            log.error("the catalogue did not reach Redis: %s", error)  # noqa: TRY400 - one sentence
            return False
        self._published, self._renew_at = published, time.monotonic() + ALIVE_AGAIN
        self._ticker.set_generation(published.generation)
        if not self._configured:
            tasks, entries = len(snapshot.config.tasks), len(snapshot.config.cron) if self._ticks else 0
            log.info(
                "published %d tasks; %d cron entries tick", tasks, entries, extra={"generation": published.generation}
            )
        return True

    async def _tidy(self) -> None:
        try:
            await self._ticker.tidy()
        except BrokerUnavailable:
            raise
        except BrokerError as error:  # the entries of this file tick all the same
            log.error("cron entries that are in no file were not looked after: %s", error)  # noqa: TRY400 - one sentence

    def _lose_redis(self) -> None:
        """Begin anew with the next round: it may have come back empty, or be another."""
        self._configured, self._publish_at = False, 0.0
        self._ticker.look_at_all()
        self._answer()

    def _until_next(self) -> float:
        publish = max(0.0, min(self._publish_at, self._renew_at) - time.monotonic())
        return min(publish, self._ticker.until_next(), self._sweeper.until_next()) if self._ticks else publish

    async def _wait(self, seconds: float) -> None:
        if self._changed.is_set():
            return
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            pass
