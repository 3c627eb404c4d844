"""
One connection to one server, from the log-in to its end: for threads, and for asyncio.

hiredis packs commands and reads replies; this module connects, logs in, sends and receives. The caller turns its
exceptions into errors of ours, and must not use a session after one.

redis-py has such connections, too. docs/decisions/libraries.md says what they cost, and why they are not used here.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import TYPE_CHECKING, Any, Self

from hiredis import Reader, pack_command

from fusiond.broker.redis.redis_errors import ReplyError

if TYPE_CHECKING:
    from fusiond.broker.redis.address import Address, Place

#: a peer that vanished without a word is noticed after 15 + 3 * 5 seconds
KEEPALIVE = {socket.TCP_KEEPIDLE: 15, socket.TCP_KEEPINTVL: 5, socket.TCP_KEEPCNT: 3}
#: bytes that are received at once
_RECEIVED = 1 << 16
#: bytes that may have come before anybody has read them; then the server has to wait
_UNREAD = 1 << 20
_ENDED, _CLOSED = "the server has ended the connection", "this process has ended the connection"
#: in place of a reply that has not come as a whole
_NOTHING = object()


class ThreadSession:
    """For one thread at a time."""

    #: its end is noticed by the next exchange
    is_open = True

    def __init__(self, address: Address, place: Place) -> None:
        """Connect and log in. Raises BrokerUnavailable, ReplyError, OSError."""
        self.place = place
        self._reader = _reader()
        self._socket = _connected(address, place)
        try:
            for words in _greeting(address):
                self.send(pack_command(words))
                _raise_refusal(self.read())
        except BaseException:
            self.close()
            raise

    def send(self, data: bytes) -> None:
        """Packed commands. Raises OSError."""
        self._socket.sendall(data)

    def read(self) -> Any:
        """The next reply; a ReplyError is returned. Raises OSError, also for what is not a reply."""
        reader = self._reader
        while (reply := reader.gets()) is _NOTHING:
            data = self._socket.recv(_RECEIVED)
            if not data:
                raise ConnectionResetError(_ENDED)
            reader.feed(data)
        return reply

    def close(self) -> None:
        """End the connection."""
        self._socket.close()


def _connected(address: Address, place: Place) -> socket.socket:
    made: socket.socket | None = None
    try:
        if isinstance(place, str):
            made = socket.socket(socket.AF_UNIX)
            made.settimeout(address.timeout)
            made.connect(place)
        else:
            made = socket.create_connection(place, address.timeout)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _keep_alive(made)
            if address.encryption:
                return address.encryption.context().wrap_socket(made, server_hostname=place[0])
    except BaseException:
        if made:
            made.close()
        raise
    return made


class LoopSession(asyncio.BufferedProtocol):
    """For one task at a time of an event loop; `connected` makes it."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._loop = asyncio.get_running_loop()
        self._reader = _reader()
        self._transport: Any = None
        #: for every receive. In a small process, asyncio's own 256 KiB for each double the CPU time of an exchange:
        #: glibc takes them from the kernel, and gives them back, every time. A memoryview: over TLS, asyncio loses what
        #: it receives into a part of a bytearray (CPython issue 156275)
        self._received = memoryview(bytearray(_RECEIVED))
        #: why there is no connection any more
        self._lost: OSError | None = None
        #: what waits for bytes, and for the transport to take more
        self._arrival: asyncio.Future[None] | None = None
        self._room: asyncio.Future[None] | None = None
        #: bytes that came since there was nothing more to read
        self._unread = 0

    @classmethod
    async def connected(cls, address: Address, place: Place) -> Self:
        """Connect and log in. Raises BrokerUnavailable, ReplyError, OSError; also if both take longer than a reply."""
        new = cls(place)
        loop = new._loop
        try:
            async with asyncio.timeout(address.timeout):
                if isinstance(place, str):
                    await loop.create_unix_connection(lambda: new, place)
                else:
                    tls = address.encryption.context() if address.encryption else None
                    await loop.create_connection(lambda: new, *place, ssl=tls)
                    _keep_alive(new._transport.get_extra_info("socket"))
                for words in _greeting(address):
                    await new.send(pack_command(words))
                    _raise_refusal(await new.read())
        except BaseException:
            new.close()
            raise
        return new

    @property
    def is_open(self) -> bool:
        """Whether it is not known to be closed."""
        return self._lost is None

    @property
    def has_unread(self) -> bool:
        """Whether something has come that nobody has read."""
        return self._reader.has_data()

    async def send(self, data: bytes) -> None:
        """Packed commands; waits until most of it is on its way. Raises OSError."""
        self._raise_lost()
        self._transport.write(data)
        if self._room:
            await self._room
            self._raise_lost()

    async def read(self) -> Any:
        """As `ThreadSession.read`."""
        while (reply := self._reader.gets()) is _NOTHING:
            self._raise_lost()
            if self._unread > _UNREAD:
                self._transport.resume_reading()
            self._unread = 0
            self._arrival = self._loop.create_future()
            try:
                await self._arrival
            finally:
                self._arrival = None
        return reply

    def close(self) -> None:
        """End the connection now, whatever is under way."""
        if self._transport:
            self._transport.abort()
        self._end(ConnectionAbortedError(_CLOSED))

    def close_soon(self) -> None:
        """Close it from any thread: the loop does it in its next iteration."""
        with contextlib.suppress(RuntimeError):  # The loop is closed: the socket ends when Python collects it.
            self._loop.call_soon_threadsafe(self.close)

    # -- what the transport calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """What is sent goes there."""
        self._transport = transport

    def get_buffer(self, _size: int) -> memoryview:
        """Where the next bytes go."""
        return self._received

    def buffer_updated(self, count: int) -> None:
        """Keep them for `read`."""
        self._reader.feed(self._received, 0, count)  # type: ignore[arg-type]  # it takes any buffer
        self._unread += count
        if self._arrival:
            _set(self._arrival)
        elif self._unread > _UNREAD:
            self._transport.pause_reading()

    def connection_lost(self, error: Exception | None) -> None:
        """Nothing more will come."""
        self._end(error if isinstance(error, OSError) else ConnectionResetError(str(error or _ENDED)))

    def pause_writing(self) -> None:
        """Let nobody send more."""
        self._room = self._loop.create_future()

    def resume_writing(self) -> None:
        """Let who waits send."""
        room, self._room = self._room, None
        _set(room)

    def _end(self, error: OSError) -> None:
        self._lost = self._lost or error
        _set(self._arrival)
        self.resume_writing()

    def _raise_lost(self) -> None:
        if self._lost:
            raise self._lost


def _set(future: asyncio.Future[None] | None) -> None:
    """Wake who waits for it; it may have been cancelled."""
    if future and not future.done():
        future.set_result(None)


def _keep_alive(connected: Any) -> None:
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in KEEPALIVE.items():
        connected.setsockopt(socket.IPPROTO_TCP, option, value)


def _reader() -> Reader:
    return Reader(protocolError=ConnectionError, replyError=ReplyError, notEnoughData=_NOTHING)


def _greeting(address: Address) -> list[tuple[Any, ...]]:
    """What is said first on each connection. Raises BrokerUnavailable."""
    words: list[tuple[Any, ...]] = [("AUTH", *address.login())] if address.has_login else []
    return [*words, ("SELECT", address.database)] if address.database else words


def _raise_refusal(reply: Any) -> None:
    if isinstance(reply, ReplyError):
        raise reply
