"""
One connection of redis-py's to one server, made when it is needed and held: for threads, and for asyncio.

redis-py's public faces alone: it connects, logs in, sends what is packed and reads replies. An exchange is all Calls in
one write, and their replies. It is not taken from a pool for each exchange, which would make one take twice as long.
Calls may also be sent and their replies be read later: others may be asked meanwhile, and read what was sent before
them first.

A connection that failed, timed out or was cancelled in mid-reply is closed, and made anew by the next exchange: what it
would read next is the answer to an earlier question. So is one whose server says that it is not, or not yet, the one to
be asked. It is not shared over a fork either. redis-py's exceptions end here.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from typing import TYPE_CHECKING, Any, cast

from hiredis import pack_command
from redis.asyncio.connection import Connection
from redis.exceptions import ConnectionError as NoConnection
from redis.exceptions import ResponseError

from fusiond.broker.call import Call, as_is, plain
from fusiond.broker.redis import tls_files
from fusiond.broker.redis.redis_errors import LOST, in_its_place, unavailable
from fusiond.broker.redis.time_limit import TimeLimit
from fusiond.errors import BrokerUnavailable

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence

    from redis.connection import ConnectionInterface


#: bytes for which the time of a reply is granted anew while they are sent
_PIECE = 1 << 20
_CLOSED = NoConnection("the connection was closed")
#: redis-py 7 has it under a longer name
_has_unread = getattr(Connection, "can_read", None) or Connection.can_read_destructive


class Sent:
    """Calls that were sent, and whose replies may not have been read yet."""

    __slots__ = ("answer", "count", "link")

    def __init__(self, link: Any, count: int) -> None:
        self.link, self.count = link, count
        #: the replies, errors among them, or why they were lost; None: not read yet
        self.answer: list[Any] | BrokerUnavailable | None = None


class ThreadLink:
    """For threads, which may share it."""

    def __init__(self, shown: str, options: Mapping[str, Any], connection: ConnectionInterface) -> None:
        """`connection`: of these options, need not be connected yet; its socket_timeout is the time for each reply."""
        self.shown, self._options, self.connection = shown, options, connection
        self.is_open = False
        self._lock = threading.Lock()
        #: the oldest first
        self._unread: deque[Sent] = deque()

    def ask(self, calls: Sequence[Call[Any]]) -> list[Any]:
        """The replies as they came, errors among them. Raises BrokerUnavailable."""
        replies: list[Any] = []
        pieces = _packed(calls)
        with self._lock:
            try:
                if not self.is_open:
                    self._connect()
                self.connection.send_packed_command(pieces, check_health=False)
                while self._unread:
                    self._read_oldest()
                for _ in calls:
                    try:
                        replies.append(self.connection.read_response())
                    except ResponseError as error:
                        replies.append(in_its_place(error))
            except LOST as error:
                raise self._lose(error) from error
            except BaseException as error:
                self._lose(error)
                raise
        return replies

    def send(self, calls: Sequence[Call[Any]]) -> Sent:
        """Have Redis begin with these; `read` waits for the replies. Raises BrokerUnavailable."""
        sent, pieces = Sent(self, len(calls)), _packed(calls)
        with self._lock, self._ended_by_failure():
            if not self.is_open:
                self._connect()
            self.connection.send_packed_command(pieces, check_health=False)
            self._unread.append(sent)
        return sent

    def read(self, sent: Sent) -> list[Any] | BrokerUnavailable | None:
        """The answer to what was sent. Raises BrokerUnavailable if the connection is lost now."""
        with self._lock, self._ended_by_failure():
            while sent in self._unread:
                self._read_oldest()
        return sent.answer

    def close(self) -> None:
        """End the connection; the next exchange makes it anew."""
        with self._lock:
            self._lose(_CLOSED)

    def _connect(self) -> None:
        try:
            self.connection.connect()
        except (*LOST, TypeError):
            tls_files.check(self._options)
            raise
        self.is_open = True

    def _read_oldest(self) -> None:
        replies: list[Any] = []
        for _ in range(self._unread[0].count):
            try:
                replies.append(self.connection.read_response())
            except ResponseError as error:
                replies.append(in_its_place(error))
        self._unread.popleft().answer = replies

    @contextlib.contextmanager
    def _ended_by_failure(self) -> Iterator[None]:
        try:
            yield
        except LOST as error:
            raise self._lose(error) from error
        except BaseException as error:
            self._lose(error)
            raise

    def _lose(self, error: BaseException) -> BrokerUnavailable:
        self.is_open = False
        self.connection.disconnect()
        return _lost(self._unread, self.shown, error)


class LoopLink:
    """For one event loop, whose tasks may share it."""

    def __init__(self, shown: str, options: Mapping[str, Any], connection: Connection, seconds: float) -> None:
        """`connection`: as of `ThreadLink`; `seconds`: for each reply."""
        self.shown, self._options, self.connection, self._seconds = shown, options, connection, seconds
        self._lock = asyncio.Lock()
        self._bound = TimeLimit(seconds)
        #: the oldest first
        self._unread: deque[Sent] = deque()

    async def ask(self, calls: Sequence[Call[Any]]) -> list[Any]:
        """As `ThreadLink.ask`."""
        connection, bound, pieces = self.connection, self._bound, _packed(calls)
        replies: list[Any] = []
        async with self._lock:
            try:
                await self._open()
                with bound:
                    for piece in pieces:
                        await connection.send_packed_command(piece, check_health=False)
                        bound.begin_anew()
                    while self._unread:
                        await self._read_oldest()
                    while len(replies) < len(calls):
                        try:
                            replies.append(await connection.read_response())
                        except ResponseError as error:
                            replies.append(in_its_place(error))
                        bound.begin_anew()
            except LOST as error:
                raise (await self._lose(error)) from error
            except BaseException as error:
                await self._lose(error)
                raise
        return replies

    async def send(self, calls: Sequence[Call[Any]]) -> Sent:
        """As `ThreadLink.send`."""
        sent, pieces = Sent(self, len(calls)), _packed(calls)
        async with self._lock, self._ended_by_failure():
            await self._open()
            with self._bound:
                for piece in pieces:
                    await self.connection.send_packed_command(piece, check_health=False)
                    self._bound.begin_anew()
            self._unread.append(sent)
        return sent

    async def send_at_once(self, call: Call[Any]) -> Sent | None:
        """As `send`, but over a connection that is open and that nobody uses; None: there is none."""
        if self._lock.locked() or self._unread or not self.connection.is_connected:
            return None
        async with self._lock:
            try:
                await self.connection.send_packed_command(pack_command(call.words), check_health=False)
            except LOST:
                return None
            self._unread.append(sent := Sent(self, 1))
        return sent

    async def read(self, sent: Sent) -> list[Any] | BrokerUnavailable | None:
        """As `ThreadLink.read`."""
        async with self._lock, self._ended_by_failure():
            with self._bound:
                while sent in self._unread:
                    await self._read_oldest()
        return sent.answer

    async def subscribe(self, channels: Sequence[str]) -> None:
        """Hear what is published on them, and nothing else from now on. Raises BrokerUnavailable."""
        for reply in await self.ask([plain(as_is, "SUBSCRIBE", channel) for channel in channels]):
            if isinstance(reply, ResponseError):
                raise unavailable(self.shown, reply)

    async def messages(self) -> AsyncGenerator[tuple[str, bytes]]:
        """The channel and the text of each; ends the connection. Raises BrokerUnavailable once that is lost."""
        try:
            while True:
                yield _message(await self.connection.read_response())
        except (*LOST, ValueError) as error:
            raise unavailable(self.shown, error) from error
        finally:
            await self.end()

    async def close(self) -> None:
        """As `ThreadLink.close`."""
        async with self._lock:
            await self._lose(_CLOSED)

    async def end(self) -> None:
        """End the connection now, also in an exchange; the link is of no more use."""
        await self.connection.disconnect(nowait=True)

    async def _open(self) -> None:
        connection = self.connection
        # It may have ended, or the server may have said what nobody asked.
        if not connection.is_connected or (not self._unread and await _has_unread(connection)):
            await self._connect()

    async def _read_oldest(self) -> None:
        replies: list[Any] = []
        for _ in range(self._unread[0].count):
            try:
                replies.append(await self.connection.read_response())
            except ResponseError as error:
                replies.append(in_its_place(error))
            self._bound.begin_anew()
        self._unread.popleft().answer = replies

    @contextlib.asynccontextmanager
    async def _ended_by_failure(self) -> AsyncIterator[None]:
        try:
            yield
        except LOST as error:
            raise (await self._lose(error)) from error
        except BaseException as error:
            await self._lose(error)
            raise

    async def _lose(self, error: BaseException) -> BrokerUnavailable:
        await self.connection.disconnect(nowait=True)
        return _lost(self._unread, self.shown, error)

    async def _connect(self) -> None:
        await self._lose(_CLOSED)
        # redis-py's own bound is for the log-in alone: around each reply it would take as long as the exchange.
        self.connection.socket_timeout = self._seconds
        try:
            await self.connection.connect()
        except (*LOST, TypeError):
            tls_files.check(self._options)
            raise
        self.connection.socket_timeout = None


def _message(reply: Any) -> tuple[str, bytes]:
    """The channel and the text of a message. Raises ValueError if the reply is something else."""
    match reply:
        case [_kind, bytes(channel), bytes(text)]:
            return channel.decode(), text
    raise ValueError(f"no message: {reply!r}")


def _lost(unread: deque[Sent], shown: str, error: BaseException) -> BrokerUnavailable:
    """The error of ours for a connection that has failed; all that was not read over it is lost."""
    if isinstance(error, BrokerUnavailable):
        ours = error
    else:
        ours = unavailable(shown, error if isinstance(error, LOST) else NoConnection("the exchange was broken off"))
    for sent in unread:
        sent.answer = ours
    unread.clear()
    return ours


def _packed(calls: Sequence[Call[Any]]) -> list[bytes]:
    """The Calls as one write, in pieces where it is large."""
    if len(calls) == 1:
        packed = cast("bytes", pack_command(calls[0].words))
    else:
        packed = b"".join([pack_command(call.words) for call in calls])
    if len(packed) <= _PIECE:
        return [packed]
    return [packed[at : at + _PIECE] for at in range(0, len(packed), _PIECE)]
