"""Queues: how many jobs each holds, whether it is served; suspend and resume."""

from __future__ import annotations

from dataclasses import dataclass

from fusiond.broker.records import Counts
from fusiond.web.backend import Backend
from fusiond.web.endpoint import Done, Endpoint, NotThere, WebCall
from fusiond.web.filters import plural
from fusiond.web.inputs import Input

NAME = Input("queue", "the name of a queue", "path", pattern="[A-Za-z0-9_.:@-]{1,255}", longest=255, required=True)


@dataclass(frozen=True, slots=True)
class QueueRow:
    """One queue."""

    name: str
    #: ready to run, pushed bodies that were not taken in yet included
    queued: int
    #: how long the job that has waited longest has been ready
    oldest_wait_ms: int | None
    scheduled: int
    deferred: int
    held: int
    started: int
    #: of the started ones, those whose lease has expired
    lost: int
    finished: int
    failed: int
    canceled: int
    #: bodies that could not be read, so far
    broken: int
    #: `operator`, `file`, or empty: it is not suspended
    suspended_by: str
    #: its limits, in words
    limits: list[str]
    #: whether a living worker group claims from it
    served: bool
    #: how many jobs were ready, every ten seconds, the newest last
    history: list[int]

    @property
    def waiting(self) -> int:
        """Jobs that need a worker group to go on."""
        return self.queued + self.held + self.scheduled + self.deferred + self.lost


@dataclass(frozen=True, slots=True)
class QueueList:
    """All queues."""

    queues: list[QueueRow]
    #: why others cannot be read
    unreadable: list[str]


async def queues(backend: Backend) -> QueueList:
    """All queues, those with trouble first."""
    counted, errors = await backend.counts()
    serving = (await backend.catalogue()).serving
    rows = [row(backend, name, counts, served=name in serving) for name, counts in counted.items()]
    return QueueList(sorted(rows, key=lambda each: (not _is_stuck(each), each.name)), errors)


def _is_stuck(queue: QueueRow) -> bool:
    return bool(queue.waiting) and not queue.served


def row(backend: Backend, name: str, counts: Counts, *, served: bool) -> QueueRow:
    """A queue."""
    return QueueRow(
        name=name,
        queued=counts.queued + counts.inbox,
        oldest_wait_ms=counts.oldest_wait_ms,
        scheduled=counts.scheduled,
        deferred=counts.deferred,
        held=counts.held,
        started=counts.started,
        lost=counts.lost,
        finished=counts.finished,
        failed=counts.failed,
        canceled=counts.canceled,
        broken=counts.broken,
        suspended_by="operator" if counts.suspended_by_operator else "file" if counts.suspended_by_file else "",
        limits=_limits(counts),
        served=served,
        history=backend.waiting_of(name),
    )


def _limits(counts: Counts) -> list[str]:
    found = []
    if counts.max_length is not None:
        found.append(f"at most {counts.max_length:,} wait")
    if counts.max_running is not None:
        found.append(f"at most {counts.max_running:,} run")
    if counts.rate is not None:
        found.append(f"at most {counts.rate:,.4g}/s begin")
    if counts.fair_by:
        found.append(f"fair by {', '.join(counts.fair_by)}")
    return found + [f"{task}: {_limit(limit.max_running, limit.rate)}" for task, limit in counts.limits.items()]


def _limit(max_running: int | None, rate: tuple[float, int] | None) -> str:
    words = [] if max_running is None else [f"at most {max_running:,} run"]
    return ", ".join(words + ([f"at most {1000 / rate[0]:,.4g}/s begin"] if rate else []))


async def _show(call: WebCall) -> QueueList:
    return await queues(call.backend)


async def _suspend(call: WebCall) -> Done:
    return await _set_suspended(call, on=True)


async def _resume(call: WebCall) -> Done:
    return await _set_suspended(call, on=False)


async def _set_suspended(call: WebCall, *, on: bool) -> Done:
    name = await known_queue(call)
    now = await call.backend.run(call.backend.verbs.suspend(name, by="operator", on=on, who=call.asker))
    if now and not on:
        return Done(f"queue {name} stays suspended, by the file", done=False)
    return Done(f"queue {name} is {'suspended: jobs are accepted, and none begins' if on else 'resumed'}")


async def _purge(call: WebCall) -> Done:
    """Cancel what waits; what runs is left alone."""
    name = await known_queue(call)
    canceled = await call.backend.run(call.backend.verbs.purge(name, who=call.asker))
    return Done(f"{plural(canceled, 'waiting job')} of queue {name} canceled", jobs=canceled)


async def known_queue(call: WebCall) -> str:
    """The queue that the call names. Raises NotThere."""
    name: str = call["queue"]
    if name not in await call.backend.queues():
        raise NotThere(f"there is no queue {name!r}")
    return name


ENDPOINTS = (
    Endpoint("GET", "/queues", _show, "All queues with their jobs by state", QueueList, template="queues.html"),
    Endpoint("POST", "/queues/{queue}/suspend", _suspend, "Accept jobs but begin none", inputs=(NAME,)),
    Endpoint("POST", "/queues/{queue}/resume", _resume, "Undo suspend", inputs=(NAME,)),
    Endpoint("POST", "/queues/{queue}/purge", _purge, "Cancel the jobs that wait", inputs=(NAME,)),
)
