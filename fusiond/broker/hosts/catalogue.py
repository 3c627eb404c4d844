"""
The catalogue: what may be enqueued, made from what all daemons declare. No I/O.

1. read      the records of daemons and of worker groups, and which of them are alive by the clock of Redis
2. rank      the declarations of each task: those of living daemons before those of ended ones; of the living ones those
             whose queue a living group serves; then those of the newest generation
3. fill in   from the ended daemons what no living one declares, so that producers go on while everything restarts

The generations of ended daemons do not tell in which order their files were in force. So those that ended together with
the last one are ranked by generation, and all others by the time at which they ended.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from types import MappingProxyType
from typing import Any, NamedTuple

from fusiond.broker.call import decoded
from fusiond.broker.hosts.host_records import Catalogue, CronDeclaration, Declared, DeclaredTask, FileInForce
from fusiond.broker.keys import is_name
from fusiond.config.model.limits import ARGUMENT
from fusiond.owners import Owner

#: ms before the end of the last daemon; those that ended within it ended in the same restart
_TOGETHER = 60_000
#: tiers of daemons
_LIVING, _LAST, _BEFORE = 2, 1, 0

#: of a declaration, the greatest wins: its daemon's tier, whether its queue is served, its daemon's order in the tier
_Rank = tuple[int, bool, int]


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


class Serving(NamedTuple):
    """What one living worker group claims."""

    daemon: str
    queues: list[str]
    #: tasks of the file that do not load there
    lacks: AbstractSet[str]
    #: task → the names of what its calls pass by position, with a comma between them
    positional: Mapping[str, str] = MappingProxyType({})


class Registry:
    """The records of all daemons, ended ones included, and of the worker groups that are alive."""

    def __init__(
        self,
        now: int,
        daemons: list[DaemonRecord],
        serving: list[Serving],
        hosts: Mapping[str, AbstractSet[str]] = MappingProxyType({}),
    ) -> None:
        """
        What was read.

        Args:
            now: epoch ms by the clock of Redis.
            daemons: living and ended ones.
            serving: the living groups.
            hosts: daemon → where its living groups are.
        """
        self.now, self.daemons, self.serving, self._hosts = now, daemons, serving, hosts
        self._living = {each.id for each in daemons if each.alive_until > now} | {each.daemon for each in serving}
        #: when the last of the others ended
        self._ended = max((each.alive_until for each in daemons if each.id not in self._living), default=0)
        #: digest → what is declared
        self.contents: dict[str, Declared] = {}

    def catalogue(self) -> Catalogue:
        """What may be enqueued."""
        contents = {each.id: self.contents[each.content] for each in self.daemons if each.content in self.contents}
        groups = [
            (each.queues, contents[each.daemon].tasks.keys() - each.lacks)
            for each in self.serving
            if each.daemon in contents
        ]
        served: dict[str, set[str]] = {}
        for queues_of_group, names in groups:
            for name in names:
                served.setdefault(name, set()).update(queues_of_group)
        tasks: list[tuple[_Rank, str, DeclaredTask]] = []
        priorities: dict[str, int] = {}
        queues: set[str] = set()
        flows: dict[str, dict[str, Any]] = {}
        policies: set[str] = set()
        owners: dict[str, Owner] = {}
        known = [each for each in self.daemons if each.content in self.contents]
        for (tier, order), daemon in sorted((self._place(each), each) for each in known):
            said = self.contents[daemon.content]
            priorities |= said.priorities
            queues |= said.queues
            flows |= said.flows
            owners |= said.owners
            policies |= said.digests.get("retry policies", {}).keys()
            for name, task in said.tasks.items():
                rank = (tier, tier == _LIVING and task["queue"] in served.get(name, ()), order)
                tasks.append((rank, name, task))
        found = {name: task for _, name, task in sorted(tasks, key=lambda each: each[0])}
        positional = {name: task["positional"] for name, task in found.items() if "positional" in task}
        for each in self.serving:
            positional |= each.positional
        return Catalogue(
            found,
            priorities,
            frozenset(queues),
            frozenset(policies),
            served=served,
            serving=frozenset(queue for each in self.serving for queue in each.queues),
            contents=self.contents,
            flows=flows,
            groups=groups,
            positional=positional,
            owners=owners,
            suspended=frozenset(
                name
                for daemon, said in contents.items()
                if daemon in self._living
                for name, task in said.tasks.items()
                if task.get("suspended")
            ),
        )

    def cron_declarations(self) -> list[CronDeclaration]:
        """Each cron entry of each daemon; a daemon ticks while its scheduler is alive, whatever its groups are."""
        return [
            CronDeclaration(name, each.id, each.alive_until > self.now, each.generation, entry)
            for each in self.daemons
            if each.content in self.contents
            for name, entry in self.contents[each.content].cron.items()
        ]

    def files_in_force(self) -> list[FileInForce]:
        """The configurations that living daemons run, the newest generation first; one that several run is one."""
        runs: dict[str, list[DaemonRecord]] = {}
        for each in self.daemons:
            if each.id in self._living:
                runs.setdefault(each.hash, []).append(each)
        files = []
        for hash_, daemons in runs.items():
            said = self.contents.get(daemons[0].content)
            generation, ids = max(each.generation for each in daemons), sorted(each.id for each in daemons)
            hosts = sorted({host for id_ in ids for host in self._hosts.get(id_, ())})
            files.append(FileInForce(hash_, generation, tuple(ids), said.digests if said else {}, tuple(hosts)))
        return sorted(files, key=lambda file: file.generation, reverse=True)

    def _place(self, daemon: DaemonRecord) -> tuple[int, int]:
        """The daemon's tier, and its order therein."""
        if daemon.id in self._living:
            return _LIVING, daemon.generation
        if daemon.alive_until > self._ended - _TOGETHER:
            return _LAST, daemon.generation
        return _BEFORE, daemon.alive_until


def registry(reply: Any) -> Registry:
    """The records that `daemons.lua` replied; those that no daemon has written are left out."""
    now, flat = int(reply[0]), reply[1]
    daemons: list[DaemonRecord] = []
    serving: list[Serving] = []
    hosts: dict[str, set[str]] = {}
    for name, words in zip(map(decoded, flat[::2]), map(decoded, flat[1::2]), strict=True):
        daemon, is_group, worker = name.partition("/")
        try:
            until, *rest = words.split()
            if not is_group:
                generation, hash_, content, *_ = rest  # a newer version may say more
                daemons.append(DaemonRecord(daemon, int(until), int(generation), hash_, content))
            elif int(until) > now:
                lacks = {word[1:] for word in rest if word.startswith("!")}
                positional = dict(word.split("=") for word in rest if "=" in word)
                serving.append(Serving(daemon, list(filter(is_name, rest)), lacks, positional))
                hosts.setdefault(daemon, set()).add(worker.rpartition(".")[0])
        except ValueError:
            continue
    return Registry(now, daemons, serving, hosts)


def declared(raw: bytes | None) -> Declared | None:
    """What a configuration declares, from its field of the catalogue; None where no daemon has written it."""
    try:
        said = json.loads((raw or b"").partition(b"\n")[2])
        tasks, priorities, queues = said["tasks"], said["priorities"], frozenset(said["queues"])
        cron, digests, flows = said.get("cron", {}), said.get("digests", {}), said.get("flows", {})
        good = all(map(_is_task, tasks.values())) and all(map(_is_priority, priorities.values()))
        good = good and all(map(is_name, queues)) and all(isinstance(entry["digest"], str) for entry in cron.values())
        good = good and all(isinstance(each, dict) for each in (*digests.values(), flows, *flows.values()))
        owners = {name: Owner(*map(str, each)) for name, each in said.get("owners", {}).items()}
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return None
    return Declared(tasks, priorities, queues, cron, digests, flows, owners) if good else None


def _is_task(said: dict[str, Any]) -> bool:
    unique, lists = said.get("unique", ",,,"), [said.get(name) or [] for name in ("limit_by", "secret")]
    good = is_name(said["queue"]) and _is_priority(said["priority"]) and 0 <= (said.get("expires") or 0) < 1e9
    good = good and all(isinstance(names, list) for names in lists)
    good = good and all(isinstance(name, str) and re.fullmatch(ARGUMENT, name) for names in lists for name in names)
    return good and isinstance(unique, str) and unique.count(",") >= 3 and isinstance(said.get("positional", ""), str)


def _is_priority(number: object) -> bool:
    return isinstance(number, int) and 0 <= number <= 255
