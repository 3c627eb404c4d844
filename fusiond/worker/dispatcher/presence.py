"""
Tell Redis what one worker group serves and does.

1. serve     from which queues it claims, for producers: as soon as it claims, when they change, and every 10 s. A group
             that is killed or frozen counts as gone 30 s later
2. announce  what it does, for `fusiond status`: when that has changed, within every 10 s, and at once when it is asked
3. end       when it drains: from then on it claims nothing

No job depends on it: only the warning that nothing serves a queue, and which of two files a producer follows.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time

from fusiond.broker.hosts.daemons import ALIVE_AGAIN
from fusiond.broker.redis.connection import AsyncConnection
from fusiond.broker.verbs import Verbs
from fusiond.errors import BrokerError
from fusiond.identity import daemon_id
from fusiond.program import wait_until_set
from fusiond.status_document import ChildNumbers
from fusiond.worker.dispatcher.loop import Dispatcher, Phase
from fusiond.worker.dispatcher.scaler import Scaler

log = logging.getLogger(__name__)

#: s; until it tells Redis again what has not changed
_ANNOUNCE = 5.0
#: s; between two looks at what it does: while jobs run, and while none does; after Redis has not answered
_BUSY, _IDLE, _AGAIN = 2.0, 5.0, 1.0
#: jobs that are named, those that have run longest
_NAMED = 100
#: characters of what keeps the group from serving; jobs whose child does not end though it was killed
_MOST_TROUBLE, _MOST_UNKILLED = 500, 32


class Presence:
    """What Redis knows of one group."""

    def __init__(
        self, name: str, broker: Verbs, connection: AsyncConnection, dispatcher: Dispatcher, scaler: Scaler
    ) -> None:
        """`name`: of the worker, `host.pid`."""
        self._name, self._daemon = name, daemon_id(dispatcher.conf.state)
        self._broker, self._connection, self._dispatcher, self._scaler = broker, connection, dispatcher, scaler
        self._born = int(time.time() * 1000)
        self._changed = asyncio.Event()
        #: number of the last question what this worker does
        self._question = 0
        #: what Redis was told last, and when, in monotonic s
        self._queues: tuple[str, ...] = ()
        self._tasks: tuple[str, ...] = ()
        self._fields: dict[str, str | int] = {}
        self._served_at = self._announced_at = 0.0

    def note_change(self, question: int = 0) -> None:
        """What the group serves may have changed; or somebody asks what it does, by a question with a number."""
        self._question = question or self._question
        self._changed.set()

    async def keep(self) -> None:
        """Tell it, again and again, until cancelled."""
        while True:
            self._changed.clear()
            wait = _BUSY if self._dispatcher.pool.capacity.running else _IDLE
            try:
                await self._serve(self._serving(), self._about_tasks())
                await self._announce()
            except BrokerError as error:
                log.debug("what this group serves and does did not reach Redis: %s", error)
                wait = _AGAIN
            await wait_until_set(self._changed, wait)

    async def end(self) -> None:
        """Tell that the group has ended."""
        try:
            await self._serve(())
            await self._connection.run(self._broker.withdraw(self._name))
        except BrokerError as error:
            log.debug("the end of this group did not reach Redis: %s", error)

    def _serving(self) -> tuple[str, ...]:
        """The queues from which it claims now."""
        claims = self._dispatcher.claims and not self._dispatcher.pool.servers.trouble
        return tuple(self._dispatcher.planner.queues.names) if claims else ()

    def _about_tasks(self) -> tuple[str, ...]:
        """Which tasks do not load, and how others name what calls pass by position, where the file counts on names."""
        servers = self._dispatcher.pool.servers
        known = self._dispatcher.conf.config.to_name(servers.positional).items()
        return tuple(
            sorted([*(f"!{task}" for task in servers.problems), *(f"{task}={names}" for task, names in known)])
        )

    async def _serve(self, queues: tuple[str, ...], tasks: tuple[str, ...] = ()) -> None:
        now = time.monotonic()
        if (queues, tasks) != (self._queues, self._tasks) or (queues and now - self._served_at >= ALIVE_AGAIN):
            # Until Redis has answered, either may be true.
            self._queues = self._queues or queues
            await self._connection.run(self._broker.serve(self._daemon, self._name, queues, tasks))
            self._queues, self._tasks, self._served_at = queues, tasks, now

    async def _announce(self) -> None:
        fields, now = self._what_it_does(), time.monotonic()
        if fields != self._fields or now - self._announced_at > _ANNOUNCE:
            said = {**fields, "said": int(time.time() * 1000), "jobs": self._running_jobs()}
            await self._connection.run(self._broker.announce(self._name, said))
            self._fields, self._announced_at = fields, now

    def _what_it_does(self) -> dict[str, str | int]:
        """What changes with what this worker does, not with time."""
        dispatcher, pool = self._dispatcher, self._dispatcher.pool
        return {
            "answers": self._question,
            "born": self._born,
            "group": dispatcher.conf.group.name,
            "queues": " ".join(dispatcher.planner.queues.names),
            "generation": dispatcher.conf.generation,
            "state": self._state(),
            "phase": dispatcher.phase.name.lower(),
            "processes": pool.capacity.processes,
            "slots": pool.capacity.processes * dispatcher.conf.group.concurrency,
            **_range(self._scaler.describe()),
            "running": pool.capacity.running,
            "trouble": pool.servers.trouble[:_MOST_TROUBLE],
            "unkilled": " ".join(f"{a.queue}/{a.name}" for a in pool.unkilled()[:_MOST_UNKILLED]),
            **dispatcher.counts,
        }

    def _state(self) -> str:
        dispatcher = self._dispatcher
        if dispatcher.paused or dispatcher.phase >= Phase.DRAINING:
            return "draining"
        if dispatcher.busy:
            return "busy"
        return "started" if dispatcher.phase == Phase.HELD or dispatcher.pool.servers.trouble else "idle"

    def _running_jobs(self) -> str:
        """Which jobs run, and for how many ms as of now, the longest first; JSON."""
        running = self._dispatcher.pool.running_attempts(time.monotonic_ns())
        longest = sorted(running, key=lambda each: -each[1])[:_NAMED]
        return json.dumps(
            [
                {
                    "job": f"{a.queue}/{a.name}",
                    "task": a.task.decode(errors="replace"),
                    "ms": round(seconds * 1000),
                    **({"share": a.report.share, "message": a.report.message} if a.report else {}),
                }
                for a, seconds in longest
            ]
        )


def _range(scaled: ChildNumbers) -> dict[str, str]:
    return {"range": "{} to {}".format(*scaled["range"]), "why": scaled["why"]} if scaled else {}
