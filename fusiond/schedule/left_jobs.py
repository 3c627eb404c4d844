"""
The jobs that wait for what a change of the file removes: tasks, queues and cron entries.

At most MOST jobs of a queue and status are looked at, so that a long backlog does not hold up a reload.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from typing import Any, Final, NamedTuple

from fusiond.broker.call import Plan
from fusiond.broker.verbs import Verbs
from fusiond.config.accepted.plan import Plan as Change

#: jobs of one queue and status that are looked at
MOST: Final = 50_000
_WAITING: Final = ("queued", "held", "scheduled", "deferred")
#: section → its sentence
_SENTENCES: Final = {
    "tasks": "{jobs} for task {name!r}, which the file no longer has; name it in the `aliases` of the task that"
    " takes its place, or cancel what waits",
    "queues": "{jobs} in queue {name!r}, which the file no longer has; name it in the `aliases` of the queue that"
    " takes its place, or move what waits",
    "cron": "{jobs} of cron entry {name!r}, which the file no longer has; what waits still runs",
}


class LeftJobs(NamedTuple):
    """Jobs that wait for something that is removed."""

    #: tasks, queues or cron
    section: str
    name: str
    jobs: int
    #: there may be more
    is_least: bool

    @property
    def message(self) -> str:
        """For people."""
        jobs = f"{self.jobs:,}{' or more' if self.is_least else ''} {'job waits' if self.jobs == 1 else 'jobs wait'}"
        return _SENTENCES[self.section].format(jobs=jobs, name=self.name)


def left_jobs(verbs: Verbs, change: Change) -> Plan[list[LeftJobs]]:
    """What waits for the tasks, queues and cron entries that the change removes. Raises BrokerError."""
    removed = {each.section: each.removed for each in change.sections if each.removed and each.section in _SENTENCES}
    if not removed:
        return []
    queues = yield verbs.queues()
    found = [*(yield from _in_queues(verbs, queues, removed.get("queues", ())))]
    names = [f"{section[0]}{name}" for section in ("tasks", "cron") for name in removed.get(section, ())]
    numbers: Counter[str] = Counter()
    is_least = False
    for queue in queues if names else ():
        for status in _WAITING:
            for rank in range(0, MOST, 500):
                read, *counted = yield verbs.waiting_for(queue, status, rank, names)
                numbers.update(dict(zip(names, counted, strict=True)))
                if read < 500:
                    break
            else:
                is_least = True
    found += [LeftJobs("tasks" if name[0] == "t" else "cron", name[1:], numbers[name], is_least) for name in names]
    return [each for each in found if each.jobs]


def _in_queues(verbs: Verbs, queues: Collection[str], removed: Collection[str]) -> Plan[Iterator[LeftJobs]]:
    names = [name for name in removed if name in queues]
    counts: list[Any] = (yield [verbs.counts(name) for name in names]) if names else []
    return (LeftJobs("queues", name, each.waiting, is_least=False) for name, each in zip(names, counts, strict=True))
