"""
What a reload would do: (old Config, new Config) → Plan, Effects.

A Plan says what happens to each worker group, and which keys cause it.

    kept      nothing that the group uses has changed: its pids stay
    changed   its running programs take the keys that the model marks as taken in place, such as processes
    replaced  a new group is started beside the old one: for its other keys, such as user, and for a function that the
              group must load and has not loaded
    added, removed

Tasks, cron entries, queues, retry policies and priorities change in place for all programs. The broker, and what is
opened at start, is refused: the daemon must be restarted.

Effects are a Plan and whatever else the two Configs show: cron entries whose ticks change, limits that become lower,
queues that are served. They contain names, schedules and numbers, and no value that could be a secret: no environment,
no argument, no URL. The daemon may tell them to everyone who may ask for a reload.

Pure.
"""

import dataclasses
import re
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from fusiond.config.fields import in_place, keys_of
from fusiond.config.model import Config, CronEntry, Task, WorkerGroup, callback_hosts, calls_urls, serves
from fusiond.config.model.limits import Limit

Action = Literal["kept", "changed", "replaced", "added", "removed"]
#: the keys of a cron entry that decide when it ticks
_TIMETABLE: Final = ("schedule", "every", "timezone", "suspended", "calendars", "if_excluded")


@dataclass(frozen=True, slots=True)
class GroupChange:
    """What happens to one worker group, and the keys that cause it."""

    name: str
    action: Action
    #: such as `environment.APP_ENV` or `tasks.send_otp.run`
    because: tuple[str, ...] = ()
    #: before and after, if `processes` is the only key that changes
    resized: tuple[int, int] | None = None
    #: keys that change as well, and would not cause it
    besides: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SectionChange:
    """What changes in place in a section: names that are added, changed, removed, or taken over by an alias."""

    section: str
    added: tuple[str, ...] = ()
    #: with the key, such as `send_otp.timeout.soft`
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    #: name before → new name, which has the one before among its aliases
    renamed: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that a reload would do. It names keys and never their values, which may be secrets."""

    #: every group of the old and the new Config, by name
    groups: tuple[GroupChange, ...] = ()
    #: only sections in which something changes
    sections: tuple[SectionChange, ...] = ()
    #: changed keys that every program takes in place, such as `logging.level`
    told: tuple[str, ...] = ()
    #: changed keys that need a restart of the daemon; if there are any, the reload does nothing at all
    refused: tuple[str, ...] = ()

    def names(self, action: Action) -> tuple[str, ...]:
        """The groups to which this happens."""
        return tuple(group.name for group in self.groups if group.action == action)

    @property
    def is_empty(self) -> bool:
        """Whether nothing would change."""
        return not (self.sections or self.told or self.refused or any(group.action != "kept" for group in self.groups))

    def replacing(self, names: Container[str], cause: str) -> "Plan":
        """The same with these groups replaced for another cause than a key: `code`, `release`, `environment_file`."""
        groups = tuple(
            _replaced_too(group, cause)
            if group.name in names and group.action in ("kept", "changed", "replaced")
            else group
            for group in self.groups
        )
        return dataclasses.replace(self, groups=groups)

    def __str__(self) -> str:
        """One sentence for people: `2 groups kept, 1 replaced (main, because environment.APP_ENV changed)`."""
        if self.refused:
            return f"refused: {', '.join(self.refused)} cannot change while the daemon runs; restart it"
        return "nothing changes" if self.is_empty else "; ".join(self.phrases())

    def phrases(self) -> tuple[str, ...]:
        """What would be done, for people: the groups, each section, the keys that all programs take."""
        told = f"{', '.join(self.told)} changed" if self.told else ""
        found = (", ".join(_group_phrases(self)), *map(_section_phrase, self.sections), told)
        return tuple(filter(None, found))


@dataclass(frozen=True, slots=True)
class TimetableChange:
    """A cron entry that would tick at other moments; without its arguments, which may be secrets."""

    name: str
    #: None: it is new
    before: CronEntry | None
    #: None: it is removed
    after: CronEntry | None


@dataclass(frozen=True, slots=True)
class Effects:
    """What the old and the new Config show of a change."""

    plan: Plan = field(default_factory=Plan)
    timetables: tuple[TimetableChange, ...] = ()
    #: group → its new, lower number of processes
    processes: Mapping[str, int] = field(default_factory=dict)
    #: group whose processes run many jobs at once → how many it runs at once, where that is lower
    slots: Mapping[str, int] = field(default_factory=dict)
    #: queue → its new max_length, lower than before or where there was none
    max_length: Mapping[str, int] = field(default_factory=dict)
    #: queue → its new max_running, lower than before or where there was none
    max_running: Mapping[str, int] = field(default_factory=dict)
    #: task → the new, lower max_running of its limit
    task_limits: Mapping[str, int] = field(default_factory=dict)
    #: pool → its new, lower number of slots
    pools: Mapping[str, int] = field(default_factory=dict)
    #: task with a limit → the queue that it leaves and the queue that it gets
    moved: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    #: queues of tasks that a group serves now, or that are new there, and that no group would serve
    unserved: tuple[str, ...] = ()
    #: queues that the groups take jobs from; `*` stands for all
    served_before: tuple[str, ...] = ()
    served_after: tuple[str, ...] = ()
    #: queues that one of the two Configs declares
    queues: tuple[str, ...] = ()

    def loses(self, queue: str) -> bool:
        """Whether nothing would serve the queue, and something does now, or it has none of the same tasks yet."""
        is_lost = serves(self.served_before, queue) and not serves(self.served_after, queue)
        return is_lost or queue in self.unserved


def compare(old: Config, new: Config) -> Plan:
    """What a daemon that runs `old` must do to run `new`."""
    groups = sorted(old.workers.keys() | new.workers.keys())
    by_name = [key.name for key in keys_of(Config) if key.key.in_place and key.by_name]
    keys = [key for name in at_start() for key in changed_keys(getattr(old, name), getattr(new, name), name)]
    return Plan(
        groups=tuple(_group_change(old, new, name) for name in groups),
        sections=tuple(change for section in by_name if (change := _section_change(old, new, section))),
        told=tuple(key for key in keys if in_place(Config, key)),
        refused=tuple(key for key in keys if not in_place(Config, key)),
    )


def effects(old: Config, new: Config) -> Effects:
    """What would happen if a daemon that runs `old` took `new`."""
    slots = _lowered(old.workers, new.workers, "slots")
    return Effects(
        plan=compare(old, new),
        timetables=tuple(_timetables(old.cron, new.cron)),
        processes={name: most for name, most in slots.items() if new.workers[name].concurrency == 1},
        slots={name: most for name, most in slots.items() if new.workers[name].concurrency > 1},
        max_length=_lowered(old.queues, new.queues, "max_length"),
        max_running=_lowered(old.queues, new.queues, "max_running"),
        task_limits=_lowered(_limits(old), _limits(new), "max_running"),
        pools=_lowered(old.pools, new.pools, "slots"),
        moved=_moved(old.tasks, new.tasks),
        unserved=tuple(sorted({queue for _, queue in _unserved(new) - _unserved(old)})),
        served_before=_served(old),
        served_after=_served(new),
        queues=tuple(sorted(old.queues.keys() | new.queues.keys())),
    )


def at_start() -> tuple[str, ...]:
    """The parts of a Config that are used once, at start: all but the maps of names."""
    return tuple(key.name for key in keys_of(Config) if not (key.of_file or key.by_name))


def changed_keys(old: Any, new: Any, path: str = "") -> list[str]:
    """The dotted keys whose values differ, as deep as dataclasses and maps go."""
    if old == new:
        return []
    if dataclasses.is_dataclass(old) and type(old) is type(new):
        names = [each.name for each in dataclasses.fields(old)]
        pairs = [(name.rstrip("_"), getattr(old, name), getattr(new, name)) for name in names]
    elif isinstance(old, Mapping) and isinstance(new, Mapping):
        pairs = [(name, old.get(name), new.get(name)) for name in sorted(old.keys() | new.keys())]
    else:
        return [path]
    keys = [key for name, a, b in pairs for key in changed_keys(a, b, f"{path}.{name}" if path else name)]
    return keys or [path]


def _group_change(old: Config, new: Config, name: str) -> GroupChange:
    """What has to happen to one group, which is in one of the two at least."""
    before, after = old.workers.get(name), new.workers.get(name)
    if before is None or after is None:
        return GroupChange(name, "removed" if after is None else "added")
    # `processes` sets `scaling`, too.
    keys = [*dict.fromkeys(re.sub("^scaling", "processes", key) for key in changed_keys(before, after))]
    # A new group loads the functions that the old one has not loaded; of a command there is nothing to load.
    loaded = {task.name: task.run for task in _tasks_of(old, before)}
    unloaded = [task for task in _tasks_of(new, after) if task.run and loaded.get(task.name) != task.run]
    brought = [_brought_by(old, task, queues_changed=before.queues != after.queues) for task in unloaded]
    if replacing := [*(key for key in keys if not _in_place(key, after)), *brought, *_webhooks(old, new, after)]:
        because = tuple(dict.fromkeys(replacing))
        return GroupChange(name, "replaced", because, besides=tuple(key for key in keys if key not in because))
    are_numbers = keys == ["processes"] and not (before.scaling or after.scaling)
    resized = (before.processes, after.processes) if are_numbers else None
    return GroupChange(name, "changed" if keys else "kept", tuple(keys), resized)


def _in_place(key: str, group: WorkerGroup) -> bool:
    """Whether the group takes the key over as it is. No child keeps a number that is not below the new `processes`."""
    return in_place(WorkerGroup, key) and not (key.startswith("processes") and group.slot_variable)


def _replaced_too(group: GroupChange, cause: str) -> GroupChange:
    """The group, replaced for this cause, too."""
    if group.action == "replaced":
        return dataclasses.replace(group, because=tuple(dict.fromkeys((*group.because, cause))))
    return GroupChange(group.name, "replaced", (cause,), besides=group.because)


def _brought_by(old: Config, task: Task, *, queues_changed: bool) -> str:
    """The key whose change gives a group a task that it has not loaded. `queues_changed`: whether the group's have."""
    before = old.tasks.get(task.name)
    if before is None or before.run != task.run:
        return f"tasks.{task.name}.run"
    return "queues" if queues_changed else f"tasks.{task.name}.queue"


def _webhooks(old: Config, new: Config, group: WorkerGroup) -> list[str]:
    """What has changed of that which a group that calls the URLs of callbacks is told at its start."""
    if not calls_urls(new, group):
        return []
    hosts = ["webhook hosts"] if callback_hosts(old) != callback_hosts(new) else []
    return [*changed_keys(old.webhooks, new.webhooks, "webhooks"), *hosts]


def _tasks_of(config: Config, group: WorkerGroup) -> Iterator[Task]:
    return (task for task in config.tasks.values() if serves(group.queues, task.queue))


def _section_change(old: Config, new: Config, section: str) -> SectionChange | None:
    before, after = getattr(old, section), getattr(new, section)
    if before == after:
        return None
    renamed, before = _under_new_names(before, after)
    common = sorted(before.keys() & after.keys())
    return SectionChange(
        section,
        added=tuple(sorted(after.keys() - before.keys() - renamed.keys())),
        changed=tuple(key for name in common for key in changed_keys(before[name], after[name], name)),
        removed=tuple(sorted(before.keys() - after.keys())),
        renamed=renamed,
    )


def _under_new_names(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, Any]]:
    """Name before → the new name that has it among its aliases; the entries before, under these new names."""
    added = [after[name] for name in sorted(after.keys() - before.keys())]
    renamed = {alias: entry.name for entry in added for alias in getattr(entry, "aliases", ()) if alias in before}
    heirs = {
        name: dataclasses.replace(before[alias], name=name, aliases=after[name].aliases)
        for alias, name in reversed(renamed.items())
    }
    return renamed, {name: entry for name, entry in before.items() if name not in renamed} | heirs


def _timetables(old: Mapping[str, CronEntry], new: Mapping[str, CronEntry]) -> Iterator[TimetableChange]:
    _, old = _under_new_names(old, new)
    for name in sorted(old.keys() | new.keys()):
        before, after = (entries.get(name) for entries in (old, new))
        if before is None or after is None or any(getattr(before, key) != getattr(after, key) for key in _TIMETABLE):
            bare = (entry and dataclasses.replace(entry, args=(), kwargs={}) for entry in (before, after))
            yield TimetableChange(name, *bare)


def _lowered(old: Mapping[str, Any], new: Mapping[str, Any], key: str) -> dict[str, int]:
    """The entries of both whose limit is lower than before, each with the new limit; None is no limit."""
    pairs = ((name, getattr(old[name], key), getattr(new[name], key)) for name in sorted(old.keys() & new.keys()))
    return {name: after for name, before, after in pairs if after is not None and (before is None or after < before)}


def _limits(config: Config) -> dict[str, Limit]:
    return {name: task.limit or Limit() for name, task in config.tasks.items()}


def _moved(old: Mapping[str, Task], new: Mapping[str, Task]) -> dict[str, tuple[str, str]]:
    both = sorted(old.keys() & new.keys())
    pairs = {name: (old[name].queue, new[name].queue) for name in both if old[name].limit or new[name].limit}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _served(config: Config) -> tuple[str, ...]:
    return tuple(sorted({queue for group in config.workers.values() for queue in group.queues}))


def _unserved(config: Config) -> set[tuple[str, str]]:
    """Each task whose queue no group serves, and the queue; none where the file has no groups, and other hosts do."""
    served, tasks = _served(config), config.tasks.values() if config.workers else ()
    return {(task.name, task.queue) for task in tasks if not serves(served, task.queue)}


# -- for people -------------------------------------------------------------------------------------------------------


def _group_phrases(plan: Plan) -> Iterator[str]:
    """`2 groups kept`, `1 replaced (main, because user changed)`; the word `group` is in the first phrase only."""
    noun = True
    for kind in ("kept", "resized", "changed in place", "replaced", "added", "removed"):
        groups = [group for group in plan.groups if _kind(group) == kind]
        if groups:
            count = _plural(len(groups), "group") if noun else str(len(groups))
            yield f"{count} {kind}" + ("" if kind == "kept" else f" ({'; '.join(map(_because, groups))})")
            noun = False


def _kind(group: GroupChange) -> str:
    if group.resized:
        return "resized"
    return "changed in place" if group.action == "changed" else group.action


def _because(group: GroupChange) -> str:
    if group.resized:
        return f"{group.name}, {group.resized[0]} → {_plural(group.resized[1], 'process', 'processes')}"
    besides = f", along with {_few(group.besides)}" if group.besides else ""
    return f"{group.name}, because {_few(group.because)} changed{besides}" if group.because else group.name


def _section_phrase(change: SectionChange) -> str:
    heirs = tuple(f"{name} takes over from {before}" for before, name in change.renamed.items())
    counts = (("", heirs), (" added", change.added), (" changed", change.changed), (" removed", change.removed))
    return f"{change.section}: " + ", ".join(f"{_few(names)}{word}" for word, names in counts if names)


def _few(names: tuple[str, ...], limit: int = 5) -> str:
    rest = len(names) - limit
    return ", ".join(names[:limit]) + (f" and {rest} more" if rest > 0 else "")


def _plural(count: int, noun: str, nouns: str = "") -> str:
    return f"{count} {noun if count == 1 else nouns or noun + 's'}"
