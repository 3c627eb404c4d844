"""
What a job is: its states, its id, its record.

A job has the state of the set that holds it. These are all the ways in which it moves:

    (enqueue) -> QUEUED | SCHEDULED | DEFERRED
    (enqueue) -> STARTED              a dispatcher waits for it: the wake-up brings it
    DEFERRED  -> QUEUED               the jobs that it waited for have ended
    SCHEDULED -> QUEUED               its time has come
    QUEUED    -> STARTED              claimed: lease, token, attempt + 1
    QUEUED    -> FAILED               expired before it was claimed
    QUEUED    -> HELD                 the limit of its task has no place or no token for it
    HELD      -> QUEUED               it has one again: its old place
    HELD      -> FAILED               expired
    STARTED   -> FINISHED             settled; the result is kept for result_ttl
    STARTED   -> FAILED               settled; the error is kept for failure_ttl
    STARTED   -> SCHEDULED            retry, after a delay
    STARTED   -> QUEUED               released (the attempt is not counted)
    STARTED   -> QUEUED               rescued: the lease has expired
    any that has not ended -> CANCELED
    FAILED, CANCELED -> QUEUED        requeued by an operator

Standard library only: producers and the daemon share it.
"""

from __future__ import annotations

import binascii
import hashlib
import os
import time
from dataclasses import dataclass
from enum import StrEnum


class JobStatus(StrEnum):
    """The state of a job; it has exactly one at any time."""

    DEFERRED = "deferred"
    SCHEDULED = "scheduled"
    QUEUED = "queued"
    HELD = "held"
    STARTED = "started"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELED = "canceled"

    @property
    def ended(self) -> bool:
        """Whether the job stays as it is unless an operator requeues or discards it."""
        return self in _ENDED


_ENDED = frozenset({JobStatus.FINISHED, JobStatus.FAILED, JobStatus.CANCELED})

# Base64 with its digits in ASCII order, so that ids sort by time, and without a dash, as options begin with one.
_PLAIN = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_SORTED = b"0123456789:ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"
_TO_SORTED = bytes.maketrans(_PLAIN, _SORTED)


def _encoded(raw: bytes) -> str:
    return binascii.b2a_base64(raw)[:22].translate(_TO_SORTED).decode()


def new_id() -> str:
    """A new job id: 48 bits of epoch ms and 80 random bits in 22 characters that sort by time."""
    return _encoded((time.time_ns() // 1_000_000).to_bytes(6) + os.urandom(10))


def id_of_key(task: str, key: str) -> str:
    """The id of a job with an idempotency key: the same task and key give the same 22 characters."""
    return _encoded(hashlib.sha256(f"{task}\0{key}".encode()).digest()[:16])


def new_token(mark: str = "") -> str:
    """A token for a claim and its attempts: 22 characters, after a `mark` of 4 still 104 random bits."""
    return mark + _encoded(os.urandom(16))[len(mark) :]


def mark_of(worker: str) -> str:
    """The first 4 characters of the tokens of a worker, `<host>.<pid>`, so that a lost lease shows whose it was."""
    return _encoded(hashlib.sha256(worker.encode()).digest()[:16])[:4]


#: `last_outcome` of a job that went back to its queue because the code of its task does not load
NOT_LOADED = "not loaded"


@dataclass(frozen=True, slots=True)
class JobProgress:
    """How far an attempt has said that it is."""

    #: of the work that is done, 0 to 1
    share: float
    message: str
    #: when that was stored, epoch ms by the clock of Redis
    at: int


@dataclass(frozen=True, slots=True)
class RanWith:
    """What an attempt used, and with what it ran."""

    #: of its process, and of those that it has waited for; None: not known
    cpu_seconds: float | None = None
    #: bytes that its process had resident at its peak, including shared pages; None: its process had other jobs, too
    peak_memory: int | None = None
    #: of the configuration
    generation: int | None = None
    #: from which its code was loaded: what `reload_on`, or a link to the group's directory, led to; empty: not known
    release: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastAttempt:
    """An attempt that did not finish. Times are epoch ms by the clock of Redis."""

    #: from 1; 0: this is not an attempt, but a requeue
    attempt: int
    #: such as `retry`, `failed`, `crashed`, `rescued`, `snoozed`
    outcome: str
    #: None: it never began, or nobody knows
    began_at: int | None
    #: when it ended, or was found lost
    ended_at: int | None
    #: where it ran; empty: nobody knows
    host: str = ""
    #: why it failed, in one line
    error: str = ""
    #: of one whose lease has expired: `mark_of` the worker that had it
    worker: str = ""
    #: `attempts` counts it
    counted: bool = True
    #: `crashes` counts it
    crash: bool = False
    #: `interrupted` counts it
    interrupted: bool = False
    ran_with: RanWith = RanWith()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """A job as Redis stores it. Times are epoch ms by the clock of Redis; JSON is not parsed."""

    #: the queue that holds it; `queue/id` is the full name
    queue: str
    id: str
    status: JobStatus
    task: str
    #: JSON of `[args, kwargs]`, or of the whole object that was pushed to the inbox
    args: bytes
    priority: int | None = None
    created_at: int | None = None
    #: when a scheduled job is due
    due_at: int | None = None
    started_at: int | None = None
    ended_at: int | None = None
    #: if the job has not begun by then, it fails with EXPIRED
    expires_at: int | None = None
    attempts: int = 0
    crashes: int = 0
    rescues: int = 0
    #: how often it was given back after it had begun, such as at a shutdown; such attempts are not counted
    interrupted: int = 0
    #: which limit holds it, or has a place for it while it runs: `<task>`, or `<task> kwargs.account="acme"`
    limit: str = ""
    #: in a queue with `fair_by`, whose turn it takes: `kwargs.tenant="acme"`; `kwargs.tenant=`: it names no tenant
    tenant: str = ""
    #: how its last attempt ended, such as `retry` or `rescued`
    last_outcome: str = ""
    #: JSON, of a finished job
    result: bytes | None = None
    #: JSON of the last failure: {code, type, message, traceback}
    error: bytes | None = None
    key: str = ""
    log_tag: str = ""
    #: what its call gave, instead of what the task says; empty, None: nothing
    description: str = ""
    retry: str = ""
    #: s
    result_ttl: float | None = None
    failure_ttl: float | None = None
    #: of a unique job, the name of its lock, `<task>:<values of the arguments>`; empty: it is not unique
    lock: str = ""
    #: until when it holds that: `ended`, `started`, or so many ms from the enqueue
    lock_rule: str = ""
    #: JSON, as the producer gave it
    meta: bytes | None = None
    #: the last 20 attempts that did not finish, and requeues; the oldest first
    history: tuple[PastAttempt, ...] = ()
    #: the last 32 kB that an attempt has printed that failed, and which attempt
    printed: str = ""
    printed_attempt: int | None = None
    #: of the last attempt that has ended
    ran_with: RanWith = RanWith()
    #: how far its last attempt has said that it is; None: it has not
    progress: JobProgress | None = None
    #: of a step of a flow: the full name of the run, `queue/id`, and the step; empty: it is none
    run: str = ""
    step: str = ""
    #: names of fields that cannot be read, separated by spaces; their values above are missing
    broken: str = ""

    @property
    def name(self) -> str:
        """`queue/id`, the job's full name."""
        return f"{self.queue}/{self.id}"
