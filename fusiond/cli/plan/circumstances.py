"""
The jobs that are there when a reload would take place.

1. look   at the queues and the workers, in two round trips
2. warn   of queues that nothing will serve, and of limits that fall below the number of jobs
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fusiond.broker.hosts.host_records import whole
from fusiond.cli import arguments
from fusiond.cli.find import broker
from fusiond.cli.terminal.text import count
from fusiond.errors import FusionError
from fusiond.inspecting.queues import count_each
from fusiond.job import JobStatus
from fusiond.schedule.left_jobs import LeftJobs, left_jobs

if TYPE_CHECKING:
    from fusiond.broker.records import Counts
    from fusiond.config.accepted.plan import Effects
    from fusiond.config.model import CronEntry

#: ticks that are shown before and after the change
_TICKS: Final = 3
_STAY: Final = "they stay, and no further one is accepted until there is room"
#: running jobs of a queue that are looked at
_COUNTED: Final = 1000
#: where jobs are that are compared with a limit
_WHERE: Final = {
    "waiting": "wait in queue",
    "started": "run in queue",
    "running": "run in group",
    "limited": "run that are counted together of task",
    "held": "are held of pool",
}
_END: Final = "they run to their end, and no further one begins until fewer run"
_FREE: Final = "nothing is taken away, and no further job begins until there is room"


class Circumstances(NamedTuple):
    """The state in which a reload would take place."""

    #: name, before and after of each entry whose ticks move; before or after is null if the entry is not there
    cron: list[dict[str, Any]]
    #: kind, name, message and the numbers of jobs and of the limit
    warnings: list[dict[str, Any]]
    #: why jobs were not counted
    away: str


def look(effects: Effects, options: arguments.Options | None) -> Circumstances:
    """
    Compare the effects of a change with the jobs that are there.

    Args:
        effects: of the change.
        options: say where the broker is; None: jobs are not counted.
    """
    queues: dict[str, Counts] = {}
    left: list[LeftJobs] = []
    running: Counter[str] = Counter()
    limited: dict[str, int] = {}
    held: dict[str, int] = {}
    away = "" if options else "only files were compared"
    if options:
        try:
            with broker.session(options) as session:
                queues, unreadable = session.run(count_each(session.verbs))
                if unreadable:
                    raise unreadable[0]
                running = _running(session)
                limited = _limited(session, effects, queues)
                held = {name: use.held for name, use in session.run(session.verbs.pool_uses()).items()}
                left = session.run(left_jobs(session.verbs, effects.plan))
        except FusionError as error:
            away = str(error).splitlines()[0]  # the list of a file's problems is left out
    now = int(time.time() * 1000)
    cron = [
        {"name": change.name, "before": _coming(change.before, now), "after": _coming(change.after, now)}
        for change in effects.timetables
    ]
    started = {name: counts.started for name, counts in queues.items()}
    waiting = {name: counts.queued + counts.held + counts.scheduled for name, counts in queues.items()}
    warnings = [
        *_unserved(effects, queues, away),
        *_below("max_length", effects.max_length, "waiting", waiting, then=_STAY),
        *_below("max_running", effects.max_running, "started", started, then=_END),
        *_below("limit", effects.task_limits, "limited", limited, then=_END),
        *_below("slots", effects.pools, "held", held, then=_FREE),
        *_moved(effects),
        *_left(effects, left),
        *_below("processes", effects.processes, "running", running, then=_END),
        *_below("slots", effects.slots, "running", running, then=_END, written="processes × concurrency"),
    ]
    return Circumstances(cron, warnings, away)


def _coming(entry: CronEntry | None, now: int) -> dict[str, Any] | None:
    if entry is None:
        return None
    from fusiond.schedule.cron import explain, problem_here

    ticks = [] if entry.suspended or problem_here(entry) else explain(entry, now, _TICKS)
    return {"suspended": entry.suspended, "ticks": [tick.local.isoformat() for tick in ticks]}


def _running(session: broker.Session) -> Counter[str]:
    """Group → running jobs of its busiest worker, as `processes` limits each worker."""
    busiest: Counter[str] = Counter()
    for worker in session.run(session.verbs.workers()):
        group = worker.fields.get("group", "")
        busiest[group] = max(busiest[group], whole(worker.fields.get("running")))
    return busiest


def _unserved(effects: Effects, queues: Mapping[str, Counts], away: str) -> Iterator[dict[str, Any]]:
    for name in filter(effects.loses, sorted({*effects.queues, *queues})):
        counts = queues.get(name)
        waiting = counts.waiting - counts.lost if counts else 0
        if waiting:
            verb = "waits" if waiting == 1 else "wait"
            message = f"{count(waiting, 'job')} {verb} in queue {name!r}, which nothing will serve"
        else:
            unknown = "; whether jobs wait in it is not known" if away else ""
            message = f"nothing will serve queue {name!r}{unknown}"
        yield {"kind": "unserved", "name": name, "message": message, "waiting": None if away else waiting}


def _below(
    key: str, limits: Mapping[str, int], state: str, jobs: Mapping[str, int], *, then: str, written: str = ""
) -> Iterator[dict[str, Any]]:
    """A warning for each new limit, a `key` of the file, that falls below the number of jobs in this state."""
    where, noun = _WHERE[state], "slot" if state == "held" else "job"
    for name, limit in limits.items():
        number = jobs.get(name, 0)
        if number > limit:
            message = f"{count(number, noun)} {where} {name!r}, and its {written or key} will be {limit:,}: {then}"
            yield {"kind": key, "name": name, "message": message, state: number, "limit": limit}


def _limited(session: broker.Session, effects: Effects, queues: Iterable[str]) -> dict[str, int]:
    """Task whose limit falls → its running jobs that are counted together, where they are most."""
    if not effects.task_limits:
        return {}
    pages = session.run_all([session.verbs.jobs(name, JobStatus.STARTED, count=_COUNTED) for name in queues])
    running = Counter((job.task, job.limit) for page in pages for job in page)
    most: Counter[str] = Counter()
    for (task, _), jobs in running.items():
        most[task] = max(most[task], jobs)
    return most


def _left(effects: Effects, left: Iterable[LeftJobs]) -> Iterator[dict[str, Any]]:
    """A warning for each task, queue and cron entry that is removed, and for which jobs wait."""
    for each in left:
        # `unserved` says the same of a queue
        if each.section != "queues" or not effects.loses(each.name):
            said = {"name": each.name, "message": each.message, "waiting": each.jobs}
            yield {"kind": f"removed-{each.section.removesuffix('s')}", **said}


def _moved(effects: Effects) -> Iterator[dict[str, Any]]:
    """A warning for each task with a limit that gets another queue."""
    for task, (before, after) in effects.moved.items():
        then = f"the jobs that are left in queue {before!r} are limited apart from those in {after!r}"
        message = f"task {task!r} moves, and its limit holds in each queue by itself: {then}"
        yield {"kind": "moved", "name": task, "message": message, "before": before, "after": after}
