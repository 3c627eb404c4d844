"""
Walk through every state that can be reached, breadth first, so that the first way to harm is a shortest one.

Knows nothing of what the states mean.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Generic, TypeVar

#: said of a state from which no good one can be reached
STUCK = "no job is lost: an end stays within reach"
S = TypeVar("S", bound=Hashable)
Step = tuple[object, ...]
#: state -> the steps that can be taken in it, and where each leads
Steps = Callable[[S], Iterable[tuple[Step, S]]]


@dataclass(frozen=True, slots=True)
class Walk(Generic[S]):
    """What was found."""

    states: int
    steps: int
    #: of CPU
    seconds: float
    #: what is broken; empty: nothing is
    harm: str = ""
    #: the first state, then each step with the state that it leads to
    way: tuple[tuple[Step, S], ...] = ()


def walk(first: S, steps: Steps[S], harm: Callable[[S, Step, S], str], good: Callable[[S], bool]) -> Walk[S]:
    """
    Go everywhere, until something is wrong.

    Args:
        first: the state to begin with.
        steps: what can be done in a state.
        harm: (before, step, after) -> what that step broke, or nothing.
        good: an end that must stay within reach of every state.
    """
    began = time.process_time()
    number, order, came_from, edges = {first: 0}, [first], array("i", [-1]), array("i")
    taken = 0
    for at, before in enumerate(order):
        for step, after in steps(before):
            taken += 1
            to = number.setdefault(after, len(order))
            if to == len(order):
                order.append(after)
                came_from.append(at)
            elif to == at:
                continue
            edges.extend((at, to))
            if broken := harm(before, step, after):
                way = (*_way(order, came_from, at, steps), (step, after))
                return Walk(len(order), taken, time.process_time() - began, broken, way)
    stuck = _first_stuck(edges, [good(state) for state in order])
    broken, way = (STUCK, _way(order, came_from, stuck, steps)) if stuck >= 0 else ("", ())
    return Walk(len(order), taken, time.process_time() - began, broken, way)


def _first_stuck(edges: array[int], reaches: list[bool]) -> int:
    """The first state from which no good one can be reached; -1: there is none. `reaches` says which are good."""
    changed = True
    while changed:
        changed = False
        for i in range(len(edges) - 2, -1, -2):
            if reaches[edges[i + 1]] and not reaches[edges[i]]:
                reaches[edges[i]] = changed = True
    return reaches.index(False) if False in reaches else -1


def _way(order: list[S], came_from: array[int], to: int, steps: Steps[S]) -> tuple[tuple[Step, S], ...]:
    """The states on the way to `to`, each with the step that led to it."""
    numbers = []
    while to >= 0:
        numbers.append(to)
        to = came_from[to]
    way = [order[n] for n in reversed(numbers)]
    told = [next(step for step, after in steps(a) if after == b) for a, b in pairwise(way)]
    return tuple(zip([(), *told], way, strict=True))
