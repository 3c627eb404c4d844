"""
How far it is walked, and what is broken once a protection is taken out.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from tests.model import promises, steps
from tests.model.explore import STUCK, Walk, walk
from tests.model.states import Rules, Scope, State, Step

#: with every protection nothing is broken here
SCOPES = {
    "one job, a fault of any kind, a loss": Scope(faults=1, losses=1),
    "one job, a rollback": Scope(kinds=("rollback",), faults=1),
    "one job, three dispatchers, a loss": Scope(dispatchers=3, losses=1),
    "one job that is enqueued, a fault of any kind": Scope(faults=1, wakes=True),
    "one job that is enqueued, a loss": Scope(losses=1, wakes=True),
}
#: without this protection -> this promise is broken, there
HARMS = {
    "fence": (promises.ONE_END, Scope(losses=1)),
    "nonce": (promises.FAULTS, Scope(losses=1)),
    "renewal": (promises.FAULTS, Scope()),
    "margin": (promises.ALONE, Scope(faults=1, kinds=("cut",))),
    "deadline": (promises.LEASED, Scope(faults=1, kinds=("freeze",))),
    "expiry": (promises.FAULTS, Scope()),
    "rescue": (STUCK, Scope(faults=1, kinds=("crash",))),
    "atomic": (STUCK, Scope(faults=1, kinds=("crash",))),
    "random": (promises.HOLDER, Scope(faults=1, kinds=("rollback",))),
    "order": (promises.RUN, Scope()),
    "death": (promises.ALONE, Scope(losses=1)),
    "receipt": (promises.ANSWER, Scope(losses=1)),
    "age": (promises.LEASED, Scope(faults=1, kinds=("freeze",), wakes=True)),
    "ask": (promises.FAULTS, Scope(losses=1, wakes=True)),
}


def whole(scope: Scope) -> Walk[State]:
    """With every protection, until any promise is broken."""
    return _walk(scope, Rules(), promises.PROMISES)


def without(protection: str) -> Walk[State]:
    """Without one, until the promise is broken that it is there for."""
    promise, scope = HARMS[protection]
    return _walk(scope, replace(Rules(), **{protection: False}), (promise,))


def _walk(scope: Scope, rules: Rules, watched: tuple[str, ...]) -> Walk[State]:
    return walk(steps.first(scope), steps.steps(scope, rules), partial(_harm, watched, scope), steps.all_ended)


def _harm(watched: tuple[str, ...], scope: Scope, before: State, step: Step, after: State) -> str:
    broken = promises.broken(before, step, after, wakes=scope.wakes)
    return next((promise for promise in broken if promise in watched), "")
