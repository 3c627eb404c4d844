"""
What a job is: its states, its id, its record.

The state of a job is the set that holds it; `->` is the only way it moves:

    (enqueue) -> QUEUED | SCHEDULED | DEFERRED
    DEFERRED  -> QUEUED               what it waited for has ended
    SCHEDULED -> QUEUED               its time has come
    QUEUED    -> STARTED              claimed: lease, token, attempt + 1
    QUEUED    -> FAILED               expired before it was claimed
    STARTED   -> FINISHED             settled, the result kept for result_ttl
    STARTED   -> FAILED               settled, the error kept for failure_ttl
    STARTED   -> SCHEDULED            retry, after a delay
    STARTED   -> QUEUED               released (attempt undone) or rescued (lease expired)
    any but FINISHED, FAILED -> CANCELED
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
    """The one state that a job has at any time."""

    DEFERRED = "deferred"
    SCHEDULED = "scheduled"
    QUEUED = "queued"
    STARTED = "started"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELED = "canceled"

    @property
    def ended(self) -> bool:
        """Whether nothing but an operator moves the job from here."""
        return self in _ENDED


_ENDED = frozenset({JobStatus.FINISHED, JobStatus.FAILED, JobStatus.CANCELED})

# In ASCII order, so that ids sort as their bytes do; and without a dash, with which an option would begin.
_PLAIN = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_SORTED = b"0123456789:ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"
_TO_SORTED = bytes.maketrans(_PLAIN, _SORTED)


def _text(raw: bytes) -> str:
    return binascii.b2a_base64(raw)[:22].translate(_TO_SORTED).decode()


def new_id() -> str:
    """A new job id: 48 bits of epoch ms and 80 random bits in 22 characters that sort by time."""
    return _text((time.time_ns() // 1_000_000).to_bytes(6) + os.urandom(10))


def id_of_key(task: str, key: str) -> str:
    """The id of a job with an idempotency key: the same task and key give the same 22 characters."""
    return _text(hashlib.sha256(f"{task}\0{key}".encode()).digest()[:16])


def new_token(mark: str = "") -> str:
    """A nonce in 22 characters, for a claim and the attempts that it begins; 104 random bits behind a `mark`."""
    return mark + _text(os.urandom(16))[len(mark) :]


def mark_of(worker: str) -> str:
    """The 4 characters with which the tokens of a worker, `<host>.<pid>`, begin: a lost lease tells its holder."""
    return _text(hashlib.sha256(worker.encode()).digest()[:16])[:4]


#: `last_outcome` of a job that went back to its queue since its task's code does not load
NOT_LOADED = "not loaded"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """A job as Redis holds it. Times are epoch ms by the clock of Redis; JSON stays raw."""

    #: the queue that holds it; `queue/id` is the full name
    queue: str
    id: str
    status: JobStatus
    task: str
    #: raw JSON: `[args, kwargs]`, or the whole object as it came through the inbox
    args: bytes
    priority: int | None = None
    created_at: int | None = None
    #: when it comes due, of a scheduled job
    due_at: int | None = None
    started_at: int | None = None
    ended_at: int | None = None
    #: not begun by then, it fails with EXPIRED
    expires_at: int | None = None
    attempts: int = 0
    crashes: int = 0
    rescues: int = 0
    #: how often it had begun and was given back, by a shutdown for one; such an attempt is not counted
    interrupted: int = 0
    #: how its last attempt ended, such as `retry` or `rescued`
    last_outcome: str = ""
    #: raw JSON of a finished job
    result: bytes | None = None
    #: raw JSON {code, type, message, traceback} of the last failure
    error: bytes | None = None
    key: str = ""
    log_tag: str = ""
    #: raw JSON, as the producer gave it
    meta: bytes | None = None
    #: fields that another program has spoilt, a space between; they are left out above
    broken: str = ""

    @property
    def name(self) -> str:
        """`queue/id`, the job's full name."""
        return f"{self.queue}/{self.id}"
