"""
The jobs that wait for what a change of the file removes: tasks, queues and cron entries.

At most MOST jobs of a queue and status are looked at, so that a long backlog does not hold up a reload.
"""

from __future__ import annotations

from collections import Counter
from typing import Final, NamedTuple

from fusiond.broker.call import Plan, together
from fusiond.broker.verbs import Verbs
from fusiond.config.accepted.plan import Plan as Change

#: jobs of one queue and status that are looked at
MOST: Final = 50_000
#: of which `queued` has the held jobs, too
_WAITING: Final = ("queued", "scheduled", "deferred")
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
    gone = [name for name in removed.get("queues", ()) if name in queues]
    counts = yield from together([verbs.counts(name) for name in gone])
    found = [LeftJobs("queues", name, each.waiting, is_least=False) for name, each in zip(gone, counts, strict=True)]
    names = [f"{section[0]}{name}" for section in ("tasks", "cron") for name in removed.get(section, ())]
    numbers: Counter[str] = Counter()
    is_least = False
    for queue in queues if names else ():
        for status in _WAITING:
            behind = b"-inf", b""
            for _ in range(0, MOST, 500):
                behind, counted = yield verbs.waiting_for(queue, status, behind, names)
                numbers.update(dict(zip(names, counted, strict=True)))
                if not behind[0]:
                    break
            else:
                is_least = True
    found += [LeftJobs("tasks" if name[0] == "t" else "cron", name[1:], numbers[name], is_least) for name in names]
    return [each for each in found if each.jobs]
