"""
What the workers of every host do now, for `fusiond status -W`.

1. ask     all workers at once, by a message; each answers with its state and its jobs
2. wait    for the answers, at most PATIENCE seconds
3. judge   a worker without an answer is `silent`, and `gone` once it has said nothing for the time of a lease; an idle
           one of which all queues are suspended is `suspended`
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fusiond.broker.hosts.host_records import Worker, whole
from fusiond.broker.records import Counts
from fusiond.cli.find.broker import Session
from fusiond.cli.job.record import share
from fusiond.cli.terminal.table import table
from fusiond.cli.terminal.text import count, span, when
from fusiond.inspecting import worker_states
from fusiond.inspecting.audit import who_suspended
from fusiond.inspecting.worker_states import state_of, suspended_queues
from fusiond.job import JobRecord, JobStatus

#: seconds that workers have to answer
PATIENCE: Final = 1.0
#: of the table of workers
WORKER_HEADINGS: Final = ("WORKER", "GROUP", "STATE", "BUSY", "QUEUES", "STARTED", "NOTES")


@dataclass(frozen=True, slots=True)
class SeenWorker:
    """One worker, as it is now."""

    name: str
    #: started (it does not serve yet, or not at the moment), idle, busy, suspended, draining, silent, gone
    state: str
    queues: tuple[str, ...]
    #: those of its queues that are suspended
    suspended: tuple[str, ...]
    #: {job, task, ms}, and perhaps share and message, of each running job, the longest first
    jobs: tuple[dict[str, Any], ...]
    #: all fields of its record in Redis
    fields: Mapping[str, str]

    def document(self) -> dict[str, Any]:
        """As JSON."""
        known = {"name": self.name, "state": self.state, "queues": self.queues, "suspended_queues": self.suspended}
        return {**self.fields, **known, "jobs": self.jobs}


def ask_workers(session: Session, queues: Mapping[str, Counts]) -> list[SeenWorker]:
    """All workers that were heard within the last minute. Raises BrokerError."""
    suspended = suspended_queues(queues)
    asked = session.run(worker_states.ask_workers(session.verbs, PATIENCE))
    return [_seen(worker, suspended, answered=answered) for worker, answered in asked]


def why_waiting(session: Session, job: JobRecord) -> str:
    """Why a job has not begun, as a sentence; "" if it has, or if a worker serves it. Raises BrokerError."""
    if job.status is JobStatus.HELD and not job.limit:
        held = session.run(session.verbs.counts(job.queue)).held_tasks
        if by := next((each.what for each in held if each.task == job.task), ""):
            remedy = f"; fusiond task resume {job.task}" if by == "operator" else ""
            return f"task {job.task!r} is suspended by the {by}{remedy}"
        if any(each.error for each in held if each.task == job.task):
            return f"the code of task {job.task!r} does not load; fusiond status says why"
    elif job.status is not JobStatus.QUEUED:
        return ""
    return why_unserved(session, job.queue, job.task)


def why_unserved(session: Session, queue: str, task: str) -> str:
    """
    Why no worker begins a job of the task from the queue, as a sentence; "" if one serves both.

    It needs two things: a worker that answers now and claims from the queue, and a living daemon whose file has the
    task and whose workers claim from the queue. `served` of a producer's job checks only the second.
    """
    counts = session.run(session.verbs.counts(queue))
    if counts.suspended_by_operator or counts.suspended_by_file:
        return f"queue {queue!r} is suspended{_by_whom(session, queue, counts)}; fusiond resume {queue}"
    workers = [worker for worker in ask_workers(session, {queue: counts}) if queue in worker.queues]
    if any(worker.state in ("idle", "busy") and worker.fields.get("phase") == "serving" for worker in workers):
        if session.run(session.verbs.catalogue()).serves(task, queue):
            return ""
        return f"what serves queue {queue!r} now has no task {task!r} in its file; reload the daemon that has it"
    found = [_state(worker) for worker in workers if worker.state not in ("silent", "gone")]
    if silent := len(workers) - len(found):
        found.append(f"{count(silent, 'worker')} of it killed, frozen or cut off")
    reason = ", ".join(found) or "no worker group claims from it"
    return f"nothing serves queue {queue!r} now: {reason}; fusiond status shows the programs"


def _by_whom(session: Session, queue: str, counts: Counts) -> str:
    if not counts.suspended_by_operator:
        return " by the file"
    act = session.run(who_suspended(session.verbs, queue))
    return f" by {act.who}, {when(act.at, time.time() * 1000)}" if act else " by an operator"


def place_in_words(session: Session, job: JobRecord) -> str:
    """Where a ready job stands in its queue, and about when it begins; "" if it is not ready. Raises BrokerError."""
    place, counts = session.run(session.verbs.place(job.queue, job.id)), session.run(session.verbs.counts(job.queue))
    if place is None:
        return ""
    words = f"it is number {place + 1:,} of {count(counts.queued, 'ready job')}"
    if counts.max_running is not None and counts.started >= counts.max_running:
        words += f"; the queue runs {counts.started:,} of at most {counts.max_running:,} jobs at once"
    leaves = session.run(session.verbs.rates([job.queue], time.time()))[job.queue].leaves
    return words + (f"; about in {span((place + 1) / leaves)}, as of the last 10 minutes" if leaves else "")


def _state(worker: SeenWorker) -> str:
    """The worker's state, and what keeps it from serving, if it says so."""
    trouble = worker.fields.get("trouble")
    return f"{worker.name} is {worker.state}" + (f" ({trouble})" if trouble else "")


def _seen(worker: Worker, suspended: set[str], *, answered: bool) -> SeenWorker:
    state, queues = state_of(worker, suspended, answered=answered), tuple(worker.queues)
    off = tuple(name for name in queues if name in suspended)
    return SeenWorker(worker.name, state, queues, off, tuple(worker.jobs) if answered else (), worker.fields)


def workers_page(workers: Sequence[SeenWorker]) -> str:
    """For people: the workers, then their jobs."""
    shown = table(WORKER_HEADINGS, map(worker_row, workers), right="busy")
    jobs = sorted(((worker.name, one) for worker in workers for one in worker.jobs), key=lambda each: -each[1]["ms"])
    rows = [(one["job"], one["task"], span(one["ms"] / 1000), name, _share(one)) for name, one in jobs]
    headings = ("JOB", "TASK", "RUNS FOR", "WORKER") + (("PROGRESS",) if any(row[-1] for row in rows) else ())
    return shown + ("\n\n" + table(headings, (row[: len(headings)] for row in rows)) if rows else "")


def _share(job: dict[str, Any]) -> str:
    return share(job["share"], job["message"]) if "share" in job else ""


def worker_row(worker: SeenWorker) -> tuple[object, ...]:
    """The cells of one worker, as of WORKER_HEADINGS."""
    said, now = worker.fields, time.time() * 1000
    return (
        worker.name,
        said.get("group", ""),
        worker.state,
        f"{said.get('running', '0')}/{said.get('slots') or said.get('processes', '?')}",
        ", ".join(f"{name} (suspended)" if name in worker.suspended else name for name in worker.queues),
        when(whole(said.get("born")) or None, now),
        _note(worker, now),
    )


def _note(worker: SeenWorker, now: float) -> str:
    if worker.state == "gone":
        return "it gave no sign of life for 15 s, the time of a lease: other workers take over its jobs"
    if worker.state == "silent":
        heard = whole(worker.fields.get("said"))
        ago = f"; it was last heard {when(heard, now)}" if heard else ""
        return f"it does not answer{ago}: killed, frozen or cut off"
    if not (within := worker.fields.get("range")):
        return ""
    number, why = worker.fields.get("processes", "?"), worker.fields.get("why")
    return f"{number} of {within} processes" + (f" ({why})" if why else "")
