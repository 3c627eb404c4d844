"""
Which node of a Redis Cluster a Call goes to, and what follows from its answer. No I/O.

1. map      redis-py keeps it: which node has which slot; it is read again once an answer has shown it old
2. split    the Calls by the node of their key; all keys of a verb have the queue's name in braces, so one slot. A WAIT
            goes with the Call before it. What has no key goes to any node
3. judge    each answer: MOVED to that node · ASK there once, with ASKING · TRYAGAIN, CLUSTERDOWN again a little later
4. join     the replies in the order of the Calls; in place of those of a node that was lost stands BrokerUnavailable

A slot that is moved key by key has its keys on two nodes, and a script that looked for one on the wrong node would take
it for missing. So a verb declares two keys that there never are: Redis then answers TRYAGAIN until the slot has moved,
since it cannot know them to be together.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from redis.exceptions import SlotNotCoveredError

from fusiond.broker.call import Call, as_is, plain
from fusiond.broker.redis.protocol import Answer, OneServer, Part, Step, Steps, confirms, is_forgotten, send_in_full
from fusiond.broker.redis.redis_errors import ReplyError
from fusiond.errors import BrokerUnavailable

#: seconds for which a call is repeated while its slot is on its way, or has no primary
PATIENCE = 3.0
#: seconds from one such repetition to the next
PAUSE = 0.05
#: times that a call is sent on to another node
HOPS = 8

_ASKING = plain(as_is, "ASKING")
#: commands of ours that have no key, or none where others have it
_KEYLESS = frozenset({
    "CLUSTER", "CONFIG", "ECHO", "FLUSHALL", "INFO", "PING", "PUBLISH", "SCRIPT", "WAIT", "WAITAOF",
})  # fmt: skip


@dataclass(slots=True)
class _Unit:
    """A Call, and those that confirm it: they stay together."""

    calls: list[Call[Any]]
    key: bytes | None
    #: the last ones; that no node has the slot is one for each Call, too
    replies: list[Any] = field(default_factory=list)
    #: where it was sent on to
    node: str | None = None
    asking: bool = False


@dataclass(slots=True)
class _Left:
    """What is to be asked again."""

    onward: list[_Unit] = field(default_factory=list)
    later: list[_Unit] = field(default_factory=list)
    lost: list[_Unit] = field(default_factory=list)


class ClusterNodes(OneServer):
    """The conversation with the nodes of a Cluster."""

    cluster = True
    asks_at_once = False

    def __init__(self, shown: str, repeats: int) -> None:
        """As of one server."""
        super().__init__(shown, repeats)
        #: redis-py's client, for threads or for asyncio, once it has read the map
        self._map: Any = None
        #: nodes that did not answer last
        self._silent: set[str] = set()
        #: an answer has shown that the map is old
        self._stale = True

    def ask(self, calls: Sequence[Call[Any]], answers: list[Answer] | None = None) -> Steps[list[Any]]:  # noqa: ARG002 - there is no first attempt
        """The replies; BrokerUnavailable stands in place of a lost node's. Raises it where no node tells the map."""
        if len(calls) == 1 and calls[0].words[0] == "SCAN" and _key(calls[0].words) is None:
            return (yield from self._scan(calls[0]))
        units = asked = _units(calls)
        repeats, hops, give_up = self._repeats, 0, time.monotonic() + PATIENCE
        while asked:
            yield from self._read_map()
            left = yield from self._send(asked)
            asked = left.onward if hops < HOPS else []
            hops += 1
            if left.lost and repeats:
                repeats -= 1
                asked += left.lost
            # Only where nobody else's reply has to wait for it.
            if not asked and len(left.later) == len(units) and time.monotonic() < give_up:
                asked = left.later
                yield PAUSE
        return [reply for unit in units for reply in unit.replies]

    def route(self, calls: list[Call[Any]]) -> Steps[tuple[str | None, list[Call[Any]]]]:
        """As of one server."""
        yield from self._read_map()
        return self._owner(_key(calls[0].words)), [_declared(calls[0]), *calls[1:]]

    def primaries(self) -> Steps[list[str]]:
        """The nodes that own slots, by a map that is read now."""
        self._stale = True
        yield from self._read_map()
        return self._primaries()

    def listener(self) -> Steps[str]:
        """Any that answered last, if one did: what is published on one node is heard on all."""
        yield from self._read_map()
        return random.choice(self._awake())  # noqa: S311 - spreads load

    def lose(self, node: str) -> None:
        """Note that the node did not answer."""
        self._stale = True
        self._silent.add(node)

    def _read_map(self) -> Steps[None]:
        if self._stale:
            self._map = yield Step.READ_MAP
            self._stale = False

    def _primaries(self) -> list[str]:
        return sorted(node.name for node in self._map.get_primaries())

    def _scan(self, call: Call[Any]) -> Steps[list[Any]]:
        """One node after the other: its number stands above the 64 bits of the cursor that it knows."""
        yield from self._read_map()
        names = self._primaries()
        number, cursor = divmod(int(call.words[1]), 1 << 64)
        number = min(number, len(names) - 1)
        words = (call.words[0], cursor, *call.words[2:])
        [answer] = yield [(names[number], [call._replace(words=words)])]
        if isinstance(answer, BrokerUnavailable):
            self.lose(names[number])
            raise answer
        if isinstance(answer[0], ReplyError):
            return [answer[0]]
        following = int(answer[0][0])
        if following:
            following += number << 64
        elif number + 1 < len(names):
            following = (number + 1) << 64
        return [[str(following).encode(), answer[0][1]]]

    # -- one round ----------------------------------------------------------------------------------------------------

    def _send(self, units: Iterable[_Unit]) -> Steps[_Left]:
        """Ask each unit's node, and note the replies."""
        left = _Left()
        parts: dict[str, list[_Unit]] = {}
        for unit in units:
            node = unit.node or self._owner(unit.key)
            if node is None:
                unit.replies = [ReplyError("CLUSTERDOWN Hash slot not served")] * len(unit.calls)
                left.later.append(unit)
                self._stale = True
            else:
                parts.setdefault(node, []).append(unit)
        if not parts:
            return left
        asked: list[Part] = [(node, [call for unit in part for call in _asked(unit)]) for node, part in parts.items()]
        answers: list[Answer] = yield asked
        if any(map(is_forgotten, answers)):
            yield from send_in_full(asked, answers)
        for (node, part), answer in zip(parts.items(), answers, strict=True):
            if isinstance(answer, BrokerUnavailable):
                self.lose(node)
                for unit in part:
                    unit.replies, unit.node, unit.asking = [answer] * len(unit.calls), None, False
                left.lost += part
                continue
            self._silent.discard(node)
            rest = iter(answer)
            for unit in part:
                unit.replies = [next(rest) for _ in _asked(unit)][unit.asking :]
                self._judge(unit, node, left)
        return left

    def _judge(self, unit: _Unit, node: str, left: _Left) -> None:
        reply = unit.replies[0]
        kind = reply.kind if isinstance(reply, ReplyError) else ""
        if kind in ("MOVED", "ASK"):
            unit.node, unit.asking = _named(reply, node), kind == "ASK"
            self._stale |= not unit.asking
            left.onward.append(unit)
        elif kind in ("TRYAGAIN", "CLUSTERDOWN"):
            unit.node, unit.asking = None, False
            self._stale |= kind == "CLUSTERDOWN"
            left.later.append(unit)

    def _owner(self, key: bytes | None) -> str | None:
        if key is None:
            return next(iter(self._awake()), None)
        try:
            return str(self._map.get_node_from_key(key).name)
        except SlotNotCoveredError:
            return None

    def _awake(self) -> list[str]:
        """The primaries that answered last, or all where none did."""
        names = self._primaries()
        return [name for name in names if name not in self._silent] or names


def _named(redirection: ReplyError, teller: str) -> str:
    """`host:port` of a redirection, `MOVED 3300 host:port`, which may leave out the host."""
    host, _, port = str(redirection).rpartition(" ")[2].rpartition(":")
    return f"{host or teller.rpartition(':')[0]}:{port}"


def _units(calls: Sequence[Call[Any]]) -> list[_Unit]:
    units: list[_Unit] = []
    for call in calls:
        if units and confirms(call):
            units[-1].calls.append(call)
        else:
            units.append(_Unit([_declared(call)], _key(call.words)))
    return units


def _asked(unit: _Unit) -> list[Call[Any]]:
    if not unit.asking:
        return unit.calls
    # in full, for it is told where to go before the script is looked for
    return [_ASKING, *(call.in_full() for call in unit.calls)]


def _declared(call: Call[Any]) -> Call[Any]:
    """The same; of a queue's verb with a second key, in the same slot."""
    words = call.words
    if call.script is None or not _bytes(words[3]).endswith(b"}"):
        return call
    return call._replace(words=(*words[:2], 2, words[3], _bytes(words[3]) + b":", *words[4:]))


def _key(words: tuple[Any, ...]) -> bytes | None:
    """A key that the command touches; None: it may go to any node."""
    command = words[0] if isinstance(words[0], str) else words[0].decode()
    if command in _KEYLESS:
        return None
    if command in {"EVAL", "EVALSHA"}:
        return _bytes(words[3]) if int(words[2]) else None
    if command == "SCAN":
        tag = _bytes(words[words.index("MATCH") + 1]) if "MATCH" in words else b""
        return None if b"{" not in tag or b"{*}" in tag else tag
    return _bytes(words[1])


def _bytes(word: str | bytes) -> bytes:
    return word.encode() if isinstance(word, str) else word
