"""Queues: how many jobs each holds, whether it is served; suspend and resume."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from fusiond.broker.counters import Rate
from fusiond.broker.records import Counts
from fusiond.inspecting.queues import limits_in_words
from fusiond.inspecting.worker_states import drained_queues
from fusiond.web.backend import Backend
from fusiond.web.endpoint import Done, NotThere, WebCall, acts, reads, view_of
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
    #: of the held ones, those that limits of their tasks hold
    limited: int
    started: int
    #: of the started ones, those whose lease has expired
    lost: int
    finished: int
    failed: int
    canceled: int
    #: bodies that could not be read and are kept
    broken: int
    #: `operator`, `file`, or empty: it is not suspended
    suspended_by: str
    #: its limits, in words
    limits: list[str]
    #: whether a living worker group claims from it
    served: bool
    #: where no group claims from it: the hosts that an operator has drained, and whose groups would
    drained_on: list[str]
    #: how many jobs were ready, every ten seconds, the newest last
    history: list[int]
    #: jobs per second of the last minutes that became ready, and whose attempts ended; None: nobody has counted
    in_per_s: float | None
    out_per_s: float
    #: s until it is empty if it goes on so; None: never
    empty_in_s: float | None

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
    idle = counted.keys() - serving
    drained = drained_queues(await backend.run(backend.verbs.workers())) if idle else {}
    rates = await backend.rates([*counted])
    rows = [
        row(backend, name, counts, rates[name], served=name not in idle, drained_on=drained.get(name, ()))
        for name, counts in counted.items()
    ]
    return QueueList(sorted(rows, key=lambda each: (each.served or not each.waiting, each.name)), errors)


def row(
    backend: Backend, name: str, counts: Counts, rate: Rate, *, served: bool, drained_on: Iterable[str]
) -> QueueRow:
    """A queue."""
    return view_of(
        QueueRow,
        counts,
        name=name,
        queued=counts.queued + counts.inbox,
        broken=counts.broken_kept,
        suspended_by="operator" if counts.suspended_by_operator else "file" if counts.suspended_by_file else "",
        limits=[*limits_in_words(counts)],
        served=served,
        drained_on=[] if served else [*drained_on],
        history=backend.waiting_of(name),
        in_per_s=rate.arrives,
        out_per_s=rate.leaves,
        empty_in_s=rate.seconds_until_empty(counts),
    )


async def _show(call: WebCall) -> QueueList:
    return await queues(call.backend)


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


_suspend, _resume = (partial(_set_suspended, on=on) for on in (True, False))
ENDPOINTS = (
    reads("/queues", _show, "All queues with their jobs by state", QueueList, "queues.html"),
    acts("suspend", "/queues/{queue}/suspend", _suspend, "Accept jobs but begin none", (NAME,)),
    acts("suspend", "/queues/{queue}/resume", _resume, "Undo suspend", (NAME,)),
    acts("cancel", "/queues/{queue}/purge", _purge, "Cancel the jobs that wait", (NAME,)),
)
