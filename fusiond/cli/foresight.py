"""
What a change would meet: effects of files beside what waits and runs now.

1. look   at the queues and workers, in two round trips; a broker that is away leaves a sentence and no figures
2. warn   of queues that nothing will serve, and of limits below what is there
3. tell   the ticks that move, before and after
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from fusiond.cli import source
from fusiond.cli.queue import count_all
from fusiond.cli.table import count, paint
from fusiond.errors import FusionError
from fusiond.schedule.cron import explain

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping

    from fusiond.broker.records import Counts
    from fusiond.config.accepted.diff import Plan
    from fusiond.config.accepted.effects import Effects
    from fusiond.config.model import CronEntry

#: ticks that are shown before and after
_TICKS: Final = 3


@dataclass(slots=True)
class Foresight:
    """What would be met."""

    #: one for each entry whose ticks move: name, before, after; null: it is not there
    cron: list[dict[str, Any]] = field(default_factory=list)
    #: kind, name, message and its figures
    warnings: list[dict[str, Any]] = field(default_factory=list)
    #: why nothing is known of what waits and runs
    away: str = ""


def look(effects: Effects, options: argparse.Namespace | None) -> Foresight:
    """
    Beside what is there.

    Args:
        effects: of the change.
        options: where the broker is; None: nothing that runs is looked at.
    """
    now = int(time.time() * 1000)
    found = Foresight([_ticks(change.name, change.before, change.after, now) for change in effects.timetables])
    queues: Mapping[str, Counts] = {}
    running: Counter[str] = Counter()
    if options is None:
        found.away = "files alone were compared"
    else:
        try:
            with source.broker(options) as desk:
                queues, running = count_all(desk), _running(desk)
        except FusionError as error:
            found.away = str(error).splitlines()[0]  # of a file with mistakes: what it is, without their list
    found.warnings = [*_unserved(effects, queues, found.away), *_lengths(effects, queues), *_slots(effects, running)]
    return found


def said(plan: Plan, found: Foresight) -> str:
    """All of it, for people."""
    lines = [str(plan)] if plan.refused or plan.is_empty else list(plan.phrases())
    for entry in found.cron:
        lines.append(f"cron {entry['name']} ticks {paint(_moments(entry['before'], 'not at all'), 'dim')}")
        lines.append(f"{'then':>{len(entry['name']) + 10}} {_moments(entry['after'], 'no more')}")
    lines += [f"{paint('warning', 'yellow')}: {warning['message']}" for warning in found.warnings]
    if found.away and not plan.is_empty:
        lines.append(f"{paint('note', 'yellow')}: what waits and runs was not looked at: {found.away}")
    return "\n".join(lines)


# -- cron -------------------------------------------------------------------------------------------------------------


def _ticks(name: str, before: CronEntry | None, after: CronEntry | None, now: int) -> dict[str, Any]:
    return {"name": name, "before": before and _coming(before, now), "after": after and _coming(after, now)}


def _coming(entry: CronEntry, now: int) -> dict[str, Any]:
    ticks = [] if entry.suspended else explain(entry, now, _TICKS)
    return {"suspended": entry.suspended, "ticks": [tick.local.isoformat() for tick in ticks]}


def _moments(side: dict[str, Any] | None, absent: str) -> str:
    if side is None:
        return absent
    if side["suspended"]:
        return "suspended"
    return ", ".join(tick.replace("T", " ") for tick in side["ticks"]) or "never"


# -- what waits and runs ----------------------------------------------------------------------------------------------


def _running(desk: source.Desk) -> Counter[str]:
    """Group → jobs of its busiest worker: `processes` bounds each host's own."""
    busiest: Counter[str] = Counter()
    for worker in desk.run(desk.verbs.workers()):
        jobs = worker.fields.get("running", "")
        group = worker.fields.get("group", "")
        busiest[group] = max(busiest[group], int(jobs) if jobs.isdecimal() else 0)
    return busiest


def _unserved(effects: Effects, queues: Mapping[str, Counts], away: str) -> Iterator[dict[str, Any]]:
    for name in sorted({*effects.queues, *queues}):
        if not effects.loses(name):
            continue
        counts = queues.get(name)
        waiting = counts.queued + counts.scheduled + counts.inbox + counts.deferred if counts else 0
        jobs = count(waiting, "job")
        verb = "waits" if waiting == 1 else "wait"
        message = f"{jobs} {verb} in queue {name!r}, which nothing will serve"
        if not waiting:
            unknown = "; whether jobs wait in it is not known" if away else ""
            message = f"nothing will serve queue {name!r}{unknown}"
        yield {"kind": "unserved", "name": name, "message": message, "waiting": None if away else waiting}


def _lengths(effects: Effects, queues: Mapping[str, Counts]) -> Iterator[dict[str, Any]]:
    for name, limit in effects.max_length.items():
        waiting = queues[name].queued + queues[name].scheduled if name in queues else 0
        if waiting > limit:
            message = (
                f"{count(waiting, 'job')} wait in queue {name!r}, and its max_length becomes {limit:,}: "
                "they stay, and no further one is taken until there is room"
            )
            yield {"kind": "max_length", "name": name, "message": message, "waiting": waiting, "limit": limit}


def _slots(effects: Effects, running: Counter[str]) -> Iterator[dict[str, Any]]:
    for name, limit in effects.processes.items():
        if running[name] > limit:
            message = (
                f"{count(running[name], 'job')} run in group {name!r}, and its processes become {limit:,}: "
                "they run to their end, and no further one begins until fewer run"
            )
            yield {"kind": "processes", "name": name, "message": message, "running": running[name], "limit": limit}
