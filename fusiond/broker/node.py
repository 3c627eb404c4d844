"""
One Redis, reached when it must be: Calls in, replies in their order out, for threads and for asyncio.

1. pack    all Calls of a pipeline into one write; no MULTI, the verbs are scripts
2. send    once, or where `repeats` says so once more over a new connection; each verb may be repeated
3. read    as many replies; one that is an error does not hide the others
4. again   what answered NOSCRIPT, with the script's text (after a restart, a failover, SCRIPT FLUSH)

A connection that failed, timed out or was cancelled in mid-reply is closed and made anew by the next call: what it
would read next is the answer to an earlier question. So is one whose server says that it is not, or not yet, the one to
be asked. It is not shared over a fork either. redis-py's exceptions end here.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from typing import TYPE_CHECKING, Any, cast

from hiredis import pack_command

from fusiond.broker.complaints import check_place, is_forgotten, unavailable
from fusiond.broker.wire import LOST
from fusiond.errors import BrokerUnavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fusiond.broker.address import Address
    from fusiond.broker.call import Call
    from fusiond.broker.sentinel import SentinelAddress
    from fusiond.broker.wire import AsyncWire, Wire

#: seconds that Redis may take to answer, unless a caller says otherwise
TIMEOUT = 5.0


class Node:
    """For threads, which may share it."""

    def __init__(self, address: Address | SentinelAddress, repeats: int = 0, timeout: float = TIMEOUT) -> None:
        self.address, self._repeats, self._timeout = address, repeats, timeout
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._wire: Wire | None = None

    def exchange(self, calls: Sequence[Call[Any]]) -> list[Any]:
        """The replies as they came, errors among them. Raises BrokerUnavailable."""
        replies = self._send(calls)
        if lost := forgotten(calls, replies):
            fill(replies, lost, self._send(in_full(calls, lost)))
        return replies

    def nodes(self) -> list[Node]:
        """All that jobs are on: this one."""
        return [self]

    def close(self) -> None:
        """End the connection; the next exchange would make a new one."""
        with self._lock:
            self._drop()
            self.address.close()

    def _send(self, calls: Sequence[Call[Any]]) -> list[Any]:
        if self._pid != os.getpid():
            self._begin_anew()
        packed = packed_calls(calls)
        with self._lock:
            for _ in range(self._repeats):
                with contextlib.suppress(BrokerUnavailable):
                    return self._try(packed, len(calls))
            return self._try(packed, len(calls))

    def _try(self, packed: bytes, count: int) -> list[Any]:
        try:
            if self._wire is not None and self._wire.lead and self.address.has_moved(self._wire.lead):
                self._drop()
            if self._wire is None:
                self._wire = self.address.open(self._timeout)
            replies = self._wire.exchange(packed, count)
            check_place(replies)
        except LOST as error:
            self._drop()
            raise unavailable(self.address.shown, error) from error
        except BaseException:
            self._drop()
            raise
        return replies

    def _begin_anew(self) -> None:
        """After a fork: the socket is the parent's, and the lock may be held by a thread that is not here."""
        self._wire, self._lock, self._pid = None, threading.Lock(), os.getpid()

    def _drop(self) -> None:
        if self._wire is not None and self._pid == os.getpid():
            self._wire.close()
        self._wire = None


class AsyncNode:
    """For one event loop, whose tasks may share it."""

    def __init__(self, address: Address | SentinelAddress, repeats: int = 0, timeout: float = TIMEOUT) -> None:
        self.address, self._repeats, self._timeout = address, repeats, timeout
        self._lock = asyncio.Lock()
        self._wire: AsyncWire | None = None

    async def exchange(self, calls: Sequence[Call[Any]]) -> list[Any]:
        """As `Node.exchange`."""
        replies = await self._send(calls)
        if lost := forgotten(calls, replies):
            fill(replies, lost, await self._send(in_full(calls, lost)))
        return replies

    async def nodes(self) -> list[AsyncNode]:
        """As `Node.nodes`."""
        return [self]

    async def listener(self) -> AsyncWire:
        """A connection of its own, for messages. Raises BrokerUnavailable."""
        try:
            return await self.address.open_async(self._timeout)
        except LOST as error:
            raise unavailable(self.address.shown, error) from error

    def close(self) -> None:
        """As `Node.close`."""
        self._drop()
        self.address.close()

    def _drop(self) -> None:
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.close()

    async def _send(self, calls: Sequence[Call[Any]]) -> list[Any]:
        packed = packed_calls(calls)
        async with self._lock:
            for _ in range(self._repeats):
                with contextlib.suppress(BrokerUnavailable):
                    return await self._try(packed, len(calls))
            return await self._try(packed, len(calls))

    async def _try(self, packed: bytes, count: int) -> list[Any]:
        try:
            wire = self._wire
            if wire is not None and wire.lead and await self.address.has_moved_async(wire.lead):
                self._drop()
            if self._wire is None or self._wire.ended:
                self._wire = await self.address.open_async(self._timeout)
            replies = await self._wire.exchange(packed, count, self._timeout)
            check_place(replies)
        except LOST as error:
            self._drop()
            raise unavailable(self.address.shown, error) from error
        except BaseException:
            self._drop()
            raise
        return replies


def packed_calls(calls: Sequence[Call[Any]]) -> bytes:
    """The Calls as one write."""
    if len(calls) == 1:
        return cast("bytes", pack_command(calls[0].words))
    return b"".join([pack_command(call.words) for call in calls])


def forgotten(calls: Sequence[Call[Any]], replies: Sequence[Any]) -> list[int]:
    """
    Which Calls are to be repeated because Redis does not know their script.

    What confirms a Call follows it: a WAIT that was answered before its enqueue was done has confirmed nothing.
    """
    lost: list[int] = []
    for i, reply in enumerate(replies):
        if (is_forgotten(reply) and calls[i].script) or (lost and lost[-1] == i - 1 and confirms(calls[i])):
            lost.append(i)
    return lost


def confirms(call: Call[Any]) -> bool:
    """Whether the Call is about the one before it, on the same connection."""
    return call.words[0] in ("WAIT", "WAITAOF")


def in_full(calls: Sequence[Call[Any]], places: list[int]) -> list[Call[Any]]:
    """Those Calls, with the text of their scripts."""
    return [calls[i].in_full() if calls[i].script else calls[i] for i in places]


def fill(replies: list[Any], places: list[int], again: list[Any]) -> None:
    """Put the second replies where the first ones were."""
    for place, reply in zip(places, again, strict=True):
        replies[place] = reply
