"""
The verbs as a plain list of jobs would do them: what a verb does to the queue, and what it replies.

Times are only an order here: a job is due or it is not, a lease holds or has expired.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fusiond.broker.records import NewJob, Outcome

MAX_RESCUES = 1
_order = itertools.count(1)


@dataclass
class Job:
    """A job, by what can be told of it from outside."""

    id: str
    body: bytes
    priority: int
    status: str = "queued"
    #: its place in the row
    place: int = field(default_factory=lambda: next(_order))
    #: its place among the jobs whose time has come; 0: it has not
    due: int = 0
    attempts: int = 0
    crashes: int = 0
    rescues: int = 0
    token: str = ""
    last_token: str = ""
    #: token of the attempt that was the only one to be permitted to begin
    permit: str = ""
    cancel: bool = False
    #: failed or canceled, where that was the last thing that became of it
    ended_as: str = ""
    #: its lease has
    expired: bool = False


class Queue:
    """One queue. Each verb may come again at any time, as a repeat or much too late."""

    def __init__(self) -> None:
        self.jobs: dict[str, Job] = {}
        self.broken = 0
        self.suspended: set[str] = set()
        #: dispatcher -> nonce and ids of its last claim that got a job, or of its last repeat with an unknown nonce
        self.claims: dict[str, tuple[str, list[str]]] = {}
        self._inbox: list[Job | None] = []

    def of(self, *statuses: str) -> list[Job]:
        """The jobs in one of these statuses; all if none is said."""
        return [job for job in self.jobs.values() if not statuses or job.status in statuses]

    def enqueue(self, *jobs: NewJob) -> list[str]:
        return [self._stored(job) for job in jobs]

    def _stored(self, new: NewJob) -> str:
        there = self.jobs.get(new.id)
        if there:
            return "same" if there.body == new.args else "conflict"
        self.jobs[new.id] = Job(new.id, new.args, new.priority, "scheduled" if new.delay_ms else "queued")
        return "stored"

    def enqueue_to(self, token: str, new: NewJob) -> list[str]:
        """Of a job for which a dispatcher waits, under that token; no other job is queued."""
        stored = self._stored(new)
        if stored == "stored":
            job = self.jobs[new.id]
            job.status, job.token, job.attempts = "started", token, 1
        return [stored]

    def push(self, name: str, priority: int, body: bytes) -> None:
        self._inbox.append(Job(name, body, priority))

    def push_garbage(self, _body: bytes) -> None:
        self._inbox.append(None)

    def claim(self, dispatcher: str, nonce: str, want: int, again: bool = False) -> list[tuple[str, int, int, int]]:
        """(id, attempts, crashes, rescues) of each job that it gets. `again`: it was asked before."""
        last, ids = self.claims.get(dispatcher, ("", []))
        if again and last != nonce:
            ids = []
            self.claims[dispatcher] = (nonce, ids)
        if again or last == nonce:
            given = [job for job in map(self.jobs.get, ids) if job and job.token == nonce]
        else:
            told = self._chores()
            given = [] if self.suspended else self._ready()[:want]
            for job in given:
                job.status, job.token, job.attempts = "started", nonce, job.attempts + 1
            if given or told:
                self.claims[dispatcher] = (nonce, [job.id for job in given])
        for job in given:
            job.expired = False
        return [(job.id, job.attempts, job.crashes, job.rescues) for job in given]

    def reserve(self, dispatcher: str, nonce: str, _token: str, again: bool = False) -> list[tuple[str, int, int, int]]:
        return self.claim(dispatcher, nonce, 1, again)

    def _ready(self) -> list[Job]:
        return sorted(self.of("queued"), key=lambda job: (-job.priority, job.place))

    def _chores(self) -> bool:
        """What each claim does first: the inbox, what is due, what has expired; whether its reply tells of any."""
        told = None in self._inbox
        for job in self._inbox:
            if job is None:
                self.broken += 1
            elif job.id not in self.jobs:
                self.jobs[job.id] = job
                job.place = next(_order)
        self._inbox = []
        for job in sorted((job for job in self.of("scheduled") if job.due), key=lambda job: job.due):
            job.status, job.due, job.place = "queued", 0, next(_order)
        for job in self.of("started"):
            if job.expired:
                told = True
                self._rescue(job)
        return told

    def _rescue(self, job: Job) -> None:
        permitted = job.permit == job.token
        job.token, job.expired = "", False
        job.ended_as = "canceled" if job.cancel else ""
        if job.cancel:
            job.status = "canceled"
        else:
            job.rescues += 1
            job.status = "failed" if permitted or job.rescues > MAX_RESCUES else "queued"

    def renew(self, *attempts: tuple[str, ...]) -> list[int]:
        return [self._renewed(*attempt) for attempt in attempts]

    def _renewed(self, name: str, token: str, note: str = "") -> int:
        job = self.jobs.get(name)
        if not job or job.token != token:
            return 0
        job.expired = False
        if note == "permit":
            job.permit = token
        return 2 if job.cancel else 1

    def settle(self, *outcomes: Outcome) -> list[int]:
        return [self._settled(outcome) for outcome in outcomes]

    def _settled(self, outcome: Outcome) -> int:
        job = self.jobs.get(outcome.id)
        goes_on = outcome.kind in ("retry", "snoozed", "released")
        if not job or job.token != outcome.token:
            known = 2 if job and job.last_token == outcome.token else 0
            return {"failed": 3, "canceled": 4}.get(job.ended_as, 2) if job and known and goes_on else known
        job.token, job.last_token, job.expired = "", outcome.token, False
        canceled = job.cancel and goes_on
        may_count = outcome.kind != "snoozed" and (canceled or outcome.kind not in ("finished", "released"))
        if outcome.extra and may_count:
            job.crashes += 1
        if canceled:
            job.status = "canceled"
        elif goes_on:
            job.status = "scheduled" if outcome.ms else "queued"
            job.attempts -= outcome.kind in ("snoozed", "released")
        else:
            job.status = outcome.kind
        job.ended_as = job.status if job.status in ("failed", "canceled") else ""
        return 4 if canceled else 1

    def cancel(self, name: str) -> str:
        job = self.jobs.get(name)
        if not job:
            return "missing"
        if job.status == "started":
            job.cancel = True
            return "asked"
        if job.status not in ("queued", "scheduled"):
            return "ended"
        job.status, job.due, job.ended_as = "canceled", 0, "canceled"
        return "canceled"

    def requeue(self, name: str) -> list[int]:
        job = self.jobs.get(name)
        if not job or job.status not in ("failed", "canceled"):
            return [2 if job and job.status == "queued" else 0]
        job.status, job.place, job.cancel, job.ended_as = "queued", next(_order), False, ""
        job.attempts = job.crashes = job.rescues = 0
        job.permit = ""
        return [1]

    def prioritize(self, name: str, priority: int) -> list[int]:
        job = self.jobs.get(name)
        if not job or job.status not in ("queued", "scheduled"):
            return [0 if not job else 3 if job.status == "started" else 4]
        was, job.priority = job.priority, priority
        return [2 if was == priority else 1]

    def suspend(self, by: str, on: bool) -> bool:
        (self.suspended.add if on else self.suspended.discard)(by)
        return bool(self.suspended)

    # -- time, moved by hand

    def expire(self, ids: list[str]) -> None:
        for name in ids:
            self.jobs[name].expired = True

    def come_due(self, name: str) -> int:
        """Its due time, ms since 1970."""
        self.jobs[name].due = next(_order)
        return self.jobs[name].due
