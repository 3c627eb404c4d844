"""
A connection that is made: packed commands out, replies in, for threads and for asyncio.

redis-py makes it: TCP, TLS, unix sockets, log-in, SELECT. From then on its socket is ours, and hiredis reads it: what
redis-py does around each reply took a third of a claim's time.

A reply that is an error is returned as hiredis' ReplyError. Once a call has raised, the wire is of no more use: close
it.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from hiredis import HiredisError, Reader
from redis.exceptions import RedisError

if TYPE_CHECKING:
    import redis.asyncio.connection
    import redis.connection

#: what redis-py, hiredis and the kernel raise where a connection does not come about, or does not last
LOST = (RedisError, HiredisError, OSError)

#: bytes; kept, since memory for each reply anew costs more than the call that reads it
_BUFFER = 65536
_NOTHING = object()


@dataclass(slots=True)
class Lead:
    """What led to a server that may lose its role, and when that is to be looked at again."""

    #: URL of the server
    url: str
    #: monotonic s
    look_at: float


class Wire:
    """For threads, one at a time."""

    #: of a primary that Sentinels have named
    lead: Lead | None = None

    def __init__(self, made: redis.connection.Connection, seconds: float) -> None:
        """Take over what redis-py has connected. `seconds`: to wait for a reply."""
        # neither is public; redis-py would close the socket when its own object goes
        taken: Any = made._sock  # noqa: SLF001
        made._sock = None  # noqa: SLF001
        self._socket: socket.socket = taken
        self._reader = _new_reader()
        self._buffer = bytearray(_BUFFER)
        self.wait_for(seconds)

    def wait_for(self, seconds: float) -> None:
        """Wait so long for a reply, and for room to send."""
        if isinstance(self._socket, ssl.SSLSocket):
            self._socket.settimeout(seconds)
            return
        # By the kernel: Python's way takes a poll() before each send and each receive.
        self._socket.settimeout(None)
        span = struct.pack("@ll", int(seconds), int(seconds % 1 * 1e6))
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, span)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, span)

    def exchange(self, packed: bytes, count: int) -> list[Any]:
        """Send, and read `count` replies. Raises OSError or HiredisError."""
        try:
            self._socket.sendall(packed)
            replies: list[Any] = []
            while len(replies) < count:
                reply = self._reader.gets()
                if reply is _NOTHING:
                    self._receive()
                else:
                    replies.append(reply)
        except BlockingIOError:
            raise TimeoutError("no answer in time") from None
        if self._reader.has_data():
            raise ConnectionError("the server has said more than was asked")
        return replies

    def _receive(self) -> None:
        got = self._socket.recv_into(self._buffer)
        if not got:
            raise ConnectionError("the server has closed the connection")
        self._reader.feed(self._buffer, 0, got)  # type: ignore[arg-type]

    def close(self) -> None:
        """End it."""
        self._socket.close()


class AsyncWire(asyncio.BufferedProtocol):
    """For one event loop, one exchange at a time."""

    lead: Lead | None = None

    def __init__(self, made: redis.asyncio.connection.Connection) -> None:
        """Take over what redis-py has connected."""
        # neither is public; redis-py would close the transport when its own object goes
        # kept, for it would close the transport as well
        self._kept = cast("asyncio.StreamWriter", made._writer)  # noqa: SLF001
        made._reader = made._writer = None  # noqa: SLF001
        self._reader = _new_reader()
        self._buffer = bytearray(_BUFFER)
        self._replies: list[Any] = []
        self._wanted = 0
        #: monotonic s; when anything was sent or heard last, and the bytes that were not sent then
        self._moved, self._unsent = 0.0, 0
        self._timer: asyncio.TimerHandle | None = None
        self._answer: asyncio.Future[None] | None = None
        self._end: Exception | None = None
        self._transport = self._kept.transport
        self._transport.set_protocol(self)

    @property
    def ended(self) -> bool:
        """Whether the other side has closed it."""
        return self._end is not None

    async def exchange(self, packed: bytes, count: int, seconds: float) -> list[Any]:
        """Send, and read `count` replies, never waiting so many seconds for nothing. Raises OSError or HiredisError."""
        if self._replies:
            raise ConnectionError("the server has said what nobody asked")
        self._transport.write(packed)
        self._moved, self._unsent = time.monotonic(), self._transport.get_write_buffer_size()
        self._look_after(seconds, seconds)
        try:
            return await self.replies(count)
        finally:
            if self._timer:
                self._timer.cancel()

    async def replies(self, count: int) -> list[Any]:
        """The next replies, however long they take. Raises OSError or HiredisError once the connection is lost."""
        if len(self._replies) < count:
            if self._end is not None:
                raise self._end
            self._wanted, self._answer = count, asyncio.get_running_loop().create_future()
            await self._answer
        found = self._replies[:count]
        del self._replies[:count]
        return found

    def close(self) -> None:
        """End it; what is not sent yet is not sent."""
        self._transport.abort()
        # The begin of a reply may be large, and this object is part of a circle that is not collected soon.
        self._reader = _new_reader()

    def _look_after(self, wait: float, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(wait, self._look, seconds)

    def _look(self, seconds: float) -> None:
        """Give up where nothing has moved for so long. A large reply over a slow link is none of that."""
        now, unsent = time.monotonic(), self._transport.get_write_buffer_size()
        if unsent < self._unsent:
            self._moved, self._unsent = now, unsent
        left = self._moved + seconds - now
        if left > 0:
            self._look_after(left, seconds)
        else:
            self.connection_lost(TimeoutError("no answer in time"))

    # -- asyncio calls these ------------------------------------------------------------------------------------------

    def get_buffer(self, _hint: int) -> bytearray:
        """Where to read to."""
        return self._buffer

    def buffer_updated(self, count: int) -> None:
        """So much was read."""
        self._moved = time.monotonic()
        try:
            self._reader.feed(self._buffer, 0, count)  # type: ignore[arg-type]
            while (reply := self._reader.gets()) is not _NOTHING:
                self._replies.append(reply)
        except HiredisError as error:
            # Raised from here, asyncio would log its traceback.
            self.connection_lost(error)
            self.close()
        if len(self._replies) >= self._wanted and self._answer is not None and not self._answer.done():
            self._answer.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        """The connection has ended; asyncio hands on what it failed with."""
        self._end = self._end or error or ConnectionError("the server has closed the connection")
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(self._end)


def _new_reader() -> Reader:
    return Reader(notEnoughData=_NOTHING)
