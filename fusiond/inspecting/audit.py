"""What people did: each act of a command or a page once, however many jobs it was about."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from fusiond.broker.call import Plan
from fusiond.broker.event_records import DAEMONS, Event
from fusiond.broker.event_verbs import EventPage
from fusiond.broker.verbs import Verbs
from fusiond.masking import Secret, masked_event
from fusiond.owners import Owners, with_owner

#: entries of a stream in one reply; streams have a few thousand of an operator's
_PAGE: Final = 500
#: ms; events of one person and kind that are no further apart belong to one act
_ONE_ACT: Final = 10_000


@dataclass(frozen=True, slots=True)
class Act:
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
    #: the entry, lock, run or sink that it is about
    about: str
    message: str
    #: how many things it was about
    number: int
    #: who answers for its job or queue; empty: nobody says it
    owner: str = ""


def acts(
    verbs: Verbs,
    streams: Sequence[str],
    since: float,
    secret: Secret,
    *,
    owners: Owners,
    most: int,
    fits: Callable[[Act], bool] = lambda _: True,
) -> Plan[list[Act]]:
    """
    What people did, the newest first. Raises BrokerError.

    Args:
        verbs: of the namespace.
        streams: queues, and DAEMONS.
        since: epoch ms.
        secret: of the tasks; what it names is masked.
        owners: who answers for what.
        most: so many acts.
        fits: which ones.
    """
    found: list[Act] = []
    for stream in streams:
        events: list[Event] = []
        fitting = 0
        start = b""
        while True:
            page: EventPage = yield verbs.audit_before(stream, start, _PAGE)
            part = [event for event in page.events if event.at_ms >= since and event.by.startswith("@")]
            events[:0] = part
            fitting += max(0, sum(map(fits, _acts(part, secret))) - 1)  # one may go on in another page
            is_last = page.entries < _PAGE or not page.events or page.events[0].at_ms < since
            if is_last or fitting > most:
                break
            start = page.start
        found += reversed([act for act in _acts(events, secret) if fits(act)])
    return [_owned(act, owners) for act in sorted(found, key=lambda act: -act.at)[:most]]


def _owned(act: Act, owners: Owners) -> Act:
    said = {
        "event": act.what,
        "about": act.about,
        "queue": act.queue,
        "task": act.task,
        "job_id": act.job[len(act.queue) + 1 :],
    }
    return replace(act, owner=with_owner(said, owners).get("owner", ""))


def _acts(events: Iterable[Event], secret: Secret) -> Iterator[Act]:
    act: Act | None = None
    last = 0
    for event in events:
        more = 1 + (event.number_of("k") or 0)
        is_near = event.at_ms - last <= _ONE_ACT
        last = event.at_ms
        is_of_jobs = bool(event.job) and not event.words.get("o")
        if act and is_near and is_of_jobs and (act.who, act.what) == (event.by[1:], event.name):
            act = replace(act, number=act.number + more, job="", message="")
            continue
        if act:
            yield act
        act = _act(event, more, secret)
    if act:
        yield act


def _act(event: Event, number: int, secret: Secret) -> Act:
    queue = "" if event.stream == DAEMONS else event.stream
    said = masked_event(event.document(), secret)
    job = f"{queue}/{event.job}" if queue and event.job and number == 1 else ""
    about, message = str(said.get("about", "")), str(said.get("message", ""))
    return Act(event.at_ms, event.by[1:], event.name, queue, job, event.task, about, message, number)


def who_suspended(verbs: Verbs, queue: str) -> Plan[Act | None]:
    """Who suspended a queue last, as far as Redis keeps that."""
    page: EventPage = yield verbs.audit_before(queue, b"", _PAGE)
    found = [event for event in page.events if event.name == "suspended" and event.by not in ("", "@the file")]
    return _act(found[-1], 1, {}) if found else None


def who_suspended_task(verbs: Verbs, task: str) -> Plan[Act | None]:
    """The same of a task."""
    page: EventPage = yield verbs.audit_before(DAEMONS, b"", _PAGE)
    found = [event for event in page.events if event.name == "task.suspended" and event.words.get("o") == task]
    return _act(found[-1], 1, {}) if found else None
