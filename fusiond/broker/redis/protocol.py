"""
The conversation with Redis, without I/O. connection.py carries it out, for threads and for asyncio.

1. ask     Redis a pipeline of Calls; there is no MULTI, since each verb is one script. A verb may run twice, so Calls
           without an answer are sent again, up to `repeats` times
2. again   send the script's text where Redis has answered NOSCRIPT, as after a restart, a failover or SCRIPT FLUSH
3. read    each reply; an error among them does not hide the others

A conversation is a generator: it yields a step, is sent the step's result, and returns its own result.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Generator, Sequence
from enum import Enum
from typing import Any, NamedTuple, TypeVar, cast

from fusiond.broker.call import Call, Plan, SendAhead, Unreadable
from fusiond.broker.keys import Keys
from fusiond.broker.redis import server_requirements
from fusiond.broker.redis.links import Sent
from fusiond.broker.redis.redis_errors import ReplyError, refused
from fusiond.errors import BrokerError, BrokerUnavailable

T = TypeVar("T")
K = TypeVar("K")

#: how many of a Plan's SendAheads Redis may have and not have answered
AHEAD = 8
#: seconds from one look at who the primary is to the next
LOOK = 1.0

_INFO = server_requirements.info_call()


class Step(Enum):
    """What the servers do beside answering: the name of their method. What it returns is sent to the conversation."""

    #: Sentinel: whether the Sentinels name another primary than the connection leads to
    LOOK_FOR_PRIMARY = "is_elsewhere"
    #: end the connections; the next question makes new ones
    RECONNECT = "reconnect"
    #: Cluster: redis-py's client with the map of the slots, read again
    READ_MAP = "read_map"


class Send(NamedTuple):
    """Send Calls to one server without waiting. The result is what `Read` takes, or the error if that failed."""

    node: str
    calls: Sequence[Call[Any]]


class Read(NamedTuple):
    """Wait for the replies to what was sent. The result is the Answer."""

    sent: Sent


#: a server, `host:port` in a Cluster and otherwise "", and the Calls to it
Part = tuple[str, Sequence[Call[Any]]]
#: the replies to a Part, errors among them; or the error if none came
Answer = list[Any] | BrokerUnavailable
#: yields Parts to be asked side by side, seconds to wait, or another step
Steps = Generator[list[Part] | float | Step | Send | Read, Any, T]


class OneServer:
    """The conversation with one server."""

    #: whether its nodes are a Cluster's
    cluster = False
    #: whether a Call can be sent before it is known which server it belongs to
    asks_at_once = True

    def __init__(self, shown: str, repeats: int) -> None:
        """`repeats`: how often Calls without an answer are sent again."""
        self.shown, self._repeats = shown, repeats

    def run(self, what: Call[T] | Plan[T]) -> Steps[T]:
        """Run one Call, or a Plan to its end. Raises BrokerError."""
        plan = _alone(what) if isinstance(what, Call) else what
        flight: Flight | None = None
        reply: Any = None
        failed: BrokerError | None = None
        try:
            while True:
                # A plan may go on, such as one that waits through an outage; else the error comes back at once.
                step = plan.send(reply) if failed is None else plan.throw(failed)
                failed = None
                try:
                    if isinstance(step, Call):
                        # Most calls need no more than this. After a pause each function of Python's costs 10 µs, so
                        # that one job takes a tenth less of the producer's time than by way of `ask`.
                        answers: list[Answer] | None = (yield [("", (step,))]) if self.asks_at_once else None
                        if answers is None or isinstance(answers[0], BrokerUnavailable) or is_forgotten(answers[0]):
                            [raw] = yield from self.ask((step,), answers)
                        else:
                            [raw] = answers[0]
                        reply = _meaning(step, raw)
                        if isinstance(reply, BrokerError):
                            if isinstance(reply, Unreadable):
                                yield Step.RECONNECT
                            raise reply
                    elif isinstance(step, list):
                        reply = raised((yield from self.run_many(step)))
                    elif isinstance(step, SendAhead):
                        flight = flight or Flight(self)
                        reply = yield from flight.go(step.calls)
                    else:
                        reply = yield step
                except BrokerError as error:
                    failed = error
        except StopIteration as end:
            return cast("T", end.value)

    def run_many(self, calls: Sequence[Call[Any]]) -> Steps[list[Any]]:
        """What the replies mean, with a BrokerError in place of each error. Raises BrokerUnavailable."""
        return (yield from _meanings(calls, (yield from self.ask(calls))))

    def check(self, keys: Keys) -> Steps[None]:
        """Raise BrokerUnfit, or BrokerUnavailable, with the remedy, unless this Redis can be worked with."""
        for node in (yield from self.primaries()):
            [answer] = yield [(node, [_INFO])]
            [reply] = raised([answer])[0]
            [info] = raised([_meaning(_INFO, reply)])
            server_requirements.check_server(info, node or self.shown, cluster=self.cluster)
        yield from self.run(server_requirements.check_rights(keys, self.shown))
        yield from self.run(server_requirements.check_layout(keys, self.shown))

    def ask(self, calls: Sequence[Call[Any]], answers: list[Answer] | None = None) -> Steps[list[Any]]:
        """
        The replies as they came, errors among them.

        `answers`: what the first attempt gave, if there was one. Raises BrokerUnavailable.
        """
        parts, left = [("", calls)], self._repeats
        while True:
            if answers is None:
                answers = yield parts
            if is_forgotten(answers[0]):
                yield from send_in_full(parts, answers)
            answer = answers[0]
            if isinstance(answer, list):
                return answer
            if not left:
                raise answer
            left, answers = left - 1, None

    def route(self, calls: list[Call[Any]]) -> Steps[tuple[str | None, list[Call[Any]]]]:
        """The server for Calls on one queue, None if there is none, and the Calls in the form for that server."""
        yield from ()
        return "", calls

    def primaries(self) -> Steps[list[str]]:
        """All nodes that hold jobs."""
        yield from ()
        return [""]

    def listener(self) -> Steps[str]:
        """The node on which to subscribe."""
        yield from ()
        return ""

    def lose(self, node: str) -> None:
        """Note that the node did not answer."""


class WatchedServer(OneServer):
    """
    The conversation with a primary that Sentinels watch.

    If they replace a primary that still runs, it goes on as a primary for ten seconds or more, and what it acknowledges
    is lost. So they are asked once a second whether the connection still leads to the right server.
    """

    asks_at_once = False
    _look_at = 0.0

    def ask(self, calls: Sequence[Call[Any]], answers: list[Answer] | None = None) -> Steps[list[Any]]:
        """As `OneServer.ask`."""
        yield from self._look()
        return (yield from super().ask(calls, answers))

    def route(self, calls: list[Call[Any]]) -> Steps[tuple[str | None, list[Call[Any]]]]:
        """As `OneServer.route`."""
        yield from self._look()
        return "", calls

    def _look(self) -> Steps[None]:
        now = time.monotonic()
        if now >= self._look_at:
            self._look_at = now + LOOK
            if (yield Step.LOOK_FOR_PRIMARY):
                yield Step.RECONNECT


class Flight:
    """
    The Calls of one Plan that are sent ahead of the replies.

    1. send    while fewer than AHEAD are unanswered; otherwise the oldest reply is read first
    2. settle  Calls without a reply, or with an error, are sent again like any Call. Before that all later replies are
               read, and nothing else is sent meanwhile, so that jobs of one queue keep their order
    """

    def __init__(self, server: OneServer) -> None:
        self._server = server
        #: oldest first, each with what `Read` takes, or with the error if it could not be sent
        self._unanswered: deque[tuple[list[Call[Any]], Sent | BrokerUnavailable]] = deque()

    def go(self, calls: list[Call[Any]]) -> Steps[list[list[Any]]]:
        """Send these Calls; if there are none, wait for all earlier ones. Returns what has arrived, in order."""
        if calls:
            self._unanswered.append((calls, (yield from self._send(calls))))
        most, answered = AHEAD if calls else 0, []
        while len(self._unanswered) > most:
            earlier, sent = self._unanswered.popleft()
            answer: Answer = sent if isinstance(sent, BrokerUnavailable) else (yield Read(sent))
            answered.append((earlier, answer))
            if not _is_plain(answer):
                most = 0
        return (yield from self._results(answered))

    def _send(self, calls: list[Call[Any]]) -> Steps[Sent | BrokerUnavailable]:
        try:
            node, declared = yield from self._server.route(calls)
        except BrokerUnavailable as error:
            return error
        if node is None:
            return BrokerUnavailable("no node of the Cluster has the queue's slot")
        return (yield Send(node, declared))  # type: ignore[no-any-return]

    def _results(self, answered: list[tuple[list[Call[Any]], Answer]]) -> Steps[list[list[Any]]]:
        results: list[list[Any]] = []
        away: BrokerUnavailable | None = None
        for calls, answer in answered:
            replies = answer
            if not _is_plain(answer):
                # If one was sent again in vain, the others are not: each might take the whole timeout.
                replies = away or (yield from self._ask_again(calls, answer))
            if isinstance(replies, BrokerUnavailable):
                away = replies
                results.append([replies] * len(calls))
            else:
                results.append((yield from _meanings(calls, replies)))
        return results

    def _ask_again(self, calls: list[Call[Any]], answer: Answer) -> Steps[Answer]:
        try:
            return (yield from self._server.ask(calls, [answer]))
        except BrokerUnavailable as error:
            return error


def _is_plain(answer: Answer) -> bool:
    """Whether there are replies, and none is an error."""
    return isinstance(answer, list) and not any(isinstance(reply, ReplyError) for reply in answer)


def _alone(call: Call[T]) -> Plan[T]:
    """The plan that consists of one Call."""
    return (yield call)  # type: ignore[no-any-return]


def send_in_full(parts: list[Part], answers: list[Answer]) -> Steps[None]:
    """Repeat the Calls whose scripts Redis has forgotten, with the scripts' text; put the replies into their places."""
    again = [(i, lost) for i, answer in enumerate(answers) if (lost := forgotten(parts[i][1], answer))]
    full: list[Part] = [(parts[i][0], [parts[i][1][place].in_full() for place in lost]) for i, lost in again]
    for (i, lost), second in zip(again, (yield full), strict=True):
        first = answers[i]
        if isinstance(first, BrokerUnavailable) or isinstance(second, BrokerUnavailable):
            answers[i] = second
            continue
        for place, reply in zip(lost, second, strict=True):
            first[place] = reply


def is_forgotten(answer: Answer) -> bool:
    """Whether Redis did not know one of the scripts."""
    return isinstance(answer, list) and ReplyError in map(type, answer) and any(map(_is_no_script, answer))


def _is_no_script(reply: Any) -> bool:
    return type(reply) is ReplyError and reply.kind == "NOSCRIPT"


def forgotten(calls: Sequence[Call[Any]], answer: Answer) -> list[int]:
    """
    The places of the Calls that are to be repeated because Redis did not know their script.

    The next WAIT behind such a Call is repeated as well: it was answered before the Call was carried out.
    """
    lost: list[int] = []
    since = 0  # the first of the Calls that the next WAIT is about
    if isinstance(answer, BrokerUnavailable):
        return lost
    for i, reply in enumerate(answer):
        is_wait = confirms(calls[i])
        if (_is_no_script(reply) and calls[i].script) or (is_wait and lost and lost[-1] >= since):
            lost.append(i)
        since = i + 1 if is_wait else since
    return lost


def confirms(call: Call[Any]) -> bool:
    """Whether the Call is about those before it, on the same connection."""
    return call.words[0] in ("WAIT", "WAITAOF")


def _meaning(call: Call[Any], reply: Any) -> Any:
    """What the reply says, or the error that it amounts to."""
    if isinstance(reply, ReplyError):
        return refused(reply, call.words)
    if isinstance(reply, BrokerUnavailable):
        return reply
    try:
        return call.read(reply)
    except BrokerError as error:
        return error


def _meanings(calls: Sequence[Call[Any]], replies: list[Any]) -> Steps[list[Any]]:
    """What each reply says, or the error that it amounts to; ends the connection if it is the reply to another Call."""
    found = [_meaning(call, reply) for call, reply in zip(calls, replies, strict=True)]
    if Unreadable in map(type, found):
        yield Step.RECONNECT
    return found


def raised(results: list[Any]) -> list[Any]:
    """The results themselves; raises the first that is an error."""
    for result in results:
        if isinstance(result, BrokerError):
            raise result
    return results
