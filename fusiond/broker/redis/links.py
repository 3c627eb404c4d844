"""
A connection to one server that is made when it is needed, and held: for threads, and for asyncio.

An exchange is all Calls in one write, and their replies. Calls may also be sent and their replies be read later: others
may be asked meanwhile, and read what was sent before them first.

A link closes its connection after a failure, a time-out or a cancellation, since the next reply would answer an earlier
question. It also closes one whose server is not, or not yet, the right one. The next exchange makes a new connection.
Only errors of ours leave this module, and Redis' errors among the replies.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from hiredis import pack_command

from fusiond.broker.call import Call, as_is, plain
from fusiond.broker.redis.redis_errors import LOST, ReplyError, in_its_place, refused, unavailable
from fusiond.broker.redis.time_limit import TimeLimit
from fusiond.errors import BrokerUnavailable

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence

    from fusiond.broker.redis.address import Place
    from fusiond.broker.redis.sessions import LoopSession, ThreadSession


S = TypeVar("S", "ThreadSession", "LoopSession")

#: bytes for which the time of a reply starts over while they are sent
_PIECE = 1 << 20
_BROKEN_OFF = "the exchange was broken off"


class Sent:
    """Calls that were sent, and whose replies may not have been read yet."""

    __slots__ = ("answer", "count", "link")

    def __init__(self, link: Any, count: int) -> None:
        self.link, self.count = link, count
        #: the replies, errors among them, or why they were lost; None: not read yet
        self.answer: list[Any] | BrokerUnavailable | None = None


class _Link(Generic[S]):
    """What both kinds have."""

    def __init__(self, shown: str) -> None:
        #: the server, for people
        self.shown = shown
        self._session: S | None = None
        #: the oldest first
        self._unread: deque[Sent] = deque()

    @property
    def place(self) -> Place | None:
        """Where it is connected to; None: nowhere."""
        return self._session.place if self._session and self._session.is_open else None

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
        """End the connection; the error of ours for that. What was not read over it is lost."""
        lost, self._session = self._session, None
        unread, self._unread = self._unread, deque()
        if isinstance(error, BrokerUnavailable):
            ours = error
        else:
            ours = unavailable(self.shown, error if isinstance(error, LOST) else ConnectionError(_BROKEN_OFF))
        for sent in unread:
            sent.answer = ours
        if lost:
            lost.close()
        return ours


class ThreadLink(_Link["ThreadSession"]):
    """For threads, which may share it."""

    def __init__(self, shown: str, dial: Callable[[], ThreadSession]) -> None:
        """`shown`: the server, for people; `dial`: makes a connection; may raise BrokerUnavailable, or one of LOST."""
        super().__init__(shown)
        self._dial, self._lock = dial, threading.Lock()

    def ask(self, calls: Sequence[Call[Any]]) -> list[Any]:
        """The replies as they came, errors among them. Raises BrokerUnavailable."""
        pieces = _packed(calls)
        with self._lock:
            # Written out, and not `_ended_by_failure`: each single job takes this way.
            try:
                session = self._send(pieces)
                while self._unread:
                    self._read_oldest()
                return [in_its_place(session.read()) for _ in calls]
            except LOST as error:
                raise self._lose(error) from error
            except BaseException as error:
                self._lose(error)
                raise

    def send(self, calls: Sequence[Call[Any]]) -> Sent:
        """Have Redis begin with these; `read` waits for the replies. Raises BrokerUnavailable."""
        sent, pieces = Sent(self, len(calls)), _packed(calls)
        with self._lock, self._ended_by_failure():
            self._send(pieces)
            self._unread.append(sent)
        return sent

    def read(self, sent: Sent) -> list[Any] | BrokerUnavailable | None:
        """The answer to what was sent. Raises BrokerUnavailable if the connection is lost now."""
        with self._lock, self._ended_by_failure():
            while sent in self._unread:
                self._read_oldest()
        return sent.answer

    def close(self) -> None:
        """End the connection; the next exchange makes it again."""
        with self._lock:
            self._lose(ConnectionError(_BROKEN_OFF))

    def _send(self, pieces: list[bytes]) -> ThreadSession:
        if self._session is None:
            self._session = self._dial()
        for piece in pieces:
            self._session.send(piece)
        return self._session

    def _read_oldest(self) -> None:
        session = cast("ThreadSession", self._session)
        replies = [in_its_place(session.read()) for _ in range(self._unread[0].count)]
        self._unread.popleft().answer = replies


class LoopLink(_Link["LoopSession"]):
    """For one event loop, whose tasks may share it."""

    def __init__(self, shown: str, dial: Callable[[], Awaitable[LoopSession]], seconds: float) -> None:
        """As of `ThreadLink`; `seconds`: for each reply."""
        super().__init__(shown)
        self._dial, self._lock, self._bound = dial, asyncio.Lock(), TimeLimit(seconds)
        self._ended = False

    def __del__(self) -> None:
        """End the connection; otherwise the event loop would keep it open. May be called in any thread."""
        if self._session:
            self._session.close_soon()

    async def ask(self, calls: Sequence[Call[Any]]) -> list[Any]:
        """As `ThreadLink.ask`."""
        pieces = _packed(calls)
        async with self._lock:
            try:
                session = await self._opened()
                with self._bound:
                    await self._send(session, pieces)
                    while self._unread:
                        await self._read_oldest()
                    return await self._replies(session, len(calls))
            except LOST as error:
                raise self._lose(error) from error
            except BaseException as error:
                self._lose(error)
                raise

    async def send(self, calls: Sequence[Call[Any]]) -> Sent:
        """As `ThreadLink.send`."""
        sent, pieces = Sent(self, len(calls)), _packed(calls)
        async with self._lock:
            with self._ended_by_failure():
                session = await self._opened()
                with self._bound:
                    await self._send(session, pieces)
                self._unread.append(sent)
        return sent

    async def read(self, sent: Sent) -> list[Any] | BrokerUnavailable | None:
        """As `ThreadLink.read`."""
        async with self._lock:
            with self._ended_by_failure(), self._bound:
                while sent in self._unread:
                    await self._read_oldest()
        return sent.answer

    async def subscribe(self, channels: Sequence[str]) -> None:
        """Hear what is published on them, and nothing else from now on. Raises BrokerUnavailable."""
        for reply in await self.ask([plain(as_is, "SUBSCRIBE", channel) for channel in channels]):
            if isinstance(reply, ReplyError):
                raise refused(reply, ()) if reply.kind == "NOPERM" else unavailable(self.shown, reply)

    async def messages(self) -> AsyncGenerator[tuple[str, bytes]]:
        """The channel and the text of each; ends the connection. Raises BrokerUnavailable once that is lost."""
        session = cast("LoopSession", self._session)
        try:
            while True:
                yield _message(await session.read())
        except (*LOST, ValueError) as error:
            raise unavailable(self.shown, error) from error
        finally:
            self.end()

    async def close(self) -> None:
        """As `ThreadLink.close`."""
        async with self._lock:
            self._lose(ConnectionError(_BROKEN_OFF))

    def end(self) -> None:
        """End the connection now, even during an exchange or while it is made. The link cannot be used again."""
        self._ended = True
        if self._session:
            self._session.close()

    async def _opened(self) -> LoopSession:
        session = self._session
        # It may have ended, or the server may have said what nobody asked.
        if session and session.is_open and (self._unread or not session.has_unread):
            return session
        self._lose(ConnectionError(_BROKEN_OFF))
        if not self._ended:
            session = self._session = await self._dial()
        if session is None or self._ended:  # while it was made, too
            raise ConnectionError(_BROKEN_OFF)
        return session

    async def _send(self, session: LoopSession, pieces: list[bytes]) -> None:
        for piece in pieces:
            await session.send(piece)
            self._bound.start_over()

    async def _read_oldest(self) -> None:
        replies = await self._replies(cast("LoopSession", self._session), self._unread[0].count)
        self._unread.popleft().answer = replies

    async def _replies(self, session: LoopSession, count: int) -> list[Any]:
        replies: list[Any] = []
        while len(replies) < count:
            replies.append(in_its_place(await session.read()))
            self._bound.start_over()
        return replies


def _message(reply: Any) -> tuple[str, bytes]:
    """The channel and the text of a message. Raises ValueError if the reply is something else."""
    match reply:
        case [_kind, bytes(channel), bytes(text)]:
            return channel.decode(), text
    raise ValueError(f"no message: {reply!r}")


def _packed(calls: Sequence[Call[Any]]) -> list[bytes]:
    """The Calls as one write, in pieces where it is large."""
    if len(calls) == 1:
        packed = cast("bytes", pack_command(calls[0].words))
    else:
        packed = b"".join([pack_command(call.words) for call in calls])
    if len(packed) <= _PIECE:
        return [packed]
    return [packed[at : at + _PIECE] for at in range(0, len(packed), _PIECE)]
