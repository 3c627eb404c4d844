"""
What is said to Redis and what follows from its answers, without I/O: a driver for threads and one for asyncio run it.

1. ask     a pipeline of Calls; no MULTI, the verbs are scripts. Each verb may be repeated: where `repeats` says so, one
           that got no answer is
2. again   what answered NOSCRIPT, with the script's text (after a restart, a failover, SCRIPT FLUSH)
3. read    what each reply means; one that is an error does not hide the others

A generator yields a step, is sent what came of it, and returns its result.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, TypeVar, cast

from redis.exceptions import NoScriptError, RedisError

from fusiond.broker.call import Call, Plan, Unreadable
from fusiond.broker.redis import server_requirements
from fusiond.broker.redis.redis_errors import refused
from fusiond.errors import BrokerError, BrokerUnavailable

if TYPE_CHECKING:
    from fusiond.broker.keys import Keys

T = TypeVar("T")

#: seconds from one look at who the primary is to the next
LOOK = 1.0

_INFO = server_requirements.info_call()


class Step(Enum):
    """What a driver does, beside asking and waiting."""

    #: Sentinel: is sent whether the Sentinels name another primary than the connection leads to
    LOOK_FOR_PRIMARY = auto()
    #: end the connections; the next question makes new ones
    RECONNECT = auto()
    #: Cluster: is sent redis-py's client with the map of the slots, read anew
    READ_MAP = auto()


#: a server, of a Cluster `host:port`, and what it is asked
Part = tuple[str, Sequence[Call[Any]]]
#: of a Part: its replies, errors among them, or that they did not come
Answer = list[Any] | BrokerUnavailable
#: yields Parts to be asked side by side, seconds to wait, or a Step
Steps = Generator[list[Part] | float | Step, Any, T]


class OneServer:
    """The conversation with one server."""

    #: whether its nodes are a Cluster's
    cluster = False

    def __init__(self, shown: str, repeats: int) -> None:
        """`repeats`: how often what got no answer is asked again."""
        self.shown, self._repeats = shown, repeats

    def run(self, what: Call[T] | Plan[T]) -> Steps[T]:
        """Run one Call, or a Plan to its end. Raises BrokerError."""
        if isinstance(what, Call):
            return cast("T", (yield from self._one(what)))
        reply: Any = None
        try:
            while True:
                step = what.send(reply)
                if isinstance(step, Call):
                    reply = yield from self._one(step)
                elif isinstance(step, list):
                    reply = raised((yield from self.run_many(step)))
                else:
                    reply = yield step
        except StopIteration as end:
            return cast("T", end.value)

    def _one(self, call: Call[T]) -> Steps[T]:
        [reply] = yield from self.ask((call,))
        found = _meaning(call, reply)
        if isinstance(found, Unreadable):
            yield Step.RECONNECT
        if isinstance(found, BrokerError):
            raise found
        return cast("T", found)

    def run_many(self, calls: Sequence[Call[Any]]) -> Steps[list[Any]]:
        """What the replies mean; in place of one that is an error stands a BrokerError. Raises BrokerUnavailable."""
        replies = yield from self.ask(calls)
        found = [_meaning(call, reply) for call, reply in zip(calls, replies, strict=True)]
        if Unreadable in map(type, found):
            yield Step.RECONNECT
        return found

    def check(self, keys: Keys) -> Steps[None]:
        """Raise BrokerUnfit, or BrokerUnavailable, with the remedy, unless this Redis can be worked with."""
        for node in (yield from self.primaries()):
            [answer] = yield [(node, [_INFO])]
            [reply] = raised([answer])[0]
            [info] = raised([_meaning(_INFO, reply)])
            server_requirements.check_server(info, node or self.shown, cluster=self.cluster)
        yield from self.run(server_requirements.check_layout(keys, self.shown))

    def ask(self, calls: Sequence[Call[Any]]) -> Steps[list[Any]]:
        """The replies as they came, errors among them. Raises BrokerUnavailable."""
        parts, left = [("", calls)], self._repeats
        while True:
            answers: list[Answer] = yield parts
            if is_forgotten(answers[0]):
                yield from send_in_full(parts, answers)
            answer = answers[0]
            if isinstance(answer, list):
                return answer
            if not left:
                raise answer
            left -= 1

    def primaries(self) -> Steps[list[str]]:
        """All nodes that jobs are on."""
        yield from ()
        return [""]

    def listener(self) -> Steps[str]:
        """The node to be asked for messages."""
        yield from ()
        return ""

    def lose(self, node: str) -> None:
        """Note that the node did not answer."""


class WatchedServer(OneServer):
    """
    The conversation with a primary that Sentinels watch.

    One that they gave up by mistake goes on as a primary, for ten seconds and more, and what it acknowledges is lost.
    So each second they are asked whether the connection still leads to the right server.
    """

    _look_at = 0.0

    def ask(self, calls: Sequence[Call[Any]]) -> Steps[list[Any]]:
        """As of one server."""
        now = time.monotonic()
        if now >= self._look_at:
            self._look_at = now + LOOK
            if (yield Step.LOOK_FOR_PRIMARY):
                yield Step.RECONNECT
        return (yield from super().ask(calls))


def send_in_full(parts: list[Part], answers: list[Answer]) -> Steps[None]:
    """Ask once more, with the script's text, what Redis has forgotten the script of; the replies take their places."""
    again = [(i, lost) for i, answer in enumerate(answers) if (lost := forgotten(parts[i][1], answer))]
    full: list[Part] = [(parts[i][0], [_in_full(parts[i][1][place]) for place in lost]) for i, lost in again]
    for (i, lost), second in zip(again, (yield full), strict=True):
        first = answers[i]
        if isinstance(first, BrokerUnavailable) or isinstance(second, BrokerUnavailable):
            answers[i] = second
            continue
        for place, reply in zip(lost, second, strict=True):
            first[place] = reply


def is_forgotten(answer: Answer) -> bool:
    """Whether Redis does not know a script."""
    return isinstance(answer, list) and NoScriptError in map(type, answer)


def forgotten(calls: Sequence[Call[Any]], answer: Answer) -> list[int]:
    """
    Which Calls are to be repeated because Redis does not know their script.

    What confirms a Call follows it: a WAIT that was answered before its enqueue was done has confirmed nothing.
    """
    lost: list[int] = []
    if isinstance(answer, BrokerUnavailable):
        return lost
    for i, reply in enumerate(answer):
        if (type(reply) is NoScriptError and calls[i].script) or (lost and lost[-1] == i - 1 and confirms(calls[i])):
            lost.append(i)
    return lost


def confirms(call: Call[Any]) -> bool:
    """Whether the Call is about the one before it, on the same connection."""
    return call.words[0] in ("WAIT", "WAITAOF")


def _in_full(call: Call[Any]) -> Call[Any]:
    return call.in_full() if call.script else call


def _meaning(call: Call[Any], reply: Any) -> Any:
    """What the reply says, or the error that it amounts to."""
    if isinstance(reply, RedisError):
        return refused(reply, call.words)
    if isinstance(reply, BrokerUnavailable):
        return reply
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
