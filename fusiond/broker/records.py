"""
What goes into the verbs and comes out: plain records, JSON kept raw.

Times and durations are in ms. Those of the hot path are named tuples, since 50,000 a second are made of each.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from fusiond.job import JobStatus

Stored = Literal["stored", "same", "conflict", "full"]
Kind = Literal["finished", "failed", "retry", "released", "unknown", "unloaded", "canceled"]

_ID = re.compile(r"[A-Za-z0-9_:.-]{1,128}")


class NewJob(NamedTuple):
    """A job to be enqueued."""

    #: 1 to 128 letters, digits and _:.-
    id: str
    task: str
    #: raw JSON, `[args, kwargs]`
    args: bytes
    #: 0 to 255, more first
    priority: int = 1
    #: from now, or from at_ms if that is to come
    delay_ms: int | None = None
    #: epoch
    at_ms: int | None = None
    #: from now: not begun by then, it fails with EXPIRED
    expires_ms: int | None = None
    #: the idempotency key that the id was made of
    key: str | None = None
    #: raw JSON
    meta: bytes | None = None
    log_tag: str | None = None
    #: raw JSON: {"soft": s, "hard": s}
    timeout: bytes | None = None

    def header(self) -> bytes:
        """Raw JSON of what travels with the job to its child; empty where there is nothing."""
        key, log_tag = (text and json.dumps(text).encode() for text in (self.key, self.log_tag))
        given = {b"key": key, b"meta": self.meta, b"timeout": self.timeout, b"log_tag": log_tag}
        parts = [b'"%b":%b' % (name, value) for name, value in given.items() if value]
        return b"{%b}" % b",".join(parts) if parts else b""


def check_id(id: str) -> str:  # noqa: A002
    """The id itself, or a ValueError that says what an id is."""
    if not _ID.fullmatch(id):
        raise ValueError(f"job id {id!r}: use 1 to 128 letters, digits and _:.-")
    return id


class ClaimedJob(NamedTuple):
    """A job that the caller now holds; the claim's nonce is the token of the attempt."""

    id: bytes
    task: bytes
    #: raw JSON: `[args, kwargs]`, or the whole object that came through the inbox
    args: bytes
    #: this one counted
    attempts: int
    crashes: int
    rescues: int
    #: empty, or raw JSON {key, meta, timeout, log_tag}
    header: bytes
    #: from when it became ready to its claim
    waited_ms: int


class Renewal(NamedTuple):
    """An attempt whose lease is renewed, and what is stored of it beside."""

    id: bytes | str
    token: str
    #: begun: it has begun · permit: it may begin, and no other attempt of its job; if its lease is lost, the job fails
    note: Literal["", "begun", "permit"] = ""


class Chore(NamedTuple):
    """A job that a claim took back from a worker whose lease had expired, that it ended, or that it put aside."""

    id: str
    task: str
    #: RESCUED: it is queued again · BROKEN: its body cannot be read; it has no id then · otherwise it has ended, with
    #: an error of this code
    code: str
    #: the sentence of that error, or why the body cannot be read
    message: str
    attempts: int
    #: this one counted
    rescues: int
    #: of the attempt whose lease was lost; empty: it was not claimed
    token: str
    #: from when it became ready to its last claim, or to its end
    waited_ms: int
    #: that its producer gave; empty: none
    log_tag: str


class Claim(NamedTuple):
    """What a claim gave."""

    jobs: list[ClaimedJob]
    #: from now, to when a job comes due or a lease expires; None: nothing will
    next_due_ms: int | None
    #: there is more to do at once: ready jobs, or chores that did not fit into this call
    more: bool
    #: number in `jobs` → ms from now; not begun by then, the job expires
    expiring: dict[int, int]
    #: the next job is one of those tasks of which only few were wanted
    few: bool = False
    #: other jobs, which were rescued or ended
    chores: Sequence[Chore] = ()


class Outcome(NamedTuple):
    """How an attempt ended."""

    id: bytes | str
    token: str
    kind: Kind
    #: finished, failed, canceled: how long the job is kept; retry, released, unknown, unloaded: the delay
    ms: int = 0
    #: 1: the child crashed while it ran the job
    crash: int = 0
    #: raw JSON: the result, or the error {code, type, message, traceback}; released: not empty, if it had begun
    payload: bytes = b""
    #: what `last_outcome` will say
    why: str = ""


@dataclass(frozen=True, slots=True)
class Counts:
    """How many jobs a queue holds, by status."""

    deferred: int
    scheduled: int
    queued: int
    started: int
    finished: int
    failed: int
    canceled: int
    #: pushed and not yet taken in
    inbox: int
    #: unreadable bodies so far
    broken: int
    #: how long the job that has waited longest is ready, ms; None: none is
    oldest_wait_ms: int | None
    suspended_by_operator: bool
    suspended_by_file: bool
    max_length: int | None
    #: of the started ones, those whose lease has expired
    lost: int

    @property
    def waiting(self) -> int:
        """Jobs that need a worker group to go on."""
        return self.queued + self.inbox + self.scheduled + self.deferred + self.lost


class JobOutcome(NamedTuple):
    """How a job stands."""

    status: JobStatus
    #: raw JSON of a finished job
    result: bytes | None
    #: raw JSON {code, type, message, traceback} of one that failed or was canceled
    error: bytes | None


class Worker(NamedTuple):
    """What a worker last said about itself."""

    #: `<host>.<pid>`
    name: str
    fields: dict[str, str]


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


@dataclass(frozen=True, slots=True)
class Catalogue:
    """What producers may enqueue; `catalogue.py` says which daemon's declaration counts."""

    #: task -> {queue, priority, expires, run, …}
    tasks: dict[str, dict[str, Any]]
    priorities: dict[str, int]
    queues: frozenset[str]
    #: task -> the queues from which a living worker group that knows the task claims
    served: Mapping[str, AbstractSet[str]]
    #: the queues from which any living worker group claims
    serving: frozenset[str]
    #: digest -> what is declared; given to the next reading, which asks only for what is new
    contents: Mapping[str, Declared]

    def serves(self, task: str, queue: str) -> bool:
        """Whether a living worker group runs this task's jobs from this queue."""
        return queue in self.served.get(task, ())


#: nothing was read yet
NO_CATALOGUE = Catalogue({}, {}, frozenset(), {}, frozenset(), {})


@dataclass(frozen=True, slots=True)
class Swept:
    """What a sweep did."""

    #: ended jobs that were dropped
    trimmed: int
    #: jobs that were in no set and are in one again
    mended: int
    #: where the next sweep goes on; 0: it has been once round
    cursor: int
    #: jobs whose leases have expired; the next claim takes them back
    expired: int
