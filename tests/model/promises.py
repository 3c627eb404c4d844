"""
What must hold, whatever happens: of each step, which promise it broke.

That no job is lost is promised too: from every state one can be reached in which all jobs have ended (explore.py).
A rollback takes away what Redis knew, ends and claims included; what is promised is promised of what it still knows.
"""

from __future__ import annotations

from tests.model import states as s
from tests.model.states import ENDED, Settle, State, Step

ONE_END = "a job ends once"
HOLDER = "an attempt is settled by the dispatcher that claimed it"
RUN = "a job is finished only by a child that has run to its end"
FAULTS = "no rescue without a fault, and at most one for each fault"
ANSWER = "a dispatcher that settled an attempt is never told that the attempt was refused"
ALONE = "no two children run a job at the same time, except after a freeze or a rollback"
LEASED = "a child begins only jobs whose lease it has, except after a rollback"
PROMISES = (ONE_END, HOLDER, RUN, FAULTS, ANSWER, ALONE, LEASED)


def broken(before: State, step: Step, after: State, *, wakes: bool = False) -> list[str]:
    """The promises that this step broke; `wakes`: as the scope has it."""
    if step.request:
        return [*_of_the_jobs(before, step, after, wakes=wakes), *_of_the_answer(before, step)]
    if step.what == "its child begins" and "rollback" not in after.faults:
        return list(_of_a_beginning(step.who, after))
    return []


def _of_the_jobs(before: State, step: Step, after: State, *, wakes: bool):
    for old, new in zip(before.redis.jobs, after.redis.jobs, strict=True):
        if (old.status, old.token, old.attempts) != (new.status, new.token, new.attempts):
            if old.status in ENDED:
                yield ONE_END
            if isinstance(step.request, Settle) and old.holder != step.request.dispatcher:
                yield HOLDER
            if new.status == s.FINISHED and step.request.child != s.DONE:
                yield RUN
            if new.rescues > old.rescues and _too_many_rescues(after, wakes=wakes):
                yield FAULTS


def _too_many_rescues(state: State, *, wakes: bool) -> bool:
    """
    A fault costs one attempt; a rollback one of each job besides.

    With wake-ups, a dispatcher that is frozen, cut off or dead may lose two attempts of a job: it was given the job,
    and its claim, which was under way by then, took the job back from it after the lease.
    """
    excused = len(state.faults) + ("rollback" in state.faults) * len(state.redis.jobs)
    excused += wakes and bool(state.faults)
    return sum(job.rescues for job in state.redis.jobs) > excused


def _of_the_answer(before: State, step: Step):
    request = step.request
    if isinstance(request, Settle) and step.answer == 0 and before.redis.jobs[request.job].last_token == request.token:
        yield ANSWER


def _of_a_beginning(who: int, state: State):
    """Nothing else makes two of them."""
    job, token = state.dispatchers[who].held
    running = [each for each in state.dispatchers if each.child == s.BEGUN and each.held[0] == job]
    if len(running) > 1 and "freeze" not in state.faults:
        yield ALONE
    if state.redis.jobs[job].token != token:
        yield LEASED
