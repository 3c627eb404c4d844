"""How many jobs ended in some hours, how, and how long they ran and waited. Pure but for its Plans."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from operator import add
from typing import TypeVar

from fusiond.broker.call import Plan
from fusiond.broker.counters import Tally
from fusiond.broker.verbs import Verbs

#: s; jobs whose time is judged against what is usual: by their task's runs in this time, if there were so many
USUAL_TIME, ENOUGH = 7 * 86_400, 20
HOUR = 3600
#: hours for which Redis has counters
MOST_HOURS = 720

#: (queue, hour since 1970) → task → what was counted
Hours = Mapping[tuple[str, int], Mapping[str, Tally]]

K = TypeVar("K")


def hours_between(first: float, last: float) -> range:
    """The hours, since 1970, that have a moment between these two, epoch s; at most MOST_HOURS, the last ones."""
    end = int(last) // HOUR + 1
    return range(max(int(first) // HOUR, end - MOST_HOURS), end)


def by_task(counted: Hours) -> dict[str, Tally]:
    """Task → all its queues and hours together."""
    return _summed(counted, lambda _queue, _hour, task: task)


def by_queue(counted: Hours) -> dict[str, Tally]:
    """Queue → all its tasks and hours together."""
    return _summed(counted, lambda queue, _hour, _task: queue)


def by_hour(counted: Hours) -> dict[int, Tally]:
    """Hour since 1970 → all queues and tasks together."""
    return _summed(counted, lambda _queue, hour, _task: hour)


def by_hour_and_task(counted: Hours) -> dict[tuple[int, str], Tally]:
    """(hour since 1970, task) → all queues together."""
    return _summed(counted, lambda _queue, hour, task: (hour, task))


def of_task(counted: Hours, task: str) -> Hours:
    """What was counted of one task."""
    return {key: {task: each[task]} for key, each in counted.items() if task in each}


def _summed(counted: Hours, key: Callable[[str, int, str], K]) -> dict[K, Tally]:
    found: dict[K, list[Tally]] = {}
    for (queue, hour), tasks in counted.items():
        for task, tally in tasks.items():
            found.setdefault(key(queue, hour, task), []).append(tally)
    return {name: reduce(add, tallies) for name, tallies in found.items()}


def usual_times(verbs: Verbs, queues: Sequence[str], tasks: Iterable[str], now: float) -> Plan[dict[str, float]]:
    """
    Task → the time, in s, within which half of its attempts of the last 7 days ran, if that is known.

    The time is the bound of a bucket: it is that at most. Tasks with few attempts, or very long ones, are left out.
    `now`: epoch s.
    """
    wanted = set(tasks)
    if not wanted:
        return {}
    tallies = by_task((yield from verbs.hours(queues, hours_between(now - USUAL_TIME, now))))
    known = {task: tallies[task].run.quantile(0.5) for task in wanted & tallies.keys() if _is_enough(tallies[task])}
    return {task: bound.limit for task, bound in known.items() if bound and not bound.above}


def _is_enough(tally: Tally) -> bool:
    return tally.run.count >= ENOUGH
