"""
What a reload would do: (old Config, new Config) → Plan.

    kept      nothing that the group knows has changed: its pids stay
    changed   the running programs are told: keys that the model marks as taken in place, such as processes
    replaced  a new group is started beside the old one: its other keys, such as user, and a task that the group must
              load and has not loaded
    added, removed
    refused   the broker, and what was opened at start: the daemon must be restarted

Tasks, cron entries, queues, retry policies and priorities change in place for all programs.
Pure. A key is named, its value never is: it may be a secret.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from fusiond.config.fields import in_place, keys_of
from fusiond.config.model import Config, Task, WorkerGroup, serves

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

Action = Literal["kept", "changed", "replaced", "added", "removed"]


@dataclass(frozen=True, slots=True)
class GroupChange:
    """What happens to one worker group, and the keys that caused it."""

    name: str
    action: Action
    #: such as `environment.APP_ENV` or `tasks.send_otp.run`
    because: tuple[str, ...] = ()
    #: before and after, where `processes` is the one key that changes
    resized: tuple[int, int] | None = None

    def replaced_for(self, cause: str) -> GroupChange:
        """Replaced, where it would not be already."""
        stays = self.action in ("kept", "changed")
        return GroupChange(self.name, "replaced", (*self.because, cause)) if stays else self


@dataclass(frozen=True, slots=True)
class SectionChange:
    """What changes in place in a section: names that come, go, or say something else."""

    section: str
    added: tuple[str, ...] = ()
    #: with the key, such as `send_otp.timeout.soft`
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that a reload would do."""

    #: every group of the old and the new Config, by name
    groups: tuple[GroupChange, ...] = ()
    #: only sections in which something changes
    sections: tuple[SectionChange, ...] = ()
    #: keys that are told to every program, such as `logging.level`
    told: tuple[str, ...] = ()
    #: keys that cannot change while the daemon runs; not empty: nothing is done at all
    refused: tuple[str, ...] = ()

    def names(self, action: Action) -> tuple[str, ...]:
        """The groups to which this happens."""
        return tuple(group.name for group in self.groups if group.action == action)

    @property
    def is_empty(self) -> bool:
        """Whether nothing would change."""
        return not (self.sections or self.told or self.refused or any(group.action != "kept" for group in self.groups))

    def with_code(self, names: Container[str]) -> Plan:
        """The same, and these groups replaced: the code behind their paths has changed, which no key tells."""
        return self._replacing(names, "code")

    def with_environment(self, names: Container[str]) -> Plan:
        """The same, and these groups replaced: the files that `environment_file` names have changed."""
        return self._replacing(names, "environment_file")

    def _replacing(self, names: Container[str], cause: str) -> Plan:
        groups = tuple(group.replaced_for(cause) if group.name in names else group for group in self.groups)
        return dataclasses.replace(self, groups=groups)

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain data."""
        return dataclasses.asdict(self)

    def __str__(self) -> str:
        """One sentence for people: `2 groups kept, 1 replaced (main, because environment.APP_ENV changed)`."""
        if self.refused:
            return f"refused: {', '.join(self.refused)} cannot change while the daemon runs; restart it"
        if self.is_empty:
            return "nothing changes"
        return "; ".join(self.phrases())

    def phrases(self) -> tuple[str, ...]:
        """What would be done, for people: the groups, each section, what is told."""
        told = f"{', '.join(self.told)} changed" if self.told else ""
        found = (", ".join(_group_phrases(self)), *map(_section_phrase, self.sections), told)
        return tuple(filter(None, found))


def plan(old: Config, new: Config) -> Plan:
    """What has to happen so that a daemon that runs `old` runs `new`."""
    groups = sorted(old.workers.keys() | new.workers.keys())
    by_name = [field.name for field in keys_of(Config) if field.key.in_place and field.by_name]
    keys = [key for name in at_start() for key in changed_keys(getattr(old, name), getattr(new, name), name)]
    return Plan(
        groups=tuple(group_change(old, new, name) for name in groups),
        sections=tuple(change for section in by_name if (change := _section_change(old, new, section))),
        told=tuple(key for key in keys if in_place(Config, key)),
        refused=tuple(key for key in keys if not in_place(Config, key)),
    )


def at_start() -> tuple[str, ...]:
    """What of a Config is opened once, at start: all but the maps of names."""
    return tuple(field.name for field in keys_of(Config) if not (field.of_file or field.by_name))


def group_change(old: Config, new: Config, name: str) -> GroupChange:
    """What has to happen to one group; it is in one of the two at least."""
    before, after = old.workers.get(name), new.workers.get(name)
    if before is None or after is None:
        return GroupChange(name, "removed" if after is None else "added")
    keys = changed_keys(before, after)
    replacing = [key for key in keys if not in_place(WorkerGroup, key)]
    replacing += _paths_to_load(old, new, before, after)
    if replacing:
        return GroupChange(name, "replaced", tuple(replacing))
    resized = (before.processes, after.processes) if keys == ["processes"] else None
    return GroupChange(name, "changed" if keys else "kept", tuple(keys), resized)


def changed_keys(old: Any, new: Any, path: str = "") -> list[str]:
    """The dotted keys whose values differ, as deep as dataclasses and maps go."""
    if old == new:
        return []
    if dataclasses.is_dataclass(old) and type(old) is type(new):
        fields = [field.name for field in dataclasses.fields(old)]
        pairs = [(name, getattr(old, name), getattr(new, name)) for name in fields]
    elif isinstance(old, Mapping) and isinstance(new, Mapping):
        pairs = [(name, old.get(name), new.get(name)) for name in sorted(old.keys() | new.keys())]
    else:
        return [path]
    keys = [key for name, a, b in pairs for key in changed_keys(a, b, f"{path}.{name}" if path else name)]
    return keys or [path]


def _paths_to_load(old: Config, new: Config, before: WorkerGroup, after: WorkerGroup) -> Iterator[str]:
    """The `run` of each task that the group will run and has not loaded; a new group loads it beside the old one."""
    loaded = {task.name: task.run for task in _tasks_of(old, before)}
    for task in _tasks_of(new, after):
        if loaded.get(task.name) != task.run:
            yield f"tasks.{task.name}.run"


def _tasks_of(config: Config, group: WorkerGroup) -> Iterator[Task]:
    return (task for task in config.tasks.values() if serves(group.queues, task.queue))


def _section_change(old: Config, new: Config, section: str) -> SectionChange | None:
    before, after = getattr(old, section), getattr(new, section)
    if before == after:
        return None
    common = sorted(before.keys() & after.keys())
    return SectionChange(
        section,
        added=tuple(sorted(after.keys() - before.keys())),
        changed=tuple(key for name in common for key in changed_keys(before[name], after[name], name)),
        removed=tuple(sorted(before.keys() - after.keys())),
    )


# -- for people -------------------------------------------------------------------------------------------------------


def _group_phrases(plan: Plan) -> Iterator[str]:
    """`2 groups kept`, `1 replaced (main, because user changed)`; the word `group` stands in the first."""
    noun = True
    for fate in ("kept", "resized", "changed in place", "replaced", "added", "removed"):
        groups = [group for group in plan.groups if _fate(group) == fate]
        if not groups:
            continue
        count = _plural(len(groups), "group") if noun else str(len(groups))
        yield f"{count} {fate}" + ("" if fate == "kept" else f" ({'; '.join(map(_because, groups))})")
        noun = False


def _fate(group: GroupChange) -> str:
    if group.resized:
        return "resized"
    return "changed in place" if group.action == "changed" else group.action


def _because(group: GroupChange) -> str:
    if group.resized:
        return f"{group.name}, {group.resized[0]} → {_plural(group.resized[1], 'process', 'processes')}"
    return f"{group.name}, because {_few(group.because)} changed" if group.because else group.name


def _section_phrase(change: SectionChange) -> str:
    counts = (("added", change.added), ("changed", change.changed), ("removed", change.removed))
    return f"{change.section}: " + ", ".join(f"{_few(names)} {word}" for word, names in counts if names)


def _few(names: tuple[str, ...], limit: int = 5) -> str:
    rest = len(names) - limit
    return ", ".join(names[:limit]) + (f" and {rest} more" if rest > 0 else "")


def _plural(count: int, noun: str, nouns: str = "") -> str:
    return f"{count} {noun if count == 1 else nouns or noun + 's'}"
