"""Audit: who did what, from a page, a shell or the file; as far as Redis keeps events."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from fusiond.broker.call import Call
from fusiond.broker.event_records import DAEMONS, Event
from fusiond.broker.event_verbs import EventPage
from fusiond.inspecting.audit import Act, acts
from fusiond.job import JobRecord
from fusiond.masking import Secret, masked_event
from fusiond.web.backend import Backend
from fusiond.web.endpoint import WebCall, reads
from fusiond.web.inputs import Input

#: entries of the first read of a stream, and of any; events of a read, about: an entry has 1 to 500
_FIRST, _MOST_ENTRIES, _EVENTS = 10, 500, 5_000
#: seconds that the page of a job reads events
_QUICK: Final = 0.12
#: events that a chart shows
_MARKED: Final = frozenset({"reload.applied", "rollback", "release.loaded"})
_LIMIT = Input("limit", "acts to show", form="number", default=100, least=1, most=500)
_BY = Input("by", "a part of the name of who did it")
_THING = Input("thing", "a part of the name of the queue, job, task, entry or lock that it is about")
_SINCE = Input("since", "a time, or how long ago, such as 2h; none: as long as it is kept", form="moment")
_ONLY = Input("event", "the name of an event, such as requeued or reload.refused", pattern="[a-z_.]{1,60}")


@dataclass(frozen=True, slots=True)
class EventRow:
    """One event."""

    #: epoch ms
    at: int
    name: str
    #: full name of the job; empty: it is about none
    job: str
    queue: str
    task: str
    attempt: int | None
    #: host and group, or who asked for it
    by: str
    #: seconds that the attempt ran, waited, and until it runs again
    duration: float | None
    wait: float | None
    delay: float | None
    #: the entry, lock, run or sink that it is about
    about: str
    message: str


@dataclass(frozen=True, slots=True)
class Audit:
    """What people did, the newest first."""

    acts: list[Act]
    #: whether Redis keeps events
    kept: bool


@dataclass(frozen=True, slots=True)
class ChartMark:
    """A reload, a rollback or a new release, as a chart shows it."""

    #: epoch ms
    at: int
    #: the name of the event
    event: str
    message: str


class EventSearch(NamedTuple):
    """Which events of a stream are looked for."""

    accepts: Callable[[Event], bool]
    #: whether an entry may have such an event, from its raw fields: most of them are never read
    may_be_in: Callable[[Sequence[bytes]], bool]
    #: epoch ms: older ones are not looked for
    since: int = 0


class _EventPart(NamedTuple):
    """What a read has found."""

    #: the newest first
    events: list[Event]
    #: of its oldest entry: the number and the moment, epoch ms; how many events all its entries have
    last: int
    at: int
    size: int


async def marks(backend: Backend, since: float) -> list[ChartMark]:
    """What the chart of a time marks, as far as Redis keeps events and the user may see those of daemons."""
    if backend.config.events is None or not backend.is_whole:
        return []
    read = backend.verbs.audit_before(DAEMONS, b"", _MOST_ENTRIES)
    page = await backend.kept("marks", lambda: backend.run(read))
    found = (each for each in page.events if each.at_ms >= since * 1000 and each.name in _MARKED)
    return [ChartMark(each.at_ms, each.name, each.words.get("m", "")) for each in found]


def of_job(job: JobRecord) -> EventSearch:
    """The events of a job."""
    part = max(re.findall("[A-Za-z0-9]+", job.id), key=len, default="").encode()  # of which nothing is ever escaped
    return EventSearch(
        lambda event: event.job == job.id,
        lambda fields: any(part in each for each in fields[1::2]),
        (job.created_at or 0) - 1,
    )


async def events_of(
    backend: Backend,
    stream: str,
    wanted: EventSearch,
    most: int,
) -> list[EventRow]:
    """The newest events of a stream that are wanted, the newest first, as far as they are found in little time."""
    found: list[EventRow] = []
    number, count, secret = None, _FIRST, await backend.secret()
    until = time.monotonic() + _QUICK
    while len(found) < most:
        part = await backend.run(_reading(backend.verbs.events_before(stream, number, count), wanted))
        if part is None:
            break
        found += [_row(event, secret) for event in part.events]
        if part.at < wanted.since or time.monotonic() > until:
            break
        number, count = part.last, max(_FIRST, min(_MOST_ENTRIES, count * _EVENTS // max(1, part.size)))
    return found[:most]


def _reading(call: Call[EventPage], wanted: EventSearch) -> Call[_EventPart | None]:
    """The wanted events of the entries that a call reads; None: there are none."""

    def parse(reply: list[Any]) -> _EventPart | None:
        """A part of the stream, newest entry first."""
        if not reply:
            return None
        events = call.parse([entry for entry in reply if wanted.may_be_in(entry[1])]).events
        numbers = [[int(each) for each in id_.split(b"-")] for id_, _ in reply]
        at = int(reply[-1][1][1])
        accepted = [event for event in reversed(events) if wanted.accepts(event)]
        return _EventPart(accepted, numbers[-1][0], at, sum(size for _, size in numbers))

    return Call(call.words, parse)


def _row(event: Event, secret: Secret) -> EventRow:
    said = masked_event(event.document(), secret)
    queue, job = said.get("queue", ""), said.get("job_id", "")
    error = said.get("error") or {}
    place = " ".join(filter(None, (said.get("host"), said.get("group"))))
    return EventRow(
        at=event.at_ms,
        name=event.name,
        job=f"{queue}/{job}" if queue and job else "",
        queue=queue,
        task=said.get("task", ""),
        attempt=said.get("attempt"),
        by=said.get("asked_by") or place,
        duration=said.get("duration"),
        wait=said.get("wait"),
        delay=said.get("delay"),
        about=said.get("about", ""),
        message=": ".join(filter(None, (error.get("type"), error.get("message")))) or str(said.get("message") or ""),
    )


async def _show(call: WebCall) -> Audit:
    backend = call.backend
    if backend.config.events is None:
        return Audit([], kept=False)
    streams = [*await backend.queues(), *([DAEMONS] if backend.is_whole else [])]
    name, by, thing = call["event"], (call["by"] or "").lower(), (call["thing"] or "").lower()

    def fits(act: Act) -> bool:
        is_named = name is None or f".{act.what}".endswith(f".{name}")
        return is_named and by in act.who.lower() and thing in f"{act.queue} {act.job} {act.task} {act.about}".lower()

    found = await backend.run(
        acts(
            backend.verbs,
            streams,
            call["since"] or 0,
            await backend.secret(),
            owners=(await backend.catalogue()).owners,
            most=call["limit"],
            fits=fits,
        )
    )
    return Audit(found, kept=True)


ENDPOINTS = (
    reads("/audit", _show, "Who did what, the newest first", Audit, "audit.html", (_ONLY, _BY, _THING, _SINCE, _LIMIT)),
)
