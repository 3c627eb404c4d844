"""Limits and locks: which limits hold jobs, and which unique jobs have a lock; free a lock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fusiond.masking import masked_lock
from fusiond.web.endpoint import Done, WebCall, acts, reads
from fusiond.web.inputs import Input
from fusiond.web.pages.queue_pages import NAME, QueueRow, known_queue, queues

_QUEUE = Input("queue", "the queue whose locks are shown", pattern="[A-Za-z0-9_.:@-]{1,255}", longest=255)
_CURSOR = Input("cursor", "where the look for locks goes on", form="number", default=0, most=10**12)
_LOCK = (
    NAME,
    Input("lock", "the name of a lock", "body", longest=1000),
    Input("job", "the full name of the job that has it, instead of its name", "body", longest=400),
)
#: keys of a queue that one look passes
_LOOKED: Final = 5000


@dataclass(frozen=True, slots=True)
class LockRow:
    """The lock of a unique job."""

    name: str
    #: full name of the job that has it
    job: str
    #: ms until it is free by itself; None: its job frees it
    expires_ms: int | None


@dataclass(frozen=True, slots=True)
class Limits:
    """What holds jobs."""

    #: queues that have a limit, or jobs that one holds
    queues: list[QueueRow]
    #: the queue whose locks these are; empty: none was named
    queue: str
    locks: list[LockRow]
    #: where a further look goes on; 0: all locks were seen
    cursor: int
    names: list[str]


async def _show(call: WebCall) -> Limits:
    backend, name = call.backend, call["queue"] or ""
    listed = await queues(backend)
    limited = [queue for queue in listed.queues if queue.limits or queue.limited]
    names = [queue.name for queue in listed.queues]
    if not name:
        return Limits(limited, "", [], 0, sorted(names))
    await known_queue(call)
    following, locks = await backend.run(backend.verbs.locks(name, call["cursor"], count=_LOOKED))
    secret = await backend.secret()
    rows = [LockRow(masked_lock(lock.name, secret), f"{name}/{lock.id}", lock.expires_ms) for lock in locks]
    return Limits(limited, name, sorted(rows, key=lambda row: row.name), following, sorted(names))


async def _release(call: WebCall) -> Done:
    name, lock, secret = await known_queue(call), call["lock"], await call.backend.secret()
    if lock is None:
        job = await call.backend.run(call.backend.verbs.job(name, (call["job"] or "").rpartition("/")[2]))
        lock = job.lock if job else ""
    shown = masked_lock(lock, secret)
    holder = await call.backend.run(call.backend.verbs.lock_holder(name, lock)) if lock else None
    if holder is None:
        return Done(f"nobody holds {shown or 'such a lock'}", done=False)
    freed = await call.backend.run(call.backend.verbs.unlock(name, holder, [lock], who=call.asker))
    return Done(
        f"{shown}, which job {name}/{holder} held, is {'free' if freed else 'held by another job now'}", bool(freed)
    )


ENDPOINTS = (
    reads("/limits", _show, "Limits, and locks of unique jobs", Limits, "limits.html", (_QUEUE, _CURSOR)),
    acts("limits", "/limits/{queue}/release", _release, "Free the lock of a unique job", _LOCK),
)
