"""
What `fusiond top` shows, and what its keys do: the same verbs and the same cells as the commands. Knows no screen.

A view is a page of rows, each under a key: the name of a queue, of a worker or of a job, or the digest of failures.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from fusiond.cli.find.broker import Session
from fusiond.cli.job import record
from fusiond.cli.queue import HEADINGS, outcome, queue_row
from fusiond.cli.status.workers import WORKER_HEADINGS, ask_workers, worker_row
from fusiond.cli.terminal.text import count, one_line, when
from fusiond.inspecting.failure_groups import FailureRow, look_at_failures
from fusiond.inspecting.job_changes import CHANGES, change_jobs, outcome_of
from fusiond.inspecting.one_job import canceled, requeued
from fusiond.inspecting.queues import count_each
from fusiond.inspecting.search import JobFilter, matching
from fusiond.job import JobStatus
from fusiond.masking import masked_job

#: in the order of their keys
VIEWS: Final = ("queues", "workers", "jobs", "failures", "failed jobs")
#: those whose rows are jobs
OF_JOBS: Final = ("jobs", "failed jobs")
#: jobs of a page
_MOST: Final = 200
_FAILURE_HEADINGS: Final = ("JOBS", "TASK", "ERROR", "LAST", "FIRST", "QUEUES")
#: failed jobs that each look reads
_LOOK: Final = 2_000


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
        #: digest of each group of failures that was seen → the full name of its last job
        self._last: dict[str, str] = {}
        #: worker → its group, as it was seen last
        self._groups: dict[str, str] = {}
        self.namespace = session.verbs.keys.namespace

    def page(self, view: str) -> Contents:
        """One of VIEWS."""
        if view in OF_JOBS:
            return self._jobs([*JobStatus] if view == "jobs" else [JobStatus.FAILED])
        counted, unreadable = self._session.run(count_each(self._session.verbs))
        if view == "failures":
            seen = self._session.run(look_at_failures(self._session.verbs, counted, _LOOK))
            rest = f", those kept longest, of {seen.among:,}" if seen.looked_at < seen.among else ""
            rows = {row.id: row for row in seen.rows({})}
            self._last = {digest: row.job for digest, row in rows.items()}
            cells = {digest: _failure_cells(row) for digest, row in rows.items()}
            return Contents(_FAILURE_HEADINGS, cells, count(seen.looked_at, "failed job") + rest)
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

    def _jobs(self, statuses: Sequence[JobStatus]) -> Contents:
        queues = self._session.queues()
        found = record.search(self._session, queues, statuses, JobFilter(), most=_MOST, depth=10 * _MOST)
        now = time.time() * 1000
        rows = {job.name: record.row(job, now) for job in found.jobs}
        note = "; ".join(dict.fromkeys(map(str, found.unreadable))) or f"the newest {len(rows):,}"
        return Contents(record.HEADINGS, rows, note)

    def job(self, name: str) -> str:
        """All about a job, or about the last one of a group of failures."""
        queue, _, id_ = self._last.get(name, name).rpartition("/")
        found = self._session.run(self._session.verbs.job(queue, id_))
        if found is None:
            return f"{name} is no longer there"
        return record.page(masked_job(found, self._session.secret()), time.time() * 1000)

    def cancel(self, name: str) -> str:
        """Cancel a job; what became of it."""
        queue, _, id_ = name.rpartition("/")
        word = self._session.run(self._session.verbs.cancel(queue, id_, who=self._session.who))
        return f"{name}: {canceled(word).text}"

    def requeue(self, name: str) -> str:
        """Run a failed or canceled job again; what became of it."""
        queue, _, id_ = name.rpartition("/")
        status = self._session.run(self._session.verbs.status(queue, id_))
        [code] = self._session.run(self._session.verbs.requeue(queue, [id_], who=self._session.who))
        return f"{name}: {requeued(code, status).text if status else 'is no longer there'}"

    def requeue_failures(self, digest: str) -> str:
        """Run all jobs of a group of failures again; what became of them."""
        return self._change(digest, "requeue")

    def drop_failures(self, digest: str) -> str:
        """Delete all jobs of a group of failures; what became of them."""
        return self._change(digest, "discard")

    def _change(self, digest: str, verb: str) -> str:
        session, act = self._session, CHANGES[verb]
        of_group = JobFilter(group=digest)
        names = session.run(
            matching(session.verbs, session.queues(), act.default, of_group, secret=session.secret(), tags={})
        )
        return outcome_of(act, session.run(change_jobs(session.verbs, act, names, session.who)))[1]

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


def _failure_cells(row: FailureRow) -> tuple[Any, ...]:
    now = time.time() * 1000
    return row.count, row.task, one_line(row.error), when(row.last, now), when(row.first, now), ", ".join(row.queues)
