"""
Claim, renew, settle and rescue with all that goes wrong around them: which steps can be taken in a state.

    Redis        executes a request: claim.lua, renew.lua, settle.lua (verbs.py); a rescue is part of each claim
    producer     enqueues, for a dispatcher that waits if there is one: the wake-up has the job (claim_on_enqueue.lua)
    dispatcher   hands a job that a wake-up brings to its child, and gives back one that comes late; asks what it was
                 given where the wake-up was lost
                 asks, asks again (the same nonce, the same outcome), hears the reply, renews, settles; takes back a job
                 that was not begun, stops one that was, gives up one whose lease it may no longer trust
    child        begins, ends; it goes on while its dispatcher is frozen or cut off
    time         one tick for everybody: leases, and the trust in them, grow old
    losses       of a request or of a reply
    faults       crash, freeze, cut (no word from or to Redis), late (a request that its sender has given up and sent
                 again arrives all the same, at any time), rollback (Redis comes back as its file says)

Time is as far as the protocol knows of it. A lease lasts LEASE ticks from when Redis gave it; a dispatcher trusts it
for TRUST ticks from before it asked. No tick passes while a dispatcher that is well has something to do first: hear a
reply, ask again, renew, kill a child whose lease it no longer trusts. So only a fault lets a lease expire.

A token is a number that occurs nowhere else in the state: that is what 128 random bits are, and it lets the states come
to an end. Left out are the inbox, delays, priorities, cancel and requeue, which
tests/proofs/test_queue_model.py drives.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tests.model import states as s
from tests.model.states import (
    ENDED,
    Answer,
    Asked,
    Claim,
    Dispatcher,
    Job,
    Next,
    Redis,
    Renew,
    Request,
    Rules,
    Scope,
    Settle,
    State,
    Step,
)
from tests.model.verbs import enqueue, execute, parking, put

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.model.explore import Steps


def all_ended(state: State) -> bool:
    """No job is left to be done."""
    return all(job.status in ENDED for job in state.redis.jobs)


def first(scope: Scope) -> State:
    """Nothing has happened yet."""
    redis = Redis((Job(s.NEW) if scope.wakes else Job(),) * scope.jobs, (None,) * scope.dispatchers)
    return State(redis, (Dispatcher(),) * scope.dispatchers, losses=scope.losses)


def steps(scope: Scope, rules: Rules) -> Steps[State]:
    """State -> all steps that can be taken in it."""
    return partial(_all, scope, rules)


def _all(scope: Scope, rules: Rules, state: State) -> Next:
    for d, dispatcher in enumerate(state.dispatchers):
        yield from _arrives(state, d, dispatcher, rules)
        yield from _child(state, d, dispatcher, rules)
        if dispatcher.life == s.UP:
            yield from _asks(state, d, dispatcher, rules)
            yield from _holds(state, d, dispatcher, rules)
        yield from _gives_up(state, d, dispatcher, rules)
        yield from _recovers(state, d, dispatcher)
    yield from _late(state, rules)
    yield from _enqueued(state, rules)
    yield from _tick(state, rules)
    if len(state.faults) < scope.faults:
        yield from _faults(state, scope)


# -- Redis -------------------------------------------------------------------------------------------------------------


def _arrives(state: State, d: int, dispatcher: Dispatcher, rules: Rules) -> Next:
    """What was asked is executed, and the reply heard at once; or one of the two is lost."""
    asked = dispatcher.asked
    if not asked or asked.stage != s.SENT:
        return
    redis, answer = execute(state.redis, asked.request, rules)
    done = state._replace(redis=redis)
    step = Step(d, "Redis executes it", asked.request, answer)
    if dispatcher.life == s.UP:
        yield step, _heard(done, d, asked, answer)
    elif dispatcher.life == s.FROZEN:
        yield step, _with(done, d, asked=asked._replace(stage=s.TOLD, answer=answer))
    if state.losses and dispatcher.life == s.UP:
        lost = _with(state, d, asked=asked._replace(stage=s.LOST))._replace(losses=state.losses - 1)
        yield Step(d, "the request is lost"), lost
        yield Step(d, "Redis executes it, the reply is lost", asked.request, answer), lost._replace(redis=redis)
    elif dispatcher.life == s.CUT:
        lost = _with(done, d, asked=asked._replace(stage=s.LOST))
        yield Step(d, "Redis executes it, the reply is lost", asked.request, answer), lost


def _late(state: State, rules: Rules) -> Next:
    """A request arrives that nobody waits for."""
    for i, request in enumerate(state.late):
        redis, answer = execute(state.redis, request, rules)
        rest = state.late[:i] + state.late[i + 1 :]
        step = Step(request.dispatcher, "Redis executes its late request", request, answer)
        yield step, _forgotten(state._replace(redis=redis, late=rest))


def _enqueued(state: State, rules: Rules) -> Next:
    """A new job is queued; or it is given to the dispatcher that waits, which is told or does not hear of it."""
    at = next((at for at, job in enumerate(state.redis.jobs) if job.status == s.NEW), -1)
    if at < 0:
        return
    redis, told = enqueue(state.redis, at)
    done = state._replace(redis=redis)
    if told is None:
        yield Step(-1, "a job is enqueued"), done
        return
    d, token = told
    if state.dispatchers[d].life in (s.UP, s.FROZEN):
        yield Step(d, "a job is enqueued for it, and the wake-up has it"), _with(done, d, message=(at, token, 0))
    if state.dispatchers[d].life in (s.CUT, s.DEAD) or state.losses:
        spent = 1 if state.dispatchers[d].life in (s.UP, s.FROZEN) else 0
        lost = done._replace(losses=state.losses - spent)
        # What it hears of late is the answer to its question.
        asks = rules.ask and state.dispatchers[d].life != s.DEAD
        after = _with(lost, d, message=(at, token, s.LATE)) if asks else lost
        yield Step(d, "a job is enqueued for it, the wake-up is lost"), after


# -- a dispatcher and its child ----------------------------------------------------------------------------------------


def _asks(state: State, d: int, dispatcher: Dispatcher, rules: Rules) -> Next:
    if dispatcher.message and dispatcher.asked is None and dispatcher.held is None:
        job, token, age = dispatcher.message
        if age < s.LATE or not rules.age:
            begun = Dispatcher(s.UP, None, (job, token), s.TRUST, s.HANDED)
            yield Step(d, "hears of the job, and hands it to its child"), _put(state, d, begun)
        else:
            asked = Asked(Settle(d, job, token, "released", s.NONE))
            yield Step(d, "hears of the job late, and gives it back"), _with(state, d, message=None, asked=asked)
    elif dispatcher.asked is None and dispatcher.held is None and not all_ended(state):
        yield Step(d, "asks for a job"), _with(state, d, asked=Asked(Claim(d, _new_token(state, d))))
    elif dispatcher.asked and dispatcher.asked.stage == s.LOST:
        yield Step(d, "asks the same again"), _with(state, d, asked=_repeat(dispatcher.asked))


def _repeat(asked: Asked) -> Asked:
    """The same request; a claim says that it is a repeat."""
    request = asked.request
    return Asked(request._replace(again=True) if isinstance(request, Claim) else request, again=True)


def _heard(state: State, d: int, asked: Asked, answer: Answer) -> State:
    """A job goes to the child; after anything else it is idle."""
    job = answer
    if isinstance(asked.request, Settle) or job is None:
        return _forgotten(_idle(state, d))
    message = state.dispatchers[d].message
    return _forgotten(_put(state, d, Dispatcher(s.UP, None, job, s.TRUST - asked.age, s.HANDED, message)))


def _holds(state: State, d: int, dispatcher: Dispatcher, rules: Rules) -> Next:
    """It has a job: renews, settles, or wants to be rid of it."""
    if dispatcher.held is None or dispatcher.asked:
        return
    child = dispatcher.child
    if rules.renewal and dispatcher.trust < s.TRUST:
        yield from _renews(state, d, Renew(d, *dispatcher.held), rules)
    if child == s.DONE or (child == s.HANDED and not rules.order):
        yield Step(d, "settles: finished"), _settling(state, d, dispatcher, s.FINISHED, child)
    if child == s.ERROR:
        yield Step(d, "settles: to be tried again"), _settling(state, d, dispatcher, "retry", child)
    if child == s.HANDED:
        yield Step(d, "takes it back, and settles: released"), _settling(state, d, dispatcher, "released", s.NONE)
    if child == s.BEGUN:
        then = s.NONE if rules.death else child
        yield Step(d, "stops its child, and settles: released"), _settling(state, d, dispatcher, "released", then)


def _renews(state: State, d: int, request: Renew, rules: Rules) -> Next:
    """In one step: a reply that takes its time leaves less trust, and that is a tick."""
    redis, answer = execute(state.redis, request, rules)
    if answer:
        yield Step(d, "renews its lease", request), _with(state, d, trust=s.TRUST)._replace(redis=redis)
    else:
        yield Step(d, "hears that its lease is lost, and kills its child", request), _idle(state, d)


def _settling(state: State, d: int, dispatcher: Dispatcher, outcome: str, child: str) -> State:
    assert dispatcher.held
    return _with(state, d, asked=Asked(Settle(d, *dispatcher.held, outcome, dispatcher.child)), child=child)


def _gives_up(state: State, d: int, dispatcher: Dispatcher, rules: Rules) -> Next:
    """Without a lease to trust in, it kills its child, and settles nothing."""
    if rules.margin and dispatcher.held and not dispatcher.asked and not dispatcher.trust and _awake(dispatcher):
        yield Step(d, "trusts its lease no more, and kills its child"), _idle(state, d)


def _child(state: State, d: int, dispatcher: Dispatcher, rules: Rules) -> Next:
    if dispatcher.child == s.HANDED and (dispatcher.trust or not rules.deadline):
        yield Step(d, "its child begins"), _with(state, d, child=s.BEGUN)
    elif dispatcher.child == s.BEGUN and dispatcher.life != s.DEAD:
        yield Step(d, "its child finishes"), _with(state, d, child=s.DONE)
        yield Step(d, "its child fails"), _with(state, d, child=s.ERROR)


# -- time --------------------------------------------------------------------------------------------------------------


def _tick(state: State, rules: Rules) -> Next:
    if all(_can_wait(dispatcher, rules) for dispatcher in state.dispatchers):
        older = state._replace(
            redis=_older(state.redis),
            saved=state.saved and _older(state.saved),
            dispatchers=tuple(map(_grown_old, state.dispatchers)),
        )
        if older != state:
            yield Step(-1, "a tick"), older


def _can_wait(dispatcher: Dispatcher, rules: Rules) -> bool:
    """Whether there is nothing that it does before the next tick."""
    if dispatcher.life == s.DEAD:
        return False
    if dispatcher.life == s.FROZEN:
        return True
    if rules.margin and dispatcher.child == s.BEGUN and not dispatcher.trust:
        return False
    if dispatcher.life == s.CUT:
        return True
    if dispatcher.message and not (dispatcher.asked or dispatcher.held):
        return False
    if dispatcher.asked:
        return dispatcher.asked.stage == s.SENT and not (dispatcher.asked.age or dispatcher.asked.again)
    return not rules.renewal or dispatcher.held is None or dispatcher.trust == s.TRUST


def _older(redis: Redis) -> Redis:
    return redis._replace(jobs=tuple(job._replace(lease=job.lease - 1) if job.lease else job for job in redis.jobs))


def _grown_old(dispatcher: Dispatcher) -> Dispatcher:
    asked = dispatcher.asked and dispatcher.asked._replace(age=min(dispatcher.asked.age + 1, s.TRUST))
    message = dispatcher.message
    message = message and (*message[:2], min(message[2] + 1, s.LATE))
    return dispatcher._replace(asked=asked, trust=max(dispatcher.trust - 1, 0), message=message)


# -- faults ------------------------------------------------------------------------------------------------------------


def _faults(state: State, scope: Scope) -> Next:
    for d, dispatcher in enumerate(state.dispatchers):
        for kind, harm in _OF_A_DISPATCHER.items():
            if kind in scope.kinds:
                yield from ((step, _noted(after, kind)) for step, after in harm(state, d, dispatcher))
    if "rollback" in scope.kinds:
        if state.saved is None:
            yield Step(-1, "Redis writes its file"), state._replace(saved=state.redis)
        else:
            back = state._replace(redis=state.saved, saved=None)
            yield Step(-1, "Redis comes back as it was when it wrote its file"), _noted(back, "rollback")


def _crash(state: State, d: int, dispatcher: Dispatcher) -> Next:
    """Its child goes on until its fork server hears of it; what it has sent may still arrive."""
    if dispatcher.life != s.DEAD:
        dead = _with(state, d, life=s.DEAD, asked=None, message=None)
        sent = dispatcher.asked and dispatcher.asked.stage == s.SENT
        yield Step(d, "crashes"), _posted(dead, dispatcher.asked.request) if sent else _forgotten(dead)


def _freeze(state: State, d: int, dispatcher: Dispatcher) -> Next:
    if dispatcher.life == s.UP:
        yield Step(d, "is frozen; its child is not"), _with(state, d, life=s.FROZEN)


def _cut(state: State, d: int, dispatcher: Dispatcher) -> Next:
    if dispatcher.life == s.UP:
        message = dispatcher.message and (*dispatcher.message[:2], s.LATE)
        yield Step(d, "is cut off from Redis"), _with(state, d, life=s.CUT, message=message)


def _is_late(state: State, d: int, dispatcher: Dispatcher) -> Next:
    if dispatcher.life == s.UP and dispatcher.asked and dispatcher.asked.stage == s.SENT:
        again = _with(state, d, asked=_repeat(dispatcher.asked))
        yield (
            Step(d, "gives a request up that is only late, and sends it again"),
            _posted(again, dispatcher.asked.request),
        )


_OF_A_DISPATCHER = {"crash": _crash, "freeze": _freeze, "cut": _cut, "late": _is_late}


def _recovers(state: State, d: int, dispatcher: Dispatcher) -> Next:
    asked = dispatcher.asked
    if dispatcher.life == s.FROZEN:
        on = _with(state, d, life=s.UP)
        yield Step(d, "goes on"), _heard(on, d, asked, asked.answer) if asked and asked.stage == s.TOLD else on
    elif dispatcher.life == s.CUT:
        lost = asked and asked._replace(stage=s.LOST)
        yield Step(d, "reaches Redis again"), _with(state, d, life=s.UP, asked=lost)
    elif dispatcher.life == s.DEAD:
        yield Step(d, "is gone with its child; a new one starts"), _with(_idle(state, d), d, life=s.UP)


# -- parts of a state --------------------------------------------------------------------------------------------------


def _with(state: State, d: int, **changes: object) -> State:
    return _put(state, d, state.dispatchers[d]._replace(**changes))


def _idle(state: State, d: int) -> State:
    return _put(state, d, Dispatcher(state.dispatchers[d].life, message=state.dispatchers[d].message))


def _put(state: State, d: int, dispatcher: Dispatcher) -> State:
    return State(state.redis, put(state.dispatchers, d, dispatcher), *state[2:])


def _awake(dispatcher: Dispatcher) -> bool:
    return dispatcher.life in (s.UP, s.CUT)


def _noted(state: State, kind: str) -> State:
    return state._replace(faults=tuple(sorted((*state.faults, kind))))


def _posted(state: State, request: Request) -> State:
    return state._replace(late=tuple(sorted((*state.late, request))))


def _new_token(state: State, d: int) -> int:
    """One that nobody knows any more. The dispatcher's number comes first, so that states differ less."""
    known = set(_tokens(state))
    return next(n for n in range(10 * d + 11, 10 * d + 20) if not known & {n, parking(n)})


def _tokens(state: State) -> Iterator[int]:
    yield from (each.message[1] for each in state.dispatchers if each.message)
    for redis in filter(None, (state.redis, state.saved)):
        if redis.parked:
            yield redis.parked[1]
        for job in redis.jobs:
            yield from (job.token, job.last_token)
        for noted in filter(None, redis.claims):
            yield from (noted[0], noted[2])
    for request in _unsettled(state):
        yield request.nonce if isinstance(request, Claim) else request.token
    yield from (each.held[1] for each in state.dispatchers if each.held)


def _unsettled(state: State) -> list[Request]:
    """Requests that may be executed, once or once more."""
    return [*(each.asked.request for each in state.dispatchers if each.asked), *state.late]


def _forgotten(state: State) -> State:
    """Without what Redis keeps for the repeat of a request that can come no more."""
    may_come = _unsettled(state)
    redis = _kept(state.redis, may_come)
    saved = state.saved and _kept(state.saved, may_come)
    return state if redis is state.redis and saved is state.saved else state._replace(redis=redis, saved=saved)


def _kept(redis: Redis, may_come: list[Request]) -> Redis:
    nonces = {request.nonce for request in may_come if isinstance(request, Claim)}
    settles = {request.token for request in may_come if isinstance(request, Settle)} | {0}
    claims = tuple(noted if noted and noted[0] in nonces else None for noted in redis.claims)
    jobs = tuple(job if job.last_token in settles else job._replace(last_token=0) for job in redis.jobs)
    return redis if (jobs, claims) == redis[:2] else redis._replace(jobs=jobs, claims=claims)
