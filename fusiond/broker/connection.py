"""
Run Calls and Plans against one Redis or a Cluster, for threads and for asyncio.

The way to it, and what is repeated on the way, is node.py's and cluster.py's; here replies get their meaning, or raise
one of fusiond.errors.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

from hiredis import ReplyError

from fusiond.broker import fitness
from fusiond.broker.call import Call, Plan, Unreadable, as_is
from fusiond.broker.cluster import AsyncCluster, Cluster
from fusiond.broker.complaints import refused, unavailable
from fusiond.broker.keys import Keys
from fusiond.broker.node import TIMEOUT, AsyncNode, Node, packed_calls
from fusiond.broker.settings import address
from fusiond.broker.slots import ClusterAddress
from fusiond.broker.wire import LOST
from fusiond.errors import BrokerError, BrokerUnavailable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path
    from types import TracebackType

    from fusiond.broker.wire import AsyncWire
    from fusiond.config.model import Broker

T = TypeVar("T")


def connect(settings: Broker, runtime: Path, *, repeats: int = 0, timeout: float = TIMEOUT) -> Connection:
    """A connection for threads, made at the first call and whenever it is lost; `timeout`: s to connect, to answer."""
    where = address(settings, runtime, timeout)
    if isinstance(where, ClusterAddress):
        return Connection(Cluster(where, repeats, timeout), Keys(settings.namespace))
    return Connection(Node(where, repeats, timeout), Keys(settings.namespace))


def connect_async(settings: Broker, runtime: Path, *, repeats: int = 0, timeout: float = TIMEOUT) -> AsyncConnection:
    """The same for one event loop."""
    where = address(settings, runtime, timeout)
    if isinstance(where, ClusterAddress):
        return AsyncConnection(AsyncCluster(where, repeats, timeout), Keys(settings.namespace))
    return AsyncConnection(AsyncNode(where, repeats, timeout), Keys(settings.namespace))


class Connection:
    """Runs Calls one pipeline at a time; threads may share it."""

    def __init__(self, redis: Node | Cluster, keys: Keys) -> None:
        self.redis, self._keys = redis, keys

    def run(self, what: Call[T] | Plan[T]) -> T:
        """
        Run one Call, or a Plan to its end.

        Raises:
            BrokerUnavailable: Redis was not reached or did not answer in time; it may have done what was asked.
            BrokerFull, BrokerError: Redis refused.
        """
        if not isinstance(what, Call):
            return self._follow(what)
        try:
            return cast("T", meaning(what, self.redis.exchange((what,))[0]))
        except Unreadable:
            self.redis.close()
            raise

    def run_many(self, calls: Sequence[Call[Any]]) -> list[Any]:
        """Run Calls in one round trip; in place of a reply that was an error stands a BrokerError, not raised."""
        found = meanings(calls, self.redis.exchange(calls))
        if any(type(each) is Unreadable for each in found):
            self.redis.close()
        return found

    def check(self) -> None:
        """Raise BrokerUnfit, or BrokerUnavailable, with the remedy, unless this Redis can be worked with."""
        cluster = isinstance(self.redis, Cluster)
        for node in self.redis.nodes():
            info = meaning(_INFO, node.exchange((_INFO,))[0])
            fitness.judge(info, node.address.shown, cluster=cluster)
        self.run(fitness.layout(self._keys, self.redis.address.shown))

    def close(self) -> None:
        """End the connection; the next call would make a new one."""
        self.redis.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def _follow(self, plan: Plan[T]) -> T:
        reply: Any = None
        try:
            while True:
                step = plan.send(reply)
                if isinstance(step, Call):
                    reply = self.run(step)
                elif isinstance(step, list):
                    reply = raised(self.run_many(step))
                else:
                    time.sleep(step)
                    reply = None
        except StopIteration as end:
            return cast("T", end.value)


class AsyncConnection:
    """Runs Calls one pipeline at a time; tasks of one event loop may share it."""

    def __init__(self, redis: AsyncNode | AsyncCluster, keys: Keys) -> None:
        self.redis, self._keys = redis, keys

    async def run(self, what: Call[T] | Plan[T]) -> T:
        """As `Connection.run`."""
        if not isinstance(what, Call):
            return await self._follow(what)
        try:
            return cast("T", meaning(what, (await self.redis.exchange((what,)))[0]))
        except Unreadable:
            self.redis.close()
            raise

    async def run_many(self, calls: Sequence[Call[Any]]) -> list[Any]:
        """As `Connection.run_many`."""
        found = meanings(calls, await self.redis.exchange(calls))
        if any(type(each) is Unreadable for each in found):
            self.redis.close()
        return found

    async def check(self) -> None:
        """As `Connection.check`."""
        cluster = isinstance(self.redis, AsyncCluster)
        for node in await self.redis.nodes():
            info = meaning(_INFO, (await node.exchange((_INFO,)))[0])
            fitness.judge(info, node.address.shown, cluster=cluster)
        await self.run(fitness.layout(self._keys, self.redis.address.shown))

    async def subscribe(self, channels: Sequence[str]) -> Subscription:
        """Listen on channels, over a connection of its own; returns once Redis has confirmed."""
        subscription = Subscription(self.redis)
        await subscription.open(channels)
        return subscription

    async def close(self) -> None:
        """End the connection; the next call would make a new one."""
        self.redis.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self.close()

    async def _follow(self, plan: Plan[T]) -> T:
        reply: Any = None
        try:
            while True:
                step = plan.send(reply)
                if isinstance(step, Call):
                    reply = await self.run(step)
                elif isinstance(step, list):
                    reply = raised(await self.run_many(step))
                else:
                    await asyncio.sleep(step)
                    reply = None
        except StopIteration as end:
            return cast("T", end.value)


class Subscription:
    """Messages of some channels: `async for channel, message in subscription`."""

    def __init__(self, redis: AsyncNode | AsyncCluster) -> None:
        self._redis = redis
        self._wire: AsyncWire | None = None

    async def open(self, channels: Sequence[str]) -> None:
        """Subscribe, and wait until Redis has confirmed each channel."""
        try:
            self._wire = await self._redis.listener()
            call = Call(("SUBSCRIBE", *channels), as_is)
            for reply in await self._wire.exchange(packed_calls([call]), len(channels), TIMEOUT):
                meaning(call, reply)
        except LOST as error:
            await self.close()
            raise unavailable(self._redis.address.shown, error) from error
        except BaseException:
            await self.close()
            raise

    def __aiter__(self) -> AsyncIterator[tuple[str, bytes]]:
        return self

    async def __anext__(self) -> tuple[str, bytes]:
        """The next message. Raises BrokerUnavailable once the connection is lost; subscribe anew then."""
        try:
            if self._wire is None:
                raise ConnectionError("the subscription is closed")
            [(_kind, channel, message)] = await self._wire.replies(1)
            return channel.decode(), message
        except (*LOST, ValueError, TypeError, AttributeError) as error:
            await self.close()
            raise unavailable(self._redis.address.shown, error) from error

    async def close(self) -> None:
        """End the connection."""
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.close()


_INFO = fitness.info_call()


def meaning(call: Call[T], reply: Any) -> T:
    """What the reply says; raises what it complains of."""
    if type(reply) is ReplyError:
        raise refused(reply, call.words) from reply
    if type(reply) is BrokerUnavailable:
        raise reply
    return call.read(reply)


def meanings(calls: Sequence[Call[Any]], replies: Sequence[Any]) -> list[Any]:
    """What the replies say, each complaint as an exception in its place."""
    found = []
    for call, reply in zip(calls, replies, strict=True):
        if type(reply) is ReplyError:
            found.append(refused(reply, call.words))
        else:
            found.append(reply if type(reply) is BrokerUnavailable else _read(call, reply))
    return found


def _read(call: Call[Any], reply: Any) -> Any:
    try:
        return call.read(reply)
    except BrokerError as error:
        return error


def raised(results: list[Any]) -> list[Any]:
    """The results themselves; raises the first that is an error."""
    for result in results:
        if isinstance(result, BrokerError):
            raise result
    return results
