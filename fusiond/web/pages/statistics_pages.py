"""One task or one queue: what ended in each hour, how long its jobs ran and waited, and the same of the time before."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add

from fusiond.broker.counters import Bound, Tally
from fusiond.inspecting.statistics import (
    HOUR,
    MOST_HOURS,
    Hours,
    by_hour,
    by_queue,
    by_task,
    hours_between,
    of_task,
)
from fusiond.owners import owner_of
from fusiond.web.endpoint import NotThere, WebCall, reads, view_of
from fusiond.web.inputs import Input
from fusiond.web.pages.audit_pages import ChartMark, marks
from fusiond.web.pages.job_pages import task_suspended_by
from fusiond.web.pages.queue_pages import NAME, known_queue

_TASK = Input("task", "the name of a task", "path", pattern="[A-Za-z0-9_.-]{1,100}", required=True)
_HOURS = Input("hours", "of the last so many hours", form="number", default=24, least=1, most=MOST_HOURS)


@dataclass(frozen=True, slots=True)
class Figures:
    """What was counted in some time."""

    finished: int
    failed: int
    canceled: int
    #: jobs that ended in an hour
    per_hour: float
    #: within which half and 95 of 100 attempts ran, and waited; None: there were none
    run_median: Bound | None
    run_95: Bound | None
    wait_median: Bound | None
    wait_95: Bound | None


@dataclass(frozen=True, slots=True)
class Hour:
    """One hour."""

    #: epoch ms of its begin
    at: int
    finished: int
    failed: int


@dataclass(frozen=True, slots=True)
class Statistics:
    """What became of the jobs of a task or a queue."""

    #: `task` or `queue`
    kind: str
    name: str
    hours: int
    owner: str
    runbook_url: str
    #: who has suspended the task: operator, file, or nobody
    suspended_by: str
    #: oldest first; the last one has not ended
    chart: list[Hour]
    #: reloads, rollbacks and new releases in this time
    marks: list[ChartMark]
    now: Figures
    #: the same so many hours earlier; None: Redis has counters of 30 days only
    before: Figures | None
    #: of each queue of a task, or each task of a queue
    parts: dict[str, Figures]


async def _of_queue(call: WebCall) -> Statistics:
    name = await known_queue(call)
    return await _statistics(call, "queue", name, [name])


async def _of_task(call: WebCall) -> Statistics:
    backend, name = call.backend, call["task"]
    reading = backend.verbs.counters(await backend.queues())
    counted = reading.read(await backend.run_many(reading.calls))
    queues = [queue for queue, each in counted.items() if name in each.totals]
    declared = (await backend.catalogue()).tasks.get(name)
    if not queues and not (declared and backend.has(declared["queue"])):
        raise NotThere(f"there is no task {name!r}")
    return await _statistics(call, "task", name, queues)


async def _statistics(call: WebCall, kind: str, name: str, queues: Sequence[str]) -> Statistics:
    now, number = time.time(), call["hours"]

    async def counted(until: float) -> Hours:
        found = await call.backend.run(call.backend.verbs.hours(queues, hours_between(until - number * HOUR, until)))
        return of_task(found, name) if kind == "task" else found

    found, catalogue = await counted(now), await call.backend.catalogue()
    hours, parts = by_hour(found), by_queue(found) if kind == "task" else by_task(found)
    before = _sum(await counted(now - number * HOUR)) if 2 * number <= MOST_HOURS else None
    return Statistics(
        kind=kind,
        name=name,
        hours=number,
        **owner_of(catalogue.owners, *(("", name) if kind == "task" else (name,)))._asdict(),
        suspended_by=await task_suspended_by(call.backend, name) if kind == "task" else "",
        chart=[
            view_of(Hour, hours.get(hour, Tally()), at=hour * HOUR * 1000)
            for hour in hours_between(now - number * HOUR, now)
        ],
        marks=await marks(call.backend, hours_between(now - number * HOUR, now)[0] * HOUR),
        now=_figures(_sum(found), number),
        before=None if before is None else _figures(before, number),
        parts={part: _figures(tally, number) for part, tally in sorted(parts.items())},
    )


def _sum(found: Hours) -> Tally:
    return reduce(add, by_hour(found).values(), Tally())


def _figures(tally: Tally, hours: int) -> Figures:
    return view_of(
        Figures,
        tally,
        per_hour=tally.ended / hours,
        run_median=tally.run.quantile(0.5),
        run_95=tally.run.quantile(0.95),
        wait_median=tally.wait.quantile(0.5),
        wait_95=tally.wait.quantile(0.95),
    )


ENDPOINTS = (
    reads(
        "/tasks/{task}", _of_task, "What became of the jobs of a task", Statistics, "statistics.html", (_TASK, _HOURS)
    ),
    reads(
        "/queues/{queue}",
        _of_queue,
        "What became of the jobs of a queue",
        Statistics,
        "statistics.html",
        (NAME, _HOURS),
    ),
)
