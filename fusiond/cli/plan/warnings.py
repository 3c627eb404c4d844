"""
What a reload would meet: the ticks that move, and the jobs that wait or run now.

1. look   at the queues and the workers, in two round trips, if the broker is in reach
2. warn   of queues that nothing will serve, and of limits that fall below the number of jobs
"""

from __future__ import annotations

import time
from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fusiond.cli.find import broker
from fusiond.cli.queue import count_each
from fusiond.cli.terminal.colours import paint
from fusiond.cli.terminal.text import count
from fusiond.errors import FusionError
from fusiond.schedule.cron import explain

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping

    from fusiond.broker.records import Counts
    from fusiond.config.accepted.plan import Effects, Plan
    from fusiond.config.model import CronEntry

#: ticks that are shown before and after the change
_TICKS: Final = 3
_STAY: Final = "they stay, and no further one is accepted until there is room"
_END: Final = "they run to their end, and no further one begins until fewer run"


class Circumstances(NamedTuple):
    """The state in which a reload would take place."""

    #: name, before and after of each entry whose ticks move; before or after is null if the entry is not there
    cron: list[dict[str, Any]]
    #: kind, name, message and the numbers of jobs and of the limit
    warnings: list[dict[str, Any]]
    #: why jobs were not counted
    away: str


def look(effects: Effects, options: argparse.Namespace | None) -> Circumstances:
    """
    Compare the effects of a change with the jobs that are there.

    Args:
        effects: of the change.
        options: say where the broker is; None: jobs are not counted.
    """
    queues: dict[str, Counts] = {}
    running: Counter[str] = Counter()
    away = "" if options else "only files were compared"
    if options:
        try:
            with broker.session(options) as session:
                queues, unreadable = count_each(session)
                if unreadable:
                    raise unreadable[0]
                running = _running(session)
        except FusionError as error:
            away = str(error).splitlines()[0]  # the list of a file's problems is left out
    now = int(time.time() * 1000)
    cron = [
        {"name": change.name, "before": _coming(change.before, now), "after": _coming(change.after, now)}
        for change in effects.timetables
    ]
    waiting = {name: counts.queued + counts.scheduled for name, counts in queues.items()}
    limits = (
        _below("max_length", effects.max_length, "waiting", waiting, then=_STAY),
        _below("processes", effects.processes, "running", running, then=_END),
    )
    return Circumstances(cron, [*_unserved(effects, queues, away), *chain(*limits)], away)


def said(plan: Plan, found: Circumstances) -> str:
    """The plan and the circumstances, for people."""
    lines = [str(plan)] if plan.refused or plan.is_empty else list(plan.phrases())
    for entry in found.cron:
        lines.append(f"cron {entry['name']} ticks {paint(_moments(entry['before'], 'not at all'), 'dim')}")
        lines.append(f"{'then':>{len(entry['name']) + 10}} {_moments(entry['after'], 'no more')}")
    lines += [f"{paint('warning', 'yellow')}: {warning['message']}" for warning in found.warnings]
    if found.away and not plan.is_empty:
        lines.append(f"{paint('note', 'yellow')}: jobs were not counted: {found.away}")
    return "\n".join(lines)


def _coming(entry: CronEntry | None, now: int) -> dict[str, Any] | None:
    if entry is None:
        return None
    ticks = [] if entry.suspended else explain(entry, now, _TICKS)
    return {"suspended": entry.suspended, "ticks": [tick.local.isoformat() for tick in ticks]}


def _moments(side: dict[str, Any] | None, absent: str) -> str:
    if side is None:
        return absent
    if side["suspended"]:
        return "suspended"
    return ", ".join(tick.replace("T", " ") for tick in side["ticks"]) or "never"


def _running(session: broker.Session) -> Counter[str]:
    """Group → running jobs of its busiest worker, as `processes` limits each worker."""
    busiest: Counter[str] = Counter()
    for worker in session.run(session.verbs.workers()):
        jobs = worker.fields.get("running", "")
        group = worker.fields.get("group", "")
        busiest[group] = max(busiest[group], int(jobs) if jobs.isdecimal() else 0)
    return busiest


def _unserved(effects: Effects, queues: Mapping[str, Counts], away: str) -> Iterator[dict[str, Any]]:
    for name in filter(effects.loses, sorted({*effects.queues, *queues})):
        counts = queues.get(name)
        waiting = counts.queued + counts.scheduled + counts.inbox + counts.deferred if counts else 0
        if waiting:
            verb = "waits" if waiting == 1 else "wait"
            message = f"{count(waiting, 'job')} {verb} in queue {name!r}, which nothing will serve"
        else:
            unknown = "; whether jobs wait in it is not known" if away else ""
            message = f"nothing will serve queue {name!r}{unknown}"
        yield {"kind": "unserved", "name": name, "message": message, "waiting": None if away else waiting}


def _below(
    key: str, limits: Mapping[str, int], state: str, jobs: Mapping[str, int], *, then: str
) -> Iterator[dict[str, Any]]:
    """A warning for each new limit, a `key` of the file, that falls below the number of jobs in this state."""
    where = "wait in queue" if state == "waiting" else "run in group"
    for name, limit in limits.items():
        number = jobs.get(name, 0)
        if number > limit:
            message = f"{count(number, 'job')} {where} {name!r}, and its {key} will be {limit:,}: {then}"
            yield {"kind": key, "name": name, "message": message, state: number, "limit": limit}
