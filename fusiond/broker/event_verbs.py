"""The verbs of events: read the streams of queues, and the daemons' own one, and add to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fusiond.broker.call import Call, Plan, decoded, nothing, numbers, plain, scripted, text_map
from fusiond.broker.event_records import DAEMONS, Event, last_number, read_entries
from fusiond.broker.keys import VerbGroup

#: s that a sink may be behind
_LATE = 30.0


class EventPage(NamedTuple):
    """Some events of a stream, in their order."""

    events: list[Event]
    #: of the last entry that was read; None: there was none
    last: int | None
    #: of the first event of the first entry; None: there was none
    first: int | None
    #: entries that were read
    entries: int
    #: id of the first entry; empty: there was none
    start: bytes = b""


class SinkState(NamedTuple):
    """How far a sink is."""

    #: s for which the oldest event that it has not delivered has been there; 0: it has delivered all
    delay: float
    #: why it could not deliver when it last tried; empty: it could
    failing: str
    #: events that the other side has refused for good, in all
    refused: int = 0

    @property
    def is_late(self) -> bool:
        """Whether that is worth a sentence: it always reads a moment later than Redis tells."""
        return bool(self.failing) or self.delay > _LATE


class EventVerbs(VerbGroup):
    """Verbs of the streams."""

    def events_behind(self, stream: str, number: int, count: int) -> Call[EventPage]:
        """The events behind that number, of at most `count` entries. A gap shows by the number of the first."""

        def parse(reply: Any) -> EventPage:
            page = _page(stream, reply)
            return page._replace(events=[event for event in page.events if event.number > number])

        return plain(parse, "XRANGE", self._stream(stream), f"{number + 1}-0", "+", "COUNT", count)

    def events_before(self, stream: str, number: int | None, count: int) -> Call[EventPage]:
        """The events of the last entries before the one with that number; None: before the end."""
        end = "+" if number is None else f"({number}-0"
        words = ("XREVRANGE", self._stream(stream), end, "-", "COUNT", count)
        return plain(lambda reply: _page(stream, reply[::-1]), *words)

    def audit_before(self, queue: str, start: bytes, count: int) -> Call[EventPage]:
        """
        What operators did to a queue, or to daemons, which other events do not push out, before the entry `start`.

        Empty: up to the end.
        """
        words = ("XREVRANGE", self._root(queue) + b":audit", b"(" + start if start else "+", "-", "COUNT", count)
        return plain(lambda reply: _page(queue, reply[::-1]), *words)

    def keep_events(self, stream: str, wanted: str) -> Call[None]:
        """Have a queue, or the daemons, keep events, as `Events.wanted` says; empty: none. Those that it has stay."""
        words = ("HSET", self._root(stream) + b":conf", "events", wanted)
        return plain(nothing, *words) if wanted else plain(nothing, "HDEL", *words[1:3])

    def keeps_events(self) -> Call[bool]:
        """Whether a daemon's file asks for events."""
        return plain(bool, "HEXISTS", self._root(DAEMONS) + b":conf", "events")

    def record_event(
        self,
        stream: str,
        event: str,
        who: str = "",
        words: Sequence[tuple[str, str]] = (),
        once: tuple[str, str] | tuple[()] = (),
    ) -> Call[None]:
        """
        Add an event, if somebody wants events.

        `words`: letters and values; `once`: name and value; of several that give the same, the first one adds it.
        """
        said = [each for word in words for each in word]
        return scripted("record_event", self._root(stream), (event, who, *(once or ("", "")), *said), nothing)

    def hold_sink(
        self, sink: str, token: str, ms: int, read: Mapping[str, int], failing: str = "", *, refused: int = 0
    ) -> Call[dict[str, int] | None]:
        """
        Deliver for a sink, for `ms` from now on; 0: no more.

        Args:
            sink: its name.
            token: of this program.
            ms: for so long.
            read: stream → number of the last event delivered.
            failing: why it cannot deliver now; empty: it can.
            refused: events that were refused for good since it last said so.

        Returns:
            its cursors as Redis has them; None: another program delivers.
        """

        def parse(reply: Any) -> dict[str, int] | None:
            if reply is None:
                return None
            pairs = zip(map(decoded, reply[::2]), reply[1::2], strict=True)
            return {stream: int(number) for stream, number in pairs if number.isdigit()}

        words = [word for pair in read.items() for word in pair]
        return scripted("hold_program", self.keys.sinks, (sink, token, ms, failing, refused, *words), parse)

    def sinks(self, names: Sequence[str], queues: Sequence[str]) -> Plan[dict[str, SinkState]]:
        """How far these sinks are with the events of these queues and of the daemons."""
        if not names:
            return {}
        noted: dict[str, str] = yield plain(text_map, "HGETALL", self.keys.sinks)
        ages = dict.fromkeys(names, 0)
        streams = [*queues, DAEMONS]
        replies = yield [
            self._undelivered(stream, [_cursor(noted, name, stream) for name in names]) for stream in streams
        ]
        for reply in replies:
            for name, ms in zip(names, reply, strict=True):
                ages[name] = max(ages[name], ms)
        return {
            name: SinkState(ms / 1000, noted.get(f"{name} says", ""), int(noted.get(f"{name} refused", "0")))
            for name, ms in ages.items()
        }

    def _undelivered(self, stream: str, numbers_read: Sequence[str]) -> Call[list[int]]:
        return scripted("undelivered", self._root(stream), numbers_read, numbers(len(numbers_read)))

    def _root(self, stream: str) -> bytes:
        return f"{self.keys.namespace}:{{{stream}}}".encode()

    def _stream(self, stream: str) -> bytes:
        return self._root(stream) + b":events"


def _cursor(noted: Mapping[str, str], sink: str, stream: str) -> str:
    number = noted.get(f"{sink}/{stream}", "")
    return number if number.isdecimal() and len(number) < 16 else "0"


def _page(stream: str, reply: list[Any]) -> EventPage:
    events = read_entries(stream, reply)
    last = last_number(reply[-1][0]) if reply else None
    first = events[0].number if events else None
    return EventPage(events, last, first, len(reply), reply[0][0] if reply else b"")
