"""
Counters of what becomes of jobs, by queue and task, which Redis keeps where the file has `metrics: true`.

1. measured   what `settle` is given so that the script counts the outcomes that it settles (lua/shared/tally.lua)
2. counters   asks for the counters of queues: totals, the last minutes, the last hours
3. Tally      what was counted; Histogram: the times among it
4. series     one Tally for each minute or hour of a graph, over all queues that were asked for

Readers must cope with whatever another program has written: what is no counter counts as nothing.
"""

from __future__ import annotations

import math
import re
import struct
from bisect import bisect_left as _bucket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any, Final, NamedTuple

from fusiond.broker.call import Call, Word, decoded, plain
from fusiond.broker.keys import Keys, VerbGroup
from fusiond.broker.records import Outcome
from fusiond.errors import BrokerError

#: s; the highest value of each bucket of run and wait times. One more bucket has what is above the last
LIMITS: Final = (
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 7200.0,
)  # fmt: skip
#: for so many minutes, and hours, counters are kept
MINUTES, HOURS = 120, 720
#: s in one of them
MINUTE, HOUR = 60, 3600

#: the jobs of all those tasks that are not counted one by one; lua/shared/tally.lua has the same name
OTHERS: Final = b"(other)"

#: letter → field of Tally
_FIELDS: Final = {
    "f": "finished", "x": "failed", "c": "canceled", "r": "retry", "s": "snoozed", "l": "released", "g": "rescued",
    "k": "crashes", "h": "held",
}  # fmt: skip
#: kind of an outcome → letter
_LETTERS: Final = {name: letter.encode() for letter, name in _FIELDS.items()} | {"unknown": b"l"}
#: letter, whether its child crashed, number of the task, buckets of run and wait time
_CODE: Final = struct.Struct("<cBHBB")
#: in place of both buckets: the attempt has not run
_NO_BUCKETS: Final = (255, 255)
_WORD: Final = re.compile(rb"([a-zA-Z])(\d{0,2})=(\d{1,18})")


class Measured(NamedTuple):
    """What is counted of one outcome, beside its kind."""

    task: bytes | str
    #: s that the attempt ran; None: it has not run
    ran: float | None
    #: s from when its job became ready until it began
    waited: float


def measured_words(outcomes: Sequence[Outcome], measured: Sequence[Measured]) -> list[Word]:
    """Both, in the same order, as `settle.lua` reads them behind the outcomes."""
    #: task → its number, µs that its attempts ran, and that its jobs waited
    tasks: dict[bytes | str, list[int]] = {}
    codes: list[bytes] = []
    times: list[int] = []
    for outcome, (task, ran, waited) in zip(outcomes, measured, strict=True):
        sums = tasks.setdefault(task, [len(tasks), 0, 0])
        run, wait, buckets = 0, 0, _NO_BUCKETS
        if ran is not None:
            run, wait, buckets = int(ran * 1e6), int(waited * 1e6), (_bucket(LIMITS, ran), _bucket(LIMITS, waited))
        sums[1] += run
        sums[2] += wait
        times += (run, wait)
        codes.append(_CODE.pack(_LETTERS[outcome.kind], outcome.extra == 1, sums[0], *buckets))
    both = [word for task, (_, run, wait) in tasks.items() for word in (task, run, wait)]
    return ["", b"".join(codes), struct.pack(f"<{len(times)}d", *times), *both]


@dataclass(frozen=True, slots=True)
class Histogram:
    """How long attempts took, or waited."""

    #: how many were in each bucket: above the limit before it, up to its own one
    buckets: tuple[int, ...] = (0,) * (len(LIMITS) + 1)
    #: of all of them together, s
    seconds: float = 0.0

    @property
    def count(self) -> int:
        """How many there were."""
        return sum(self.buckets)

    def quantile(self, share: float) -> float | None:
        """
        The time, in s, within which this share of them was, as near as the buckets say; None: there were none.

        Within a bucket it is interpolated. Above the last limit it is that limit.
        """
        rank, below = share * self.count, 0
        if not self.count:
            return None
        for number, limit in enumerate(LIMITS):
            here = self.buckets[number]
            if here and below + here >= rank:
                low = LIMITS[number - 1] if number else 0.0
                return low + (limit - low) * max(0.0, rank - below) / here
            below += here
        return LIMITS[-1]

    def __add__(self, other: Histogram) -> Histogram:
        return Histogram(tuple(map(add, self.buckets, other.buckets)), self.seconds + other.seconds)


@dataclass(frozen=True, slots=True)
class Tally:
    """What was counted of some tasks in some time."""

    #: jobs that ended so
    finished: int = 0
    failed: int = 0
    canceled: int = 0
    #: attempts that ended so; their jobs go on
    retry: int = 0
    snoozed: int = 0
    released: int = 0
    #: leases that expired; their jobs go on
    rescued: int = 0
    #: attempts that ended with the death of their child, or by their hard timeout; each is among the above, too
    crashes: int = 0
    #: how often a limit of a task has held a job
    held: int = 0
    #: how long attempts ran, and how long their jobs had been ready before they began
    run: Histogram = Histogram()
    wait: Histogram = Histogram()

    @property
    def ended(self) -> int:
        """Jobs that ended."""
        return self.finished + self.failed + self.canceled

    def __add__(self, other: Tally) -> Tally:
        numbers = {name: getattr(self, name) + getattr(other, name) for name in _FIELDS.values()}
        return Tally(**numbers, run=self.run + other.run, wait=self.wait + other.wait)

    @classmethod
    def of(cls, text: bytes) -> Tally:
        """The counters that Redis holds as this text."""
        numbers: dict[str, int] = {}
        times: dict[bytes, tuple[list[int], list[int]]] = {b"R": (_empty(), [0]), b"W": (_empty(), [0])}
        for letter, bucket, number in _WORD.findall(text):
            if letter in times:
                buckets, total = times[letter]
                if not bucket:
                    total[0] = int(number)
                elif int(bucket) < len(buckets):
                    buckets[int(bucket)] = int(number)
            elif name := _FIELDS.get(letter.decode()):
                numbers[name] = int(number)
        run, wait = (Histogram(tuple(buckets), total[0] / 1e6) for buckets, total in times.values())
        return cls(**numbers, run=run, wait=wait)


def _empty() -> list[int]:
    return [0] * (len(LIMITS) + 1)


@dataclass(frozen=True, slots=True)
class Period:
    """One minute or hour, in which something was counted."""

    #: epoch s
    start: int
    #: task → what Redis holds; it is read when it is asked for
    texts: Mapping[str, bytes]
    #: the sum over all tasks; empty: it was not stored
    sum_text: bytes = b""

    def total(self) -> Tally:
        """All tasks together."""
        if self.sum_text:
            return Tally.of(self.sum_text)
        return reduce(add, map(Tally.of, self.texts.values()), Tally())

    def task(self, name: str) -> Tally:
        """One task."""
        return Tally.of(self.texts.get(name, b""))


@dataclass(frozen=True, slots=True)
class QueueCounters:
    """What was counted in one queue."""

    #: task → since its first job here, or since nothing had been counted in the queue for 30 days
    totals: Mapping[str, Tally]
    #: oldest first, the running one included; only those in which something was counted
    minutes: Sequence[Period]
    hours: Sequence[Period]


class Reading:
    """What is to be asked about the counters of some queues. The answers to `calls` belong to `read`."""

    def __init__(self, keys: Keys, queues: Iterable[str], streams: Mapping[str, int]) -> None:
        """`streams`: name → how many of its last entries."""
        self._queues, self._names = list(queues), ["current", *streams]
        self.calls: list[Call[Any]] = []
        for queue in self._queues:
            self.calls.append(plain(_pairs, "HGETALL", keys.of(queue, "metrics")))
            for name, count in streams.items():
                key = keys.of(queue, "metrics", name)
                self.calls.append(plain(_entries, "XREVRANGE", key, "+", "-", "COUNT", count))

    def read(self, replies: Sequence[Any]) -> dict[str, QueueCounters]:
        """Queue → its counters; one whose counters cannot be read is left out."""
        each = len(self._names)
        found = {queue: replies[n * each : (n + 1) * each] for n, queue in enumerate(self._queues)}
        return {
            queue: _counters(**dict(zip(self._names, answers, strict=True)))
            for queue, answers in found.items()
            if not any(isinstance(answer, BrokerError) for answer in answers)
        }


class CounterVerbs(VerbGroup):
    """Verbs that read counters."""

    def counters(self, queues: Iterable[str], *, minutes: int = 0, hours: int = 0) -> Reading:
        """
        What was counted in these queues: for each one command, and one for `minutes` and `hours` each.

        Args:
            queues: their names.
            minutes: how many of the last ones that have counted anything, at most MINUTES.
            hours: the same, at most HOURS.
        """
        streams = {"minutes": min(minutes, MINUTES), "hours": min(hours, HOURS)}
        return Reading(self.keys, queues, {name: count for name, count in streams.items() if count})


def series(found: Iterable[QueueCounters], *, now: float, count: int, step: int = MINUTE) -> list[tuple[int, Tally]]:
    """
    The last minutes or hours of all these queues together, oldest first, those without any counts included.

    Args:
        found: what was counted.
        now: epoch s; the last one is that which runs at this time.
        count: how many.
        step: MINUTE or HOUR.

    Returns:
        (its begin in epoch s, what was counted in it) of each.
    """
    last = math.floor(now) // step * step
    wanted = {last - step * n: Tally() for n in reversed(range(count))}
    for each in found:
        for period in each.minutes if step == MINUTE else each.hours:
            if period.start in wanted:
                wanted[period.start] += period.total()
    return list(wanted.items())


def _counters(
    current: dict[str, bytes], minutes: list[Period] | None = None, hours: list[Period] | None = None
) -> QueueCounters:
    """The minute that runs is in the hash alone, and so is what was counted in its hour before it."""
    minute, hour, before = (_of_kind(current, kind) for kind in "mht")
    at = current.get("at", b"")
    start = int(at) * MINUTE if at.isdigit() and len(at) < 12 else 0
    totals = {task: Tally.of(before.get(task, b"")) + Tally.of(minute.get(task, b"")) for task in before | minute}
    both = {task: _summed(hour.get(task, b"") + b" " + minute.get(task, b"")) for task in hour | minute}
    return QueueCounters(
        totals,
        [] if minutes is None else _with_running(minutes, Period(start, minute)),
        [] if hours is None else _with_running(hours, Period(start // HOUR * HOUR, both)),
    )


def _of_kind(current: Mapping[str, bytes], kind: str) -> dict[str, bytes]:
    return {name[2:]: text for name, text in current.items() if name[:2] == f"{kind} "}


def _summed(text: bytes) -> bytes:
    """The text of counters of which some words may stand twice."""
    sums: dict[bytes, int] = {}
    for letter, bucket, number in _WORD.findall(text):
        sums[letter + bucket] = sums.get(letter + bucket, 0) + int(number)
    return b" ".join(b"%b=%d" % word for word in sums.items())


def _with_running(ended: list[Period], running: Period) -> list[Period]:
    """All of them, oldest first. One that has ended meanwhile is whole among those that have."""
    missing = running.texts and all(period.start != running.start for period in ended)
    return sorted([*ended, running] if missing else ended, key=lambda period: period.start)


def _pairs(flat: list[bytes]) -> dict[str, bytes]:
    return {decoded(name): text for name, text in _paired(flat)}


def _entries(reply: list[Any]) -> list[Period]:
    found = []
    for id_, flat in reply:
        start, _, _ = id_.partition(b"-")
        texts = {decoded(task): text for task, text in _paired(flat)}
        found.append(Period(int(start) // 1000, texts, texts.pop("", b"")))
    return found


def _paired(flat: list[bytes]) -> Iterator[tuple[bytes, bytes]]:
    return zip(flat[::2], flat[1::2], strict=True)
