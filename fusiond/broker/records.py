"""
What goes into the verbs and comes out: plain records, JSON kept raw.

Times and durations are in ms. Those of the hot path are named tuples, since 50,000 a second are made of each.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from fusiond.callbacks import split
from fusiond.job import JobStatus

Kind = Literal["finished", "failed", "retry", "snoozed", "released", "unknown", "refused", "canceled"]


class Existing(NamedTuple):
    """A unique job was not stored, since another one holds its lock."""

    #: of that job
    id: str
    #: it is an error
    refused: bool


#: what became of a job that was to be stored; unstored: another job of the call was refused
Stored = Literal["stored", "same", "conflict", "full", "unstored"] | Existing

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
    #: from now: no attempt begins later, it fails with EXPIRED
    expires_ms: int | None = None
    #: the idempotency key that the id was made of
    key: str | None = None
    #: raw JSON
    meta: bytes | None = None
    log_tag: str | None = None
    #: raw JSON: {"soft": s, "hard": s}
    timeout: bytes | None = None
    #: raw JSON of what else holds instead of what the task says, and of what describes the job
    retry: bytes | None = None
    result_ttl: bytes | None = None
    failure_ttl: bytes | None = None
    description: bytes | None = None
    #: as `fusiond.argument_values.unique_key` gives it; None: it is not unique
    unique: str | None = None
    #: its callbacks, as `fusiond.callbacks.follow_text` gives them; None: it has none
    follow: str | None = None
    #: `<queue of the run> <run> <step> <n> <round> <1: its result is needed>`; None: it is not a step of a flow
    flow: str | None = None
    #: the jobs that it waits for, as `enqueue_after.lua` has it; None: none
    after: str | None = None
    #: the span in which it is enqueued, as a W3C traceparent; None: there is none
    traceparent: str | None = None

    def header(self) -> bytes:
        """Raw JSON of what travels with the job to its child; empty where there is nothing."""
        key, log_tag = (text and json.dumps(text).encode() for text in (self.key, self.log_tag))
        given = {b"key": key, b"meta": self.meta, b"timeout": self.timeout, b"log_tag": log_tag}
        given |= {b"retry": self.retry, b"result_ttl": self.result_ttl, b"failure_ttl": self.failure_ttl}
        given[b"description"] = self.description
        if self.traceparent:
            given[b"traceparent"] = json.dumps(self.traceparent).encode()
        if self.follow:
            given[b"follow"] = split(self.follow)[1].encode()
        parts = [b'"%b":%b' % (name, value) for name, value in given.items() if value]
        return b"{%b}" % b",".join(parts) if parts else b""


class Scanned(NamedTuple):
    """Some keys of a queue."""

    #: where the scan goes on; 0: at its end
    cursor: int
    #: of jobs
    ids: list[bytes]
    #: names of locks
    locks: list[bytes]


class Lock(NamedTuple):
    """The lock of a unique job."""

    #: `<task>:<values of the arguments>`
    name: str
    #: the job that holds it
    id: str
    #: ms; None: it does not expire
    expires_ms: int | None


def check_id(id: str) -> str:
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
    note: Literal["", "permit"] = ""


class ProgressReport(NamedTuple):
    """How far an attempt says that it is."""

    id: bytes | str
    token: str
    #: 0 to 1
    share: float
    message: str


class ReclaimedJob(NamedTuple):
    """A job that a claim took back from a worker whose lease had expired, that it ended, or that it put aside."""

    id: str
    task: str
    #: RESCUED: it is queued again · BROKEN: its body cannot be read; it has no id then · otherwise it has ended, with
    #: an error of this code
    code: str
    #: the sentence of that error, or why the body cannot be read
    message: str
    attempts: int
    #: this one counted, if it is one
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
    #: there is more to do at once: ready jobs, or work on the queue that did not fit into this call
    more: bool
    #: number in `jobs` → ms from now; not begun by then, its job expires
    expiring: dict[int, int]
    #: the next job is one of those tasks of which only few were wanted
    few: bool = False
    #: other jobs, which were rescued or ended
    reclaimed: Sequence[ReclaimedJob] = ()
    #: "<version> <task> …": tasks of which jobs are held, where the caller did not know that; None: it did
    held_tasks: str | None = None


class GivenJob(NamedTuple):
    """A job that an enqueue has claimed for a dispatcher, under a token that a claim of this has left in Redis."""

    token: str
    #: ms from when that claim left it to the enqueue of the job, by Redis' clock
    after: int
    id: bytes
    task: bytes
    header: bytes
    args: bytes


class Outcome(NamedTuple):
    """How an attempt ended."""

    id: bytes | str
    token: str
    kind: Kind
    #: finished, failed, canceled: how long the job is kept; retry, snoozed, released, unknown: the delay;
    #: refused: the same, or 0 if its task is not to hold it
    ms: int = 0
    #: snoozed: "<ms from its first snooze, after which the job fails instead> <ms that it is kept then>"; finished:
    #: "<CPU ms>,<peak MiB>,<generation>,<release>"; else 1 if the child crashed in it
    extra: int | str = 0
    #: raw JSON: the result, or the error {code, type, message, traceback}; released: not empty, if it had begun
    payload: bytes = b""
    #: what `last_outcome` will say
    why: str = ""
    #: for the history of a job that does not finish: parts of a JSON object, each behind a comma, without a line end;
    #: and what the attempt has printed, as JSON, or nothing
    about: bytes = b""
    printed: bytes = b""
    #: words of its event, each behind a blank, where somebody wants events: see lua/shared/events.lua
    said: bytes = b""


class EventsOf(NamedTuple):
    """That a dispatcher's outcomes are to leave events."""

    #: as `Events.wanted` gives it
    wanted: str
    #: `<host> <group>`
    by: str


class TaskLimit(NamedTuple):
    """How many jobs of a task may run at once, and begin in a time."""

    #: kwargs.NAME or args.N: the limit counts the jobs with equal values by themselves; empty: all jobs of the task
    by: tuple[str, ...] = ()
    max_running: int | None = None
    #: ms between the begins of two jobs, and how many may begin at once
    rate: tuple[float, int] | None = None

    def to_dict(self) -> dict[str, Any]:
        """As `conf` has it; only what is set."""
        every, burst = self.rate or (None, None)
        said = {"by": list(self.by), "max_running": self.max_running, "every": every, "burst": burst}
        return {name: value for name, value in said.items() if value is not None}

    @classmethod
    def from_dict(cls, said: Mapping[str, Any]) -> TaskLimit:
        """The reverse."""
        rate = (said["every"], int(said["burst"])) if "every" in said else None
        return cls(tuple(said["by"] or ()), said.get("max_running"), rate)


def undeclared(task: str) -> str:
    """The message of the error of a job whose task is not in the file of the dispatcher that claimed it."""
    return f"no task '{task}' is declared"


class HeldTask(NamedTuple):
    """A task of which jobs are held in a queue: not every dispatcher can run them, or somebody has suspended it."""

    task: str
    jobs: int
    #: ms since when nobody has taken any of them; -1: somebody can
    ms: int
    #: what the sweep is to do: go, fail or nothing; among Counts who has suspended the task: operator, file or nobody
    what: str
    #: why the function does not load, where a dispatcher has said so
    error: str


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
    #: started ones, at most; None: no limit
    max_running: int | None = None
    #: jobs that may begin in a second, on the average, and at once; None: no limit
    rate: float | None = None
    burst: int | None = None
    #: bodies from the inbox that were left out so far, since another job is the same by `unique`
    skipped: int = 0
    #: waiting ones that the limit of their task holds, or that wait for a worker that has their task
    held: int = 0
    limits: Mapping[str, TaskLimit] = field(default_factory=dict)
    #: the arguments by which its jobs take turns; empty: they do not
    fair_by: tuple[str, ...] = ()
    #: the waiting jobs do not take turns yet: they are being placed again
    placing: bool = False
    #: the tasks of which jobs wait for a worker that has them
    held_tasks: Sequence[HeldTask] = ()
    #: unreadable bodies that are kept
    broken_kept: int = 0

    @property
    def is_suspended(self) -> bool:
        """Whether none of its jobs may begin just now."""
        return self.suspended_by_operator or self.suspended_by_file

    @property
    def limited(self) -> int:
        """Jobs that limits of their tasks hold; the other held ones wait for a worker group that has their task."""
        return self.held - sum(each.jobs for each in self.held_tasks)

    @property
    def waiting(self) -> int:
        """Jobs that need a worker group to go on."""
        return self.queued + self.held + self.inbox + self.scheduled + self.deferred + self.lost


class JobOutcome(NamedTuple):
    """How a job stands."""

    status: JobStatus
    #: raw JSON of a finished job
    result: bytes | None
    #: raw JSON {code, type, message, traceback} of one that failed or was canceled
    error: bytes | None


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
    #: there are more jobs to be placed again, as `fair_by` has changed
    placing: bool = False
