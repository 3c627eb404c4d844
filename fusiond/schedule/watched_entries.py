"""
A cron entry as this daemon watches it: what it starts, what Redis knew of it at the last look, when to look again.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from typing import Final

from fusiond.broker.ticks import CronState
from fusiond.config.model import Config, CronEntry, Task
from fusiond.flows.following import follow_of
from fusiond.flows.shapes import Shape, shape_of_entry
from fusiond.schedule import cron, drift
from fusiond.schedule.decision import Decision, decide

log = logging.getLogger(__name__)

#: ms after which each entry is looked at again, in case a clock was set
LOOK_AGAIN: Final = 30_000


@dataclass(slots=True, eq=False)
class WatchedEntry:
    """An entry of this file."""

    entry: CronEntry
    task: Task
    #: of the flow of which it starts runs; None: it has a task
    shape: Shape | None
    #: see drift.py
    digest: str
    #: the callbacks of its jobs
    follow: str
    #: monotonic ms of the next look
    look_at: float = 0
    #: what Redis knew of it at the last look
    state: CronState = field(init=False)
    #: monotonic ms of that look, halfway between question and answer
    looked_at: float = 0
    #: about the ticks that were due at the last look
    decision: Decision = field(init=False)
    #: Redis knows that this file has the entry
    declared: bool = False
    #: it was logged that its last job is canceled for a tick, and it has not ended yet
    replacing: bool = False
    #: it was logged that its last tick lies in the future
    ahead: bool = False
    #: generation and digest of the declaration that ticks in its place, once that was logged
    outranked_by: tuple[int, str] | None = None

    @property
    def is_declared(self) -> bool:
        """Whether Redis still knows the entry as this file has it."""
        return self.declared and self.state.definition == self.digest and self.state.first_seen is not None


def watched_entry(entry: CronEntry, config: Config) -> WatchedEntry:
    """The entry, before the first look at it."""
    task, shape = config.work_of(entry), shape_of_entry(config, entry)
    return WatchedEntry(entry, task, shape, drift.digest(entry, task, shape), follow_of(config, task))


def is_due(watched: WatchedEntry) -> bool:
    """Whether ticks are due, on which the entry then has a decision; otherwise it has the time of the next look."""
    entry, state = watched.entry, watched.state
    _note_clock_set_back(watched)
    decision = decide(entry, state)
    if decision is None:
        following = cron.next_tick(entry, state.now)
        wait = LOOK_AGAIN if following is None else min(following - state.now, LOOK_AGAIN)
        watched.look_at = watched.looked_at + wait
        return False
    watched.decision = decision
    return True


def _note_clock_set_back(watched: WatchedEntry) -> None:
    """Log once that an entry does not tick because Redis has decided on ticks that are yet to come."""
    state = watched.state
    ahead = max(state.last or 0, state.first_seen or 0) - state.now
    if ahead > LOOK_AGAIN and not watched.ahead:
        log.error(
            "cron entry '%s' does not tick for %d s: the clock of Redis was set back by so much",
            watched.entry.name,
            ahead // 1000,
        )
    watched.ahead = ahead > LOOK_AGAIN


def is_usable(entry: CronEntry) -> bool:
    """Whether this host can compute the entry's ticks: the file was checked, but maybe with other time zones."""
    problem = cron.problem_here(entry)
    if problem:
        log.error("cron entry '%s' does not tick on this host: %s", entry.name, problem)
    return not problem


def monotonic_ms() -> float:
    """Now, on the clock of `look_at`."""
    return time.monotonic_ns() / 1e6
