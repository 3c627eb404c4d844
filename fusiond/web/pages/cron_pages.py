"""Cron: the entries of this host's file with their last and next ticks; run now, suspend, resume."""

from __future__ import annotations

import functools
import time
from dataclasses import dataclass
from functools import partial
from typing import Any

from fusiond.broker.ticks import CronState, TickNote
from fusiond.config.model import Config, CronEntry
from fusiond.config.units import written
from fusiond.flows.run_control import RunRef
from fusiond.flows.shapes import shape_of_entry
from fusiond.inspecting.cron_runs import PASSED_OVER, history, outcomes_of, run_now
from fusiond.schedule.cron import next_tick, problem_here, ticks
from fusiond.schedule.drift import digest, in_force
from fusiond.schedule.overdue import overdue_since
from fusiond.web.backend import Backend
from fusiond.web.endpoint import Done, NotThere, WebCall, acts, reads
from fusiond.web.inputs import Input

NAME = Input("entry", "the name of a cron entry", "path", pattern="[A-Za-z0-9_.-]{1,100}", required=True)
#: coming ticks that are shown of an entry, and ms ahead that they are looked for
_COMING, _AHEAD = 3, 400 * 86_400_000
#: a day in ms, and ticks that are marked in it
_DAY, _MARKS = 86_400_000, 50
_HISTORY = (
    NAME,
    Input("since", "a time, or how long ago, such as 2h; none: all that is kept", form="moment"),
    Input("limit", "ticks to show", form="number", default=100, least=1, most=10_000),
)


@dataclass(frozen=True, slots=True)
class CronRow:
    """One entry."""

    name: str
    #: what it enqueues, or the flow that it starts
    task: str
    is_flow: bool
    schedule: str
    timezone: str
    owner: str
    runbook_url: str
    #: the file of another host is newer, and declares it differently: it ticks by that one
    by_other_file: bool
    #: `operator`, `file`, or empty: it ticks
    suspended_by: str
    #: epoch ms of the newest tick that has a job, and that job; None: none has
    last: int | None
    last_job: str | None
    #: it is a run of a flow
    last_is_run: bool
    #: how that job stands; empty: there is none
    outcome: str
    #: the newest tick that was decided on, and what was decided: `enqueued`, or why nothing was
    decided_at: int | None
    decision: str
    #: the next ticks, epoch ms
    coming: list[int]
    #: ticks of the day, epoch ms: all of them, or 50 at even distances
    day: list[int]
    #: since when no job of it has finished for its `alert_if_no_success`; None: it is not overdue
    overdue_since: int | None


@dataclass(frozen=True, slots=True)
class Cron:
    """All entries."""

    entries: list[CronRow]
    #: epoch ms: when the 24 h begin of which each entry has its ticks
    day_begins_at: int


@dataclass(frozen=True, slots=True)
class CronHistory:
    """What became of the ticks of an entry."""

    entry: CronRow
    #: the newest first
    ticks: list[TickNote]
    #: outcome of a tick that has no job → why
    passed_over: dict[str, str]


async def entries(backend: Backend) -> list[CronRow]:
    """The entries of this host's file: those that are overdue first, then by their next tick. Raises BrokerError."""
    config, verbs = backend.config, backend.verbs
    states = await backend.run_all([verbs.cron_state(name) for name in config.cron])
    queues = [config.work_of(entry).queue for entry in config.cron.values()]
    successes = await backend.run_all(
        [verbs.cron_success(queue, name) for queue, name in zip(queues, config.cron, strict=True)]
    )
    outcomes = await backend.run(outcomes_of(verbs, states))
    found = zip(config.cron.values(), states, successes, outcomes, strict=True)
    rows = [_row(config, *each) for each in found]
    return sorted(rows, key=lambda each: (each.overdue_since is None, each.coming[:1] or [2**60], each.name))


def _row(config: Config, own: CronEntry, state: CronState, success: int, outcome: str) -> CronRow:
    entry = in_force(own, state)
    suspended = "file" if entry.suspended else "operator" if state.suspended else ""
    allowed = entry.alert_if_no_success
    return CronRow(
        name=entry.name,
        task=entry.work,
        is_flow=bool(entry.flow),
        owner=own.owner or "",
        runbook_url=own.runbook_url or "",
        last_is_run=state.last_is_run,
        schedule=entry.schedule or f"every {written(entry.every or 0)}",
        timezone=entry.timezone if entry.schedule else "",
        by_other_file=state.first_seen is not None
        and state.definition != digest(own, config.work_of(own), shape_of_entry(config, own)),
        suspended_by=suspended,
        last=state.last_enqueued,
        last_job=f"{state.last_queue}/{state.last_job}" if state.last_job else None,
        outcome=outcome,
        decided_at=state.last,
        decision=state.decision,
        coming=[] if suspended else _coming(entry),
        day=[] if suspended or problem_here(entry) else _day_of(entry),
        overdue_since=overdue_since(allowed, state, success) if allowed and not entry.suspended else None,
    )


def _coming(entry: CronEntry) -> list[int]:
    # it may be another host's, whose time zone this one does not have
    first = None if problem_here(entry) else next_tick(entry, int(time.time() * 1000))
    return [] if first is None else [first, *ticks(entry, first, first + _AHEAD, _COMING - 1)]


def _begin_of_day() -> int:
    """Now, less some minutes, so that the ticks of a day are worked out once in ten minutes."""
    return int(time.time()) // 600 * 600_000


def _day_of(entry: CronEntry) -> list[int]:
    timetable = entry.schedule, entry.timezone, entry.every, entry.calendars, entry.if_excluded
    return _day(timetable, _begin_of_day())


@functools.lru_cache(maxsize=1000)
def _day(timetable: tuple[Any, ...], begin: int) -> list[int]:
    names = ("schedule", "timezone", "every", "calendars", "if_excluded")
    entry = CronEntry("", "", **dict(zip(names, timetable, strict=True)))
    found = ticks(entry, begin, begin + _DAY, _MARKS)
    if len(found) < _MARKS:
        return found
    marks = (next_tick(entry, begin + n * _DAY // _MARKS) for n in range(_MARKS))
    return [tick for tick in marks if tick and tick <= begin + _DAY]


async def _show(call: WebCall) -> Cron:
    return Cron(await entries(call.backend), _begin_of_day())


async def _history(call: WebCall) -> CronHistory:
    entry, backend = _entry(call), call.backend
    [row] = [each for each in await entries(backend) if each.name == entry.name]
    found = await backend.run(history(backend.verbs, entry, call["since"] or 0, call["limit"]))
    return CronHistory(row, found, PASSED_OVER)


async def _run(call: WebCall) -> Done:
    """As the scheduler would at this moment, but outside the schedule."""
    entry, backend = _entry(call), call.backend
    made = await backend.run(run_now(backend.verbs, backend.config, entry, call.asker))
    if isinstance(made, RunRef):
        return Done(f"{entry.name}: run {made.name} of flow {entry.flow} has begun")
    return Done(f"{entry.name}: job {made.name} is enqueued", jobs=1)


async def _suspend(call: WebCall) -> Done:
    entry = _entry(call)
    await call.backend.run(call.backend.verbs.suspend_cron(entry.name, on=True, who=call.asker))
    return Done(f"{entry.name} is suspended: its ticks pass without a job")


async def _resume(call: WebCall) -> Done:
    entry = _entry(call)
    await call.backend.run(call.backend.verbs.suspend_cron(entry.name, on=False, who=call.asker))
    if entry.suspended:
        return Done(f"{entry.name} stays suspended, by the file", done=False)
    return Done(f"{entry.name} ticks again; what it has skipped is not run")


def _entry(call: WebCall) -> CronEntry:
    found = call.backend.config.cron_by_name.get(call["entry"])
    if found is None:
        raise NotThere(f"this host's file has no cron entry {call['entry']!r}")
    return found


_reads, _acts = partial(reads, everywhere=True), partial(acts, "cron", everywhere=True)
ENDPOINTS = (
    _reads("/cron", _show, "Cron entries with their last and next ticks", Cron, "cron.html"),
    _reads("/cron/{entry}", _history, "What became of an entry's ticks", CronHistory, "cron_entry.html", _HISTORY),
    _acts("/cron/{entry}/run", _run, "Enqueue the entry's task now, outside its schedule", (NAME,)),
    _acts("/cron/{entry}/suspend", _suspend, "Let the entry's ticks pass", (NAME,)),
    _acts("/cron/{entry}/resume", _resume, "Undo suspend", (NAME,)),
)
