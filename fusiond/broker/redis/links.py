"""
One connection of redis-py's to one server, made when it is needed and held: for threads, and for asyncio.

redis-py's public faces alone: it connects, logs in, sends what is packed and reads replies. One exchange at a time goes
over it, all Calls in one write. It is not taken from a pool for each exchange, which would make one take twice as long.

A connection that failed, timed out or was cancelled in mid-reply is closed, and made anew by the next exchange: what it
would read next is the answer to an earlier question. So is one whose server says that it is not, or not yet, the one to
be asked. It is not shared over a fork either. redis-py's exceptions end here.
"""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, Any, cast

from hiredis import pack_command
from redis.asyncio.connection import Connection
from redis.exceptions import ResponseError

from fusiond.broker.call import Call, as_is
from fusiond.broker.redis import tls_files
from fusiond.broker.redis.redis_errors import LOST, in_its_place, unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType

    from redis.connection import ConnectionInterface


#: bytes for which the time of a reply is granted anew while they are sent
_PIECE = 1 << 20
#: redis-py 7 has it under a longer name
_has_unread = getattr(Connection, "can_read", None) or Connection.can_read_destructive


class ThreadLink:
    """For threads, which may share it."""

    def __init__(self, shown: str, options: Mapping[str, Any], connection: ConnectionInterface) -> None:
        """`connection`: of these options, need not be connected yet; its socket_timeout is the time for each reply."""
        self.shown, self._options, self.connection = shown, options, connection
        self.is_open = False
        self._lock = threading.Lock()

    def ask(self, calls: Sequence[Call[Any]]) -> list[Any]:
        """The replies as they came, errors among them. Raises BrokerUnavailable."""
        replies: list[Any] = []
        pieces = _packed(calls)
        with self._lock:
            try:
                if not self.is_open:
                    self._connect()
                self.connection.send_packed_command(pieces, check_health=False)
                for _ in calls:
                    try:
                        replies.append(self.connection.read_response())
                    except ResponseError as error:
                        replies.append(in_its_place(error))
            except LOST as error:
                self._end()
                raise unavailable(self.shown, error) from error
            except BaseException:
                self._end()
                raise
        return replies

    def close(self) -> None:
        """End the connection; the next exchange makes it anew."""
        with self._lock:
            self._end()

    def _connect(self) -> None:
        try:
            self.connection.connect()
        except (*LOST, TypeError):
            tls_files.check(self._options)
            raise
        self.is_open = True

    def _end(self) -> None:
        self.is_open = False
        self.connection.disconnect()


class LoopLink:
    """For one event loop, whose tasks may share it."""

    def __init__(
        self,
        shown: str,
        options: Mapping[str, Any],
        connection: Connection,
        seconds: float,
        give_back: Callable[[Connection], Any] | None = None,
    ) -> None:
        """
        A link over one connection.

        Args:
            shown: the server, for people.
            options: of the connection.
            connection: need not be connected yet.
            seconds: for each reply.
            give_back: takes the connection when it has ended.
        """
        self.shown, self._options, self.connection = shown, options, connection
        self._seconds, self._give_back = seconds, give_back
        self._lock = asyncio.Lock()
        self._bound = _Bound(seconds)

    async def ask(self, calls: Sequence[Call[Any]]) -> list[Any]:
        """As `ThreadLink.ask`."""
        return await self._exchange(_packed(calls), len(calls))

    async def subscribe(self, channels: Sequence[str]) -> None:
        """Hear what is published on them, and nothing else from now on. Raises BrokerUnavailable."""
        for reply in await self._exchange(_packed([Call(("SUBSCRIBE", *channels), as_is)]), len(channels)):
            if isinstance(reply, ResponseError):
                raise unavailable(self.shown, reply)

    async def message(self) -> tuple[str, bytes]:
        """The next one and its channel, however long it takes. Raises BrokerUnavailable once the connection is lost."""
        try:
            _kind, channel, message = await self.connection.read_response()
            return channel.decode(), message
        except (*LOST, ValueError, TypeError, AttributeError) as error:
            raise unavailable(self.shown, error) from error

    async def close(self) -> None:
        """As `ThreadLink.close`."""
        async with self._lock:
            await self.connection.disconnect(nowait=True)

    async def end(self) -> None:
        """End the connection now, also in an exchange; the link is of no more use."""
        await self.connection.disconnect(nowait=True)
        if self._give_back:
            self._give_back(self.connection)

    async def _exchange(self, pieces: list[bytes], count: int) -> list[Any]:
        connection, bound = self.connection, self._bound
        replies: list[Any] = []
        async with self._lock:
            try:
                # It may have ended, or the server may have said what nobody asked.
                if not connection.is_connected or await _has_unread(connection):
                    await self._connect()
                with bound:
                    for piece in pieces:
                        await connection.send_packed_command(piece, check_health=False)
                        bound.begin_anew()
                    while len(replies) < count:
                        try:
                            replies.append(await connection.read_response())
                        except ResponseError as error:
                            replies.append(in_its_place(error))
                        bound.begin_anew()
            except LOST as error:
                await connection.disconnect(nowait=True)
                raise unavailable(self.shown, error) from error
            except BaseException:
                await connection.disconnect(nowait=True)
                raise
        return replies

    async def _connect(self) -> None:
        await self.connection.disconnect(nowait=True)
        # redis-py's own bound is for the log-in alone: around each reply it would take as long as the exchange.
        self.connection.socket_timeout = self._seconds
        try:
            await self.connection.connect()
        except (*LOST, TypeError):
            tls_files.check(self._options)
            raise
        self.connection.socket_timeout = None


class _Bound:
    """
    Raises TimeoutError in a task that has waited for too long, as asyncio.timeout does.

    One timer serves many exchanges: one for each would make an exchange take a quarter longer.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._task: asyncio.Task[Any] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._until, self._cancelling, self._over = 0.0, 0, False

    def begin_anew(self) -> None:
        """The time begins again."""
        self._until = time.monotonic() + self._seconds

    def __enter__(self) -> None:
        self.begin_anew()
        self._task, self._over = asyncio.current_task(), False
        self._cancelling = self._task.cancelling() if self._task else 0
        if self._timer is None:
            self._set_timer()

    def __exit__(
        self, kind: type[BaseException] | None, _value: BaseException | None, _tb: TracebackType | None
    ) -> None:
        task, self._task = self._task, None
        if self._over and task and task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError("no answer in time") from None

    def _set_timer(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._until - time.monotonic(), self._look)

    def _look(self) -> None:
        self._timer = None
        if self._task is None:
            return
        if time.monotonic() < self._until:
            self._set_timer()
        elif not self._over:
            self._over = True
            self._task.cancel()


def _packed(calls: Sequence[Call[Any]]) -> list[bytes]:
    """The Calls as one write, in pieces where it is large."""
    if len(calls) == 1:
        packed = cast("bytes", pack_command(calls[0].words))
    else:
        packed = b"".join([pack_command(call.words) for call in calls])
    if len(packed) <= _PIECE:
        return [packed]
    return [packed[at : at + _PIECE] for at in range(0, len(packed), _PIECE)]
