"""
What `fusiond top` shows, and what its keys do: the same verbs and the same cells as the commands. Knows no screen.

A view is a page of rows, each under a key: the name of a queue, of a worker or of a job, or the digest of failures.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from fusiond.cli.find.broker import Session
from fusiond.cli.job import record
from fusiond.cli.job.search import JobFilter, search
from fusiond.cli.queue import HEADINGS, count_each, outcome, queue_row
from fusiond.cli.status.workers import WORKER_HEADINGS, ask_workers, worker_row
from fusiond.cli.terminal.text import count
from fusiond.cli.top.top_failures import HEADINGS as FAILURE_HEADINGS
from fusiond.cli.top.top_failures import FailureTable
from fusiond.job import JobStatus
from fusiond.masking import masked_job

#: in the order of their keys
VIEWS: Final = ("queues", "workers", "jobs", "failures", "failed jobs")
#: those whose rows are jobs
OF_JOBS: Final = ("jobs", "failed jobs")
#: jobs of a page
_MOST: Final = 200
_JOB_HEADINGS: Final = ("JOB", "TASK", "STATUS", "ATTEMPTS", "WHEN", "CALL OR ERROR")
_CANCELED: Final = {
    "canceled": "canceled", "asked": "is running and will be stopped", "ended": "has already ended",
    "missing": "is no longer there",
}  # fmt: skip
_REQUEUED: Final = {1: "requeued", 2: "is queued already", 3: "stays: another job has its lock"}


class Contents(NamedTuple):
    """What a view shows now."""

    headings: tuple[str, ...]
    #: key → cells
    rows: dict[str, tuple[object, ...]]
    #: what is wrong, or all in one line
    note: str


class Views:
    """The views of one namespace. Each method raises BrokerError if Redis cannot be reached."""

    def __init__(self, session: Session, restart: Callable[[str, int], str]) -> None:
        """`restart`: replaces the worker group of this name on this host, whose dispatcher has this pid."""
        self._session, self._restart = session, restart
        self.failures = FailureTable(session)
        #: worker → its group, as it was seen last
        self._groups: dict[str, str] = {}
        self.namespace = session.verbs.keys.namespace

    def page(self, view: str) -> Contents:
        """One of VIEWS."""
        if view in OF_JOBS:
            return self._jobs([each.value for each in JobStatus] if view == "jobs" else ["failed"])
        if view == "failures":
            rows, note = self.failures.look()
            return Contents(FAILURE_HEADINGS, rows, note)
        counted, unreadable = count_each(self._session)
        note = "; ".join(dict.fromkeys(map(str, unreadable)))
        if view == "queues":
            waiting, running = (
                sum(getattr(each, name) for each in counted.values()) for name in ("waiting", "started")
            )
            note = note or f"{waiting:,} waiting, {running:,} running"
            return Contents(HEADINGS, {name: queue_row(name, counts) for name, counts in counted.items()}, note)
        workers = ask_workers(self._session, counted)
        self._groups = {worker.name: worker.fields.get("group", "") for worker in workers}
        busy = sum(len(worker.jobs) for worker in workers)
        note = note or f"{count(len(workers), 'worker')}, {count(busy, 'running job')}"
        return Contents(WORKER_HEADINGS, {worker.name: worker_row(worker) for worker in workers}, note)

    def _jobs(self, statuses: list[str]) -> Contents:
        found = search(self._session, self._session.queues(), statuses, JobFilter(), limit=_MOST, depth=10 * _MOST)
        now = time.time() * 1000
        rows = {job.name: record.row(job, now) for job in found.jobs}
        note = "; ".join(dict.fromkeys(map(str, found.unreadable))) or f"the newest {len(rows):,}"
        return Contents(_JOB_HEADINGS, rows, note)

    def job(self, name: str) -> str:
        """All about a job, or about the last one of a group of failures."""
        queue, _, id_ = self.failures.last.get(name, name).rpartition("/")
        found = self._session.run(self._session.verbs.job(queue, id_))
        if found is None:
            return f"{name} is no longer there"
        return record.page(masked_job(found, self._session.secret()), time.time() * 1000)

    def cancel(self, name: str) -> str:
        """Cancel a job; what became of it."""
        queue, _, id_ = name.rpartition("/")
        return f"{name}: {_CANCELED[self._session.run(self._session.verbs.cancel(queue, id_, who=self._session.who))]}"

    def requeue(self, name: str) -> str:
        """Run a failed or canceled job again; what became of it."""
        queue, _, id_ = name.rpartition("/")
        [code] = self._session.run(self._session.verbs.requeue(queue, [id_], who=self._session.who))
        return f"{name}: {_REQUEUED.get(code, 'is neither failed nor canceled')}"

    def group(self, worker: str) -> str:
        """The group of a worker that was seen."""
        return self._groups.get(worker, "")

    def restart(self, worker: str) -> str:
        """Replace the group of a worker of this host; what the daemon says. Raises FusionError."""
        host, _, pid = worker.rpartition(".")
        group = self.group(worker)
        if host != socket.gethostname():
            return f"{group} runs on {host}, and only the daemon there can restart it"
        return f"{group}: {self._restart(group, int(pid) if pid.isdigit() else 0)}"

    def suspend(self, queue: str) -> str:
        """Suspend a queue, or resume it if an operator has suspended it; what it is then."""
        verbs = self._session.verbs
        on = not self._session.run(verbs.counts(queue)).suspended_by_operator
        suspended = self._session.run(verbs.suspend(queue, by="operator", on=on, who=self._session.who))
        return f"{queue}: {outcome(on=on, suspended=suspended)}"
