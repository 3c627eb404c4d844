"""
A load: which jobs arrive when, and for each attempt how long it runs and how it ends.

Each draw depends on the seed, the job and the attempt alone: so two files are compared with the same jobs.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import blake2b
from random import Random
from statistics import NormalDist
from typing import NamedTuple

from fusiond.config import units
from fusiond.errors import FusionError

#: jobs a second of one line, and jobs of a whole simulation, at most: an hour of work on two cores
MOST_PER_SECOND, MOST_JOBS = 10_000, 10_000_000
#: s; a year
LONGEST = 366 * 86_400.0
#: s; of an attempt
_SHORTEST = 1e-4
_NORMAL = NormalDist()


class LoadError(FusionError):
    """A load cannot be used; says the line and the remedy."""


class AttemptCourse(NamedTuple):
    """How one attempt goes."""

    #: s
    takes: float
    #: finished, failed, retry, timeout, crashed, snoozed or canceled
    outcome: str
    #: s until the next attempt, if it is snoozed
    delay: float = 0.0


class Arrival(NamedTuple):
    """A job that a producer enqueues."""

    #: ms from the begin of the load
    at_ms: int
    id: str
    task: str
    #: ms from then until it may begin
    delay_ms: int = 0
    #: what the arguments have by which limits count, queues take turns and jobs are unique; empty: a value of its own
    by: str = ""
    fair_by: str = ""
    #: its attempts, if they are known
    runs: tuple[AttemptCourse, ...] = ()


class TimesOfTask(NamedTuple):
    """How long the attempts of a task run, and how many fail."""

    #: quantile, as a standard normal deviate, and the logarithm of the seconds there; ascending
    points: tuple[tuple[float, float], ...]
    #: share of the attempts, 0 to 1
    fails: float
    #: s; no attempt runs longer
    most: float = math.inf

    def draw(self, first: float, second: float) -> AttemptCourse:
        """The attempt of two random numbers from 0 to 1; between two points the time is lognormal."""
        deviate = _NORMAL.inv_cdf(min(max(first, 1e-9), 1 - 1e-9))
        right = min(max(1, bisect_left(self.points, (deviate,))), len(self.points) - 1)
        (z0, s0), (z1, s1) = self.points[max(0, right - 1)], self.points[right]
        slope = (s1 - s0) / (z1 - z0) if z1 > z0 else 0.0
        takes = min(self.most, math.exp(s0 + slope * (deviate - z0)))
        return AttemptCourse(takes, "retry" if second < self.fails else "finished")


def run_times(quantiles: Mapping[float, float], fails: float, most: float = math.inf) -> TimesOfTask:
    """From the seconds at quantiles, each between 0 and 1."""
    points = sorted((_NORMAL.inv_cdf(q), math.log(max(_SHORTEST, s))) for q, s in quantiles.items())
    return TimesOfTask(tuple(points), fails, most)


class Stream(NamedTuple):
    """One line written by hand."""

    task: str
    #: jobs a second
    rate: float
    #: s from the begin of the load; s, None: to the end of the simulation
    begin: float
    length: float | None
    run_times: TimesOfTask
    #: how many different values the arguments of its jobs have; None: each job has its own
    keys: int | None


class Load:
    """What a simulation replays."""

    def __init__(
        self, streams: list[Stream], seed: int, times: Mapping[str, TimesOfTask], arrivals: Recorded | None
    ) -> None:
        """`times`: of tasks whose jobs come from elsewhere, such as cron entries; `arrivals`: of a recording."""
        self.streams, self.seed, self._recorded = streams, seed, arrivals
        self._times = {task: [each] for task, each in times.items()}
        for stream in streams:
            self._times.setdefault(stream.task, []).append(stream.run_times)
        #: tasks of which no run time is known: their jobs take no time
        self.unknown_times: set[str] = set()

    @property
    def tasks(self) -> set[str]:
        """The tasks that it names."""
        return self._times.keys() | (self._recorded.tasks if self._recorded else set())

    def length(self) -> float:
        """Seconds that it lasts; an hour, if its lines do not say."""
        ends = [stream.begin + stream.length for stream in self.streams if stream.length is not None]
        ends += [self._recorded.length] if self._recorded else []
        return max(ends, default=3600.0)

    def arrivals(self, length: float, scale: float) -> Iterator[Arrival]:
        """The arrivals in their order; `length`: s; `scale`: so many times as many."""
        if length > LONGEST:
            raise LoadError(
                f"the load lasts {units.written(length)}; a simulation takes {units.written(LONGEST)} at most"
            )
        jobs = sum(stream.rate * scale * min(stream.length or length, length) for stream in self.streams)
        jobs += self._recorded.jobs * scale if self._recorded else 0
        if jobs > MOST_JOBS or any(stream.rate * scale > MOST_PER_SECOND for stream in self.streams):
            raise LoadError(
                f"the load has {jobs:,.0f} jobs; a simulation takes at most {MOST_JOBS:,}, and {MOST_PER_SECOND:,} a"
                " second of one line: write lower rates, or make it shorter or its scale lower"
            )
        parts = [self._of_stream(n, stream, length, scale) for n, stream in enumerate(self.streams)]
        if self._recorded:
            parts.append(scaled(self._recorded.arrivals(), scale, Random(self.seed)))  # noqa: S311 - guards no secret
        for arrival in heapq.merge(*parts):
            if arrival.at_ms >= length * 1000:
                return
            yield arrival

    def run(self, task: str, job: str, attempt: int) -> AttemptCourse:
        """The attempt of a job whose runs are not known: 1 is the first."""
        all_times = self._times.get(task)
        if all_times is None:
            self.unknown_times.add(task)
            return AttemptCourse(0.0, "finished")
        digest = blake2b(f"{self.seed} {job} {attempt}".encode(), digest_size=17).digest()
        first, second = (int.from_bytes(half) / 2**64 for half in (digest[:8], digest[8:16]))
        kind, _, rest = job.partition(":")
        number, is_of_stream, _ = rest.partition(":")
        # A job of a cron entry has the times of any line of its task.
        times = (
            self.streams[int(number)].run_times
            if kind == "load" and is_of_stream
            else all_times[digest[16] % len(all_times)]
        )
        return times.draw(first, second)

    def _of_stream(self, number: int, stream: Stream, length: float, scale: float) -> Iterator[Arrival]:
        """Its arrivals: a Poisson process."""
        rand, at, n = Random(f"{self.seed} {number}"), stream.begin, 0  # noqa: S311 - guards no secret
        end = length if stream.length is None else stream.begin + stream.length
        while (at := at - math.log(1.0 - rand.random()) / (stream.rate * scale)) < end:
            n += 1
            key = str(int(rand.random() * stream.keys)) if stream.keys else ""
            yield Arrival(int(at * 1000), f"load:{number}:{n}", stream.task, 0, key, key)


class Recorded(NamedTuple):
    """A recording."""

    #: epoch s of its first arrival; s to the last one
    began: float
    length: float
    jobs: int
    tasks: set[str]
    #: the arrivals in their order
    arrivals: Callable[[], Iterator[Arrival]]


def scaled(arrivals: Iterable[Arrival], scale: float, rand: Random) -> Iterator[Arrival]:
    """So many times the arrivals, in their order: each copy comes within a minute of its original."""
    later: list[Arrival] = []
    for arrival in arrivals:
        while later and later[0] <= arrival:
            yield heapq.heappop(later)
        copies = int(scale) + (rand.random() < scale % 1)
        for n in range(1, copies):
            moved = arrival.at_ms + int(rand.random() * 60_000)
            heapq.heappush(later, arrival._replace(at_ms=moved, id=f"{arrival.id}.{n}"))
        if copies:
            yield arrival
    while later:
        yield heapq.heappop(later)
