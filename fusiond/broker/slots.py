"""
Which node of a Redis Cluster a Call goes to, and what follows from its answer. No I/O.

1. map      the slots are read from any node that tells (CLUSTER SLOTS), and again once an answer has shown them old
2. split    the Calls by the node of their key's slot; all keys of a verb have the queue's name in braces, so one slot.
            A WAIT goes with the Call before it. What has no key goes to any node; PING to every primary
3. judge    each answer: MOVED to that node · ASK there once, with ASKING · TRYAGAIN, CLUSTERDOWN again a little later
4. join     the replies in the order of the Calls; in place of those of a node that was lost stands BrokerUnavailable

A slot that is moved key by key has its keys on two nodes, and a script that looked for one on the wrong node would take
it for missing. So a verb declares two keys that there never are: Redis then answers TRYAGAIN until the slot has moved,
since it cannot know them to be together.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from hiredis import ReplyError
from redis.crc import key_slot

from fusiond.broker.call import Call, as_is, plain
from fusiond.broker.complaints import unavailable
from fusiond.broker.node import confirms
from fusiond.errors import BrokerUnavailable, BrokerUnfit

if TYPE_CHECKING:
    from fusiond.broker.address import Address

#: slots of a Cluster
COUNT = 16384
#: seconds for which a call is repeated while its slot is on its way, or has no primary
PATIENCE = 3.0
#: seconds from one such repetition to the next
PAUSE = 0.05
#: times that a call is sent on to another node
HOPS = 8

_SLOTS = plain(as_is, "CLUSTER", "SLOTS")
_ASKING = plain(as_is, "ASKING")
#: commands of ours that have no key, or none where others have it
_KEYLESS = frozenset({
    "CLUSTER", "CONFIG", "ECHO", "FLUSHALL", "INFO", "PING", "PUBLISH", "SCRIPT", "WAIT", "WAITAOF",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class ClusterAddress:
    """A Cluster, of which some nodes are known."""

    #: for people: the URL without its password
    shown: str
    #: host and port
    seeds: tuple[tuple[str, int], ...]
    #: makes the address of a node
    server: Callable[[str, int], Address]

    def node(self, name: str) -> Address:
        """The address of the node `host:port`."""
        host, _, port = name.rpartition(":")
        return self.server(host, int(port))


class Part(NamedTuple):
    """What one node is asked."""

    #: `host:port`
    node: str
    calls: list[Call[Any]]


#: of a part: its replies, errors among them, or that they did not come
Answer = list[Any] | BrokerUnavailable
#: yields parts to be exchanged side by side, or seconds to wait; is sent their answers, or None; returns the replies
Route = Generator[list[Part] | float, list[Answer], list[Any]]


@dataclass(slots=True)
class _Unit:
    """A Call, and those that confirm it: they stay together."""

    #: among all Calls of the pipeline
    places: list[int]
    calls: list[Call[Any]]
    slot: int | None
    #: where it was sent on to
    node: str | None = None
    asking: bool = False


@dataclass(slots=True)
class _Left:
    """What is to be asked again."""

    onward: list[_Unit] = field(default_factory=list)
    later: list[_Unit] = field(default_factory=list)
    lost: list[_Unit] = field(default_factory=list)


class Slots:
    """The map of one Cluster."""

    def __init__(self, address: ClusterAddress) -> None:
        self._address = address
        self._owners: list[str | None] = []
        self._seeds = [f"{host}:{port}" for host, port in address.seeds]
        #: all nodes of the map, replicas too
        self._names: list[str] = []
        #: those that did not answer last
        self._silent: set[str] = set()
        #: an answer has shown that the map is old
        self.stale = True

    @property
    def names(self) -> frozenset[str]:
        """All nodes that may be asked."""
        return frozenset((*self._names, *self._seeds))

    @property
    def primaries(self) -> list[str]:
        """The nodes that own slots."""
        return sorted({owner for owner in self._owners if owner})

    # -- plans --------------------------------------------------------------------------------------------------------

    def route(self, calls: Sequence[Call[Any]], repeats: int) -> Route:
        """
        Have the Calls answered.

        Args:
            calls: a pipeline.
            repeats: how often what a lost node was asked is asked again.

        Raises:
            BrokerUnavailable: no node tells the map. Of a lost node it stands in place of the replies, even of all.
        """
        if len(calls) == 1 and (special := self._special(calls[0])):
            return (yield from special)
        replies: list[Any] = [None] * len(calls)
        units = _units(calls)
        total, hops, give_up = len(units), 0, time.monotonic() + PATIENCE
        while units:
            if self.stale:
                yield from self.read()
            left = yield from self._send(units, replies)
            units = left.onward if hops < HOPS else []
            hops += 1
            if left.lost and repeats:
                repeats -= 1
                units += left.lost
            # Only where nobody else's reply has to wait for it.
            if not units and len(left.later) == total and time.monotonic() < give_up:
                units = left.later
                yield PAUSE
        return replies

    def read(self) -> Route:
        """Read the map. Raises BrokerUnavailable."""
        known = [*dict.fromkeys((*self._names, *self._seeds))]
        random.shuffle(known)
        problem: Exception = ConnectionError("no node is known")
        for name in sorted(known, key=self._silent.__contains__):
            [answer] = yield [Part(name, [_SLOTS])]
            if isinstance(answer, BrokerUnavailable):
                self._silent.add(name)
                problem = answer
            elif isinstance(answer[0], ReplyError):
                problem = self._no_map(name, answer[0])
            else:
                self._silent.discard(name)
                self._note(name, answer[0])
                return []
        raise unavailable(self._address.shown, problem) from problem

    def _special(self, call: Call[Any]) -> Route | None:
        command = str(call.words[0])
        if command == "PING":
            return self._ping(call)
        if command == "SCAN" and _slot(call.words) is None:
            return self._scan(call)
        return None

    def _ping(self, call: Call[Any]) -> Route:
        """The Cluster answers if every slot has a primary and each of these does."""
        if self.stale or None in self._owners:
            yield from self.read()
        if None in self._owners:
            raise BrokerUnavailable(f"Redis at {self._address.shown}: some slots have no node")
        names = self.primaries
        answers = yield [Part(name, [call]) for name in names]
        for name, answer in zip(names, answers, strict=True):
            if isinstance(answer, BrokerUnavailable):
                self._lose(name)
                raise answer
        return answers[0] if isinstance(answers[0], list) else []

    def _scan(self, call: Call[Any]) -> Route:
        """One node after the other: its number stands above the 64 bits of the cursor that it knows."""
        if self.stale:
            yield from self.read()
        names = self.primaries
        number, cursor = divmod(int(call.words[1]), 1 << 64)
        number = min(number, len(names) - 1)
        words = (call.words[0], cursor, *call.words[2:])
        [answer] = yield [Part(names[number], [call._replace(words=words)])]
        if isinstance(answer, BrokerUnavailable):
            self._lose(names[number])
            raise answer
        if isinstance(answer[0], ReplyError):
            return answer
        following = int(answer[0][0])
        if following:
            following += number << 64
        elif number + 1 < len(names):
            following = (number + 1) << 64
        return [[str(following).encode(), answer[0][1]]]

    # -- one round ----------------------------------------------------------------------------------------------------

    def _send(self, units: Iterable[_Unit], replies: list[Any]) -> Generator[list[Part], list[Answer], _Left]:
        """Ask each unit's node, and note the replies."""
        left = _Left()
        parts: dict[str, list[_Unit]] = {}
        for unit in units:
            node = unit.node or self._owner(unit.slot)
            if node is None:
                self._fill(replies, unit, ReplyError("CLUSTERDOWN Hash slot not served"))
                left.later.append(unit)
                self.stale = True
            else:
                parts.setdefault(node, []).append(unit)
        if not parts:
            return left
        answers = yield [Part(node, [call for unit in part for call in _asked(unit)]) for node, part in parts.items()]
        for (node, part), answer in zip(parts.items(), answers, strict=True):
            if isinstance(answer, BrokerUnavailable):
                self._lose(node)
                for unit in part:
                    self._fill(replies, unit, answer)
                    unit.node, unit.asking = None, False
                left.lost += part
                continue
            rest = iter(answer)
            for unit in part:
                own = [next(rest) for _ in _asked(unit)][unit.asking :]
                for place, reply in zip(unit.places, own, strict=True):
                    replies[place] = reply
                self._judge(unit, own[0], node, left)
        return left

    def _judge(self, unit: _Unit, reply: Any, node: str, left: _Left) -> None:
        if type(reply) is not ReplyError:
            return
        word, *rest = str(reply).split(" ")
        if word in {"MOVED", "ASK"} and len(rest) > 1:
            unit.node, unit.asking = _named(rest[1], node), word == "ASK"
            if word == "MOVED":
                self.stale = True
            left.onward.append(unit)
        elif word in {"TRYAGAIN", "CLUSTERDOWN"}:
            unit.node, unit.asking = None, False
            self.stale |= word == "CLUSTERDOWN"
            left.later.append(unit)

    def _fill(self, replies: list[Any], unit: _Unit, reply: Any) -> None:
        for place in unit.places:
            replies[place] = reply

    def _owner(self, slot: int | None) -> str | None:
        if slot is not None:
            return self._owners[slot]
        awake = [name for name in self.primaries if name not in self._silent]
        return next(iter(awake or self.primaries), None)

    def _lose(self, node: str) -> None:
        self.stale = True
        self._silent.add(node)

    # -- the map ------------------------------------------------------------------------------------------------------

    def _note(self, teller: str, reply: list[Any]) -> None:
        """`reply`: [first, last, primary, replica …] of each range; a node is [host, port, …]."""
        owners: list[str | None] = [None] * COUNT
        names = []
        for first, last, *nodes in reply:
            names += [_at(node, teller) for node in nodes]
            owners[first : last + 1] = [_at(nodes[0], teller)] * (last + 1 - first)
        self._owners, self._names, self.stale = owners, names, False
        self._silent &= self.names
        if not names:
            raise BrokerUnavailable(f"Redis at {self._address.shown}: no node has a slot")

    def _no_map(self, name: str, error: ReplyError) -> Exception:
        if "cluster support disabled" in str(error):
            raise BrokerUnfit(f"Redis at {name} is no node of a Cluster; write redis:// in broker.url")
        return ConnectionError(str(error))


def _at(node: list[Any], teller: str) -> str:
    """`host:port`; a node that does not know its own host has the one that it was reached by."""
    host = (node[0] or b"").decode()
    return f"{host if host not in ('', '?') else teller.rpartition(':')[0]}:{node[1]}"


def _named(where: str, teller: str) -> str:
    """`host:port` of a redirection, which may leave out the host."""
    host, _, port = where.rpartition(":")
    return f"{host or teller.rpartition(':')[0]}:{port}"


def _units(calls: Sequence[Call[Any]]) -> list[_Unit]:
    units: list[_Unit] = []
    for place, call in enumerate(calls):
        if units and confirms(call):
            units[-1].places.append(place)
            units[-1].calls.append(call)
        else:
            units.append(_Unit([place], [_declared(call)], _slot(call.words)))
    return units


def _asked(unit: _Unit) -> list[Call[Any]]:
    if not unit.asking:
        return unit.calls
    # in full, for it is told where to go before the script is looked for
    return [_ASKING, *(call.in_full() if call.script else call for call in unit.calls)]


def _declared(call: Call[Any]) -> Call[Any]:
    """The same; of a queue's verb with a second key, in the same slot."""
    words = call.words
    if call.script is None or not _bytes(words[3]).endswith(b"}"):
        return call
    return call._replace(words=(*words[:2], 2, words[3], _bytes(words[3]) + b":", *words[4:]))


def _slot(words: tuple[Any, ...]) -> int | None:
    """The slot of what the command touches; None: no certain one."""
    command = words[0] if isinstance(words[0], str) else words[0].decode()
    if command in _KEYLESS:
        return None
    if command in {"EVAL", "EVALSHA"}:
        return key_slot(_bytes(words[3])) if int(words[2]) else None
    if command == "SCAN":
        tag = _bytes(words[words.index("MATCH") + 1]) if "MATCH" in words else b""
        return None if b"{" not in tag or b"{*}" in tag else key_slot(tag)
    return key_slot(_bytes(words[1]))


def _bytes(word: str | bytes) -> bytes:
    return word.encode() if isinstance(word, str) else word
