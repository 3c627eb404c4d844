"""
The catalogue: what may be enqueued, made from what all daemons declare. Pure.

1. read      the records of daemons and of worker groups, and who of them is alive by the clock of Redis
2. rank      the declarations of each task: a living daemon's before a dead one's; of the living ones one whose queue a
             living group serves before one whose queue none serves; then the newest generation
3. fill in   what no living daemon declares from the dead ones, so that producers go on while everything restarts

Of dead daemons, generations say little about the order in which their files were in force: those that ended together
with the last one are ranked by generation, all others by the time at which they ended.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from fusiond.broker.call import decoded
from fusiond.broker.keys import is_name
from fusiond.broker.records import Catalogue, CronDeclaration, Declared, FileInForce

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

#: ms before the end of the last daemon; who ended within it ended in the same restart
_TOGETHER = 60_000


class DaemonRecord(NamedTuple):
    """One daemon's record."""

    id: str
    #: epoch ms by the clock of Redis
    alive_until: int
    generation: int
    #: of the configuration that it runs
    hash: str
    #: digest of what that declares
    content: str


class GroupRecord(NamedTuple):
    """One worker group's record: it claims jobs from these queues."""

    daemon: str
    alive_until: int
    queues: tuple[str, ...]


class Roll(NamedTuple):
    """All records, dead ones included."""

    #: the clock of Redis when they were read, epoch ms
    now: int
    daemons: list[DaemonRecord]
    groups: list[GroupRecord]

    def living(self) -> set[str]:
        """The ids of the daemons of which any part is alive."""
        return {each.id for each in self.daemons if each.alive_until > self.now} | {
            group.daemon for group in self.serving()
        }

    def serving(self) -> list[GroupRecord]:
        """The groups that are alive."""
        return [group for group in self.groups if group.alive_until > self.now]

    def contents(self) -> set[str]:
        """The digests of what any daemon declares or declared."""
        return {each.content for each in self.daemons}


def roll(reply: Any) -> Roll:
    """The records that `daemons.lua` replied; what no daemon has written is left out."""
    now, flat = reply
    daemons: list[DaemonRecord] = []
    groups: list[GroupRecord] = []
    for name, words in zip(flat[::2], flat[1::2], strict=True):
        record = _record(decoded(name), decoded(words).split())
        if isinstance(record, DaemonRecord):
            daemons.append(record)
        elif record is not None:
            groups.append(record)
    return Roll(int(now), daemons, groups)


def _record(name: str, words: Sequence[str]) -> DaemonRecord | GroupRecord | None:
    daemon, separator, _worker = name.partition("/")
    try:
        if separator:
            return GroupRecord(daemon, int(words[0]), tuple(filter(is_name, words[1:])))
        until, generation, hash_, content = words
        return DaemonRecord(daemon, int(until), int(generation), hash_, content)
    except (ValueError, IndexError):
        return None


def declared(raw: bytes | None) -> Declared | None:
    """What a configuration declares, from its field of the catalogue; None where no daemon has written it."""
    try:
        said = json.loads((raw or b"").partition(b"\n")[2])
        tasks, priorities, queues = said["tasks"], said["priorities"], frozenset(said["queues"])
        good = all(map(_is_task, tasks.values())) and all(map(_is_priority, priorities.values()))
        good = good and all(map(is_name, queues))
        return Declared(tasks, priorities, queues, _cron(said), _digests(said)) if good else None
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return None


def _cron(said: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The cron entries with their digests; none where no daemon has written them."""
    found = said.get("cron")
    if not isinstance(found, dict):
        return {}
    return {name: entry for name, entry in found.items() if isinstance(entry, dict) and "digest" in entry}


def _digests(said: dict[str, Any]) -> dict[str, dict[str, str]]:
    """The digests of what the file says; none where no daemon has written them."""
    found = said.get("digests")
    return {kind: each for kind, each in found.items() if isinstance(each, dict)} if isinstance(found, dict) else {}


def cron_of(found: Roll, contents: Mapping[str, Declared]) -> list[CronDeclaration]:
    """Each cron entry of each daemon; a daemon ticks while its scheduler is alive, whatever its groups are."""
    return [
        CronDeclaration(name, each.id, each.alive_until > found.now, each.generation, str(entry["digest"]), entry)
        for each in found.daemons
        if each.content in contents
        for name, entry in contents[each.content].cron.items()
    ]


def in_force(found: Roll, contents: Mapping[str, Declared]) -> list[FileInForce]:
    """The configurations that living daemons run, the newest generation first; one that several run is one."""
    living = found.living()
    runs: dict[str, list[DaemonRecord]] = {}
    for each in found.daemons:
        if each.id in living:
            runs.setdefault(each.hash, []).append(each)
    files = [
        FileInForce(
            hash_,
            max(each.generation for each in daemons),
            tuple(sorted(each.id for each in daemons)),
            contents[daemons[0].content].digests if daemons[0].content in contents else {},
        )
        for hash_, daemons in runs.items()
    ]
    return sorted(files, key=lambda file: file.generation, reverse=True)


def _is_task(said: dict[str, Any]) -> bool:
    return is_name(said["queue"]) and _is_priority(said["priority"]) and 0 <= (said.get("expires") or 0) < 1e9


def _is_priority(number: object) -> bool:
    return isinstance(number, int) and 0 <= number <= 255


#: of a declaration, the greatest wins: its daemon's tier, whether its queue is served, its daemon's order in the tier
_Rank = tuple[int, bool, int]


def union(found: Roll, contents: Mapping[str, Declared]) -> Catalogue:
    """The catalogue of all records; `contents`: digest → what is declared."""
    living = found.living()
    served = _served(found, contents, living)
    tasks: dict[str, tuple[_Rank, dict[str, Any]]] = {}
    priorities: dict[str, int] = {}
    queues: set[str] = set()
    for (tier, order), daemon in _in_order(found, living):
        said = contents.get(daemon.content)
        if said is None:
            continue
        priorities |= said.priorities
        queues |= said.queues
        for name, task in said.tasks.items():
            rank = (tier, tier == _LIVING and task["queue"] in served.get(name, ()), order)
            if name not in tasks or tasks[name][0] <= rank:
                tasks[name] = rank, task
    return Catalogue(
        {name: task for name, (_, task) in tasks.items()},
        priorities,
        frozenset(queues),
        served={name: frozenset(each) for name, each in served.items()},
        serving=frozenset(queue for group in found.serving() for queue in group.queues),
        contents=contents,
    )


#: tiers of daemons
_LIVING, _LAST, _BEFORE = 2, 1, 0


def _in_order(found: Roll, living: set[str]) -> Iterator[tuple[tuple[int, int], DaemonRecord]]:
    """Each daemon with its tier and its order therein, the greatest last."""
    ended = max((each.alive_until for each in found.daemons if each.id not in living), default=0)

    def place(each: DaemonRecord) -> tuple[int, int]:
        if each.id in living:
            return _LIVING, each.generation
        if each.alive_until > ended - _TOGETHER:
            return _LAST, each.generation
        return _BEFORE, each.alive_until

    return iter(sorted((place(each), each) for each in found.daemons))


def _served(found: Roll, contents: Mapping[str, Declared], living: Iterable[str]) -> dict[str, set[str]]:
    """Task → queues from which a living group of a daemon that knows the task claims."""
    queues: dict[str, set[str]] = {}
    for group in found.serving():
        queues.setdefault(group.daemon, set()).update(group.queues)
    served: dict[str, set[str]] = {}
    for daemon in found.daemons:
        said = contents.get(daemon.content)
        if daemon.id in living and said is not None:
            for name in said.tasks:
                served.setdefault(name, set()).update(queues.get(daemon.id, ()))
    return served
