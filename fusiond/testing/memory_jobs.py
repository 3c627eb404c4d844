"""
Jobs in memory, under the rules by which Redis keeps them. tests/testing/test_alike.py compares the two.

1. store   new jobs, all or none: ids, locks of unique jobs, the queue's max_length (enqueue.lua, unique.lua)
2. begin   an attempt; a job that has expired fails instead (claim.lua)
3. end     a job: free its lock, tell the jobs that wait for it, enqueue its callback (endings, after, follow)

What checks a call's arguments and options, and what makes an error of a reply, is the client's own code.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fusiond.broker.records import Existing, NewJob, Stored
from fusiond.callbacks import callbacks_of
from fusiond.job import JobStatus
from fusiond.testing.recorded_jobs import RecordedJob

#: bytes of a value that a callback is given
_LARGEST: Final = 65536
_WAITING: Final = (JobStatus.QUEUED, JobStatus.SCHEDULED, JobStatus.DEFERRED)
#: status of a parent → the sentence about it
_ENDS: Final = {
    "finished": "has ended",
    "failed": "has failed",
    "canceled": "was canceled",
    "missing": "is not kept any more, or never was",
}
#: queue, task and values: what has one lock
_LockKey = tuple[str, str, str]


@dataclass(slots=True)
class _Way:
    """How a new job gets its lock."""

    id: str
    key: _LockKey
    #: ended, started, or ms
    rule: str
    #: s; 0: no limit
    max_wait: float
    since: float | None = None
    #: the job that it replaces
    other: RecordedJob | None = None
    #: a later job of the same call replaces this one
    replaced_by: str = ""
    makes_room: bool = False


def failure(code: str, message: str) -> bytes:
    """The error of a job that Redis itself ends."""
    return json.dumps({"code": code, "type": "", "message": message, "traceback": ""}).encode()


class MemoryJobs:
    """The jobs of one recorder."""

    def __init__(
        self,
        max_lengths: Mapping[str, int | None],
        run: Callable[[RecordedJob], Any],
        on_step_end: Callable[[RecordedJob], None],
    ) -> None:
        """`run`: runs a job; `on_step_end`: called with a job that is a step of a flow and has ended."""
        self._max_lengths, self._run, self._on_step_end = max_lengths, run, on_step_end
        #: (queue, id) → job, in the order in which they were enqueued
        self.jobs: dict[tuple[str, str], RecordedJob] = {}
        #: those that wait for others
        self._deferred: dict[RecordedJob, None] = {}
        #: who holds it, and until when, if that is a time
        self._locks: dict[_LockKey, tuple[str, float | None]] = {}
        #: id → the options of the call that made the job
        self.options: dict[str, dict[str, Any]] = {}
        #: s; how much the clock is ahead of the machine's
        self.ahead = 0.0
        self._numbers = 0
        self.guard = threading.RLock()

    def now(self) -> float:
        """Seconds since 1970."""
        return time.time() + self.ahead

    # -- store ---------------------------------------------------------------------------------------------------------

    def store(self, queue: str, jobs: Sequence[NewJob], *, counted: bool = True) -> list[Stored]:
        """What becomes of each; `counted`: max_length holds."""
        with self.guard:
            replies: list[Stored] = []
            fresh: dict[int, tuple[NewJob, _Way | None]] = {}
            taken: dict[_LockKey, _Way] = {}
            for number, job in enumerate(jobs):
                reply, way = self._look(queue, job, [new for new, _ in fresh.values()], taken)
                replies.append(reply)
                if reply == "stored":
                    fresh[number] = job, way
            if refusal := self._refusal(queue, replies, fresh, counted=counted):
                return [refusal if number in fresh else reply for number, reply in enumerate(replies)]
            for job, way in fresh.values():
                self._write(queue, job, way)
            return replies

    def _look(
        self, queue: str, job: NewJob, before: list[NewJob], taken: dict[_LockKey, _Way]
    ) -> tuple[Stored, _Way | None]:
        """What is to become of one; `before`: the new ones of the call, `taken`: the locks that these get."""
        there = self.jobs.get((queue, job.id))
        twin = there.new if there else next((new for new in before if new.id == job.id), None)
        if twin is not None:
            return ("same" if (twin.task, twin.args) == (job.task, job.args) else "conflict"), None
        if not job.unique:
            return "stored", None
        found = self._look_at_lock(queue, job, taken)
        if isinstance(found, Existing):
            return found, None
        taken[found.key] = found
        return "stored", found

    def _look_at_lock(self, queue: str, job: NewJob, taken: dict[_LockKey, _Way]) -> _Way | Existing:
        rule, on_conflict, max_wait, values = (job.unique or "").split(",", 3)
        way = _Way(job.id, (queue, job.task, values), rule, int(max_wait) / 1000)
        if twin := taken.get(way.key):
            if on_conflict != "replace":
                return Existing(twin.id, refused=on_conflict == "refuse")
            twin.replaced_by, way.since, way.makes_room = job.id, twin.since or self.now(), True
            return way
        other = self._holder(way.key)
        if other is None:
            return way
        if on_conflict != "replace" or other.status not in _WAITING:
            return Existing(other.id, refused=on_conflict == "refuse")
        way.other, way.since = other, other.replaces_since or other.created_at
        way.makes_room = other.status is not JobStatus.DEFERRED
        return way

    def _holder(self, key: _LockKey) -> RecordedJob | None:
        """The job that holds the lock; None: it is free."""
        id_, until = self._locks.get(key, ("", None))
        job = self.jobs.get((key[0], id_))
        if job is None or (until is None and job.status.ended) or (until is not None and until <= self.now()):
            return None
        return job

    def _refusal(
        self, queue: str, replies: list[Stored], fresh: dict[int, tuple[NewJob, _Way | None]], *, counted: bool
    ) -> Stored | None:
        """Why none of the new jobs is stored; None: they are."""
        if any(isinstance(reply, Existing) and reply.refused for reply in replies):
            return "unstored"
        most = self._max_lengths.get(queue) if counted else None
        if most is None:
            return None
        counting = (JobStatus.QUEUED, JobStatus.SCHEDULED)
        length = sum(job.queue == queue and job.status in counting for job in self.jobs.values())
        # Jobs that wait for others do not count.
        more = sum(not new.after for new, _ in fresh.values())
        more -= sum(way.makes_room for new, way in fresh.values() if way and (way.other or not new.after))
        return "full" if more > max(0, most - length) else None

    def _write(self, queue: str, new: NewJob, way: _Way | None) -> None:
        now = self.now()
        due, options = self._due(new, way), self.options.pop(new.id, {})
        job = RecordedJob(queue, new, JobStatus.QUEUED, now, due, options, self._numbers, self._run, self._numbers)
        self._numbers += 1
        self.jobs[queue, new.id] = job
        if way is not None:
            job.replaces_since = way.since
            if way.other is not None:
                self._take_place(job, way.other)
                self._replace(way.other, new.id)
            if way.replaced_by:
                self._replace(job, way.replaced_by)
                return
            until = now + int(way.rule) / 1000 if way.rule.isdigit() else None
            self._locks[way.key] = new.id, until
        if new.after:
            self._defer(job, new.after)
        else:
            self._make_ready(job)

    def _due(self, new: NewJob, way: _Way | None) -> float:
        due = self.now() if new.at_ms is None else new.at_ms / 1000
        if new.delay_ms is not None:
            due = max(due, self.now()) + new.delay_ms / 1000
        if way is not None and way.since is not None and way.max_wait and not new.after:
            due = min(due, way.since + way.max_wait)
        return due

    def _make_ready(self, job: RecordedJob) -> None:
        job.status = JobStatus.SCHEDULED if job.due_at > self.now() else JobStatus.QUEUED

    def _take_place(self, job: RecordedJob, other: RecordedJob) -> None:
        """A job that takes the place of one that is ready keeps that place."""
        is_ready = other.status is JobStatus.QUEUED and job.due_at <= self.now()
        if is_ready and other.priority == job.priority:
            job.place = other.place

    def _replace(self, job: RecordedJob, by: str) -> None:
        self.end(job, JobStatus.CANCELED, error=failure("REPLACED", f"job {by} replaced it before it began"))

    # -- begin ---------------------------------------------------------------------------------------------------------

    def ready(self) -> list[RecordedJob]:
        """The jobs that a worker would run now, the first one first; those whose time to begin is over fail."""
        with self.guard:
            now = self.now()
            for job in self.open():
                if self._is_expired(job, now):
                    self.end(job, JobStatus.FAILED, error=failure("EXPIRED", "it had not begun when it expired"))
                elif job.status is JobStatus.SCHEDULED and job.due_at <= now:
                    job.status = JobStatus.QUEUED
            found = [job for job in self.jobs.values() if job.status is JobStatus.QUEUED]
            return sorted(found, key=lambda job: (-job.priority, job.place))

    @staticmethod
    def _is_expired(job: RecordedJob, now: float) -> bool:
        expires = job.new.expires_ms
        waits = job.status in _WAITING and not job.has_begun
        return waits and expires is not None and job.created_at + expires / 1000 <= now

    def open(self) -> list[RecordedJob]:
        """The jobs that have not ended."""
        return [job for job in self.jobs.values() if not job.status.ended]

    def begin(self, job: RecordedJob) -> None:
        """An attempt begins."""
        with self.guard:
            job.status, job.has_begun, job.exception = JobStatus.STARTED, True, None
            job.attempts += 1
            self._free_lock(job, "started")

    def put_off(self, job: RecordedJob, seconds: float, error: bytes) -> None:
        """It runs again after this time."""
        with self.guard:
            job.due_at, job.raw_error = self.now() + seconds, error
            self._make_ready(job)

    # -- end -----------------------------------------------------------------------------------------------------------

    def end(
        self, job: RecordedJob, status: JobStatus, *, result: bytes | None = None, error: bytes | None = None
    ) -> None:
        """A job has ended: what follows from that."""
        with self.guard:
            job.status, job.raw_result, job.parents = status, result, set()
            self._deferred.pop(job, None)
            job.raw_error = error or job.raw_error
            self._free_lock(job, "started", "ended")
            for other in [*self._deferred]:
                self._parent_ended(other, job.name, status)
            if status is not JobStatus.CANCELED:
                self._call_back(job)
            if job.new.flow:
                self._on_step_end(job)

    def cancel(self, queue: str, id_: str) -> str:
        """As the verb `cancel` replies."""
        with self.guard:
            job = self.jobs.get((queue, id_))
            if job is None or job.status.ended:
                return "missing" if job is None else "ended"
            if job.status is JobStatus.STARTED:
                job.is_canceled = True
                return "asked"
            self.end(job, JobStatus.CANCELED, error=failure("CANCELED", "it was canceled before it began"))
            return "canceled"

    def clear(self) -> None:
        """Forget all jobs and locks."""
        with self.guard:
            self.jobs.clear()
            self._locks.clear()
            self._deferred.clear()
            self.options.clear()

    def _free_lock(self, job: RecordedJob, *rules: str) -> None:
        if job.new.unique:
            rule, _, _, values = job.new.unique.split(",", 3)
            key = job.queue, job.task, values
            if rule in rules and self._locks.get(key, ("",))[0] == job.id:
                del self._locks[key]

    # -- jobs that wait for others -------------------------------------------------------------------------------------

    def _defer(self, job: RecordedJob, after: str) -> None:
        """It waits; `after`: as a NewJob has it."""
        need, _, *names = after.split(" ")
        job.status, job.parents = JobStatus.DEFERRED, set(names)
        self._deferred[job] = None
        job.need = min(int(need) or len(job.parents), len(job.parents))
        for name in dict.fromkeys(names):
            queue, _, id_ = name.rpartition("/")
            parent = self.jobs.get((queue, id_))
            if parent is None or parent.status.ended:
                self._parent_ended(job, name, parent.status if parent else "missing")

    def _parent_ended(self, job: RecordedJob, name: str, status: str) -> None:
        if name not in job.parents:
            return
        job.parents.remove(name)
        each_end_is_good = (job.new.after or "").split(" ")[1] == "1"
        job.got += status == "finished" or each_end_is_good
        if job.got >= job.need:
            job.parents = set()
            self._deferred.pop(job)
            self._make_ready(job)
        elif job.got + len(job.parents) < job.need:
            code = "PARENT_MISSING" if status == "missing" else "PARENT_FAILED"
            self.end(job, JobStatus.FAILED, error=failure(code, f"its parent {name} {_ENDS[status]}"))

    # -- callbacks -----------------------------------------------------------------------------------------------------

    def _call_back(self, job: RecordedJob) -> None:
        key = "on_success" if job.status is JobStatus.FINISHED else "on_failure"
        said = callbacks_of(job.new.follow or "").get(key)
        if not said:
            return
        kwargs: dict[str, Any] = {"event": self._event(job)}
        if "url" in said:
            kwargs = {"url": said["url"], "body": kwargs, "allow_private": True}
        id_ = "cb-" + hashlib.sha1(job.name.encode(), usedforsecurity=False).hexdigest()[:24]
        body = json.dumps([[], kwargs]).encode()
        new = NewJob(id_, said["task"], body, said["priority"], expires_ms=said.get("expires"))
        self.store(said["queue"], [new._replace(unique=said.get("unique"))], counted=False)

    def _event(self, job: RecordedJob) -> dict[str, Any]:
        """What a callback is called with."""
        finished = job.status is JobStatus.FINISHED
        raw = {"result": job.raw_result if finished else None, "error": None if finished else job.raw_error}
        large = {name for name, value in raw.items() if value and len(value) > _LARGEST}
        body = [None, None] if len(job.new.args) > _LARGEST else [job.args, job.kwargs]
        given = {name: json.loads("null" if name in large else value or "null") for name, value in raw.items()}
        return {
            "id": job.id, "queue": job.queue, "task": job.task, "status": str(job.status),
            "args": body[0], "kwargs": body[1], **given, "attempts": job.attempts,
            "created_at": round(job.created_at, 3), "ended_at": round(self.now(), 3),
            "truncated": bool(large) or body[0] is None,
        }  # fmt: skip
