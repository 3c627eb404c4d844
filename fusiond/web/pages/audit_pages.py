"""Audit: who did what, from a page, a shell or the file; as far as Redis keeps events."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from fusiond.broker.call import Call
from fusiond.broker.event_records import DAEMONS, Event
from fusiond.job import JobRecord
from fusiond.web.backend import Backend
from fusiond.web.endpoint import Endpoint, WebCall
from fusiond.web.inputs import Input

#: entries of the first read of a stream, and of any; events of a read, about: an entry has 1 to 500
_FIRST, _MOST_ENTRIES, _EVENTS = 10, 500, 5_000
#: seconds that one page reads events
_QUICK: Final = 0.12
_LIMIT = Input("limit", "events to show", form="number", default=100, least=1, most=500)
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
    message: str


@dataclass(frozen=True, slots=True)
class Audit:
    """What people and daemons did, the newest first."""

    events: list[EventRow]
    #: whether Redis keeps events
    kept: bool
    #: epoch ms: to this moment was looked in each stream; None: to the begin
    looked_back_to: int | None


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


def of_operators() -> EventSearch:
    """What somebody asked for, and what daemons say of themselves."""
    return EventSearch(
        lambda event: event.by.startswith("@") or event.stream == DAEMONS,
        lambda fields: len(fields) > 3 and fields[2] == b"by" and fields[3].startswith(b"@"),
    )


def of_job(job: JobRecord) -> EventSearch:
    """The events of a job."""
    part = max(re.findall("[A-Za-z0-9]+", job.id), key=len, default="").encode()  # of which nothing is ever escaped
    return EventSearch(
        lambda event: event.job == job.id,
        lambda fields: any(part in each for each in fields[1::2]),
        (job.created_at or 0) - 1,
    )


async def events_of(
    backend: Backend, stream: str, wanted: EventSearch, most: int, until: float | None = None
) -> tuple[list[EventRow], int | None]:
    """
    The newest events of a stream that are wanted, the newest first; and the moment to which was looked, None: the end.

    `until`: monotonic seconds, at which it gives up; at least one read is made. None: so many seconds from now.
    """
    found: list[EventRow] = []
    number, count = None, _FIRST
    until = until or time.monotonic() + _QUICK
    while len(found) < most:
        part = await backend.run(_reading(backend, stream, wanted, number, count))
        if part is None:
            return found, None
        found += map(_row, part.events)
        if part.at < wanted.since:
            return found, None
        if time.monotonic() > until:
            return found[:most], part.at
        number, count = part.last, max(_FIRST, min(_MOST_ENTRIES, count * _EVENTS // max(1, part.size)))
    return found[:most], None


def _reading(
    backend: Backend, stream: str, wanted: EventSearch, number: int | None, count: int
) -> Call[_EventPart | None]:
    """The wanted events of some entries before that number; None: there are none."""
    call = backend.verbs.events_before(stream, number, count)

    def parse(reply: list[Any]) -> _EventPart | None:
        """A part of the stream, newest entry first."""
        if not reply:
            return None
        own = stream == DAEMONS
        events = call.parse([entry for entry in reply if own or wanted.may_be_in(entry[1])]).events
        numbers = [[int(each) for each in id_.split(b"-")] for id_, _ in reply]
        at = int(reply[-1][1][1])
        accepted = [event for event in reversed(events) if wanted.accepts(event)]
        return _EventPart(accepted, numbers[-1][0], at, sum(size for _, size in numbers))

    return Call(call.words, parse)


def _row(event: Event) -> EventRow:
    said = event.document()
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
        message=": ".join(filter(None, (error.get("type"), error.get("message")))) or str(said.get("message") or ""),
    )


async def _show(call: WebCall) -> Audit:
    backend = call.backend
    if backend.config.events is None:
        return Audit([], kept=False, looked_back_to=None)
    wanted, name = of_operators(), call["event"]
    if name is not None:
        wanted = wanted._replace(accepts=lambda event: event.name == name and of_operators().accepts(event))
    began, streams = time.monotonic(), [DAEMONS, *await backend.queues()]
    found: list[EventRow] = []
    moments: list[int] = []
    for number, stream in enumerate(streams, 1):
        rows, at = await events_of(backend, stream, wanted, call["limit"], began + _QUICK * number / len(streams))
        found += rows
        moments += [at] if at is not None else []
    found.sort(key=lambda each: each.at, reverse=True)
    return Audit(found[: call["limit"]], kept=True, looked_back_to=max(moments, default=None))


ENDPOINTS = (Endpoint("GET", "/audit", _show, "Who did what, the newest first", Audit, (_ONLY, _LIMIT), "audit.html"),)
