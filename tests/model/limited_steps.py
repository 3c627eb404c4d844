"""
Limits, walked through in every order: jobs of keys that few may run of at once, in a queue that may have a limit, too.

    claim      takes back expired leases, looks at held jobs again, ends what has expired; then the first of the row
               begins and takes a place, or is held
    settle     gives the place back, and the best held job of the key its turn in the row: at its old place
    others     enqueue, cancel, requeue, a reload that raises the limit; a delay, an expiry or a lease that is over
    faults     a settle that arrives twice, or after the job was rescued; Redis comes back as its file says

Each step is one script. Tokens are numbers that occur nowhere else, places in the row are ranks: so the states come to
an end. Left out are rates, and whatever states.py has: a reply to a claim that is lost, a child.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from tests.model.limited_states import (
    ENDED,
    HELD,
    LATER,
    NEW,
    OVER,
    QUEUED,
    STARTED,
    TO_COME,
    Bounds,
    Guards,
    LimitedJob,
    LimitedQueue,
    Moment,
)
from tests.model.limited_verbs import Script
from tests.model.verbs import put


class Event(NamedTuple):
    """What happens from one moment to the next."""

    what: str
    #: jobs that begin
    begun: tuple[int, ...] = ()
    #: job and token of the attempt that is settled
    settled: tuple[int, int] | None = None
    #: Redis forgets what came after its file
    is_rollback: bool = False


Events = Iterator[tuple[Event, Moment]]
_OUTCOMES = {ENDED: "ended", LATER: "retry", QUEUED: "released"}


def first(bounds: Bounds) -> Moment:
    """Nothing has happened yet."""
    jobs = [LimitedJob() for _ in bounds.keys]
    if bounds.expiry:
        jobs[-1] = LimitedJob(expiry=TO_COME)
    return Moment(LimitedQueue(tuple(jobs), bounds.most), faults=bounds.faults, losses=bounds.losses)


def all_ended(moment: Moment) -> bool:
    """No job is left to be done."""
    return all(job.status == ENDED for job in moment.queue.jobs)


def steps(bounds: Bounds, guards: Guards):
    """Moment -> all steps that can be taken in it."""
    return partial(_all, bounds, guards)


def _all(bounds: Bounds, guards: Guards, moment: Moment) -> Events:
    yield from _claims(bounds, guards, moment)
    yield from _settles(bounds, guards, moment)
    for at, job in enumerate(moment.queue.jobs):
        yield from _of_time(bounds, guards, moment, at, job)
        yield from _of_people(bounds, guards, moment, at, job)
    if bounds.raised > moment.queue.most:
        raised = moment.queue._replace(most=bounds.raised, again=guards.looked_at, waits=False)
        yield Event("the limit is raised"), moment._replace(queue=raised)
    if bounds.rollback and not moment.rolled_back:
        if moment.saved is None:
            yield Event("Redis writes its file"), moment._replace(saved=moment.queue)
        else:
            back = moment._replace(queue=moment.saved, saved=None, rolled_back=True)
            yield Event("Redis comes back as it was when it wrote its file", is_rollback=True), back


def _claims(bounds: Bounds, guards: Guards, moment: Moment) -> Events:
    for want, few, what in ((1, 0, "a claim for no free child"), (1, 1, "a claim"), (2, 2, "a claim of two")):
        script = Script(moment, bounds, guards)
        script.claim(want, few)
        new = {(at, script.jobs[at].token) for at in script.begun}
        yield Event(what, tuple(script.begun)), script.done()._replace(open=moment.open | new)


def _settles(bounds: Bounds, guards: Guards, moment: Moment) -> Events:
    for at, token in sorted(moment.open):
        for outcome, word in _OUTCOMES.items():
            script = Script(moment, bounds, guards)
            script.settle(at, token, outcome)
            done, what = script.done(), f"job {at + 1}, token {token}, is settled: {word}"
            yield Event(what, settled=(at, token)), done._replace(open=moment.open - {(at, token)})
            if moment.losses:
                yield Event(f"{what}; the reply is lost", settled=(at, token)), done._replace(losses=moment.losses - 1)


def _of_time(bounds: Bounds, guards: Guards, moment: Moment, at: int, job: LimitedJob) -> Events:
    name = f"job {at + 1}"
    if job.status == STARTED and not job.lapsed:
        # after a rollback nobody renews it
        is_known = (at, job.token) in moment.open
        if moment.faults or not is_known:
            over = _with(moment, at, job._replace(lapsed=True))
            yield Event(f"the lease of {name} is over"), over._replace(faults=moment.faults - is_known)
    if job.expiry == TO_COME and job.status in (QUEUED, HELD, STARTED, LATER):
        yield Event(f"{name} has expired"), _with(moment, at, job._replace(expiry=OVER))
    if job.status == LATER:
        script = Script(moment, bounds, guards)
        script.enter(at)
        yield Event(f"the delay of {name} is over"), script.done()


def _of_people(bounds: Bounds, guards: Guards, moment: Moment, at: int, job: LimitedJob) -> Events:
    script, name = Script(moment, bounds, guards), f"job {at + 1}"
    if job.status == NEW:
        script.enter(at)
        yield Event(f"{name} is enqueued"), script.done()
    elif bounds.operator and job.status == ENDED:
        script.enter(at)
        yield Event(f"{name} is requeued"), script.done()
    elif bounds.operator and not job.cancel:
        script.cancel(at)
        yield Event(f"{name} is canceled"), script.done()


def _with(moment: Moment, at: int, job: LimitedJob) -> Moment:
    return moment._replace(queue=moment.queue._replace(jobs=put(moment.queue.jobs, at, job)))
