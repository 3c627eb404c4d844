"""What daemons and workers declare of themselves, as read from Redis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

#: ms after which a worker that has said nothing is gone: a lease; it renews its leases more often than that
GONE_AFTER: Final = 15_000


class Worker(NamedTuple):
    """What a worker last said about itself."""

    #: `<host>.<pid>`
    name: str
    fields: dict[str, str]
    #: ms since it last said something, by the clock of Redis
    heard_ms: int = 0

    @property
    def is_gone(self) -> bool:
        """Whether its jobs may be another worker's by now: killed, frozen or cut off."""
        return self.heard_ms > GONE_AFTER


@dataclass(frozen=True, slots=True)
class Declared:
    """What one configuration declares."""

    #: task -> {queue, priority, expires, run, …}
    tasks: dict[str, dict[str, Any]]
    priorities: dict[str, int]
    queues: frozenset[str]
    #: cron entry -> {digest, task, schedule, …}
    cron: dict[str, dict[str, Any]]
    #: kind -> name -> digest of what the file says of it: of tasks, queues, worker groups, …
    digests: dict[str, dict[str, str]]
    #: flow -> its shape
    flows: dict[str, dict[str, Any]]


class CronDeclaration(NamedTuple):
    """One cron entry as one daemon declares it."""

    entry: str
    daemon: str
    #: the daemon has said within its time that it is alive, and that it ticks
    living: bool
    generation: int
    #: equal: the entries are
    digest: str
    #: task, schedule, timezone, queue, for people
    said: Mapping[str, Any]


class FileInForce(NamedTuple):
    """A configuration that living daemons run."""

    #: of its content
    hash: str
    generation: int
    #: the ids of the daemons that run it
    daemons: tuple[str, ...]
    #: as `Declared.digests`
    digests: Mapping[str, Mapping[str, str]]
    #: where these daemons have worker groups that claim
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Catalogue:
    """What producers may enqueue; `catalogue.py` says which daemon's declaration counts."""

    #: task -> {queue, priority, expires, run, …}
    tasks: dict[str, dict[str, Any]]
    priorities: dict[str, int]
    queues: frozenset[str]
    #: names of retry policies
    policies: frozenset[str]
    #: task -> the queues from which a living worker group that knows the task claims
    served: Mapping[str, AbstractSet[str]]
    #: the queues from which any living worker group claims
    serving: frozenset[str]
    #: digest -> what is declared; given to the next reading, which asks only for what is new
    contents: Mapping[str, Declared]
    #: flow -> its shape
    flows: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    #: of each living worker group the queues from which it claims, and the tasks that it can run
    groups: Sequence[tuple[Sequence[str], AbstractSet[str]]] = ()

    def runners(self, queue: str) -> list[AbstractSet[str]]:
        """What each living worker group can run that claims from the queue."""
        return [tasks for queues, tasks in self.groups if queue in queues]

    @property
    def secret(self) -> dict[str, set[str]]:
        """Task -> its secret arguments, of whatever daemon's file."""
        found: dict[str, set[str]] = {}
        for said in self.contents.values():
            for name, task in said.tasks.items():
                if task.get("secret"):
                    found.setdefault(name, set()).update(task["secret"])
        return found

    def serves(self, task: str, queue: str) -> bool:
        """Whether a living worker group runs this task's jobs from this queue."""
        return queue in self.served.get(task, ())


#: nothing was read yet
NO_CATALOGUE = Catalogue({}, {}, frozenset(), frozenset(), {}, frozenset(), {})
