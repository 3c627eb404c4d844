"""What must hold of limits at each step, how far they are walked, and what is broken once a protection is taken out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from tests.model import limited_steps as steps
from tests.model.explore import Walk, walk
from tests.model.limited_states import HELD, QUEUED, STARTED, Bounds, Guards, LimitedQueue, Moment

MOST = "never more than max_running of a key or of the queue run"
LIVE = "each place belongs to an attempt that runs, and each such attempt has its place"
TURN = "where a place is free, the held jobs of the key have a job in the row for it"
ORDER = "of the jobs of a key that wait, the first begins first"
KEPT = "an attempt has its place until it is settled or its lease is over"
WOKEN = "nobody is left waiting while a job may begin"
PROMISES = (MOST, LIVE, TURN, ORDER, KEPT, WOKEN)

#: with every protection nothing is broken here
SCOPES = {
    "three jobs of a key, a lease that expires": Bounds("aaa", faults=1),
    "three jobs of a key, a reply that is lost, too": Bounds("aaa", faults=1, losses=1),
    "three jobs of a key, an operator": Bounds("aaa", operator=True),
    "two places, four jobs": Bounds("aaaa", most=2),
    "two keys in a queue with a limit": Bounds("aab", of_queue=1, faults=1),
    "a limit that is raised": Bounds("aaa", raised=2),
    "an expiry": Bounds("aaa", expiry=True, faults=1),
    "a rollback": Bounds("aa", rollback=True),
}
#: without this protection -> this promise is broken, there
HARMS = {
    "taken": (MOST, Bounds("aa")),
    "given_back": (LIVE, Bounds("aa")),
    "rescued": (LIVE, Bounds("aa", faults=1)),
    "passed_on": (TURN, Bounds("aa")),
    "withdrawn": (TURN, Bounds("aaa", operator=True)),
    "best": (ORDER, Bounds("aaa")),
    "old_place": (ORDER, Bounds("aaa")),
    "fenced": (KEPT, Bounds("aa", faults=1)),
    "counted": (MOST, Bounds("ab", of_queue=1)),
    "woken": (WOKEN, Bounds("aa")),
    "looked_at": (TURN, Bounds("aa", raised=2)),
}


def whole(bounds: Bounds) -> Walk[Moment]:
    """With every protection, until any promise is broken."""
    return _walk(bounds, Guards(), PROMISES)


def without(protection: str) -> Walk[Moment]:
    """Without one, until the promise is broken that it is there for."""
    promise, bounds = HARMS[protection]
    return _walk(bounds, replace(Guards(), **{protection: False}), (promise,))


def _walk(bounds: Bounds, guards: Guards, watched: tuple[str, ...]) -> Walk[Moment]:
    return walk(steps.first(bounds), steps.steps(bounds, guards), partial(_harm, bounds, watched), steps.all_ended)


def _harm(bounds: Bounds, watched: tuple[str, ...], before: Moment, event: steps.Event, after: Moment) -> str:
    found = (*_of_the_step(bounds, before.queue, event, after.queue), *_of_the_state(bounds, after.queue))
    return next((promise for promise in found if promise in watched), "")


def _of_the_step(bounds: Bounds, before: LimitedQueue, event: steps.Event, after: LimitedQueue) -> Iterator[str]:
    lost = {place for place in before.places - after.places if not before.jobs[place[0]].lapsed}
    if lost - {event.settled} and not event.is_rollback:
        yield KEPT
    if any(_is_passed_over(bounds, after, at) for at in event.begun):
        yield ORDER


def _of_the_state(bounds: Bounds, queue: LimitedQueue) -> Iterator[str]:
    running = [at for at, job in enumerate(queue.jobs) if job.status == STARTED]
    of_key = {key: _of(bounds, queue, key) for key in bounds.keys}
    if len(running) > bounds.of_queue or any(each[STARTED] > queue.most for each in of_key.values()):
        yield MOST
    if queue.places != {(at, queue.jobs[at].token) for at in running}:
        yield LIVE
    for each in of_key.values():
        if not queue.again and each[QUEUED] < min(each[HELD], queue.most - each["places"]):
            yield TURN
    may_begin = any(each[QUEUED] and queue.most > each["places"] for each in of_key.values())
    if queue.waits and may_begin and len(running) < bounds.of_queue:
        yield WOKEN


def _of(bounds: Bounds, queue: LimitedQueue, key: str) -> dict[str, int]:
    """How many jobs of the key are in each state, and how many places are taken."""
    states = [job.status for job, own in zip(queue.jobs, bounds.keys, strict=True) if own == key]
    taken = sum(bounds.keys[at] == key for at, _ in queue.places)
    return {**{status: states.count(status) for status in (QUEUED, HELD, STARTED)}, "places": taken}


def _is_passed_over(bounds: Bounds, queue: LimitedQueue, at: int) -> bool:
    """Whether a job of its key waits that was before it in the row."""
    return any(
        job.status in (QUEUED, HELD) and key == bounds.keys[at] and job.place < queue.jobs[at].place
        for job, key in zip(queue.jobs, bounds.keys, strict=True)
    )
