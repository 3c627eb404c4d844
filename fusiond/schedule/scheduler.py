"""
The scheduler's program: one in each daemon, none of them a leader.

1. publish  what the file declares (publishing.py); say ready once it is published
2. tick     the cron entries (ticking.py)
3. sweep    the queues (sweeping.py)
4. wait     with one timer for what comes first; nothing is polled
5. answer   who asks what jobs have printed on this host (output_answers.py)
6. obey     apply: publish the new snapshot. SIGTERM, SIGINT and the death of the supervisor end it at once: ticks
            that were not decided are still due for the next scheduler

While Redis is away it tries again without end, and then publishes everything again. A daemon whose scheduler runs on
another host (`--only`) has a publisher in its place, which does 1, 4, 5 and 6.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from pathlib import Path

from fusiond import hook, logs
from fusiond.broker import script
from fusiond.broker.redis.connection import connect_async
from fusiond.broker.redis.outage import Outage, retrying, trouble
from fusiond.broker.verbs import Verbs
from fusiond.config.accepted.plan import Effects, effects
from fusiond.config.accepted.snapshot import Snapshot, read_snapshot
from fusiond.errors import BrokerError, BrokerUnfit, ConfigError
from fusiond.identity import daemon_id
from fusiond.link_messages import Apply, Command
from fusiond.paths import job_output
from fusiond.program import Link, wait_until_set
from fusiond.schedule.daemon_events import DaemonEvents
from fusiond.schedule.flow_keeping import FlowKeeper
from fusiond.schedule.held_keeping import HeldTaskKeeper
from fusiond.schedule.left_jobs import left_jobs
from fusiond.schedule.output_answers import OutputAnswers, log_failure
from fusiond.schedule.publishing import Publisher, refusals_logged
from fusiond.schedule.sweeping import Sweeper
from fusiond.schedule.ticking import Ticker

log = logging.getLogger(__name__)

#: characters of what the supervisor is told
_MOST_WORDS = 4000
#: sentences for one reload about queues that nothing serves, and about removed names
_MOST_LEFT = 10
_UNSERVED = "no worker group serves queue '{}': its jobs wait for ever; add it to the queues of a group"


async def run(snapshot: Snapshot, link: Link, runtime: Path, *, ticks: bool = True) -> None:
    """
    Serve until told to end. Raises BrokerUnfit if it could never begin.

    `ticks`: whether it ticks and sweeps, or publishes only.
    """
    hook.run("scheduler")
    scheduler = Scheduler(snapshot, link, runtime, ticks=ticks)
    serving = asyncio.create_task(scheduler.serve())
    answering = asyncio.create_task(scheduler.answer_output())
    answering.add_done_callback(log_failure)

    link.end_by(serving.cancel, scheduler.on_command, scheduler.trouble)
    try:
        # Unlike `await serving`, this tells a cancel of `serving` from a cancel of our own.
        await asyncio.wait([serving])
        if not serving.cancelled():
            serving.result()
    finally:
        answering.cancel()
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
        self._events = DaemonEvents(broker, connection, daemon, snapshot.path.parent)
        self._events.is_on = snapshot.config.events is not None
        self._ticker = Ticker(broker, connection, daemon, self._events.note)
        self._ticker.set_config(snapshot.config)
        self._sweeper = Sweeper(broker, connection, snapshot.config, rand)
        self._flows = FlowKeeper(broker, connection, snapshot.config)
        self._held = HeldTaskKeeper(broker, connection, snapshot.config, rand, self._warn)
        self._output = OutputAnswers(
            broker, connection, snapshot.config, daemon, directory=job_output(snapshot.path.parent), outage=self._outage
        )
        self._changed = asyncio.Event()
        #: commands whose snapshot is not published yet
        self._unanswered: list[Apply] = []
        #: what these have changed
        self._changes: list[Effects] = []
        self._config = snapshot.config
        self._ready = self._ended = False

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
                    log.error("%s", retrying(error))
                failures += 1
                self.publisher.start_over()
                self._ticker.look_at_all()
                await self._answer(is_away=True)
                await self._outage.wait(failures, self._changed)
            else:
                if failures:
                    log.info("Redis is back after %.0f s", time.monotonic() - lost_at)
                failures = 0
                await wait_until_set(self._changed, self._until_next())

    async def answer_output(self) -> None:
        """Say what jobs have printed on this host, until cancelled."""
        await self._output.keep()

    async def close(self) -> None:
        """Say that the daemon ends, and end the connection."""
        await self.publisher.end()
        self._ended = True
        await self._connection.close()

    async def trouble(self) -> str:
        """Why it cannot tick now; "" if it can."""
        found = await trouble(self._connection, self._broker.keys)
        if self._ended:
            # The end of the connection has broken off the question. That must not hide the reason for which this ends.
            raise asyncio.CancelledError
        return found

    def on_command(self, command: Command) -> None:
        """Handle a command of the supervisor."""
        if command["do"] == "apply":
            self._apply(command)
        elif command["do"] == "tell":
            if event := command.get("event"):
                self._events.note(**event)
            self._changed.set()

    def _apply(self, command: Apply) -> None:
        """Take over a new snapshot; the answer follows once producers can see it, or Redis is away."""
        try:
            snapshot = read_snapshot(command["snapshot"])
        except ConfigError as error:
            log.error("%s", error)
            return
        self._changes.append(effects(self._config, snapshot.config))
        self._config = snapshot.config
        self.publisher.set_snapshot(snapshot)
        self._ticker.set_config(snapshot.config)
        self._sweeper.config = self._held.config = snapshot.config
        self._flows.set_config(snapshot.config)
        self._output.set_config(snapshot.config)
        self._events.is_on = snapshot.config.events is not None
        logs.set_level(snapshot.config.logging.level)
        self._unanswered.append(command)
        self._changed.set()

    def _warn(self, reason: str) -> None:
        self._link.say({"is": "warning", "reason": reason[:_MOST_WORDS]})

    async def _answer(self, *, is_away: bool = False) -> None:
        """
        Answer, and say which queues nothing serves now, and which jobs wait for what was removed.

        A command that comes later waits for its snapshot. `is_away`: Redis is, so that no job can be counted.
        """
        commands, self._unanswered, changes, self._changes = self._unanswered, [], self._changes, []
        left = [_UNSERVED.format(queue) for change in changes for queue in change.unserved]
        try:
            for change in () if is_away else changes:
                left += [each.message for each in await self._connection.run(left_jobs(self._broker, change.plan))]
        except BrokerError as error:
            log.debug("what waits for what was removed was not counted: %s", error)
        for command in commands:
            self._link.say({"is": "applied", "generation": command["generation"], "left": left[:_MOST_LEFT]})

    async def run_once(self) -> None:
        """Do what is due. Raises BrokerUnavailable or BrokerUnfit."""
        if await self.publisher.run_once():
            await self._on_published()
        await self._events.run_once()
        if self._ticks:
            await self._ticker.run_once()
            with refusals_logged("a sweep failed"):
                await self._sweeper.run_once()
                await self._held.run_once()
            await self._flows.run_once()
            await self._events.run_once()

    async def _on_published(self) -> None:
        await self._answer()
        if not self._ready:
            self._ready = True
            self._link.say({"is": "ready"})
        if self.publisher.published:
            self._ticker.generation = self.publisher.published.generation
        if self._ticks:
            with refusals_logged("cron entries that are in no file were not tidied up"):
                await self._ticker.tidy()

    def _until_next(self) -> float:
        publish = self.publisher.until_next()
        if not self._ticks:
            return publish
        chores = self._ticker, self._sweeper, self._flows, self._held
        return min(publish, *(chore.until_next() for chore in chores))
