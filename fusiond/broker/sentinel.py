"""
The primary of a service that Sentinels watch, found anew for each connection.

1. ask      one Sentinel after the other; the one that led to a primary is asked first the next time
2. connect  to the server that it names
3. check    with ROLE that this is a primary: a Sentinel may be late, or cut off from the others

A server that has become a replica says READONLY or closes its connections: then the next connection begins at 1. But
one that the Sentinels gave up by mistake goes on as a primary, for ten seconds and more, and what it acknowledges is
lost. So whoever uses a connection asks each second whether it still leads to the right one.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from hiredis import ReplyError, pack_command
from redis.exceptions import AuthenticationError

from fusiond.broker.wire import LOST, Lead

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from fusiond.broker.address import Address
    from fusiond.broker.wire import AsyncWire, Wire

#: seconds that a Sentinel may take to connect and to answer: there are others
PATIENCE = 2.0
#: seconds that a server which a Sentinel names may take to say that it is a primary: it may be the one that hangs
PRIMARY_PATIENCE = 2.0
#: seconds from one look at who the primary is to the next
LOOK = 1.0


class _Question(NamedTuple):
    """What is to be asked over a new connection."""

    address: Address
    packed: bytes
    #: to connect, and to wait for the answer
    seconds: float


class Sentinel(NamedTuple):
    """One Sentinel."""

    #: with the user and password of the data servers
    address: Address
    #: without, for one that has none
    anonymous: Address


class SentinelAddress:
    """Opens connections to a primary as `Address` does to one server."""

    def __init__(
        self, shown: str, service: str, sentinels: Sequence[Sentinel], server: Callable[[str, int], Address]
    ) -> None:
        """
        The primary of a service.

        Args:
            shown: the URL without its password.
            service: what the Sentinels call it.
            sentinels: at least one.
            server: makes the address of a data server of its host and port.
        """
        self.shown, self._service, self._server = shown, service, server
        self._sentinels = list(sentinels)
        #: how the Sentinel that led to a primary was asked, and a connection to it for later looks
        self._asked = sentinels[0].address
        self._watch: Wire | None = None
        self._watch_async: AsyncWire | None = None
        self._pid = os.getpid()
        self._which = _packed("SENTINEL", "GET-MASTER-ADDR-BY-NAME", service)

    def open(self, seconds: float) -> Wire:
        """As `Address.open`."""
        search = self._search()
        question: _Question | None = next(search)
        while question is not None:
            wire: Wire | None = None
            try:
                wire = question.address.open(question.seconds)
                [answer] = wire.exchange(question.packed, 1)
            except LOST as error:
                answer = error
            led_to = question.address.url
            question = _following(search, answer, wire)
        wire = cast("Wire", wire)
        wire.wait_for(seconds)
        wire.lead = Lead(led_to, time.monotonic() + LOOK)
        return wire

    async def open_async(self, _seconds: float) -> AsyncWire:
        """As `Address.open_async`, in its own time."""
        search = self._search()
        question: _Question | None = next(search)
        while question is not None:
            wire: AsyncWire | None = None
            try:
                wire = await question.address.open_async(question.seconds)
                [answer] = await wire.exchange(question.packed, 1, question.seconds)
            except LOST as error:
                answer = error
            except BaseException:
                if wire is not None:
                    wire.close()
                raise
            led_to = question.address.url
            question = _following(search, answer, wire)
        wire = cast("AsyncWire", wire)
        wire.lead = Lead(led_to, time.monotonic() + LOOK)
        return wire

    def has_moved(self, lead: Lead) -> bool:
        """Whether a Sentinel names another primary now; False where it cannot be asked."""
        if not _is_due(lead):
            return False
        if self._pid != os.getpid():
            self._watch, self._pid = None, os.getpid()
        try:
            if self._watch is None:
                self._watch = self._asked.open(PATIENCE)
            [answer] = self._watch.exchange(self._which, 1)
        except LOST:
            watch, self._watch = self._watch, None
            if watch is not None:
                watch.close()
            return False
        return self._names_another(answer, lead)

    async def has_moved_async(self, lead: Lead) -> bool:
        """As `has_moved`."""
        if not _is_due(lead):
            return False
        try:
            if self._watch_async is None or self._watch_async.ended:
                self._watch_async = await self._asked.open_async(PATIENCE)
            [answer] = await self._watch_async.exchange(self._which, 1, PATIENCE)
        except BaseException as error:
            watch, self._watch_async = self._watch_async, None
            if watch is not None:
                watch.close()
            if isinstance(error, LOST):
                return False
            raise
        return self._names_another(answer, lead)

    def close(self) -> None:
        """End the connections to a Sentinel."""
        for watch in (self._watch, self._watch_async):
            if watch is not None:
                watch.close()
        self._watch = self._watch_async = None

    def _names_another(self, answer: Any, lead: Lead) -> bool:
        return isinstance(answer, list) and self._primary(answer).url != lead.url

    def _primary(self, answer: list[bytes]) -> Address:
        return self._server(answer[0].decode(), int(answer[1]))

    def _search(self) -> Generator[_Question | None, Any, None]:
        """Yields questions, is sent answers or what was raised; None: the connection of the last one is it."""
        problems = []
        for sentinel in tuple(self._sentinels):
            asked = sentinel.address
            found = yield _Question(asked, self._which, PATIENCE)
            if isinstance(found, AuthenticationError):
                asked = sentinel.anonymous
                found = yield _Question(asked, self._which, PATIENCE)
            if problem := self._not_found(found):
                problems.append(f"{sentinel.anonymous.shown}: {problem}")
                continue
            primary = self._primary(found)
            role = yield _Question(primary, _ROLE, PRIMARY_PATIENCE)
            if isinstance(role, list) and role[0] == b"master":
                self._sentinels.sort(key=lambda one: one is not sentinel)
                self._asked = asked
                yield None
            problem = f"it is a {role[0].decode()}" if isinstance(role, list) else _text(role)
            problems.append(f"{sentinel.anonymous.shown} names {primary.shown}: {problem}")
        raise ConnectionError("; ".join(problems))

    def _not_found(self, answer: Any) -> str:
        if answer is None:
            return f"knows no service {self._service!r}"
        return "" if isinstance(answer, list) else _text(answer)


def _following(search: Generator[_Question | None, Any, None], answer: Any, wire: Any) -> _Question | None:
    """The next question; the connection of the last one is closed unless it is the one that was looked for."""
    question = None
    try:
        question = search.send(answer)
    except BaseException:
        if wire is not None:
            wire.close()
        raise
    if question is not None and wire is not None:
        wire.close()
    return question


def _is_due(lead: Lead) -> bool:
    now = time.monotonic()
    due = now >= lead.look_at
    if due:
        lead.look_at = now + LOOK
    return due


def _text(problem: Exception | ReplyError) -> str:
    return str(problem).rstrip(".") or "no answer in time"


def _packed(*words: str) -> bytes:
    return cast("bytes", pack_command(cast("Any", words)))


_ROLE = _packed("ROLE")
