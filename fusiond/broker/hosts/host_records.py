"""What daemons and workers declare of themselves, as read from Redis."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, NamedTuple, NotRequired, TypedDict

from fusiond.job import JobRecord
from fusiond.owners import Owners, owner_of

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

    @property
    def queues(self) -> list[str]:
        """The queues that it serves."""
        return self.fields.get("queues", "").split()

    @property
    def jobs(self) -> list[dict[str, Any]]:
        """{job, task, ms}, and perhaps share and message, of each running job, the longest first."""
        try:
            return [_running_job(each) for each in json.loads(self.fields.get("jobs", "[]"))]
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            return []  # another program has written the record


def whole(said: str | None) -> int:
    """The number of a field of a record; 0 for what is none."""
    return int(said) if said and said.isascii() and said.isdigit() and len(said) < 16 else 0


def _running_job(said: dict[str, Any]) -> dict[str, Any]:
    known = {"job": str(said["job"]), "task": str(said["task"]), "ms": int(said["ms"])}
    return known | ({"share": float(said["share"]), "message": str(said["message"])} if "share" in said else {})


class DeclaredTask(TypedDict):
    """What a file says of a task that matters to who enqueues; what it leaves out is not there."""

    queue: str
    priority: int
    #: s
    expires: NotRequired[float]
    #: the dotted path
    run: NotRequired[str]
    description: NotRequired[str]
    log_tag: NotRequired[str]
    #: arguments: those of its `limit`, and those that nobody is shown
    limit_by: NotRequired[list[str]]
    secret: NotRequired[list[str]]
    #: as `Unique.to_text` gives it
    unique: NotRequired[str]
    #: its callbacks, as callbacks.py has them
    follow: NotRequired[str]
    #: the names of what its calls pass by position, with a comma between them
    positional: NotRequired[str]
    suspended: NotRequired[bool]


class DeclaredEntry(TypedDict):
    """What a file says of a cron entry, for people; entries of one digest are equal."""

    task: str
    #: as in the file, or `every …`
    schedule: str
    timezone: str
    queue: str
    #: s; None: nobody is told
    alert_if_no_success: float | None
    digest: str


@dataclass(frozen=True, slots=True)
class Declared:
    """What one configuration declares."""

    tasks: dict[str, DeclaredTask]
    priorities: dict[str, int]
    queues: frozenset[str]
    cron: dict[str, DeclaredEntry]
    #: kind -> name -> digest of what the file says of it: of tasks, queues, worker groups, …
    digests: dict[str, dict[str, str]]
    #: flow -> its shape
    flows: dict[str, dict[str, Any]]
    owners: Owners = field(default_factory=dict)


class CronDeclaration(NamedTuple):
    """One cron entry as one daemon declares it."""

    entry: str
    daemon: str
    #: the daemon has said within its time that it is alive, and that it ticks
    living: bool
    generation: int
    said: DeclaredEntry

    @property
    def digest(self) -> str:
        """Equal: the entries are."""
        return self.said["digest"]


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

    tasks: dict[str, DeclaredTask]
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
    #: task → the names of what its calls pass by position, with a comma between them, as far as it is known
    positional: Mapping[str, str] = field(default_factory=dict)
    #: tasks that the file of a living daemon suspends
    suspended: AbstractSet[str] = frozenset()
    #: who answers for what
    owners: Owners = field(default_factory=dict)

    def answers(self, names: Collection[str], job: JobRecord) -> bool:
        """Whether one of these answers for the job."""
        return owner_of(self.owners, job.queue, job.task, job.id).owner in names

    def runners(self, queue: str) -> list[AbstractSet[str]]:
        """What each living worker group can run that claims from the queue."""
        return [tasks for queues, tasks in self.groups if queue in queues]

    def secret(self, own: Mapping[str, Sequence[str]] = MappingProxyType({})) -> dict[str, set[str]]:
        """Task -> its secret arguments, by `own` or any daemon's file; those that are named by their places, too."""
        found: dict[str, set[str]] = {}
        published = ((name, task.get("secret")) for said in self.contents.values() for name, task in said.tasks.items())
        for name, secret in (*own.items(), *published):
            if secret:
                found.setdefault(name, set()).update(secret, self._places_of(name, secret))
        return found

    def _places_of(self, task: str, secret: Sequence[str]) -> set[str]:
        """Where calls by position have arguments that are secret by name; `args.*`: anywhere, as it is not known."""
        if any(name.startswith("args.") for name in secret):
            return set()
        if task not in self.positional:
            return {"args.*"}
        return {f"args.{n}" for n, name in enumerate(self.positional[task].split(",")) if f"kwargs.{name}" in secret}

    @property
    def log_tags(self) -> dict[str, str]:
        """Task -> the log tag of its jobs whose producer gave none."""
        return {name: str(said["log_tag"]) for name, said in self.tasks.items() if said.get("log_tag")}

    def serves(self, task: str, queue: str) -> bool:
        """Whether a living worker group runs this task's jobs from this queue."""
        return queue in self.served.get(task, ())


#: nothing was read yet
NO_CATALOGUE = Catalogue({}, {}, frozenset(), frozenset(), {}, frozenset(), {})
