"""What people did: each act of a command or a page once, however many jobs it was about."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from fusiond.broker.call import Plan
from fusiond.broker.event_records import DAEMONS, Event
from fusiond.broker.event_verbs import EventPage
from fusiond.broker.verbs import Verbs

#: entries of a stream in one reply; streams have a few thousand of an operator's
_PAGE: Final = 500
#: ms; events of one person and kind that are no further apart belong to one act
_ONE_ACT: Final = 10_000


class Act(NamedTuple):
    """What somebody did."""

    #: epoch ms, when it began
    at: int
    who: str
    #: name of the event
    what: str
    #: empty: it is about the daemons
    queue: str
    #: full name of the job, if it is about one; its task
    job: str
    task: str
    about: str
    message: str
    #: how many things it was about
    number: int


def acts(verbs: Verbs, queues: Sequence[str], since: float) -> Plan[list[Act]]:
    """What people did to these queues, and to daemons, since then (epoch ms), the newest first. Raises BrokerError."""
    found: list[Act] = []
    for stream in (*queues, DAEMONS):
        events: list[Event] = []
        first: int | None = None
        while True:
            read = verbs.events_before if stream == DAEMONS else verbs.audit_before
            page: EventPage = yield read(stream, first, _PAGE)
            events[:0] = [event for event in page.events if event.at_ms >= since and event.by.startswith("@")]
            if page.entries < _PAGE or page.first is None or not page.events or page.events[0].at_ms < since:
                break
            first = page.first
        found += _acts(events)
    return sorted(found, key=lambda act: -act.at)


def _acts(events: Iterable[Event]) -> Iterator[Act]:
    act: Act | None = None
    last = 0
    for event in events:
        more = 1 + (event.number_of("k") or 0)
        is_near = event.at_ms - last <= _ONE_ACT
        last = event.at_ms
        if act and is_near and (act.who, act.what) == (event.by[1:], event.name):
            act = act._replace(number=act.number + more, job="", message="")
            continue
        if act:
            yield act
        act = _act(event, more)
    if act:
        yield act


def _act(event: Event, number: int) -> Act:
    queue = "" if event.stream == DAEMONS else event.stream
    said = event.document()
    job = f"{queue}/{event.job}" if queue and event.job and number == 1 else ""
    about, message = str(said.get("about", "")), str(said.get("message", ""))
    return Act(event.at_ms, event.by[1:], event.name, queue, job, event.task, about, message, number)


def who_suspended(verbs: Verbs, queue: str) -> Plan[Act | None]:
    """Who suspended a queue last, as far as Redis keeps that."""
    page: EventPage = yield verbs.audit_before(queue, None, _PAGE)
    found = [event for event in page.events if event.name == "suspended" and event.by not in ("", "@the file")]
    return _act(found[-1], 1) if found else None


def who_suspended_task(verbs: Verbs, task: str) -> Plan[Act | None]:
    """The same of a task."""
    page: EventPage = yield verbs.events_before(DAEMONS, None, _PAGE)
    found = [event for event in page.events if event.name == "task.suspended" and event.words.get("o") == task]
    return _act(found[-1], 1) if found else None
