"""Cron entries: how their last ticks ended, and a run outside the schedule."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence

from fusiond.broker.call import Plan, together
from fusiond.broker.ticks import CronState
from fusiond.broker.verbs import Verbs
from fusiond.config.model import Config, CronEntry
from fusiond.enqueue_options import NO_OPTIONS
from fusiond.flows.run_control import RunControl, RunRef
from fusiond.flows.shapes import shape_of
from fusiond.job import new_id
from fusiond.producer.new_jobs import JobRef
from fusiond.producer.plans import Producer
from fusiond.schedule.decision import inputs_of_tick


def outcomes_of(verbs: Verbs, states: Sequence[CronState]) -> Plan[list[str]]:
    """The status of the job of each last tick; once it was dropped, the last status that was stored; "": no job."""
    statuses = iter((yield from together([verbs.last_status(state) for state in states if state.last_job])))
    return [str(next(statuses) or state.last_status or "gone") if state.last_job else "" for state in states]


def run_now(verbs: Verbs, config: Config, entry: CronEntry, who: str) -> Plan[JobRef | RunRef]:
    """Enqueue the entry's task, or start its flow as a tick of this moment would, outside its schedule."""
    made: JobRef | RunRef
    if entry.flow:
        shape = shape_of(config, entry.flow)
        inputs = json.loads(inputs_of_tick(entry, int(time.time() * 1000)))
        made = yield from RunControl(verbs).start(RunRef(shape.own.queue, new_id()), shape, inputs)
    else:
        made = yield from Producer(verbs, "memory").enqueue(NO_OPTIONS, entry.task, entry.args, dict(entry.kwargs))
    yield verbs.note_cron_run(entry.name, made.name, who)
    return made
