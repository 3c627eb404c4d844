"""
Read the events of several streams: the newest ones that match, and what comes after them.

What the streams have dropped before it was read is told as an event of its own, `events.lost`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from heapq import merge
from typing import NamedTuple

from fusiond.broker.call import Call, Plan
from fusiond.broker.event_records import Event
from fusiond.broker.event_verbs import EventPage
from fusiond.broker.verbs import Verbs

#: entries of a stream in one reply; an entry has at most 500 events and about 64 kB
PAGE = 50
LOST = "events.lost"


class Wanted(NamedTuple):
    """Which events."""

    #: names or patterns such as `reload.*`; empty: all
    only: tuple[str, ...] = ()
    job: str = ""
    task: str = ""

    def accepts(self, event: Event) -> bool:
        """Whether it is one of them."""
        if event.name == LOST:
            return True
        named = not self.only or any(fnmatchcase(event.name, pattern) for pattern in self.only)
        return named and self.job in ("", event.job) and self.task in ("", event.task)


def newest(verbs: Verbs, stream: str, wanted: Callable[[Event], bool], most: int) -> Plan[tuple[list[Event], int]]:
    """The newest events of a stream that are wanted, at most so many, oldest first; and the number of its last one."""
    found: list[Event] = []
    first: int | None = None
    last = 0
    while len(found) < most:
        page: EventPage = yield verbs.events_before(stream, first, PAGE)
        last = last or page.last or 0
        found[:0] = filter(wanted, page.events)
        if page.first is None:
            break
        first = page.first
    return found[-most:], last


class Cursors:
    """How far the streams are read: stream → number of the last event. Any other begins with what is there."""

    def __init__(self, read: Mapping[str, int]) -> None:
        self.read = dict(read)

    def ask(self, verbs: Verbs, streams: Iterable[str]) -> dict[str, Call[EventPage]]:
        """What comes next in each."""
        return {stream: verbs.events_behind(stream, self.read.get(stream, 0), PAGE) for stream in streams}

    def take(self, pages: Mapping[str, EventPage]) -> list[Event]:
        """The events of these pages in the order of their times, and of each gap one in its place."""
        events = [list(self._of(stream, page)) for stream, page in pages.items()]
        return list(merge(*events, key=lambda event: event.at_ms))

    def _of(self, stream: str, page: EventPage) -> Iterator[Event]:
        for event in page.events:
            before = self.read.get(stream)
            missing = 0 if before is None else event.number - before - 1
            if missing:
                words = {"m": f"{missing} events were dropped before they were read"}
                yield Event(stream, event.number - 1, event.at_ms, LOST, "", "", "", words)
            self.read[stream] = event.number
            yield event
