"""
Decide what becomes of the due ticks of a cron entry. Pure: the input is the entry and its state in Redis.

1. decide      which ticks get a job, and which are given up
2. overlap     whether the last tick's job must have ended first
3. job         what is enqueued for the ticks
"""

from __future__ import annotations

import hashlib
import json
from datetime import datetime
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

from fusiond.argument_values import unique_key
from fusiond.broker.ticks import CronState, DecidedTicks
from fusiond.config.model import CronEntry, Task
from fusiond.flows.runs import new_fields
from fusiond.flows.shapes import Shape
from fusiond.schedule import cron

#: ms: a tick that is noticed within this time is on time, unless the entry has a starting_deadline. So a restart of
#: the daemon or a failover of Redis does not skip a nightly job
ON_TIME = 60_000
#: ms after the last enqueue until the scheduler looks how its job ended: more than a round takes, and less than the
#: minute for which the job is kept after its end
ASK_FOR_THE_END: Final = 20_000
#: ticks of one entry that are decided at once
AT_ONCE: Final = 100


class Decision(NamedTuple):
    """What becomes of the ticks of an entry that are due."""

    #: the newest of them, epoch ms
    last: int
    #: decided, missed, suspended, overlap or waiting
    word: str
    #: those that get a job, oldest first
    ticks: tuple[int, ...] = ()
    #: the newest one that is given up as missed
    missed: int | None = None
    #: the one that waits for the last tick's job
    waiting: int | None = None
    #: while one waits: the newest one that has come since
    further: int | None = None


def decide(entry: CronEntry, state: CronState) -> Decision | None:
    """
    What becomes of the ticks that are due by the clock of Redis; None: none is due.

    The tick that waits, if there is one, comes before all others; these are decided on once it has its job.
    """
    now = state.now
    # Jobs that know their ticks differ in their arguments, of which a decision has one list.
    limit = 1 if entry.overlap == "wait" or (entry.task and entry.inputs) else AT_ONCE
    run, missed = due(entry, state.last, state.first_seen or now, now, limit)
    last = run[-1] if run else missed
    if state.waiting is not None:
        return _of_waiting(entry, state, state.waiting, last)
    if last is None:
        return None
    if entry.suspended or state.suspended:
        return Decision(last, "suspended")
    ticks = run[:1] if entry.overlap == "skip" else run
    return Decision(last, "decided" if ticks else "missed", ticks, missed)


def _of_waiting(entry: CronEntry, state: CronState, waiting: int, further: int | None) -> Decision:
    """What becomes of the tick that waits; `further`: the newest one that has come since, None: none has."""
    decided, longest = state.last or waiting, entry.starting_deadline
    if entry.suspended or state.suspended:
        return Decision(further or decided, "suspended", missed=waiting)
    if longest is not None and state.now - waiting > longest * 1000:
        return Decision(decided, "missed", missed=waiting)
    return Decision(decided, "decided", (waiting,), further=further)


def due(
    entry: CronEntry, last_tick: int | None, first_seen: int, now: int, limit: int = AT_ONCE
) -> tuple[tuple[int, ...], int | None]:
    """
    Which ticks to enqueue now, by the entry's `missed` and `starting_deadline`.

    Args:
        entry: its timetable and its rules.
        last_tick: the newest tick that was decided, enqueued or not; None: none was.
        first_seen: when this entry first appeared with this timetable: no earlier tick is due.
        now: by the clock of Redis.
        limit: at most so many ticks at once; what is left of `missed: all` is due again at once.

    Returns:
        the ticks, oldest first, and the newest one, older than those, that is given up as missed.
    """
    since = first_seen if last_tick is None else max(first_seen, last_tick)
    newest = cron.latest_tick(entry, since, now)
    if newest is None:
        return (), None
    late_by = patience(entry)
    early = since if late_by is None else max(since, now - late_by - 1)
    # Each tick would cancel the job of the one before.
    has_all = entry.missed == "all" and entry.overlap != "replace"
    late = cron.ticks(entry, early, now, limit) if has_all else [newest]
    run = tuple(tick for tick in late if tick > early)
    return run, cron.latest_tick(entry, since, run[0] - 1) if run else newest


def patience(entry: CronEntry) -> int | None:
    """The ms by which a tick may be late and still run; None: any time."""
    if entry.starting_deadline is not None:
        return round(entry.starting_deadline * 1000)
    return ON_TIME if entry.missed == "skip" else None


def may_overlap(entry: CronEntry, state: CronState, decision: Decision) -> bool:
    """Whether the last tick's job must have ended before the decided job is enqueued."""
    return bool(decision.ticks and entry.overlap != "allow" and state.last_job)


def put_off(entry: CronEntry, state: CronState, decision: Decision) -> Decision | None:
    """What becomes of the ticks while the last tick's job has not ended; None: nothing that was not decided before."""
    if entry.overlap != "wait":
        return decision._replace(ticks=(), word="overlap")
    if state.waiting is None:
        return decision._replace(ticks=(), word="waiting", waiting=decision.ticks[0])
    return Decision(decision.further, "overlap", waiting=state.waiting) if decision.further else None


def may_have_ended(state: CronState) -> bool:
    """Whether the last tick's job has had time to end, and its end is not noted yet."""
    asked_from = (state.last_enqueued or 0) + ASK_FOR_THE_END
    return bool(state.last_job) and not state.last_status and state.now > asked_from


def decided_ticks(
    entry: CronEntry, task: Task, ticks: tuple[int, ...], shape: Shape | None = None, follow: str = ""
) -> DecidedTicks:
    """The ticks with the job, or the run of a flow of this shape, that each of them gets; `follow`: its callbacks."""
    kwargs = kwargs_of_tick(entry, ticks[0])
    unique = unique_key(task.unique.to_text(), entry.args, kwargs) if task.unique else ""
    return DecidedTicks(
        entry=entry.name,
        queue=task.queue,
        task=task.name,
        args=_json([entry.args, kwargs]).encode(),
        priority=task.priority,
        expires_ms=None if task.expires is None else round(task.expires * 1000),
        patience_ms=None if entry.overlap == "wait" and entry.starting_deadline is None else patience(entry),
        ticks=ticks,
        delays_ms=tuple(jitter(entry, tick) for tick in ticks),
        unique=unique,
        follow=follow,
        run=json.dumps(new_fields(shape)) if shape else "",
        inputs=tuple(_json(kwargs_of_tick(entry, tick)) for tick in ticks) if shape else (),
    )


def kwargs_of_tick(entry: CronEntry, tick: int) -> dict[str, Any]:
    """The keyword arguments of the job of a tick, or the inputs of its run."""
    if not entry.inputs:
        return dict(entry.kwargs)
    local = datetime.fromtimestamp(tick / 1000, ZoneInfo(entry.timezone))
    values = {"tick.date": local.date().isoformat(), "tick.time": local.isoformat()}
    return {**entry.kwargs, **{name: values[reference] for name, reference in entry.inputs.items()}}


def _json(content: Any) -> str:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))


def jitter(entry: CronEntry, tick: int) -> int:
    """The ms by which a tick's job is delayed, 0 to the entry's jitter; drawn from its id, so daemons agree."""
    job = f"cron:{entry.name}:{tick}"
    draw = int.from_bytes(hashlib.sha256(job.encode()).digest()[:8])
    return draw % (round(entry.jitter * 1000) + 1)
