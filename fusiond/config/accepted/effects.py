"""
What a change would mean, as plain data that may leave the daemon: (old Config, new Config) → Effects.

1. plan        what happens to each group and section
2. timetables  of the cron entries whose ticks move, come or go
3. limits      that become lower: processes, max_length
4. queues      that were served, and that will be

It carries names, schedules and numbers, and no value that could be a secret: no environment, no argument, no URL. So
the daemon may answer with it whoever may ask for a reload. Pure.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping  # noqa: TC003 - rebuild() resolves the hints
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from fusiond.config.accepted import diff
from fusiond.config.model import Config, CronEntry, rebuild, serves

if TYPE_CHECKING:
    from collections.abc import Iterator

#: what decides when an entry ticks
_TIMETABLE: Final = ("schedule", "every", "timezone", "suspended")


@dataclass(frozen=True, slots=True)
class TimetableChange:
    """A cron entry that ticks at other moments; without its arguments."""

    name: str
    #: None: it is new
    before: CronEntry | None
    #: None: it is removed
    after: CronEntry | None


@dataclass(frozen=True, slots=True)
class Effects:
    """Everything about a change that can be told without a look at what runs."""

    plan: diff.Plan = field(default_factory=diff.Plan)
    timetables: tuple[TimetableChange, ...] = ()
    #: group → its new, lower number of processes
    processes: Mapping[str, int] = field(default_factory=dict)
    #: queue → its new max_length, lower than before or where there was none
    max_length: Mapping[str, int] = field(default_factory=dict)
    #: queues that the groups take jobs from; `*` stands for all
    served_before: tuple[str, ...] = ()
    served_after: tuple[str, ...] = ()
    #: queues that the two files name
    queues: tuple[str, ...] = ()

    def loses(self, queue: str) -> bool:
        """Whether the queue is served now, and would not be."""
        return serves(self.served_before, queue) and not serves(self.served_after, queue)

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return dataclasses.asdict(self)

    @staticmethod
    def from_dict(content: Mapping[str, Any]) -> Effects:
        """What `to_dict` gave. Raises KeyError or TypeError on anything else."""
        effects = rebuild(Effects, content)
        if not isinstance(effects, Effects):
            raise TypeError("no effects")
        return effects


def effects(old: Config, new: Config) -> Effects:
    """What it would mean if a daemon that runs `old` took `new`."""
    return Effects(
        plan=diff.plan(old, new),
        timetables=tuple(_timetables(old.cron, new.cron)),
        processes=_lower(_processes(old), _processes(new)),
        max_length=_lower(_max_length(old), _max_length(new)),
        served_before=_served(old),
        served_after=_served(new),
        queues=tuple(sorted(old.queues.keys() | new.queues.keys())),
    )


def _timetables(old: Mapping[str, CronEntry], new: Mapping[str, CronEntry]) -> Iterator[TimetableChange]:
    for name in sorted(old.keys() | new.keys()):
        before, after = old.get(name), new.get(name)
        if before is None or after is None or any(getattr(before, key) != getattr(after, key) for key in _TIMETABLE):
            yield TimetableChange(name, before and _bare(before), after and _bare(after))


def _bare(entry: CronEntry) -> CronEntry:
    """Its timetable alone: an argument may be a secret."""
    return dataclasses.replace(entry, args=(), kwargs={})


def _lower(old: Mapping[str, int | None], new: Mapping[str, int | None]) -> dict[str, int]:
    """What is lower than before, of the names that are in both; None is no limit."""
    common = sorted(old.keys() & new.keys())
    pairs = ((name, old[name], new[name]) for name in common)
    return {name: after for name, before, after in pairs if after is not None and (before is None or after < before)}


def _processes(config: Config) -> dict[str, int | None]:
    return {name: group.processes for name, group in config.workers.items()}


def _max_length(config: Config) -> dict[str, int | None]:
    return {name: queue.max_length for name, queue in config.queues.items()}


def _served(config: Config) -> tuple[str, ...]:
    return tuple(sorted({queue for group in config.workers.values() for queue in group.queues}))
