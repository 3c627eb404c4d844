"""
What the pages ask: Redis, the daemon of this host over its control socket, and the accepted configuration.

What several pages want again and again is kept for a second, so that ten open pages cost no more than one.
"""

from __future__ import annotations

import asyncio
import copy
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

from fusiond import paths
from fusiond.broker.call import Call, Plan, together
from fusiond.broker.counters import Rate
from fusiond.broker.hosts.host_records import NO_CATALOGUE, Catalogue, Worker
from fusiond.broker.records import Counts
from fusiond.broker.redis.connection import connect_async
from fusiond.broker.verbs import Verbs
from fusiond.config.accepted.snapshot import Snapshot
from fusiond.config.model import Config
from fusiond.errors import ControlError
from fusiond.flows.run_control import RunControl
from fusiond.inspecting.queues import count_each
from fusiond.inspecting.worker_states import ask_workers
from fusiond.locate.control import ask
from fusiond.masking import ALL, Secret
from fusiond.producer.plans import Producer
from fusiond.status_document import StatusDocument
from fusiond.web.rights import User, is_among
from fusiond.web.selections import Selections

T = TypeVar("T")

#: seconds for which an answer is kept that several pages want
KEPT = 1.0
#: the same for the catalogue, which changes with files
CATALOGUE = 5.0
#: the same for rates, which are those of ten minutes
RATES = 5.0
#: numbers of waiting jobs that are kept of a queue
SAMPLES = 60
#: seconds that workers get to answer
_ANSWERS = 0.03
#: seconds that Redis may take to answer, and the daemon
_REDIS, _DAEMON = 5.0, 5.0


class _Kept(NamedTuple):
    """An answer, which may still be under way."""

    #: monotonic seconds at which it was asked
    asked_at: float
    answer: asyncio.Future[Any]


class Backend:
    """
    One for the program; it follows the accepted configuration.

    Attributes:
        config: the configuration that runs.
        verbs: the verbs of its namespace.
        producer: stores jobs.
        runs: steers runs of flows.
        selections: jobs that people were asked about.
        patterns: of the queues that it has; of others nothing is listed.
        hides_arguments: nobody is shown the arguments of jobs.
        simulates: is held while a simulation runs.
    """

    def __init__(self, snapshot: Snapshot, runtime: Path) -> None:
        broker = snapshot.config.broker
        self._control = paths.control_socket(runtime)
        self._connection = connect_async(broker, runtime, repeats=1, timeout=_REDIS)
        self.verbs = Verbs(broker.namespace)
        self.producer = Producer(self.verbs, "memory")
        self.runs = RunControl(self.verbs)
        self.state = snapshot.path.parent
        self._kept: dict[str, _Kept] = {}
        #: the one that was read last; parts share it
        self._catalogue = [NO_CATALOGUE]
        self._waiting: dict[str, list[int]] = {}
        self.selections, self.simulates = Selections(), asyncio.Lock()
        self.patterns, self.hides_arguments = frozenset({"*"}), False
        self.set_snapshot(snapshot)

    def part_for(self, user: User, right: str, queue: str | None) -> Backend:
        """What the user sees by a right: the same with some of the queues only, and perhaps without arguments."""
        found = copy.copy(self)
        found.patterns, found.hides_arguments = user.grants[right], not user.sees_arguments(right, queue)
        return found

    @property
    def is_whole(self) -> bool:
        """Whether it has all queues."""
        return "*" in self.patterns

    def has(self, queue: str) -> bool:
        """Whether the queue is one of its queues."""
        return is_among(queue, self.patterns)

    def set_snapshot(self, snapshot: Snapshot) -> None:
        """Follow another accepted configuration."""
        self.config: Config = snapshot.config
        self.source, self.generation = snapshot.source, snapshot.generation

    async def close(self) -> None:
        """End the connection."""
        await self._connection.close()

    async def run(self, what: Call[T] | Plan[T]) -> T:
        """Run a Call or a Plan. Raises BrokerError."""
        return await self._connection.run(what)

    async def run_all(self, calls: Sequence[Call[T]]) -> list[T]:
        """Run Calls in one round trip. Raises the first error among the replies."""
        return await self.run(together(calls))

    async def run_many(self, calls: Sequence[Call[Any]]) -> list[Any]:
        """Run Calls in one round trip; in place of a reply that was an error stands a BrokerError, not raised."""
        return await self._connection.run_many(list(calls)) if calls else []

    async def ask_daemon(self, verb: str, *arguments: str, patience: float = _DAEMON) -> Any:
        """What the daemon of this host replies. Raises ControlError."""
        return await asyncio.to_thread(ask, self._control, verb, *arguments, timeout=patience)

    async def status(self) -> StatusDocument | None:
        """The daemon's status; None: it does not answer."""

        async def find() -> StatusDocument | None:
            try:
                return cast("StatusDocument", await self.ask_daemon("status"))
            except ControlError:
                return None

        return await self.kept("status", find)

    async def queues(self) -> list[str]:
        """The names of its queues. Raises BrokerError."""
        return [*filter(self.has, await self.kept("queues", lambda: self.run(self.verbs.queues())))]

    async def counts(self) -> tuple[dict[str, Counts], list[str]]:
        """Queue → its counts, and why other queues cannot be read. Raises BrokerError."""

        async def find() -> tuple[dict[str, Counts], list[str]]:
            counted, errors = await self.run(count_each(self.verbs))
            return counted, [*map(str, errors)]

        counted, errors = await self.kept("counts", find)
        return {name: counts for name, counts in counted.items() if self.has(name)}, errors if self.is_whole else []

    async def rates(self, queues: Sequence[str]) -> dict[str, Rate]:
        """How fast jobs come into these queues and leave them, believed for some seconds. Raises BrokerError."""
        find = partial(self.run, self.verbs.rates(queues, time.time()))
        return await self.kept(f"rates {sorted(queues)}", find, RATES)

    async def catalogue(self) -> Catalogue:
        """What living daemons declare, read again every few seconds. Raises BrokerError."""

        async def find() -> Catalogue:
            self._catalogue[0] = await self.run(self.verbs.catalogue(self._catalogue[0]))
            return self._catalogue[0]

        return await self.kept("catalogue", find, CATALOGUE)

    async def secret(self) -> Secret:
        """Task → its secret arguments, of this host's file or of another's. Raises BrokerError."""
        if self.hides_arguments:
            return ALL
        return (await self.catalogue()).secret({name: task.secret for name, task in self.config.tasks.items()})

    def asking(self) -> Plan[list[tuple[Worker, bool]]]:
        """The same, for who wants to know why a job waits; a worker counts as answering until it is gone."""
        found = yield from ask_workers(self.verbs, _ANSWERS)
        return [(worker, not worker.is_gone) for worker, _ in found]

    async def workers(self) -> list[Worker]:
        """What the workers of all hosts say of themselves now. Raises BrokerError."""

        async def find() -> list[Worker]:
            return [worker for worker, _ in await self.run(ask_workers(self.verbs, _ANSWERS))]

        return await self.kept("workers", find)

    def note_waiting(self, waiting: Mapping[str, int]) -> None:
        """Keep how many jobs are ready in each queue now, with the numbers before."""
        self._waiting = {name: [*self._waiting.get(name, ()), number][-SAMPLES:] for name, number in waiting.items()}

    def waiting_of(self, queue: str) -> list[int]:
        """How many jobs were ready in the queue, at even distances, the newest last."""
        return self._waiting.get(queue, [])

    async def kept(self, name: str, find: Callable[[], Awaitable[T]], seconds: float | None = None) -> T:
        """The answer of this name, asked again once it is so many seconds old, else KEPT; one question at a time."""
        now, found = time.monotonic(), self._kept.get(name)
        if found is None or now - found.asked_at > (KEPT if seconds is None else seconds) or _has_failed(found.answer):
            found = self._kept[name] = _Kept(now, asyncio.ensure_future(find()))
        return await asyncio.shield(found.answer)

    def forget(self) -> None:
        """Ask everything again, since something was changed."""
        self._kept.clear()


def _has_failed(answer: asyncio.Future[Any]) -> bool:
    return answer.done() and (answer.cancelled() or answer.exception() is not None)
