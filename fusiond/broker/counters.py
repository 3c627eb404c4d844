"""
Counters of what becomes of jobs, by queue and task, which Redis keeps where the file has `metrics: true`.

1. measured   what `settle` is given so that the script counts the outcomes that it settles (lua/shared/tally.lua)
2. counters   asks for the counters of queues: totals of each task, and the last minutes of all tasks together; `hours`
              for those of each task in some hours, `rates` for how fast jobs come and go now
3. Tally      what was counted; Histogram: the times among it
4. series     one Tally for each minute of a graph, over all queues that were asked for

Readers must cope with whatever another program has written: what is not a counter counts as nothing.
"""

from __future__ import annotations

import math
import re
import struct
from bisect import bisect_left as _bucket
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import add
from typing import Any, Final, NamedTuple

from fusiond.broker.call import Call, Plan, Word, decoded, plain
from fusiond.broker.keys import Keys, VerbGroup
from fusiond.broker.records import Counts, Outcome
from fusiond.errors import BrokerError

#: s; the highest value of each bucket of run and wait times. One more bucket has what is above the last
LIMITS: Final = (
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 7200.0,
)  # fmt: skip
#: so many minutes are kept; s in one of them
MINUTES, MINUTE = 120, 60
#: minutes over which a rate is measured; hashes in one round trip
RATE_MINUTES, _HOURS_AT_ONCE = 3, 500

#: the jobs of all those tasks that are not counted one by one; lua/shared/tally.lua has the same name
OTHERS: Final = b"(other)"

#: letter → field of Tally
_FIELDS: Final = {
    "f": "finished", "x": "failed", "c": "canceled", "r": "retry", "s": "snoozed", "l": "released", "g": "rescued",
    "k": "crashes", "h": "held",
}  # fmt: skip
#: kind of an outcome → letter
_LETTERS: Final = {name: letter.encode() for letter, name in _FIELDS.items()} | {"unknown": b"l", "refused": b"h"}
#: letter, whether its child crashed, number of the task, buckets of run and wait time
_CODE: Final = struct.Struct("<cBHBB")
#: in place of both buckets: the attempt has not run
_NO_BUCKETS: Final = (255, 255)
#: a field of a hash of counters: letter, bucket, and the task or minute
_FIELD: Final = re.compile(r"([a-zA-Z])(\d{0,2}) (.*)", re.DOTALL)


class Measured(NamedTuple):
    """What is counted of one outcome, beside its kind."""

    task: bytes | str
    #: s that the attempt ran; None: it has not run
    ran: float | None
    #: s from when its job became ready until it began
    waited: float
    #: CPU seconds that the attempt used
    cpu: float = 0.0


def measured_words(outcomes: Sequence[Outcome], measured: Sequence[Measured]) -> list[Word]:
    """Both, in the same order, as `settle.lua` reads them behind the outcomes."""
    #: task → its number, µs that its attempts ran, that its jobs waited, and that the processor worked for them
    tasks: dict[bytes | str, list[int]] = {}
    codes: list[bytes] = []
    times: list[int] = []
    for outcome, (task, ran, waited, cpu) in zip(outcomes, measured, strict=True):
        sums = tasks.setdefault(task, [len(tasks), 0, 0, 0])
        run, wait, used, buckets = 0, 0, int(cpu * 1e6), _NO_BUCKETS
        if ran is not None:
            run, wait, buckets = int(ran * 1e6), int(waited * 1e6), (_bucket(LIMITS, ran), _bucket(LIMITS, waited))
        sums[1] += run
        sums[2] += wait
        sums[3] += used
        times += (run, wait, used)
        codes.append(_CODE.pack(_LETTERS[outcome.kind], outcome.extra == 1, sums[0], *buckets))
    all_sums = [word for task, (_, *sums) in tasks.items() for word in (task, *sums)]
    return ["", b"".join(codes), struct.pack(f"<{len(times)}d", *times), *all_sums]


@dataclass(frozen=True, slots=True)
class Bound:
    """A time that is not known exactly."""

    #: s
    limit: float
    #: it is longer; otherwise as long at most
    above: bool = False


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

    def quantile(self, share: float) -> Bound | None:
        """What is known of the time within which this share of them was; None: there were none."""
        if not self.count:
            return None
        up_to = zip((*LIMITS, None), accumulate(self.buckets), strict=True)
        limit = next(limit for limit, below in up_to if below >= share * self.count)
        return Bound(LIMITS[-1], above=True) if limit is None else Bound(limit)

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
    #: seconds that the processor worked for attempts
    cpu: float = 0.0

    @property
    def ended(self) -> int:
        """Jobs that ended."""
        return self.finished + self.failed + self.canceled

    def __add__(self, other: Tally) -> Tally:
        numbers = {name: getattr(self, name) + getattr(other, name) for name in _FIELDS.values()}
        return Tally(**numbers, run=self.run + other.run, wait=self.wait + other.wait, cpu=self.cpu + other.cpu)

    @classmethod
    def of(cls, counted: Mapping[tuple[str, str], int]) -> Tally:
        """Of (letter, bucket) → number."""
        numbers = {name: counted.get((letter, ""), 0) for letter, name in _FIELDS.items()}
        run, wait = (
            Histogram(
                tuple(counted.get((letter, str(bucket)), 0) for bucket in range(len(LIMITS) + 1)),
                counted.get((letter, ""), 0) / 1e6,
            )
            for letter in "RW"
        )
        return cls(**numbers, run=run, wait=wait, cpu=counted.get(("C", ""), 0) / 1e6)


@dataclass(frozen=True, slots=True)
class QueueCounters:
    """What was counted in one queue."""

    #: task → since its first job here, or since nothing had been counted in the queue for 30 days
    totals: Mapping[str, Tally]
    #: epoch s → all tasks together, in the minute that begins then; only those in which something was counted
    minutes: Mapping[int, Tally]


class Reading:
    """What is to be asked about the counters of some queues. The answers to `calls` belong to `read`."""

    def __init__(self, keys: Keys, queues: Iterable[str], *, with_minutes: bool) -> None:
        self._queues, self._each = list(queues), 1 + with_minutes
        names = ("metrics", "metrics:minutes")[: self._each]
        self.calls = [plain(_tallies, "HGETALL", keys.of(queue, name)) for queue in self._queues for name in names]

    def read(self, replies: Sequence[Any]) -> dict[str, QueueCounters]:
        """Queue → its counters; one whose counters cannot be read is left out."""
        found = {}
        for n, queue in enumerate(self._queues):
            totals, minutes = [*replies[n * self._each :][: self._each], {}][:2]
            if not isinstance(totals, BrokerError) and not isinstance(minutes, BrokerError):
                found[queue] = QueueCounters(
                    totals, {int(at) * MINUTE: tally for at, tally in minutes.items() if at.isdecimal()}
                )
        return found


class Rate(NamedTuple):
    """How fast jobs come into a queue and leave it, in jobs per second, over the last minutes."""

    #: that became ready, as retries do as well; None: nobody has counted
    arrives: float | None
    #: whose attempts ended
    leaves: float

    def seconds_until_empty(self, counts: Counts) -> float | None:
        """Until its ready jobs have begun; None: never, if it goes on so."""
        waiting, falls = counts.queued + counts.inbox, self.leaves - (self.arrives or 0.0)
        goes_on = falls > 0 and not counts.is_suspended
        return 0.0 if not waiting else waiting / falls if goes_on else None


class CounterVerbs(VerbGroup):
    """Verbs that read counters."""

    def hours(self, queues: Iterable[str], hours: Iterable[int]) -> Plan[dict[tuple[str, int], dict[str, Tally]]]:
        """(queue, hour since 1970) → task → what was counted of it in that hour; hours of the last 30 days."""
        wanted = [(queue, hour) for queue in queues for hour in hours]
        found: dict[tuple[str, int], dict[str, Tally]] = {}
        for at in range(0, len(wanted), _HOURS_AT_ONCE):
            part = wanted[at : at + _HOURS_AT_ONCE]
            calls = [
                plain(_tallies, "HGETALL", self.keys.of(queue, "metrics", "hour", str(hour))) for queue, hour in part
            ]
            found |= dict(zip(part, (yield calls), strict=True))
        return {key: each for key, each in found.items() if each}

    def rates(self, queues: Sequence[str], now: float) -> Plan[dict[str, Rate]]:
        """How fast jobs come into these queues and leave them. `now`: epoch s."""
        if not queues:
            return {}
        calls: list[Call[Any]] = []
        for queue in queues:
            calls.append(plain(_numbers_by_minute, "HGETALL", self.keys.of(queue, "metrics", "minutes")))
            calls.append(plain(_stored, "GET", self.keys.of(queue, "seq")))
        said = yield calls
        return {
            queue: _rate(counted, arrived, now)
            for queue, counted, arrived in zip(queues, said[::2], said[1::2], strict=True)
        }

    def counters(self, queues: Iterable[str], *, with_minutes: bool = False) -> Reading:
        """What was counted in these queues: one command for each, and another one for its last minutes."""
        return Reading(self.keys, queues, with_minutes=with_minutes)


def series(found: Iterable[QueueCounters], *, now: float, count: int = MINUTES) -> list[tuple[int, Tally]]:
    """
    The last minutes of all these queues together, oldest first, those without any counts included.

    Args:
        found: what was counted.
        now: epoch s; the last one is that which runs at this time.
        count: how many.

    Returns:
        (its begin in epoch s, what was counted in it) of each.
    """
    last = math.floor(now) // MINUTE * MINUTE
    wanted = {last - MINUTE * n: Tally() for n in reversed(range(count))}
    for each in found:
        for start in wanted.keys() & each.minutes.keys():
            wanted[start] += each.minutes[start]
    return list(wanted.items())


def _stored(reply: bytes | None) -> int:
    return int(reply or 0)


def _numbers_by_minute(flat: list[bytes]) -> dict[int, dict[str, int]]:
    """Epoch minute → letter → number, of those that are no buckets."""
    found: dict[int, dict[str, int]] = {}
    for field, number in zip(flat[::2], flat[1::2], strict=True):
        letter, _, minute = decoded(field).partition(" ")
        if len(letter) == 1 and minute.isdecimal() and number.isdigit() and len(number) < 19:
            found.setdefault(int(minute), {})[letter] = int(number)
    return found


def _rate(counted: Mapping[int, Mapping[str, int]], arrived: int, now: float) -> Rate:
    first = int(now / MINUTE) - RATE_MINUTES
    noted = [minute for minute, numbers in counted.items() if minute >= first and "i" in numbers]
    begin = min(noted, default=first)
    seconds = max(1.0, now - begin * MINUTE)
    ended = sum(counted[minute].get(letter, 0) for minute in counted if minute >= begin for letter in "fxcrsl")
    arrives = max(0, arrived - counted[begin]["i"]) / seconds if noted else None
    return Rate(arrives, ended / seconds)


def _tallies(flat: list[bytes]) -> dict[str, Tally]:
    """Of a hash of counters: task or minute → what was counted of it."""
    counted: dict[str, dict[tuple[str, str], int]] = {}
    for field, number in zip(flat[::2], flat[1::2], strict=True):
        if (match := _FIELD.fullmatch(decoded(field))) and number.isdigit() and len(number) < 19:
            counted.setdefault(match[3], {})[match[1], match[2]] = int(number)
    return {of: Tally.of(each) for of, each in counted.items()}
