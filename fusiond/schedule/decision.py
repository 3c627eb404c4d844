"""
Decide what becomes of the due ticks of a cron entry. Pure: an entry and what Redis knows of it go in.

1. decide      which ticks get a job, and which are given up
2. overlap     whether the last tick's job must have ended first
3. job         what is enqueued for the ticks
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, NamedTuple

from fusiond.broker.ticks import DecidedTicks
from fusiond.schedule import cron

if TYPE_CHECKING:
    from fusiond.broker.ticks import CronState
    from fusiond.config.model import CronEntry, Task

#: ms after the last enqueue from which on its job is asked how it ended: more than a round takes, and less than the
#: minute for which the job is kept after its end
ASK_FOR_THE_END: Final = 20_000
#: ticks of one entry that are decided at once
AT_ONCE: Final = 100


class Decision(NamedTuple):
    """What becomes of the ticks of an entry that are due."""

    #: the newest of them, epoch ms
    last: int
    #: decided, missed, suspended or overlap
    word: str
    #: those that get a job, oldest first
    ticks: tuple[int, ...] = ()
    #: the newest one that is given up as missed
    missed: int | None = None


def decide(entry: CronEntry, state: CronState) -> Decision | None:
    """What becomes of the ticks that are due by the clock of Redis; None: none is due."""
    now = state.now_ms
    due = cron.due(entry, state.last_tick_ms, state.first_seen_ms or now, now, limit=AT_ONCE)
    last = due.run[-1] if due.run else due.missed
    if last is None:
        return None
    if entry.suspended or state.suspended:
        return Decision(last, "suspended")
    ticks = due.run[:1] if entry.overlap == "skip" else due.run
    return Decision(last, "decided" if ticks else "missed", ticks, due.missed)


def may_overlap(entry: CronEntry, state: CronState, decision: Decision) -> bool:
    """Whether a job is decided on that must not be enqueued before the last tick's job has ended."""
    return bool(decision.ticks and entry.overlap == "skip" and state.last_job)


def may_have_ended(state: CronState) -> bool:
    """Whether the last tick's job has had time to end, and its end is not noted yet."""
    asked_from = (state.last_enqueued_ms or 0) + ASK_FOR_THE_END
    return bool(state.last_job) and not state.last_status and state.now_ms > asked_from


def decided_ticks(entry: CronEntry, task: Task, ticks: tuple[int, ...]) -> DecidedTicks:
    """The ticks with the job that each of them gets."""
    return DecidedTicks(
        entry=entry.name,
        queue=task.queue,
        task=task.name,
        args=json.dumps([entry.args, dict(entry.kwargs)], ensure_ascii=False, separators=(",", ":")).encode(),
        priority=task.priority,
        expires_ms=None if task.expires is None else round(task.expires * 1000),
        patience_ms=cron.patience(entry),
        ticks=ticks,
        delays_ms=tuple(cron.jitter(entry, tick) for tick in ticks),
    )
