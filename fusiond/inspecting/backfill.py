"""
Run ticks of a time that has passed, each as a job or a run of its own. No I/O.

1. choose  the ticks of that time on which the scheduler has decided, and of these the ones that are wanted
2. look    begin as many as may run at once; which of them have ended

The job of a tick has the id `cron:backfill:<entry>:<tick>`, so a repeat starts nothing twice. Its end is noted as that
of an entry of this name is: neither `overlap` nor `alert_if_no_success` of the entry sees it.
"""

from __future__ import annotations

from collections import defaultdict, deque
from typing import Final

from fusiond.broker.call import Call, Plan, together
from fusiond.broker.ticks import CronState
from fusiond.broker.verbs import Verbs
from fusiond.config.model import Config, CronEntry
from fusiond.enqueue_options import Options
from fusiond.errors import FusionError, JobConflict
from fusiond.flows.run_control import RunControl, RunRef
from fusiond.flows.shapes import shape_of_entry
from fusiond.inspecting.cron_runs import BACKFILLED, PASSED_OVER, history
from fusiond.producer.new_jobs import JobRef
from fusiond.producer.plans import Producer
from fusiond.schedule import cron
from fusiond.schedule.decision import kwargs_of_tick

#: ticks of one backfill: as many as the history has
_MOST: Final = 10_000
#: outcomes of a tick that has had a job, and no success
_WITHOUT_SUCCESS: Final = frozenset({"failed", "canceled", "gone"})


class Backfill:
    """Some ticks of one entry."""

    def __init__(
        self, verbs: Verbs, config: Config, entry: CronEntry, most: int = 1, priority: str | int | None = None
    ) -> None:
        """`most`: jobs or runs at once; `priority`: of the jobs, None: that of their task."""
        self._verbs, self._entry, self._most, self._priority = verbs, entry, most, priority
        self._queue, self._shape = config.work_of(entry).queue, shape_of_entry(config, entry)
        self._producer, self._runs = Producer(verbs, "memory"), RunControl(verbs)
        #: ticks that are wanted and have not begun, oldest first
        self.left: deque[int] = deque()
        #: tick → its job or run, which has not ended
        self.going: dict[int, JobRef | RunRef] = {}

    def choose(self, since: int, until: int, only: str) -> Plan[int]:
        """
        Put the ticks from `since` on and before `until`, epoch ms, into `left`.

        Args:
            since: a tick at this moment counts.
            until: one at this moment does not.
            only: `missed`, those without a job; `failed`, those whose jobs have ended without success; `all`. Without
                those whose backfill has finished before.

        Returns:
            how many ticks that time has.

        Raises:
            FusionError: more than 10,000.
        """
        state = yield self._verbs.cron_state(self._entry.name)
        found = cron.ticks(self._entry, since - 1, min(until, _undecided(state)) - 1, _MOST + 1)
        if len(found) > _MOST:
            raise FusionError(f"more than {_MOST:,} ticks lie in that time; choose a shorter one")
        words: dict[int, set[str]] = defaultdict(set)
        for note in (yield from history(self._verbs, self._entry, since, 2 * _MOST)):
            words[note.tick].add("done" if note.is_backfill and note.outcome == "finished" else note.outcome)
        self.left = deque(tick for tick in found if _is_wanted(words[tick] - PASSED_OVER.keys(), only))
        return len(found)

    def announce(self, who: str) -> Call[None]:
        """Somebody has the ticks run, for the audit."""
        return self._verbs.note_cron_run(self._entry.name, f"backfill, ticks: {len(self.left)}", who)

    def unserved(self) -> Plan[list[str]]:
        """The queue, if no living worker group runs jobs of the entry's task from it."""
        catalogue = yield from self._verbs.catalogue()
        return [] if self._shape or catalogue.serves(self._entry.task, self._queue) else [self._queue]

    def look(self) -> Plan[list[tuple[int, str]]]:
        """Begin what there is room for; the ticks that have ended since, and how. Raises JobConflict."""
        while self.left and len(self.going) < self._most:
            self.going[self.left[0]] = yield from self._start(self.left[0])
            self.left.popleft()
        asked = [
            (self._verbs.run_status if self._shape else self._verbs.status)(*ref[:2]) for ref in self.going.values()
        ]
        statuses = zip(list(self.going), (yield from together(asked)), strict=True)
        ended = [(tick, str(status or "gone")) for tick, status in statuses if status is None or status.ended]
        for tick, _ in ended:
            del self.going[tick]
        return ended

    def _start(self, tick: int) -> Plan[JobRef | RunRef]:
        """Its job or run, which may be there; requeued if it has ended without success. Raises JobConflict."""
        name, kwargs = f"cron:{BACKFILLED}{self._entry.name}:{tick}", kwargs_of_tick(self._entry, tick)
        if self._shape:
            run = RunRef(self._queue, name)
            if (yield self._verbs.run_status(*run)) in _WITHOUT_SUCCESS:
                yield from self._runs.requeue(run)
                return run
            return (yield from self._runs.start(run, self._shape, kwargs))
        job = JobRef(self._queue, name)
        if (yield self._verbs.status(*job[:2])) in _WITHOUT_SUCCESS:
            yield from self._producer.requeue(job)
            return job
        options = Options(id=name, priority=self._priority)
        made = yield from self._producer.enqueue(options, self._entry.task, self._entry.args, kwargs)
        if made.existing:
            raise JobConflict(f"task {self._entry.task!r} is `unique`, and {made.name} has the lock; wait for its end")
        return made


def _undecided(state: CronState) -> int:
    """The first moment at which a tick may still have a job of the schedule; epoch ms."""
    if state.waiting:
        return state.waiting
    if state.decided:
        return state.decided.ticks[0]
    decided = state.now if state.first_seen is None else max(state.last or 0, state.first_seen)
    return min(decided, state.now) + 1


def _is_wanted(ends: set[str], only: str) -> bool:
    """Whether a tick whose jobs have come to this is one of them."""
    if only == "missed":
        return not ends
    return "done" not in ends and (only == "all" or (bool(ends) and ends <= _WITHOUT_SUCCESS))
