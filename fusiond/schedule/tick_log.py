"""What the log says of ticks: those that have a job, and why others have none."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from fusiond.broker.ticks import DecidedTicks, Ticked
from fusiond.config.model import CronEntry
from fusiond.schedule.decision import Decision

log = logging.getLogger(__name__)

#: `DaemonEvents.note`
Note = Callable[..., None]


def nobody(*_: object, **__: object) -> None:
    """Where nobody wants events."""


def decided(entry: CronEntry, decision: Decision, note: Note) -> None:
    """Which ticks get no job by a decision of this daemon. Redis tells that a queue has refused the job of a tick."""
    fields = _fields(entry.name, entry.work, decision.last)
    if decision.word == "suspended":
        log.debug("suspended", extra=fields)
    if decision.word == "waiting":
        log.info("waits for the job of the last tick, which has not ended", extra=fields)
    if decision.word == "overlap":
        log.warning("passed over: the job of the last tick has not ended", extra=fields)
        note("cron.skipped", "overlap: the job of the last tick has not ended", about=entry.name)
    if decision.missed is not None:
        missed = _fields(entry.name, entry.work, decision.missed)
        log.warning("missed, and given up: this tick and those before it", extra=missed)
        note("cron.skipped", "deadline: this tick and those before it were missed", about=entry.name)


def replaces(entry: CronEntry, decision: Decision) -> None:
    """The last tick's job is canceled for the tick that is due."""
    fields = _fields(entry.name, entry.work, decision.last)
    log.warning("replaces the job of the last tick, which has not ended", extra=fields)


def enqueued(decided: DecidedTicks, ticked: Ticked) -> None:
    """What this daemon enqueued or could not enqueue. What another daemon did before is in that daemon's log."""
    for tick, outcome in zip(decided.ticks, ticked.outcomes, strict=True):
        fields = _fields(decided.entry, decided.task, tick)
        if outcome == "0":
            log.info("enqueued", extra={**fields, "job": f"cron:{decided.entry}:{tick}"})
        elif outcome == "2":
            log.warning("missed, and given up: it was decided on, and could not be enqueued in time", extra=fields)
        elif outcome == "3":
            log.warning("passed over: queue '%s' is full", decided.queue, extra=fields)
        elif outcome == "5":
            log.info("passed over: the task is `unique`, and another job with these arguments exists", extra=fields)


def _fields(entry: str, task: str, tick: int) -> dict[str, object]:
    return {"cron": entry, "task": task, "tick": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(tick / 1000))}
