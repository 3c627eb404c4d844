"""
One worker group as a program: a dispatcher, and what connects it to the world.

1. start   the fork server; meanwhile reach Redis, and check that it can be worked with
2. ready   say so once every path was tried, the first children serve and Redis has answered; if this is a reload,
           refuse where a path fails or a child dies
3. serve   jobs (loop.py); beside that leases, wake-ups, and what Redis is told of the group (presence.py)
4. obey    the supervisor (apply, go, drain, leave) and signals: the first drains, the second ends it at once
5. end     children first, then outcomes, then what Redis was told

When the supervisor is gone it ends at once: the next supervisor must find no strays.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import AsyncGenerator, Coroutine, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from fusiond import hook, logs
from fusiond.broker import script
from fusiond.broker.redis.connection import connect_async
from fusiond.broker.redis.outage import Outage, trouble
from fusiond.broker.verbs import Verbs
from fusiond.config.accepted.snapshot import Snapshot, read_snapshot
from fusiond.config.model import WorkerGroup
from fusiond.errors import BrokerError, BrokerUnavailable, FusionError
from fusiond.link_messages import Apply, Command, Report
from fusiond.program import EX_SOFTWARE, Link, on_failed_callback
from fusiond.status_document import ChildNumbers
from fusiond.worker.dispatcher.ends.effect_courier import EffectCourier
from fusiond.worker.dispatcher.loop import Dispatcher, Phase
from fusiond.worker.dispatcher.presence import Presence
from fusiond.worker.dispatcher.progress_reports import ProgressReports
from fusiond.worker.dispatcher.scaler import Scaler
from fusiond.worker.pool.fork_server.launch import Launched
from fusiond.worker.pool.fork_servers import sentence
from fusiond.worker.pool.group_config import GroupConfig

log = logging.getLogger(__name__)

#: tasks that do not load, of which the supervisor is told the names
_MOST_TASKS = 10


async def run(
    snapshot: Snapshot, group_name: str, link: Link, launched: Launched | None, *, runtime: Path, held: bool
) -> int:
    """
    Serve a group until told to end.

    Args:
        snapshot: the accepted configuration.
        group_name: one of its workers.
        link: to the supervisor.
        launched: its fork server, where that was started already.
        runtime: the daemon's runtime directory, which holds the socket of the embedded server.
        held: claim nothing until told to go, and take a path that does not import for a refusal.

    Returns:
        the exit status.

    Raises:
        FusionError: it cannot become ready.
    """
    hook.run("dispatcher", group_name)
    program = GroupProgram(snapshot, snapshot.config.workers[group_name], link, runtime=runtime, held=held)
    serving = asyncio.ensure_future(program.run(launched))
    # What slots and attempts say cannot be trusted any more then: it ends without a word, and leases expire.
    on_failed_callback(serving.cancel)
    try:
        await asyncio.wait([serving])
        if serving.cancelled():
            return EX_SOFTWARE
        serving.result()
    finally:
        program.close()
    return 0


class DoNotLoad(FusionError):
    """Tasks do not load, and the group is on trial."""

    def __init__(self, reason: str, tasks: Sequence[str]) -> None:
        super().__init__(reason)
        self.tasks = tasks[:_MOST_TASKS]


class GroupProgram:
    """A dispatcher and its connections."""

    def __init__(self, snapshot: Snapshot, group: WorkerGroup, link: Link, *, runtime: Path, held: bool) -> None:
        settings = snapshot.config.broker
        conf = GroupConfig(snapshot.config, group, snapshot.generation, snapshot.path.parent)
        self._conf, self._link, self._held = conf, link, held
        script.load_all()
        broker, name = Verbs(settings.namespace), f"{socket.gethostname()}.{os.getpid()}"
        connect = partial(connect_async, settings, runtime)
        self._broker, self._talk, self._outage = broker, connect(), Outage(connect(), broker.keys)
        self._courier = EffectCourier(broker, connect(), self._outage)
        dispatcher = Dispatcher(
            name, conf, broker, connect,
            courier=self._courier, outage=self._outage, on_problems=self._on_problems,
        )  # fmt: skip
        self._dispatcher, self._pool = dispatcher, dispatcher.pool
        self._scaler = Scaler(dispatcher, broker, self._talk, self._on_scaled)
        self._presence = Presence(name, broker, self._talk, dispatcher, self._scaler)
        self._progress = ProgressReports(conf, self._pool, broker, self._talk)
        self._beside: set[asyncio.Task[None]] = set()
        self._listening: asyncio.Task[None]
        self._reaching: asyncio.Task[None] | None = None
        self._telling_busy: asyncio.Task[None] | None = None
        self._stops, self._serving = 0, False
        #: what the supervisor was told last, of each kind
        self._told: dict[str, Report] = {
            "unloaded": {"is": "unloaded", "reason": ""},
            "scaled": {"is": "scaled", "numbers": {}},
        }

    async def run(self, launched: Launched | None) -> None:
        """Serve. Raises FusionError where it cannot become ready."""
        self._link.start(self._on_command, self._on_supervisor_lost, self._trouble)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal)
        self._reaching = loop.create_task(self._reach_redis())
        self._pool.start(launched, on_trial=self._held)
        await self._get_ready(self._reaching)
        self._add(self._dispatcher.leases.keep())
        self._add(self._dispatcher.pool_slots.keep())
        self._add(self._presence.keep())
        self._add(self._progress.keep())
        self._add(self._scaler.keep())
        self._add(self._dispatcher.serve_second())
        self._add(self._courier.keep())
        self._listening = self._add(self._listen())
        self._serving = True
        await self._dispatcher.serve()
        self._cancel_beside()
        await self._courier.end()
        await self._dispatcher.pool_slots.end()
        await self._presence.end()
        if self._dispatcher.phase >= Phase.DRAINING:
            log.info("group '%s' has ended", self._conf.group.name)

    def close(self) -> None:
        """End the children and all that runs beside."""
        self._cancel_beside()
        self._dispatcher.close()

    def _cancel_beside(self) -> None:
        for task in self._beside:
            task.cancel()

    def _add(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run it beside. Without its leases or wake-ups the program would only seem to work, so it fails with each."""
        task = asyncio.get_running_loop().create_task(work)
        self._beside.add(task)
        task.add_done_callback(self._on_done_beside)
        return task

    def _on_done_beside(self, task: asyncio.Task[None]) -> None:
        self._beside.discard(task)
        # A callback that raises fails the program.
        if not task.cancelled():
            task.result()

    # -- becoming ready -----------------------------------------------------------------------------------------------

    async def _get_ready(self, reaching: asyncio.Task[None]) -> None:
        """Reach Redis and load the tasks, side by side. Raises FusionError."""
        ready = self._dispatcher.ready
        both: set[asyncio.Future[Any]] = {reaching, ready}
        await asyncio.wait(both, return_when=asyncio.FIRST_EXCEPTION)
        if self._dispatcher.phase == Phase.COLD:
            return
        for one in both:
            if one.done():
                one.result()
        problems = await ready
        if problems and self._held:
            raise DoNotLoad(f"group '{self._conf.group.name}': {sentence(problems)}", sorted(problems))
        if self._pool.servers.start_failure and self._held:
            raise FusionError(self._pool.servers.start_failure)
        nothing_loads = self._pool.servers.nothing_loads
        if nothing_loads:
            log.warning("group '%s': its tasks are tried again until one loads", self._conf.group.name)
            # First, so that it never counts as serving. It has started all the same: the daemon waits for it no longer.
            self._link.say({"is": "checked", "n": 0, "trouble": nothing_loads})
        self._link.say({"is": "ready"})
        if not nothing_loads:
            processes = self._conf.group.scaling.min if self._conf.group.scaling else self._conf.group.processes
            log.info("group '%s' is ready; processes: %d", self._conf.group.name, processes)
        if not self._held:
            self._dispatcher.go()

    def _on_problems(self) -> None:
        """Tell which tasks cannot run, and why; which environment files and release the fork server has loaded."""
        self._presence.note_change()
        self._tell({"is": "unloaded", "reason": self._pool.servers.unloaded})
        if origin := self._pool.servers.origin:
            self._tell({"is": "loaded", "environment": origin.environment, "release": origin.release})

    def _on_scaled(self, numbers: ChildNumbers) -> None:
        """Tell how many children there are, and why."""
        self._presence.note_change()
        self._tell({"is": "scaled", "numbers": numbers})

    def _tell(self, report: Report) -> None:
        """Tell the supervisor, unless it was told the same before."""
        if self._told.get(report["is"]) != report:
            self._told[report["is"]] = report
            self._link.say(report)

    async def _reach_redis(self) -> None:
        """Until Redis has answered; it may be started after us. Raises BrokerUnfit."""
        failures = 0
        while True:
            try:
                await self._talk.check()
            except BrokerUnavailable as error:
                failures += 1
                if failures == 1:
                    log.error("%s", error)
                await self._outage.wait(failures)
            else:
                return

    async def _trouble(self) -> str:
        """Why this group cannot serve just now; "" where it can."""
        return self._pool.servers.trouble or await trouble(self._talk, self._broker.keys)

    # -- wake-ups -----------------------------------------------------------------------------------------------------

    async def _listen(self) -> None:
        """Wake the dispatcher when a queue has jobs; without the connection the poll does."""
        failures = 0
        while True:
            channels = {self._broker.keys.wake(queue): queue for queue in self._dispatcher.planner.queues.names}
            try:
                messages = await self._talk.subscribe([*channels, self._broker.keys.workers])
                failures = 0
                await self._hear_wakes(messages, channels)
            except BrokerError:
                failures += 1
                await self._outage.wait(failures)

    async def _hear_wakes(self, messages: AsyncGenerator[tuple[str, bytes]], channels: Mapping[str, str]) -> None:
        """Until the connection is lost. Raises BrokerUnavailable."""
        self._dispatcher.on_listening()
        try:
            async for channel, message in messages:
                if channel == self._broker.keys.workers:
                    self._presence.note_change(int(message) if message.isdigit() else 0)
                elif message == b"cancel":
                    self._dispatcher.leases.renew_soon()
                elif channel in channels:
                    self._dispatcher.hear(channels[channel], message)
        finally:
            await messages.aclose()

    # -- who may tell us what to do -----------------------------------------------------------------------------------

    def _on_command(self, command: Command) -> None:
        match command["do"]:
            case "apply":
                self._apply(command)
            case "go":
                self._dispatcher.go()
            case "leave":
                self._dispatcher.leave(command["slots"])
            case "claims":
                self._dispatcher.set_claims(on=command["on"])
                self._keep_telling_busy(on=not command["on"])
            case "drain":
                self._dispatcher.drain()
                self._keep_telling_busy(on=True)
            case other:
                log.error("the supervisor asked for %r, which this program does not know", other)
        self._presence.note_change()

    def _apply(self, command: Apply) -> None:
        """Change in place; answers only when it is done."""
        try:
            snapshot = read_snapshot(command["snapshot"])
        except FusionError as error:
            log.error("%s", error)
            return
        group = snapshot.config.workers.get(self._conf.group.name)
        if group is not None:
            queues = self._dispatcher.planner.queues.names
            self._conf.generation = snapshot.generation
            self._dispatcher.set_config(snapshot.config, group)
            self._progress.follow()
            self._scaler.follow()
            logs.set_level(snapshot.config.logging.level)
            if self._dispatcher.planner.queues.names != queues:
                self._listening.cancel()
                self._listening = self._add(self._listen())
        self._link.say({"is": "applied", "generation": command["generation"]})

    def _keep_telling_busy(self, *, on: bool) -> None:
        if self._telling_busy:
            self._telling_busy.cancel()
        self._told.pop("busy", None)
        self._telling_busy = self._add(self._tell_busy()) if on else None

    async def _tell_busy(self) -> None:
        """
        While draining: how many slots the next generation must leave to this one, and how many jobs run.

        `waits`: none runs, but an answer of Redis is missing: an outcome may not be stored, or a job may come still.
        """
        while True:
            jobs = self._pool.capacity.running
            waits = not jobs and self._dispatcher.busy
            self._tell({"is": "busy", "slots": self._pool.capacity.used(), "jobs": jobs, "waits": waits})
            await asyncio.sleep(0.05)

    def _on_signal(self) -> None:
        self._stops += 1
        self._presence.note_change()
        if self._stops > 1 or not self._serving:
            log.info("stopping at once")
            self._stop_cold()
            return
        log.info("stopping: running jobs have %g s", self._conf.group.drain_timeout)
        self._dispatcher.drain()
        asyncio.get_running_loop().call_later(self._conf.group.drain_timeout, self._stop_cold)

    def _stop_cold(self) -> None:
        self._dispatcher.stop_cold()
        if self._reaching:
            self._reaching.cancel()

    def _on_supervisor_lost(self) -> None:
        log.error("the supervisor is gone; stopping at once")
        self._stop_cold()
