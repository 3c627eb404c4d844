"""
Run Calls and Plans against a Redis: one driver for threads, one for asyncio.

What is said, repeated and understood is protocol.py's and cluster.py's; here it is only done, over links.py's
connections. Several nodes of a Cluster are asked side by side with asyncio, one after the other by threads.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import TYPE_CHECKING, Any, Self, TypeVar

from fusiond.broker.keys import Keys
from fusiond.broker.redis.address import address
from fusiond.broker.redis.cluster import ClusterNodes
from fusiond.broker.redis.protocol import Answer, OneServer, Part, Step, Steps, WatchedServer
from fusiond.broker.redis.servers import (
    LoopCluster,
    LoopSentinel,
    LoopServer,
    ThreadCluster,
    ThreadSentinel,
    ThreadServer,
)
from fusiond.errors import BrokerUnavailable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path
    from types import TracebackType

    from fusiond.broker.call import Call, Plan
    from fusiond.broker.redis.address import Address
    from fusiond.broker.redis.links import LoopLink
    from fusiond.config.model import Broker

T = TypeVar("T")

#: seconds that Redis may take to answer, unless a caller says otherwise
TIMEOUT = 5.0


def connect(settings: Broker, runtime: Path, *, repeats: int = 0, timeout: float = TIMEOUT) -> Connection:
    """A connection for threads, made at the first call and whenever it is lost; `timeout`: s to connect, to answer."""
    return Connection(address(settings, runtime, timeout), Keys(settings.namespace), repeats)


def connect_async(settings: Broker, runtime: Path, *, repeats: int = 0, timeout: float = TIMEOUT) -> AsyncConnection:
    """The same for one event loop."""
    return AsyncConnection(address(settings, runtime, timeout), Keys(settings.namespace), repeats, timeout)


def _protocol(where: Address, repeats: int) -> OneServer:
    kind = WatchedServer if where.service else ClusterNodes if where.hosts else OneServer
    return kind(where.shown, repeats)


class Connection:
    """Runs Calls one pipeline at a time; threads may share it."""

    def __init__(self, where: Address, keys: Keys, repeats: int) -> None:
        """`repeats`: how often a call that got no answer is asked again."""
        self._where, self._keys, self._repeats = where, keys, repeats
        self._inherited: list[ThreadServer] = []
        self._begin()

    @property
    def shown(self) -> str:
        """For people: the URL without its password."""
        return self._where.shown

    def run(self, what: Call[T] | Plan[T]) -> T:
        """
        Run one Call, or a Plan to its end.

        Raises:
            BrokerUnavailable: Redis was not reached or did not answer in time; it may have done what was asked.
            BrokerFull, BrokerError: Redis refused.
        """
        return self._drive(self._own().run(what))

    def run_many(self, calls: Sequence[Call[Any]]) -> list[Any]:
        """Run Calls in one round trip; in place of a reply that was an error stands a BrokerError, not raised."""
        return self._drive(self._own().run_many(calls))

    def check(self) -> None:
        """Raise BrokerUnfit, or BrokerUnavailable, with the remedy, unless this Redis can be worked with."""
        self._drive(self._own().check(self._keys))

    def close(self) -> None:
        """End the connection; the next call would make a new one."""
        self._servers.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def _own(self) -> OneServer:
        """The conversation, begun anew after a fork: the connections are the parent's, and locks may be held there."""
        if self._pid != os.getpid():
            self._inherited.append(self._servers)  # its end would wait for a lock that nobody here ever frees
            self._begin()
        return self._protocol

    def _begin(self) -> None:
        kind = ThreadSentinel if self._where.service else ThreadCluster if self._where.hosts else ThreadServer
        self._protocol, self._servers, self._pid = _protocol(self._where, self._repeats), kind(self._where), os.getpid()

    def _drive(self, steps: Steps[T]) -> T:
        result: Any = None
        try:
            while True:
                step = steps.send(result)
                if isinstance(step, list):
                    result = [self._answer(*part) for part in step]
                elif isinstance(step, Step):
                    result = self._do(step)
                else:
                    time.sleep(step)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    def _do(self, step: Step) -> Any:
        if step is Step.RECONNECT:
            self._servers.reconnect()
        elif isinstance(self._servers, ThreadSentinel):
            return self._servers.is_elsewhere()
        elif isinstance(self._servers, ThreadCluster):
            return self._servers.read_map()
        return None

    def _answer(self, node: str, calls: Sequence[Call[Any]]) -> Answer:
        try:
            return self._servers.link(node).ask(calls)
        except BrokerUnavailable as error:
            return error


class AsyncConnection:
    """Runs Calls one pipeline at a time; tasks of one event loop may share it."""

    def __init__(self, where: Address, keys: Keys, repeats: int, timeout: float) -> None:
        """`repeats`: how often a call that got no answer is asked again; `timeout`: s for each reply."""
        self._keys, self._protocol = keys, _protocol(where, repeats)
        kind = LoopSentinel if where.service else LoopCluster if where.hosts else LoopServer
        self._servers = kind(where, timeout)

    @property
    def shown(self) -> str:
        """As `Connection.shown`."""
        return self._protocol.shown

    async def run(self, what: Call[T] | Plan[T]) -> T:
        """As `Connection.run`."""
        return await self._drive(self._protocol.run(what))

    async def run_many(self, calls: Sequence[Call[Any]]) -> list[Any]:
        """As `Connection.run_many`."""
        return await self._drive(self._protocol.run_many(calls))

    async def check(self) -> None:
        """As `Connection.check`."""
        await self._drive(self._protocol.check(self._keys))

    async def subscribe(self, channels: Sequence[str]) -> Subscription:
        """Listen on channels, over a connection of its own; returns once Redis has confirmed."""
        node = await self._drive(self._protocol.listener())
        link = self._servers.new_link(node)
        try:
            await link.subscribe(channels)
        except BaseException as error:
            await link.end()
            if isinstance(error, BrokerUnavailable):
                self._protocol.lose(node)
            raise
        return Subscription(link)

    async def close(self) -> None:
        """End the connection; the next call would make a new one."""
        await self._servers.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self.close()

    async def _drive(self, steps: Steps[T]) -> T:
        result: Any = None
        try:
            while True:
                step = steps.send(result)
                if isinstance(step, list):
                    result = await self._answers(step)
                elif isinstance(step, Step):
                    result = await self._do(step)
                else:
                    await asyncio.sleep(step)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    async def _do(self, step: Step) -> Any:
        if step is Step.RECONNECT:
            await self._servers.reconnect()
        elif isinstance(self._servers, LoopSentinel):
            return await self._servers.is_elsewhere()
        elif isinstance(self._servers, LoopCluster):
            return await self._servers.read_map()
        return None

    async def _answers(self, parts: list[Part]) -> list[Answer]:
        if len(parts) == 1:
            return [await self._answer(*parts[0])]
        return await asyncio.gather(*(self._answer(*part) for part in parts))

    async def _answer(self, node: str, calls: Sequence[Call[Any]]) -> Answer:
        try:
            return await self._servers.link(node).ask(calls)
        except BrokerUnavailable as error:
            return error


class Subscription:
    """Messages of some channels: `async for channel, message in subscription`."""

    def __init__(self, link: LoopLink) -> None:
        self._link = link

    def __aiter__(self) -> AsyncIterator[tuple[str, bytes]]:
        return self

    async def __anext__(self) -> tuple[str, bytes]:
        """The next message. Raises BrokerUnavailable once the connection is lost; subscribe anew then."""
        try:
            return await self._link.message()
        except BrokerUnavailable:
            await self.close()
            raise

    async def close(self) -> None:
        """End the connection."""
        await self._link.end()
