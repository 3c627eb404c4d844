"""
How many children a group should have whose `processes` is a range. Pure.

1. look    once a second: how many jobs run, how many have ended, and, while every slot is in use, what waits
2. up      at once, if a job has waited for longer than `target_latency`, or if what waits needs longer than that at the
           rate of the last RATE seconds
3. down    after QUIET seconds without a change, to the most jobs that ran at once in them

Several hosts do this each by itself, and do not work against each other:

- Each takes the share of the waiting jobs that it has of the running ones. So all see the same time until the last of
  them begins, and each grows by the same factor.
- Nothing is taken away that was in use within the last minute, so that one host's fewer children leave no job to the
  others.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from fusiond.broker.records import Counts
from fusiond.config.model.worker_groups import Scaling
from fusiond.status_document import ScalingReason

#: s; of a look at the jobs that have ended; without a need for so many children
RATE, QUIET = 10.0, 60.0


@dataclass(frozen=True, slots=True)
class Look:
    """What a group does at one moment."""

    #: monotonic s
    at: float
    #: jobs that run
    running: int
    #: jobs that have ended since the group's start
    ended: int
    #: whether every slot is in use; otherwise nothing waits for this group
    full: bool = False
    #: this group's share of the jobs that wait in its queues and could run; how long one of them has waited at most, s
    waiting: float = 0.0
    oldest: float = 0.0


class Change(NamedTuple):
    """Another number of children, and why."""

    processes: int
    reason: ScalingReason
    #: for people
    why: str


def next_size(
    processes: int, concurrency: int, scaling: Scaling, looks: Sequence[Look], *, since: float = -math.inf
) -> Change | None:
    """
    The number of children that there should be; None: as many as there are.

    Args:
        processes: how many there are.
        concurrency: jobs that each runs at once.
        scaling: the range and the target.
        looks: those of the last QUIET seconds, the oldest first.
        since: monotonic s of the last change.
    """
    if not looks:
        return None
    return _up(processes, concurrency, scaling, looks) or _down(processes, concurrency, scaling, looks, since)


def waiting_share(queues: Iterable[Counts], running: int) -> tuple[float, float]:
    """
    This group's share of what waits, and how long a job has waited at most, in seconds.

    Args:
        queues: what is in the queues of the group that may have jobs.
        running: jobs of the group that run.
    """
    counts = [one for one in queues if _could_run(one)]
    started = sum(one.started for one in counts)
    share = min(1.0, running / started) if started else 1.0
    oldest = max((one.oldest_wait_ms or 0 for one in counts), default=0) / 1000
    return share * sum(one.queued + one.inbox for one in counts), oldest


def _could_run(counts: Counts) -> bool:
    """Whether more children would run jobs of the queue."""
    return not counts.is_suspended and (counts.max_running is None or counts.started < counts.max_running)


def _up(processes: int, concurrency: int, scaling: Scaling, looks: Sequence[Look]) -> Change | None:
    now, target = looks[-1], scaling.target_latency
    if not (now.full and now.waiting > 0):
        return None
    need = now.waiting * _run_time(looks) / (processes * concurrency)
    if max(now.oldest, need) <= target:
        return None
    # Each waiting job has a slot of its own then, at most.
    most = min(scaling.max, processes + math.ceil(now.waiting / concurrency))
    size = min(most, max(processes + 1, math.ceil(min(most, processes * need / target))))
    if size <= processes:
        return None
    waiting = f"{math.ceil(now.waiting)} waiting"
    if now.oldest > target:
        return Change(size, "latency", f"a job has waited for {now.oldest:.1f} s; {waiting}")
    return Change(size, "backlog", f"{waiting}, which {processes} would begin within {need:.1f} s")


def _run_time(looks: Sequence[Look]) -> float:
    """Seconds that a job takes, as it was lately; while none has ended, as long as those that run have run."""
    lately = [look for look in looks if look.at >= looks[-1].at - RATE]
    busy = sum(look.running * (after.at - look.at) for look, after in pairwise(lately))
    return busy / max(1, lately[-1].ended - lately[0].ended, lately[-1].running)


def _down(processes: int, concurrency: int, scaling: Scaling, looks: Sequence[Look], since: float) -> Change | None:
    begin = looks[-1].at - QUIET
    if max(looks[0].at, since) > begin:
        return None
    used = max(look.running for look in looks if look.at >= begin)
    size = max(scaling.min, math.ceil(used / concurrency))
    if size >= processes:
        return None
    return Change(size, "quiet", f"for {QUIET:g} s, no more than {used} ran at once")
