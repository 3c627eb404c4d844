"""Cron entries: how their last ticks ended, and a run outside the schedule."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import Final

from fusiond.broker.call import Plan, together
from fusiond.broker.ticks import CronState, TickNote
from fusiond.broker.verbs import Verbs
from fusiond.config.model import Config, CronEntry
from fusiond.enqueue_options import NO_OPTIONS
from fusiond.flows.run_control import RunControl, RunRef
from fusiond.flows.shapes import shape_of
from fusiond.job import new_id
from fusiond.producer.new_jobs import JobRef
from fusiond.producer.plans import Producer
from fusiond.schedule.decision import kwargs_of_tick

#: ms for which the history of an entry is shown
_KEPT: Final = 400 * 86_400_000
#: what stands before the name of an entry whose ticks were backfilled, in ids and where these are noted
BACKFILLED: Final = "backfill:"
#: outcome of a tick without a job → why
PASSED_OVER: Final = {
    "overlap": "the job of the last tick had not ended",
    "suspended": "the entry was suspended",
    "missed": "no scheduler was there in time; so were those before it that have no line",
    "late": "it could not be enqueued in time",
    "full": "the queue was full",
    "conflict": "the task is `unique`, and another job had its lock",
}


def outcomes_of(verbs: Verbs, states: Sequence[CronState]) -> Plan[list[str]]:
    """The status of the job of each last tick; once it was dropped, the last status that was stored; "": no job."""
    statuses = iter((yield from together([verbs.last_status(state) for state in states if state.last_job])))
    return [str(next(statuses) or state.last_status or "gone") if state.last_job else "" for state in states]


def history(verbs: Verbs, entry: CronEntry, since: int, most: int) -> Plan[list[TickNote]]:
    """
    What became of the ticks of an entry, the newest first: of the last 400 days, or from `since` on, epoch ms.

    A tick that was backfilled has a note of that, too.
    """
    since = max(since, int(time.time() * 1000) - _KEPT)
    calls = [
        verbs.tick_notes(queue, name, since, 2 * most)
        for queue in (yield verbs.queues())
        for name in (entry.name, *entry.aliases)
        for name in (name, BACKFILLED + name)
    ]
    pages = yield from together(calls)
    # Only the start of a tick's run is noted as one, and that of a backfill is not noted.
    notes = (
        note._replace(is_run=note.is_run or (note.is_backfill and bool(entry.flow))) for page in pages for note in page
    )
    found = sorted(notes, reverse=True)[:most]
    going = [note for note in found if note.outcome == "enqueued"]
    asked = [(verbs.run_status if note.is_run else verbs.status)(*note.job.split("/", 1)) for note in going]
    known = dict(zip(going, (yield from together(asked)), strict=True))
    told = [note._replace(outcome=str(known[note] or "gone")) if note in known else note for note in found]
    # The job of a tick that was moved has ended in another queue than that in which it was enqueued.
    moved = Counter(note.tick for note in told)
    return [note for note in told if note.outcome != "gone" or moved[note.tick] == 1]


def run_now(verbs: Verbs, config: Config, entry: CronEntry, who: str) -> Plan[JobRef | RunRef]:
    """Enqueue the entry's task, or start its flow, as a tick of this moment would, outside its schedule."""
    made: JobRef | RunRef
    kwargs = kwargs_of_tick(entry, int(time.time() * 1000))
    if entry.flow:
        shape = shape_of(config, entry.flow)
        made = yield from RunControl(verbs).start(RunRef(shape.own.queue, new_id()), shape, kwargs)
    else:
        made = yield from Producer(verbs, "memory").enqueue(NO_OPTIONS, entry.task, entry.args, kwargs)
    yield verbs.note_cron_run(entry.name, made.name, who)
    return made
