"""
Run Calls and Plans against a Redis, for threads and for asyncio.

1. pack    all Calls of a pipeline into one write; no MULTI, the verbs are scripts
2. send    once, or where `repeats` says so once more over a new connection; each verb may be repeated
3. read    as many replies; one that is an error does not hide the others
4. again   what answered NOSCRIPT, with the script's text (after a restart, a failover, SCRIPT FLUSH)
5. parse   or raise one of fusiond.errors; redis-py's exceptions never leave this room

A connection that failed, timed out or was cancelled in mid-reply is closed and made anew by the next call: what it
would read next is the answer to an earlier question. It is not shared over a fork either.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

from hiredis import HiredisError, ReplyError, pack_command
from redis.exceptions import RedisError

from fusiond.broker import fitness
from fusiond.broker.address import Address, address
from fusiond.broker.call import Call, Plan, as_is
from fusiond.broker.complaints import is_forgotten, refused, unavailable
from fusiond.broker.keys import Keys
from fusiond.errors import BrokerError, BrokerUnavailable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path
    from types import TracebackType

    from fusiond.broker.wire import AsyncWire, Wire
    from fusiond.config.model import Broker

T = TypeVar("T")

#: what redis-py, hiredis and the kernel raise
_LOST = (RedisError, HiredisError, OSError)

#: seconds that Redis may take to answer
TIMEOUT = 5.0


def connect(settings: Broker, runtime: Path, *, repeats: int = 0) -> Connection:
    """A connection for threads. It connects at the first call, and again whenever it has to."""
    return Connection(address(settings, runtime), Keys(settings.namespace), repeats)


def connect_async(settings: Broker, runtime: Path, *, repeats: int = 0) -> AsyncConnection:
    """A connection for one event loop. It connects at the first call, and again whenever it has to."""
    return AsyncConnection(address(settings, runtime), Keys(settings.namespace), repeats)


class Connection:
    """Runs Calls one pipeline at a time; threads may share it."""

    def __init__(self, address: Address, keys: Keys, repeats: int = 0) -> None:
        self.address, self._keys, self._repeats = address, keys, repeats
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._wire: Wire | None = None

    def run(self, what: Call[T] | Plan[T]) -> T:
        """
        Run one Call, or a Plan to its end.

        Raises:
            BrokerUnavailable: Redis was not reached or did not answer in time; it may have done what was asked.
            BrokerFull, BrokerError: Redis refused.
        """
        if not isinstance(what, Call):
            return self._follow(what)
        reply = self._exchange((what,))[0]
        if is_forgotten(reply):
            reply = self._exchange((what.in_full(),))[0]
        return cast("T", meaning(what, reply))

    def run_many(self, calls: Sequence[Call[Any]]) -> list[Any]:
        """Run Calls in one round trip; in place of a reply that was an error stands a BrokerError, not raised."""
        replies = self._exchange(calls)
        lost = forgotten(calls, replies)
        if lost:
            fill(replies, lost, self._exchange([calls[i].in_full() for i in lost]))
        return meanings(calls, replies)

    def check(self) -> None:
        """Raise BrokerUnfit, or BrokerUnavailable, with the remedy, unless this Redis can be worked with."""
        self.run(fitness.check(self._keys, self.address.shown))

    def close(self) -> None:
        """End the connection; the next call would make a new one."""
        with self._lock:
            self._drop()

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

    def _exchange(self, calls: Sequence[Call[Any]]) -> list[Any]:
        if self._pid != os.getpid():
            self._begin_anew()
        packed = packed_calls(calls)
        with self._lock:
            for _ in range(self._repeats):
                with contextlib.suppress(BrokerUnavailable):
                    return self._try(packed, len(calls))
            return self._try(packed, len(calls))

    def _try(self, packed: bytes, replies: int) -> list[Any]:
        try:
            if self._wire is None:
                self._wire = self.address.open(TIMEOUT)
            return self._wire.exchange(packed, replies)
        except _LOST as error:
            self._drop()
            raise unavailable(self.address, error) from error
        except BaseException:
            self._drop()
            raise

    def _begin_anew(self) -> None:
        """After a fork: the socket is the parent's, and the lock may be held by a thread that is not here."""
        self._wire, self._lock, self._pid = None, threading.Lock(), os.getpid()

    def _drop(self) -> None:
        if self._wire is not None and self._pid == os.getpid():
            self._wire.close()
        self._wire = None


class AsyncConnection:
    """Runs Calls one pipeline at a time; tasks of one event loop may share it."""

    def __init__(self, address: Address, keys: Keys, repeats: int = 0) -> None:
        self.address, self._keys, self._repeats = address, keys, repeats
        self._lock = asyncio.Lock()
        self._wire: AsyncWire | None = None

    async def run(self, what: Call[T] | Plan[T]) -> T:
        """As `Connection.run`."""
        if not isinstance(what, Call):
            return await self._follow(what)
        reply = (await self._exchange((what,)))[0]
        if is_forgotten(reply):
            reply = (await self._exchange((what.in_full(),)))[0]
        return cast("T", meaning(what, reply))

    async def run_many(self, calls: Sequence[Call[Any]]) -> list[Any]:
        """As `Connection.run_many`."""
        replies = await self._exchange(calls)
        lost = forgotten(calls, replies)
        if lost:
            fill(replies, lost, await self._exchange([calls[i].in_full() for i in lost]))
        return meanings(calls, replies)

    async def check(self) -> None:
        """As `Connection.check`."""
        await self.run(fitness.check(self._keys, self.address.shown))

    async def subscribe(self, channels: Sequence[str]) -> Subscription:
        """Listen on channels, over a connection of its own; returns once Redis has confirmed."""
        subscription = Subscription(self.address)
        await subscription.open(channels)
        return subscription

    async def close(self) -> None:
        """End the connection; the next call would make a new one."""
        self._drop()

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

    async def _exchange(self, calls: Sequence[Call[Any]]) -> list[Any]:
        packed = packed_calls(calls)
        async with self._lock:
            for _ in range(self._repeats):
                with contextlib.suppress(BrokerUnavailable):
                    return await self._try(packed, len(calls))
            return await self._try(packed, len(calls))

    async def _try(self, packed: bytes, replies: int) -> list[Any]:
        try:
            if self._wire is None or self._wire.ended:
                self._wire = await self.address.open_async(TIMEOUT)
            return await self._wire.exchange(packed, replies, TIMEOUT)
        except _LOST as error:
            self._drop()
            raise unavailable(self.address, error) from error
        except BaseException:
            self._drop()
            raise

    def _drop(self) -> None:
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.close()


class Subscription:
    """Messages of some channels: `async for channel, message in subscription`."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._wire: AsyncWire | None = None

    async def open(self, channels: Sequence[str]) -> None:
        """Subscribe, and wait until Redis has confirmed each channel."""
        try:
            self._wire = await self._address.open_async(TIMEOUT)
            call = Call(("SUBSCRIBE", *channels), as_is)
            for reply in await self._wire.exchange(packed_calls([call]), len(channels), TIMEOUT):
                meaning(call, reply)
        except _LOST as error:
            await self.close()
            raise unavailable(self._address, error) from error
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
        except _LOST as error:
            await self.close()
            raise unavailable(self._address, error) from error
        return channel.decode(), message

    async def close(self) -> None:
        """End the connection."""
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.close()


def packed_calls(calls: Sequence[Call[Any]]) -> bytes:
    """The Calls as one write."""
    if len(calls) == 1:
        return _pack(calls[0].words)
    return b"".join([_pack(call.words) for call in calls])


def _pack(words: tuple[Any, ...]) -> bytes:
    return cast("bytes", pack_command(words))


def forgotten(calls: Sequence[Call[Any]], replies: Sequence[Any]) -> list[int]:
    """Which Calls are to be repeated because Redis does not know their script."""
    return [i for i, reply in enumerate(replies) if is_forgotten(reply) and calls[i].script]


def fill(replies: list[Any], places: list[int], again: list[Any]) -> None:
    """Put the second replies where the first ones were."""
    for place, reply in zip(places, again, strict=True):
        replies[place] = reply


def meaning(call: Call[T], reply: Any) -> T:
    """What the reply says; raises what it complains of."""
    if type(reply) is ReplyError:
        raise refused(reply) from reply
    return call.read(reply)


def meanings(calls: Sequence[Call[Any]], replies: Sequence[Any]) -> list[Any]:
    """What the replies say, each complaint as an exception in its place."""
    return [_meaning_or_error(call, reply) for call, reply in zip(calls, replies, strict=True)]


def _meaning_or_error(call: Call[Any], reply: Any) -> Any:
    try:
        return meaning(call, reply)
    except BrokerError as error:
        return error


def raised(results: list[Any]) -> list[Any]:
    """The results themselves; raises the first that is an error."""
    for result in results:
        if isinstance(result, BrokerError):
            raise result
    return results
