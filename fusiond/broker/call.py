"""
What is to be said to Redis, apart from how: a verb makes a Call, a connection runs it.

A `Call` is one command and the meaning of its reply. A `Plan` is a generator for what takes more than one round trip:
it yields Calls, lists of Calls for one pipeline, or seconds to wait, is sent the replies, and returns its result. What
fails raises its BrokerError in it.
Neither does any I/O, so that nothing is written twice for threads and for asyncio.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from fusiond.broker.script import Script, script
from fusiond.errors import BrokerError, BrokerUnavailable

K = TypeVar("K")
T = TypeVar("T")

#: s from one look at what is waited for to the next: at first, at last, and so much slower each time
_FIRST_LOOK, _LONGEST_LOOK, _SLOWER = 0.005, 0.25, 1.5

#: epoch ms of the last moment that `datetime` knows
_LAST_MS = 253_402_300_799_999

Word = bytes | str | int | float


class Unreadable(BrokerError):
    """A reply is not what its command is answered with; the next one on this connection may belong to another."""


class Call(NamedTuple, Generic[T]):
    """One command."""

    #: the command and its arguments; of a script EVALSHA, sha, 1, key, …
    words: tuple[Any, ...]
    #: makes the reply, bytes as they came, into what the caller wants
    parse: Callable[[Any], T]
    #: what to fall back on where Redis has forgotten the script
    script: Script | None = None

    def read(self, reply: Any) -> T:
        """What the reply means. Raises BrokerError for one that no verb has made: others write to Redis, too."""
        try:
            return self.parse(reply)
        except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError) as error:
            raise Unreadable(f"what Redis holds cannot be read: {error!r}; has another program written it?") from error

    def in_full(self) -> Call[T]:
        """The same with the script's text in place of its digest, if it is a script."""
        return Call((b"EVAL", self.script.source, *self.words[2:]), self.parse) if self.script else self


def decoded(raw: bytes) -> str:
    """A text of which others may have written some bytes that are no UTF-8; these are escaped."""
    return raw.decode(errors="backslashreplace")


class SendAhead(NamedTuple):
    """
    Calls of a Plan that are sent while Redis still works on earlier ones, a few of these at most.

    The Plan is sent what earlier ones of it were answered meanwhile, in their order: of each the results of its Calls,
    among them errors, which are not raised. A SendAhead without Calls waits for all the others.
    """

    #: one for a queue, and what confirms it
    calls: list[Call[Any]]


#: Yields a Call and is sent its reply; or a list of Calls: their replies; or a SendAhead: the replies to earlier ones;
#: or seconds to wait: None. Returns the result.
Plan = Generator[Call[Any] | list[Call[Any]] | SendAhead | float, Any, T]


def plain(parse: Callable[[Any], T], *words: Word) -> Call[T]:
    """A command that needs no script."""
    return Call(words, parse)


def scripted(name: str, key: bytes | str, arguments: Sequence[Word], parse: Callable[[Any], T]) -> Call[T]:
    """The verb `name` on the queue whose root is `key`."""
    lua = script(name)
    return Call((b"EVALSHA", lua.sha, 1, key, *arguments), parse, lua)


def together(calls: Sequence[Call[T]]) -> Plan[list[T]]:
    """The replies in one round trip. Raises the first error among them."""
    return (yield [*calls]) if calls else []


def sent_ahead(calls: Iterable[list[Call[Any]]]) -> Plan[list[list[Any]]]:
    """The replies to each list of Calls on one queue, errors among them. Raises BrokerUnavailable."""
    found: list[list[Any]] = []
    for each in calls:
        found += yield SendAhead(each)
    found += yield SendAhead([])
    for replies in found:
        for reply in replies:
            if isinstance(reply, BrokerUnavailable):
                raise reply
    return found


def read_each(calls: Mapping[K, Call[T]]) -> Plan[tuple[dict[K, T], list[BrokerError]]]:
    """The replies that can be read, and the errors in place of the others. Raises BrokerUnavailable."""
    replies = yield from sent_ahead([call] for call in calls.values())
    found = {key: reply for key, [reply] in zip(calls, replies, strict=True) if not isinstance(reply, BrokerError)}
    return found, [reply for [reply] in replies if isinstance(reply, BrokerError)]


def looked_at(look: Callable[[], Plan[T]], has_ended: Callable[[T], bool], timeout: float | None) -> Plan[T]:
    """
    What `look` finds, again and again until it has ended or the time is over, through any outage of Redis.

    Raises:
        BrokerUnavailable: when the time is over, Redis is away.
    """
    end = float("inf") if timeout is None else time.monotonic() + timeout
    pause = _FIRST_LOOK
    while True:
        left = end - time.monotonic()
        try:
            found = yield from look()
        except BrokerUnavailable:
            if left <= 0:
                raise
        else:
            if has_ended(found) or left <= 0:
                return found
        yield max(0.0, min(pause, left))
        pause = min(pause * _SLOWER, _LONGEST_LOOK)


def as_is(reply: Any) -> Any:
    """The reply as it came."""
    return reply


def number(reply: Any) -> int:
    """A number. Raises TypeError for anything else."""
    if type(reply) is not int:
        raise TypeError(f"no number: {type(reply).__name__}")
    return reply


def numbers(count: int, most: int | None = None) -> Callable[[Any], list[int]]:
    """Reads a list of so many numbers, each from 0 to `most` where that is given. Raises ValueError, TypeError."""

    def parse(reply: Any) -> list[int]:
        if type(reply) is not list or len(reply) != count or set(map(type, reply)) - {int}:
            raise ValueError(f"not {count} numbers")
        if reply and most is not None and not 0 <= min(reply) <= max(reply) <= most:
            raise ValueError(f"a number that is not between 0 and {most}")
        return reply

    return parse


def fields(reply: Any, *kinds: type) -> list[Any]:
    """A list of one element of each of these types, in their order. Raises TypeError for anything else."""
    if type(reply) is not list or tuple(map(type, reply)) != kinds:
        raise TypeError(f"not {', '.join(kind.__name__ for kind in kinds)}")
    return reply


def stored_number(text: bytes | str) -> int:
    """A count, a duration in ms or epoch ms, as a verb has stored it. Raises ValueError for what is above any time."""
    if not 0 <= (found := int(text)) <= _LAST_MS:
        raise ValueError("a number that no verb stores")
    return found


def texts(reply: Any) -> list[bytes]:
    """A list of bytes, as they came. Raises TypeError for anything else."""
    if type(reply) is not list or set(map(type, reply)) - {bytes}:
        raise TypeError(f"no list of texts: {type(reply).__name__}")
    return reply


def raw(reply: Any) -> bytes | None:
    """Bytes as they came, or nothing. Raises TypeError for anything else."""
    if reply is not None and type(reply) is not bytes:
        raise TypeError(f"no text: {type(reply).__name__}")
    return reply


def text(reply: Any) -> str | None:
    """A text, or nothing. Raises TypeError for anything else."""
    found = raw(reply)
    return None if found is None else decoded(found)


def text_map(flat: list[bytes]) -> dict[str, str]:
    """A hash, as HGETALL replies it."""
    return {decoded(name): decoded(value) for name, value in zip(flat[::2], flat[1::2], strict=True)}


def nothing(_reply: Any) -> None:
    """For a reply that says nothing."""
