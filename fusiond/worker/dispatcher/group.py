"""
One worker group as a program: a dispatcher, and what connects it to the world.

1. start     the fork server; meanwhile reach Redis, and check that it can be worked with
2. ready     say so once every path was tried, the first children serve and Redis has answered; if this is a reload,
             refuse where a path fails or a child dies
3. serve     beside: leases, wake-ups, a word about itself for `fusiond status`
4. obey      the supervisor (apply, go, drain, leave) and signals: the first warm, the second cold
5. end       children first, then outcomes, then good-bye

A supervisor that is gone ends it cold: the next one must find no strays.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from fusiond import hook, logs
from fusiond.broker import script
from fusiond.broker.outage import Outage, pause, trouble
from fusiond.broker.redis.connection import connect_async
from fusiond.broker.verbs import Verbs
from fusiond.config.accepted.snapshot import Snapshot, read_snapshot
from fusiond.errors import BrokerError, BrokerUnavailable, FusionError
from fusiond.identity import daemon_id
from fusiond.program import EX_SOFTWARE, on_failed_callback
from fusiond.worker.dispatcher.leases import Leases
from fusiond.worker.dispatcher.loop import POLL, Dispatcher, Phase
from fusiond.worker.dispatcher.presence import Presence
from fusiond.worker.pool.fork_servers import sentence

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence
    from pathlib import Path

    from fusiond.broker.redis.connection import Subscription
    from fusiond.config.model import WorkerGroup
    from fusiond.program import Link
    from fusiond.worker.pool.launch import Launched

#: tasks that do not load, of which the supervisor is told the names
_MOST_TASKS = 10
#: characters of what keeps the group from serving, for who looks at its workers
_MOST_TROUBLE = 500
log = logging.getLogger(__name__)

#: s; between two words about itself, when nothing changed, and at the least
ANNOUNCE, ANNOUNCE_CHANGED = 20.0, 2.0
#: jobs that one word about itself names, those first that run longest
_NAMED = 100


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
    group = snapshot.config.workers[group_name]
    program = GroupProgram(snapshot, group, link, runtime=runtime, held=held)
    try:
        return await program.run(launched)
    except asyncio.CancelledError:
        if not program.failed:
            raise
        return EX_SOFTWARE
    finally:
        program.close()


class DoNotLoad(FusionError):  # noqa: N818 - what is the matter
    """Tasks do not load, and the group is on trial."""

    def __init__(self, reason: str, tasks: Sequence[str]) -> None:
        super().__init__(reason)
        self.tasks = tasks[:_MOST_TASKS]


class GroupProgram:
    """A dispatcher and its connections."""

    def __init__(self, snapshot: Snapshot, group: WorkerGroup, link: Link, *, runtime: Path, held: bool) -> None:
        self._snapshot, self._group, self._link, self._held = snapshot, group, link, held
        settings = snapshot.config.broker
        script.load_all()
        self._broker = Verbs(settings.namespace)
        self._name = f"{socket.gethostname()}.{os.getpid()}"
        self._claims, self._leases, self._talk, asking = (connect_async(settings, runtime) for _ in range(4))
        self._outage = Outage(asking, self._broker.keys)
        dispatcher = Dispatcher(self._name, snapshot.config, group, self._broker, self._claims, outage=self._outage)
        dispatcher.tell_problems = self._tell_problems
        self._dispatcher, self._pool = dispatcher, dispatcher.pool
        self._keeper = Leases(self._broker, self._leases, self._outage, dispatcher.held, dispatcher.on_leases_changed)
        dispatcher.renew_soon = self._keeper.renew_soon
        daemon = daemon_id(snapshot.path.parent)
        self._presence = Presence(self._broker, self._talk, daemon, self._name, self._serves)
        self._beside: list[asyncio.Task[None]] = []
        self._born = time.time()
        self._listening: asyncio.Task[None]
        self._reaching: asyncio.Task[None] | None = None
        self._stops, self._serving, self._status = 0, False, 0
        #: it has lost track of something
        self.failed = False
        self._busy_told, self._unloaded_told, self._environment_told = -1, "", ""
        #: the last question what this worker does, and whether it waits for its answer
        self._question, self._asked = 0, asyncio.Event()

    async def run(self, launched: Launched | None) -> int:
        """Serve; returns the exit status. Raises FusionError where it cannot become ready."""
        self._link.start(self._on_command, self._on_supervisor_lost, self._trouble)
        loop = asyncio.get_running_loop()
        on_failed_callback(partial(self._fail, asyncio.current_task(loop)))
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal)
        self._reaching = loop.create_task(self._reach_redis())
        self._pool.start(launched)
        await self._get_ready(self._reaching)
        self._add(self._keeper.keep())
        self._add(self._announce())
        self._add(self._presence.keep())
        self._listening = self._add(self._listen())
        self._serving = True
        await self._dispatcher.serve()
        await self._say_good_bye()
        return self._status

    def close(self) -> None:
        """End the children and all that runs beside."""
        for task in self._beside:
            task.cancel()
        self._dispatcher.close()

    def _fail(self, run: asyncio.Task[Any] | None) -> None:
        """End without a word: what slots and attempts say cannot be trusted any more, and leases expire."""
        if run is not None and not self.failed:
            self.failed = True
            run.cancel()

    def _add(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._beside.append(task)
        task.add_done_callback(self._on_ended)
        return task

    def _on_ended(self, task: asyncio.Task[None]) -> None:
        """Without its leases or wake-ups the program would only seem to work: it ends, and is started anew."""
        if not task.cancelled() and (error := task.exception()):
            log.error("a part of this program has failed; it ends", exc_info=error)
            self._status = EX_SOFTWARE
            self._stop_cold()

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
            raise DoNotLoad(f"group '{self._group.name}': {sentence(problems)}", sorted(problems))
        if self._pool.start_failure and self._held:
            raise FusionError(self._pool.start_failure)
        self._tell_problems()
        self._tell_environment()
        nothing_loads = self._pool.nothing_loads
        if nothing_loads:
            # First, so that it never counts as serving. It has started all the same: the daemon waits for it no longer.
            self._link.say(**{"is": "checked", "n": 0, "trouble": nothing_loads})
        self._link.say(**{"is": "ready"})
        if not nothing_loads:
            log.info("group '%s' is ready: %d processes", self._group.name, self._group.processes)
        if not self._held:
            self._dispatcher.go()

    def _tell_problems(self) -> None:
        """Say which tasks cannot run, and why; empty where all can."""
        self._presence.look()
        reason = self._pool.unloaded
        if reason != self._unloaded_told:
            self._unloaded_told = reason
            self._link.say(**{"is": "unloaded", "reason": reason})

    def _tell_environment(self) -> None:
        """Say which environment files the fork server has loaded; it may have been started anew since."""
        loaded = self._pool.environment
        if loaded != self._environment_told:
            self._environment_told = loaded
            self._link.say(**{"is": "environment", "digest": loaded})

    async def _reach_redis(self) -> None:
        """Until Redis has answered; it may be started after us. Raises BrokerUnfit."""
        failures = 0
        while True:
            try:
                await self._claims.check()
            except BrokerUnavailable as error:
                failures += 1
                if failures == 1:
                    log.error("%s", error)  # noqa: TRY400 - a sentence, not a traceback
                await self._outage.wait(pause(failures))
            else:
                return

    async def _trouble(self) -> str:
        """Why this group cannot serve just now; "" where it can."""
        return self._pool.trouble or await trouble(self._talk, self._broker.keys)

    # -- beside the dispatcher ----------------------------------------------------------------------------------------

    async def _listen(self) -> None:
        """Wake the dispatcher when a queue has jobs; without the connection the poll does."""
        failures = 0
        while True:
            try:
                subscription = await self._talk.subscribe([*self._channels(), self._broker.keys.workers])
                failures = 0
                await self._hear_wakes(subscription)
            except BrokerError:
                failures += 1
                await self._outage.wait(pause(failures))

    async def _hear_wakes(self, subscription: Subscription) -> None:
        """Until the connection is lost. Raises BrokerUnavailable."""
        channels = self._channels()
        # What was enqueued or canceled before the subscription stood has woken nobody.
        self._dispatcher.claim_from()
        self._keeper.renew_soon()
        try:
            async for channel, message in subscription:
                if channel == self._broker.keys.workers:
                    self._question = int(message) if message.isdigit() else 0
                    self._asked.set()
                elif message == b"cancel":
                    self._keeper.renew_soon()
                elif channel in channels:
                    self._dispatcher.claim_from(channels[channel])
        finally:
            await subscription.close()

    def _channels(self) -> dict[str, str]:
        """Channel → queue."""
        return {self._broker.keys.wake(queue): queue for queue in self._dispatcher.queues.names}

    def _listen_anew(self) -> None:
        """The queues have changed."""
        self._listening.cancel()
        self._listening = self._add(self._listen())

    async def _announce(self) -> None:
        """Tell `fusiond status` about this worker, at once where it asks; and poll, in case a wake-up was lost."""
        last: dict[str, str | int] = {}
        said = polled = 0.0
        while True:
            self._asked.clear()
            now = time.monotonic()
            fields = self._fields()
            if fields != last or now - said > ANNOUNCE:
                try:
                    await self._talk.run(self._broker.announce(self._name, {**fields, **self._moment()}))
                    last, said = fields, now
                except BrokerError:
                    log.debug("this worker could not announce itself")
            if now - polled >= POLL:
                polled = now
                self._dispatcher.poll()
                self._tell_environment()
            with contextlib.suppress(TimeoutError):
                rest = ANNOUNCE_CHANGED if fields["running"] else POLL
                async with asyncio.timeout(max(0.0, min(rest, polled + POLL - time.monotonic()))):
                    await self._asked.wait()

    def _fields(self) -> dict[str, str | int]:
        """What changes with what this worker does, not with time."""
        dispatcher = self._dispatcher
        begins = dispatcher.phase == Phase.HELD or bool(self._pool.trouble)
        return {
            "answers": self._question,
            "born": int(self._born * 1000),
            "group": self._group.name,
            "queues": " ".join(dispatcher.queues.names),
            "generation": self._snapshot.generation,
            "state": "busy" if dispatcher.busy else "started" if begins else "idle",
            "phase": dispatcher.phase.name.lower(),
            "processes": self._group.processes,
            "running": self._pool.running,
            "trouble": self._pool.trouble[:_MOST_TROUBLE],
            "unkilled": " ".join(f"{a.queue}/{a.name}" for a in self._pool.unkilled()[:32]),
            **dispatcher.counts,
        }

    def _moment(self) -> dict[str, str | int]:
        """Which jobs run, and for how long, as of now."""
        now = time.monotonic_ns()
        jobs: list[dict[str, Any]] = []
        for attempt, seconds in self._pool.running_attempts(now):
            name, task = f"{attempt.queue}/{attempt.name}", attempt.task.decode(errors="replace")
            jobs.append({"job": name, "task": task, "ms": round(seconds * 1000)})
        jobs.sort(key=lambda job: -job["ms"])
        return {"said": int(time.time() * 1000), "jobs": json.dumps(jobs[:_NAMED])}

    def _serves(self) -> list[str]:
        """The queues from which it claims now."""
        claims = self._dispatcher.phase == Phase.SERVING and not self._pool.trouble
        return list(self._dispatcher.queues.names) if claims else []

    # -- who may tell us what to do -----------------------------------------------------------------------------------

    def _on_command(self, command: dict[str, Any]) -> None:
        match command.get("do"):
            case "apply":
                self._apply(command)
            case "go":
                self._dispatcher.go()
            case "leave":
                self._dispatcher.leave(int(command["slots"]))
            case "drain":
                self._dispatcher.drain()
                self._add(self._tell_busy())
            case other:
                log.error("the supervisor asked for %r, which this program does not know", other)
        self._presence.look()

    def _apply(self, command: dict[str, Any]) -> None:
        """Change in place; answers only when it is done."""
        try:
            snapshot = read_snapshot(command["snapshot"])
        except FusionError as error:
            log.error("%s", error)  # noqa: TRY400
            return
        group = snapshot.config.workers.get(self._group.name)
        if group is not None:
            queues = self._dispatcher.queues.names
            self._snapshot, self._group = snapshot, group
            self._dispatcher.set_config(snapshot.config, group)
            logs.set_level(snapshot.config.logging.level)
            if self._dispatcher.queues.names != queues:
                self._listen_anew()
        self._link.say(**{"is": "applied", "generation": command["generation"]})

    async def _tell_busy(self) -> None:
        """While draining: how many slots the next generation must leave to this one."""
        while True:
            busy = self._pool.running
            if busy != self._busy_told:
                self._busy_told = busy
                self._link.say(**{"is": "busy", "slots": busy})
            await asyncio.sleep(0.05)

    def _on_signal(self) -> None:
        self._stops += 1
        self._presence.look()
        if self._stops > 1 or not self._serving:
            log.info("stopping at once")
            self._stop_cold()
            return
        log.info("stopping: running jobs have %g s", self._group.drain_timeout)
        self._dispatcher.drain()
        asyncio.get_running_loop().call_later(self._group.drain_timeout, self._stop_cold)

    def _stop_cold(self) -> None:
        self._dispatcher.stop_cold()
        if self._reaching:
            self._reaching.cancel()

    def _on_supervisor_lost(self) -> None:
        log.error("the supervisor is gone; stopping at once")
        self._stop_cold()

    async def _say_good_bye(self) -> None:
        for task in self._beside:
            task.cancel()
        try:
            await self._presence.end()
            await self._claims.run(self._broker.withdraw(self._name))
        except BrokerError:
            log.debug("this worker could not withdraw")
        if self._dispatcher.phase >= Phase.DRAINING:
            log.info("group '%s' has ended", self._group.name)
