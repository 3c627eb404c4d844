"""
What a reload would meet: the ticks that move, and the jobs that wait or run now.

1. look   at the queues and the workers, in two round trips, if the broker is in reach
2. warn   of queues that nothing will serve, and of limits that fall below the number of jobs
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

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
    from fusiond.cli.find.broker import BrokerSession
    from fusiond.config.accepted.diff import Plan
    from fusiond.config.accepted.effects import Effects
    from fusiond.config.model import CronEntry

#: ticks that are shown before and after the change
_TICKS: Final = 3


@dataclass(slots=True)
class Circumstances:
    """The state in which a reload would take place."""

    #: name, before and after of each entry whose ticks move; before or after is null if the entry is not there
    cron: list[dict[str, Any]]
    #: kind, name, message and the numbers of jobs and of the limit
    warnings: list[dict[str, Any]] = field(default_factory=list)
    #: why jobs were not counted
    away: str = ""


def look(effects: Effects, options: argparse.Namespace | None) -> Circumstances:
    """
    Compare the effects of a change with the jobs that are there.

    Args:
        effects: of the change.
        options: say where the broker is; None: jobs are not counted.
    """
    now = int(time.time() * 1000)
    found = Circumstances(
        [
            {"name": change.name, "before": _coming(change.before, now), "after": _coming(change.after, now)}
            for change in effects.timetables
        ]
    )
    queues: Mapping[str, Counts] = {}
    running: Counter[str] = Counter()
    if options is None:
        found.away = "files alone were compared"
    else:
        try:
            with broker.session(options) as session:
                queues, unreadable = count_each(session)
                if unreadable:
                    raise unreadable[0]
                running = _running(session)
        except FusionError as error:
            found.away = str(error).splitlines()[0]  # the list of a file's problems is left out
    found.warnings = [
        *_unserved(effects, queues, found.away),
        *_below_waiting(effects, queues),
        *_below_running(effects, running),
    ]
    return found


def said(plan: Plan, found: Circumstances) -> str:
    """The plan and the circumstances, for people."""
    lines = [str(plan)] if plan.refused or plan.is_empty else list(plan.phrases())
    for entry in found.cron:
        lines.append(f"cron {entry['name']} ticks {paint(_moments(entry['before'], 'not at all'), 'dim')}")
        lines.append(f"{'then':>{len(entry['name']) + 10}} {_moments(entry['after'], 'no more')}")
    lines += [f"{paint('warning', 'yellow')}: {warning['message']}" for warning in found.warnings]
    if found.away and not plan.is_empty:
        lines.append(f"{paint('note', 'yellow')}: what waits and runs was not looked at: {found.away}")
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


def _running(session: BrokerSession) -> Counter[str]:
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


def _below_waiting(effects: Effects, queues: Mapping[str, Counts]) -> Iterator[dict[str, Any]]:
    for name, limit in effects.max_length.items():
        waiting = queues[name].queued + queues[name].scheduled if name in queues else 0
        if waiting > limit:
            message = (
                f"{count(waiting, 'job')} wait in queue {name!r}, and its max_length becomes {limit:,}: "
                "they stay, and no further one is taken until there is room"
            )
            yield {"kind": "max_length", "name": name, "message": message, "waiting": waiting, "limit": limit}


def _below_running(effects: Effects, running: Counter[str]) -> Iterator[dict[str, Any]]:
    for name, limit in effects.processes.items():
        if running[name] > limit:
            message = (
                f"{count(running[name], 'job')} run in group {name!r}, and its processes become {limit:,}: "
                "they run to their end, and no further one begins until fewer run"
            )
            yield {"kind": "processes", "name": name, "message": message, "running": running[name], "limit": limit}
