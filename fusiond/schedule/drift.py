"""
Drift: living files that declare one cron entry differently. Pure, but that it compares the days of calendars from this
year on.

1. declare   what a daemon publishes about each entry: the values that people compare, and a digest of everything
2. outrank   among the living declarations of one name, the newest generation ticks
3. report    the names that are declared differently, for `fusiond status` and the log
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from fusiond.broker.hosts.host_records import CronDeclaration, DeclaredEntry, FileInForce
from fusiond.broker.ticks import CronState
from fusiond.config.calendar_days import dates_of
from fusiond.config.fields import default_of
from fusiond.config.model import Config, CronEntry, Task
from fusiond.config.model.cron_entries import Calendar
from fusiond.config.problems import mask
from fusiond.config.units import seconds, written
from fusiond.flows.shapes import Shape

#: fields that a sentence compares if two declarations differ
_SHOWN = ("task", "schedule", "timezone", "queue")
#: names in one sentence
_MOST = 10


@dataclass(frozen=True, slots=True)
class Drift:
    """One name that living files declare differently."""

    entry: str
    #: newest generation first; the first one ticks
    declarations: tuple[CronDeclaration, ...]

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "entry": self.entry,
            "declarations": [
                {"daemon": each.daemon, "generation": each.generation, **{name: each.said.get(name) for name in _SHOWN}}
                for each in self.declarations
            ],
        }

    def __str__(self) -> str:
        each = "; ".join(
            f"published generation {each.generation}: {self._differences(each)}" for each in self.declarations
        )
        newest = self.declarations[0].generation
        what = f"cron entry '{self.entry}' differs between living files"
        return f"{what} and ticks by published generation {newest} ({each})"

    def _differences(self, declaration: CronDeclaration) -> str:
        names = [name for name in _SHOWN if len({str(each.said.get(name)) for each in self.declarations}) > 1]
        return ", ".join(f"{name} {declaration.said.get(name)}" for name in names) or "arguments or rules"


def timetable(entry: CronEntry) -> str:
    """When the entry ticks, as text. If it changes, ticks from before the change are not due."""
    if entry.every is not None:
        return f"every {written(entry.every)}"
    # As the file has them, not their days, which a new year changes: no tick may be lost by that.
    days = f"#{_digest([*map(_said, entry.calendars), entry.if_excluded])[:8]}" if entry.calendars else ""
    return f"{entry.schedule} {entry.timezone}{days}"


def in_force(entry: CronEntry, state: CronState) -> CronEntry:
    """The entry with the timetable by which it ticks: that of another host, if that one's file is newer."""
    if state.first_seen is None:
        return entry
    schedule, _, last = state.timetable.rpartition(" ")
    if schedule != "every":
        zone = last.partition("#")[0]
        return replace(entry, schedule=schedule, every=None, timezone=zone, suspended=not state.counted)
    try:
        return replace(entry, schedule=None, every=seconds(last), suspended=not state.counted)
    except ValueError:
        return entry  # no scheduler has written it


def digest(entry: CronEntry, task: Task, shape: Shape | None = None) -> str:
    """Equal for entries that enqueue the same job at the same times by the same rules."""
    unique = [_said(task.unique)] if task.unique else []  # as older versions have it, where there is none
    flow = [shape.to_json()] if shape else []
    days = [_days(entry.calendars)] if entry.calendars else []
    entry = replace(entry, owner=None, runbook_url=None, not_on=(), calendars=())
    return _digest([_said(entry), task.queue, task.priority, task.expires, *unique, *flow, *days])[:20]


def declaration(entry: CronEntry, task: Task, shape: Shape | None = None) -> DeclaredEntry:
    """What the daemon publishes of an entry."""
    return {
        "task": entry.work,
        "schedule": entry.schedule or f"every {written(entry.every or 0)}",
        "timezone": entry.timezone,
        "queue": task.queue,
        "alert_if_no_success": None if entry.suspended else entry.alert_if_no_success,
        "digest": digest(entry, task, shape),
    }


def outranking(
    entry: str, mine: tuple[int, str], daemon: str, declarations: Iterable[CronDeclaration]
) -> CronDeclaration | None:
    """
    The declaration of another living daemon that ticks in place of this daemon's; None: this daemon's ticks.

    Args:
        entry: the name.
        mine: this daemon's generation and digest.
        daemon: this daemon.
        declarations: what all daemons declare.
    """
    others = [each for each in declarations if each.living and each.entry == entry and each.daemon != daemon]
    newest = max(others, key=_rank, default=None)
    return newest if newest is not None and newest.digest != mine[1] and _rank(newest) > mine else None


def drifts(declarations: Iterable[CronDeclaration]) -> list[Drift]:
    """The names that living files declare differently; of equal declarations only the newest is named."""
    names: dict[str, dict[str, CronDeclaration]] = {}
    for each in sorted(filter(lambda each: each.living, declarations), key=_rank):
        names.setdefault(each.entry, {})[each.digest] = each
    return [
        Drift(name, tuple(sorted(found.values(), key=_rank, reverse=True)))
        for name, found in sorted(names.items())
        if len(found) > 1
    ]


def digests(config: Config) -> dict[str, dict[str, str]]:
    """Kind → name → a digest that is equal if two files declare the same, but for values of variables and passwords."""
    groups = {
        name: [_said(replace(group, environment={})), sorted(group.environment)]
        for name, group in config.workers.items()
    }
    outboxes = {name: replace(outbox, url=mask(outbox.url or "")) for name, outbox in config.outboxes.items()}
    kinds: dict[str, Mapping[str, Any]] = {
        "tasks": config.tasks,
        "queues": config.queues,
        "cron entries": {name: replace(entry, calendars=()) for name, entry in config.cron.items()},
        "flows": config.flows,
        "worker groups": groups,
        "retry policies": config.retry_policies,
        "priorities": config.priorities,
        "sinks": config.events.sinks if config.events else {},
        "outboxes": outboxes,
        "calendars": {name: _days([calendar]) for name, calendar in config.calendars.items()},
    }
    return {kind: {name: _digest(_said(said))[:8] for name, said in each.items()} for kind, each in kinds.items()}


def _days(calendars: Iterable[Calendar]) -> list[str]:
    """What they exclude in two years, as this host computes it: versions of the package differ."""
    return [dates_of(each, time.gmtime().tm_year) for each in calendars]


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _said(value: Any) -> Any:
    """Plain data without default values, so that daemons whose versions know different keys agree on it."""
    if is_dataclass(value):
        pairs = [(field.name, getattr(value, field.name), default_of(field)) for field in fields(value)]
        return {name: _said(each) for name, each, default in pairs if each != default}
    if isinstance(value, Mapping):
        return {name: _said(each) for name, each in value.items()}
    return value


def differences(files: Sequence[FileInForce]) -> dict[str, list[str]]:
    """Kind → the names that the files declare differently, or that some of them do not declare, as far as is known."""
    files = [file for file in files if file.digests]
    kinds = {kind: None for file in files for kind in file.digests}
    found = {kind: _differing([file.digests.get(kind, {}) for file in files]) for kind in kinds}
    return {kind: names for kind, names in found.items() if names}


def _differing(each: Sequence[Mapping[str, str]]) -> list[str]:
    names = sorted({name for digests in each for name in digests})
    return [name for name in names if len({digests.get(name) for digests in each}) > 1]


def files_in_words(files: Sequence[FileInForce]) -> str:
    """Several configurations of one namespace, the newest first, and what they declare differently."""
    each = ", ".join(f"published generation {file.generation} by {_daemons(file)}" for file in files)
    parts = [
        f"{kind} {', '.join(names[:_MOST])}{f' and {len(names) - _MOST} more' if len(names) > _MOST else ''}"
        for kind, names in differences(files).items()
    ]
    if not parts and all(file.digests for file in files):
        parts = ["only values of `environment`, `broker`, `control`, `logging`, `watch` or directories, or the version"]
    what = f"; these differ: {'; '.join(parts)}" if parts else ""
    silent = [str(file.generation) for file in files if not file.digests]
    unknown = f"; what published generation {' and '.join(silent)} declares is not known" if silent else ""
    return f"living daemons of this namespace run {len(files)} different files: {each}{what}{unknown}"


def _daemons(file: FileInForce) -> str:
    """`2 daemons (on web1, web2)`; without the hosts as long as none of their groups claims."""
    number = len(file.daemons)
    hosts = [*file.hosts[:_MOST], *(["…"] if len(file.hosts) > _MOST else [])]
    return ("1 daemon" if number == 1 else f"{number} daemons") + (f" (on {', '.join(hosts)})" if hosts else "")


def in_words(declaration: CronDeclaration) -> str:
    """`task report, schedule 0 2 * * *, timezone UTC, queue default`."""
    return ", ".join(f"{name} {declaration.said.get(name)}" for name in _SHOWN)


def _rank(declaration: CronDeclaration) -> tuple[int, str]:
    return declaration.generation, declaration.digest
