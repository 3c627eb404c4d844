"""
End the steps of runs whose jobs are gone: a key that was deleted or evicted, or that a restored Redis does not have.
Nobody else tells the run, which would wait for ever.

1. jobs       that have begun, whose end the run does not know, and that are not in the queue of their task
2. elsewhere  a job that was moved is in another queue, or among the effects, as its begin and its end may be
3. end        the step's job has failed, or was canceled if the run is canceled

Each look takes a page of the runs that go on, and of each step a page of its jobs, by chance: so its cost is bounded,
and each of them has its turn.
"""

from __future__ import annotations

import logging
from random import Random
from typing import Final

from fusiond.broker.call import Call, Plan, number, plain
from fusiond.broker.verbs import Verbs
from fusiond.flows.progress import PAGE
from fusiond.flows.run_plans import Advancer
from fusiond.flows.runs import UNREADABLE, Run, id_of_job, opened

log = logging.getLogger(__name__)

#: runs that one look takes
_RUNS: Final = 100


def end_lost_jobs(broker: Verbs, queue: str, rand: Random) -> Plan[None]:
    """Look at runs of this queue's flows; whoever advances runs does the rest."""
    going_on = yield plain(number, "ZCOUNT", broker.keys.of(queue, "flows"), "+inf", "+inf")
    for id_ in (yield broker.runs(queue, _RUNS, _page(going_on, _RUNS, rand))):
        record = yield broker.run_record(queue, id_)
        try:
            run = opened(record)
        except UNREADABLE:
            continue  # it is gone, or whoever advances it logs the error
        for name, stands in run.state.steps.items():
            if stands.status == "running":
                yield from _look_at_step(broker, queue, run, name, _page(stands.begun, PAGE, rand))


def _page(count: int, size: int, rand: Random) -> int:
    return rand.randrange(0, max(count, 1), size)


def _look_at_step(broker: Verbs, queue: str, run: Run, name: str, first: int) -> Plan[None]:
    step, stands = run.flow.steps[name], run.state.steps[name]
    place, kind, said = (queue, "flow", "flow run") if step.flow else (step.queue, "job", "job")

    def is_in(queue: str, id_: str) -> Call[int]:
        return plain(number, "EXISTS", broker.keys.of(queue, kind, id_))

    def effects(source: str, target: str) -> Call[int]:
        return plain(number, "LLEN", f"{broker.keys.of(source, 'effects')}:{target}")

    wheres = yield from Advancer(broker).unended(queue, run, name, first, min(first + PAGE, stands.begun))
    ids = [id_of_job(step, where._replace(round=1) if step.flow else where) for where in wheres]
    begins, *stays = yield [effects(queue, place), *(is_in(place, id_) for id_ in ids)]
    if begins or all(stays):
        return
    queues = yield broker.queues()
    on_its_way = [effects(source, target) for source in queues for target in queues]
    for where, id_, stay in zip(wheres, ids, stays, strict=True):
        # Twice, with the effects between: a job that moves meanwhile is in one of the three. The effects come after a
        # look at the jobs, since a job that is dropped has told of its end before.
        there = [is_in(each, id_) for each in queues]
        if not stay and not any((yield [*there, *on_its_way, *there])):
            why = f"LOST: {said} {place}/{id_} is gone; was its key deleted or evicted?"
            log.warning("flow run %s/%s: step %s: %s", queue, run.record.id, name, why)
            yield broker.end_step(queue, where, "c" if run.state.canceling else "x", why)
