"""
Run Calls and Plans against a Redis: one driver for threads, one for asyncio.

What is said, repeated and understood is protocol.py's and cluster.py's; here it is only done, over links.py's
connections. Several nodes of a Cluster are asked side by side with asyncio, one after the other by threads.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

from fusiond.broker.call import Call, Plan
from fusiond.broker.keys import Keys
from fusiond.broker.redis.address import Address, address
from fusiond.broker.redis.links import Sent
from fusiond.broker.redis.protocol import Answer, OneServer, Part, Read, Send, Step, Steps, WatchedServer
from fusiond.broker.redis.servers import LoopServer, ThreadServer
from fusiond.config.model import Broker
from fusiond.errors import BrokerUnavailable

T = TypeVar("T")

#: seconds that Redis may take to answer, unless a caller says otherwise
TIMEOUT = 5.0


def connect(settings: Broker, runtime: Path, *, repeats: int = 0, timeout: float = TIMEOUT) -> Connection:
    """A connection for threads, made at the first call and whenever it is lost; `timeout`: s to connect, to answer."""
    return Connection(address(settings, runtime, timeout), Keys(settings.namespace), repeats)


def connect_async(settings: Broker, runtime: Path, *, repeats: int = 0, timeout: float = TIMEOUT) -> AsyncConnection:
    """The same for one event loop."""
    return AsyncConnection(address(settings, runtime, timeout), Keys(settings.namespace), repeats)


# Sentinel and Cluster are loaded only where they are used, since redis-py is large.


def _protocol(where: Address, repeats: int) -> OneServer:
    if where.service:
        return WatchedServer(where.shown, repeats)
    if where.cluster:
        from fusiond.broker.redis.cluster import ClusterNodes

        return ClusterNodes(where.shown, repeats)
    return OneServer(where.shown, repeats)


def _thread_server(where: Address) -> ThreadServer:
    if where.service:
        from fusiond.broker.redis.discovery.sentinels import ThreadSentinel

        return ThreadSentinel(where)
    if where.cluster:
        from fusiond.broker.redis.discovery.cluster_map import ThreadCluster

        return ThreadCluster(where)
    return ThreadServer(where)


def _loop_server(where: Address) -> LoopServer:
    if where.service:
        from fusiond.broker.redis.discovery.sentinels import LoopSentinel

        return LoopSentinel(where)
    if where.cluster:
        from fusiond.broker.redis.discovery.cluster_map import LoopCluster

        return LoopCluster(where)
    return LoopServer(where)


class Connection:
    """Runs Calls one pipeline at a time; threads may share it."""

    def __init__(self, where: Address, keys: Keys, repeats: int) -> None:
        """`repeats`: how often a call that got no answer is asked again."""
        self._where, self._keys, self._repeats = where, keys, repeats
        self._inherited: list[ThreadServer] = []
        self._begin()

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

    def __exit__(self, *_: object) -> None:
        self.close()

    def _own(self) -> OneServer:
        """The conversation, begun again after a fork: the connections are the parent's, and locks may be held there."""
        if self._pid != os.getpid():
            self._inherited.append(self._servers)  # its end would wait for a lock that nobody here ever frees
            self._begin()
        return self._protocol

    def _begin(self) -> None:
        self._protocol, self._servers = _protocol(self._where, self._repeats), _thread_server(self._where)
        self._pid = os.getpid()

    def _drive(self, steps: Steps[T]) -> T:
        result: Any = None
        try:
            while True:
                step = steps.send(result)
                if isinstance(step, list):
                    result = [self._answer(*part) for part in step]
                elif isinstance(step, Step):
                    result = getattr(self._servers, step.value)()
                elif isinstance(step, (Send, Read)):
                    result = self._ahead(step)
                else:
                    time.sleep(step)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    def _ahead(self, step: Send | Read) -> Sent | Answer:
        try:
            if isinstance(step, Send):
                return self._servers.link(step.node).send(step.calls)
            return step.sent.link.read(step.sent)  # type: ignore[no-any-return]
        except BrokerUnavailable as error:
            return error

    def _answer(self, node: str, calls: Sequence[Call[Any]]) -> Answer:
        try:
            return self._servers.link(node).ask(calls)
        except BrokerUnavailable as error:
            return error


class AsyncConnection:
    """Runs Calls one pipeline at a time; tasks may share it, of one event loop at a time."""

    def __init__(self, where: Address, keys: Keys, repeats: int) -> None:
        """`repeats`: how often a call that got no answer is asked again."""
        self._where, self._keys, self._repeats = where, keys, repeats
        #: that has made the connections
        self._loop: asyncio.AbstractEventLoop | None = None
        self._begin()

    @property
    def shown(self) -> str:
        """For people: the URL without its password."""
        return self._protocol.shown

    async def run(self, what: Call[T] | Plan[T]) -> T:
        """As `Connection.run`."""
        return await self._drive(self._own().run(what))

    async def run_many(self, calls: Sequence[Call[Any]]) -> list[Any]:
        """As `Connection.run_many`."""
        return await self._drive(self._own().run_many(calls))

    async def check(self) -> None:
        """As `Connection.check`."""
        await self._drive(self._own().check(self._keys))
        await (await self.subscribe([self._keys.rights])).aclose()  # the right to it is asked for in no other way

    async def subscribe(self, channels: Sequence[str]) -> AsyncGenerator[tuple[str, bytes]]:
        """
        Listen on channels, over a connection of its own; returns once Redis has confirmed.

        Returns:
            the messages, each with its channel, until the caller closes it. It raises BrokerUnavailable once the
            connection is lost.
        """
        node = await self._drive(self._own().listener())
        link = self._servers.new_link(node)
        try:
            await link.subscribe(channels)
        except BaseException as error:
            link.end()
            if isinstance(error, BrokerUnavailable):
                self._protocol.lose(node)
            raise
        return link.messages()

    async def close(self) -> None:
        """End the connection; the next call would make a new one."""
        self._own()
        await self._servers.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _own(self) -> OneServer:
        """The conversation, begun again in another event loop: connections and locks belong to the loop before."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            if self._loop is not None:
                self._begin()
            self._loop = loop
        return self._protocol

    def _begin(self) -> None:
        self._protocol, self._servers = _protocol(self._where, self._repeats), _loop_server(self._where)

    async def _drive(self, steps: Steps[T]) -> T:
        result: Any = None
        try:
            while True:
                step = steps.send(result)
                if isinstance(step, list):
                    result = await self._answers(step)
                elif isinstance(step, Step):
                    result = await getattr(self._servers, step.value)()
                elif isinstance(step, (Send, Read)):
                    result = await self._ahead(step)
                else:
                    await asyncio.sleep(step)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    async def _ahead(self, step: Send | Read) -> Sent | Answer:
        try:
            if isinstance(step, Send):
                return await self._servers.link(step.node).send(step.calls)
            return await step.sent.link.read(step.sent)  # type: ignore[no-any-return]
        except BrokerUnavailable as error:
            return error

    async def _answers(self, parts: list[Part]) -> list[Answer]:
        if len(parts) == 1:
            return [await self._answer(*parts[0])]
        return await asyncio.gather(*(self._answer(*part) for part in parts))

    async def _answer(self, node: str, calls: Sequence[Call[Any]]) -> Answer:
        try:
            return await self._servers.link(node).ask(calls)
        except BrokerUnavailable as error:
            return error
