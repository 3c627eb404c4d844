"""What the API has besides the pages: events, a check of the data, and a host that claims no jobs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from fusiond.broker.call import read_each
from fusiond.broker.event_reading import Cursors, Wanted, newest
from fusiond.broker.event_records import DAEMONS, Event
from fusiond.broker.maintenance.fsck import Finding, Fsck
from fusiond.masking import masked_event
from fusiond.owners import with_owner
from fusiond.web.endpoint import Done, NotThere, WebCall, acts, reads
from fusiond.web.inputs import BadInput, Input

_QUEUE = Input("queue", "the name of a queue; none: all, and the daemons", longest=255)
_EVENTS = (
    _QUEUE,
    Input("only", "names of events, such as failed,reload.*; none: all"),
    Input("job", "the id of a job", longest=128),
    Input("task", "the name of a task", longest=255),
    Input("limit", "how many of the newest, without `after`", form="number", default=100, least=1, most=1000),
    Input("after", "as the answer before has it: what has come since", form="object", longest=6000),
)


@dataclass(frozen=True, slots=True)
class EventList:
    """Events in the order of their times."""

    #: as the file of a sink has them
    events: list[dict[str, Any]]
    #: for the next question
    after: dict[str, int]


@dataclass(frozen=True, slots=True)
class DataCheck:
    """What a check of the data has found."""

    #: that were checked
    jobs: int
    findings: list[Finding]


async def _queues(call: WebCall) -> list[str]:
    queues = await call.backend.queues()
    if call["queue"] and call["queue"] not in queues:
        raise NotThere(f"there is no queue {call['queue']!r}")
    return [call["queue"]] if call["queue"] else queues


async def _events(call: WebCall) -> EventList:
    backend, catalogue, given = call.backend, await call.backend.catalogue(), call["after"]
    streams = await _queues(call) + ([DAEMONS] if backend.is_whole and not call["queue"] else [])
    wanted = Wanted(tuple((call["only"] or "").replace(",", " ").split()), call["job"] or "", call["task"] or "")
    found: list[Event] = []
    if given:
        if not all(isinstance(number, int) for number in given.values()):
            raise BadInput("after: give it as the answer before has it")
        cursors = Cursors({stream: given[stream] for stream in streams if stream in given})
        pages, _ = await backend.run(read_each(cursors.ask(backend.verbs, streams)))
        found, after = [*filter(wanted.accepts, cursors.take(pages))], cursors.read
    else:
        after = {}
        for stream in streams:
            events, after[stream] = await backend.run(newest(backend.verbs, stream, wanted.accepts, call["limit"]))
            found += events
        found = sorted(found, key=lambda event: event.at_ms)[-call["limit"] :]
    secret = await backend.secret()
    return EventList([masked_event(with_owner(each.document(), catalogue.owners), secret) for each in found], after)


async def _check(call: WebCall) -> DataCheck:
    findings: list[Finding] = []
    fsck = Fsck(call.backend.verbs, findings.append)
    for queue in await _queues(call):
        await call.backend.run(fsck.queue(queue))
    return DataCheck(fsck.jobs, findings)


async def _drain(call: WebCall, *, on: bool) -> Done:
    await call.backend.ask_daemon("drain", "on" if on else "off", call.asker)
    return Done(f"the groups of this host claim {'nothing, until that is undone' if on else 'again'}")


ENDPOINTS = (
    reads("/events", _events, "The newest events, or what has come since", EventList, "", _EVENTS),
    reads(
        "/fsck", _check, "Check that the data of all jobs is consistent; nothing is repaired", DataCheck, "", (_QUEUE,)
    ),
    acts("reload", "/drain", partial(_drain, on=True), "Have the groups of this host claim no jobs", everywhere=True),
    acts("reload", "/drain/undo", partial(_drain, on=False), "Have them claim again", everywhere=True),
)
