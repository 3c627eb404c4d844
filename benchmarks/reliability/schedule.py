"""What is enqueued and what is killed when. The same for each runner: a seed makes one schedule."""

from __future__ import annotations

import random
from typing import NamedTuple

#: s that a job sleeps: most are short, one in twenty is long, so that a kill finds something to hit
SHORT, LONG = (0.01, 0.1), (1.0, 3.0)
LONG_SHARE = 0.05
#: whom a kill is meant for, and how often: what runs jobs, what the service manager started, any of them
TARGETS = {"child": 0.6, "root": 0.2, "any": 0.2}


class Job(NamedTuple):
    """One job; its number is its identity, from 1."""

    #: s after the begin
    at: float
    number: int
    #: s
    sleep: float


class Kill(NamedTuple):
    """One SIGKILL."""

    #: s after the begin
    at: float
    target: str
    #: which of those that are there: 0 to 1
    choice: float


class Schedule(NamedTuple):
    """All that happens to a runner."""

    seconds: float
    jobs: list[Job]
    kills: list[Kill]


def schedule(jobs: int, kills: int, seconds: float, seed: int) -> Schedule:
    """So many of each, spread over the time; jobs evenly, kills at random."""
    rand = random.Random(seed)
    load = [Job(number * seconds / jobs, number, _sleep(rand)) for number in range(1, jobs + 1)]
    names, weights = list(TARGETS), list(TARGETS.values())
    faults = [Kill(rand.uniform(0, seconds), rand.choices(names, weights)[0], rand.random()) for _ in range(kills)]
    return Schedule(seconds, load, sorted(faults))


def _sleep(rand: random.Random) -> float:
    return rand.uniform(*(LONG if rand.random() < LONG_SHARE else SHORT))
