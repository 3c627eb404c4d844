"""
What the workers of every host are doing now, for `fusiond status -W`.

1. ask     all workers at once, by a message; each answers with its state and the jobs that it runs
2. wait    for the answers, PATIENCE at most
3. judge   who has not answered is `silent`; who is idle and serves suspended queues alone is `suspended`
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fusiond.cli.table import span, table, when

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fusiond.broker.records import Counts, Worker
    from fusiond.cli.source import Desk

#: seconds that workers have to answer, and between two looks whether they have
PATIENCE, GLANCE = 1.0, 0.02


@dataclass(frozen=True, slots=True)
class Seen:
    """One worker, as it is now."""

    name: str
    #: started (it cannot serve yet, or just now), idle, busy, suspended, silent
    state: str
    queues: tuple[str, ...]
    #: those of its queues that are suspended
    suspended: tuple[str, ...]
    #: {job, task, ms} of each job that runs, the longest first
    jobs: tuple[dict[str, Any], ...]
    #: the rest of what it said, as it said it
    fields: Mapping[str, str]

    def document(self) -> dict[str, Any]:
        """As JSON."""
        known = {"name": self.name, "state": self.state, "queues": self.queues, "suspended_queues": self.suspended}
        return {**self.fields, **known, "jobs": self.jobs}


def ask(desk: Desk, queues: Mapping[str, Counts]) -> list[Seen]:
    """All workers that have said something in the last minute. Raises BrokerError."""
    number = desk.run(desk.verbs.ask_workers())
    deadline = time.monotonic() + PATIENCE
    found = desk.run(desk.verbs.workers())
    while time.monotonic() < deadline and not all(_answered(worker, number) for worker in found):
        time.sleep(GLANCE)
        found = desk.run(desk.verbs.workers())
    suspended = {name for name, one in queues.items() if one.suspended_by_operator or one.suspended_by_file}
    return [_seen(worker, suspended, silent=not _answered(worker, number)) for worker in found]


def why_unserved(desk: Desk, queue: str, task: str) -> str:
    """
    Why no job of the task is begun from the queue just now, as a sentence; "" where a worker serves both.

    Two things must hold: a worker answers, now, that it claims from the queue; and what the daemons publish says that
    one whose file has the task claims from it, as it decides for producers whether a job is served.
    """
    counts = desk.run(desk.verbs.counts(queue))
    if counts.suspended_by_operator or counts.suspended_by_file:
        return f"queue {queue!r} is suspended; fusiond resume {queue}"
    workers = [worker for worker in ask(desk, {queue: counts}) if queue in worker.queues]
    if any(worker.state in ("idle", "busy") and worker.fields.get("phase") == "serving" for worker in workers):
        if desk.run(desk.verbs.catalogue()).serves(task, queue):
            return ""
        return f"what serves queue {queue!r} now has no task {task!r} in its file; reload the daemon that has it"
    found = ", ".join(map(_state, workers)) or "no worker names it"
    return f"nothing serves queue {queue!r} now: {found}; fusiond status shows the programs"


def _state(worker: Seen) -> str:
    """What it is, and what keeps it from serving where it says so."""
    trouble = worker.fields.get("trouble")
    return f"{worker.name} is {worker.state}" + (f" ({trouble})" if trouble else "")


def _answered(worker: Worker, number: int) -> bool:
    return _number(worker.fields.get("answers")) >= number


def _seen(worker: Worker, suspended: set[str], *, silent: bool) -> Seen:
    queues = tuple(worker.fields.get("queues", "").split())
    off = tuple(name for name in queues if name in suspended)
    state = worker.fields.get("state", "")
    if silent:
        state = "silent"
    elif state == "idle" and off and off == queues:
        state = "suspended"
    return Seen(worker.name, state, queues, off, () if silent else _jobs(worker), worker.fields)


def _jobs(worker: Worker) -> tuple[dict[str, Any], ...]:
    """What it said that runs; none where the record was written by somebody else."""
    try:
        said = json.loads(worker.fields.get("jobs", "[]"))
        return tuple({"job": str(one["job"]), "task": str(one["task"]), "ms": int(one["ms"])} for one in said)
    except (ValueError, TypeError, KeyError, RecursionError):
        return ()


def _number(said: str | None) -> int:
    return int(said) if said and said.isascii() and said.isdigit() and len(said) < 16 else 0


def page(workers: Iterable[Seen]) -> str:
    """For people: the workers, then the jobs that they run."""
    workers = list(workers)
    shown = table(("WORKER", "GROUP", "STATE", "BUSY", "QUEUES", "BORN", "NOTES"), map(_row, workers), right="busy")
    jobs = [(one["job"], one["task"], span(one["ms"] / 1000), worker.name) for worker in workers for one in worker.jobs]
    return shown + ("\n\n" + table(("JOB", "TASK", "RUNS FOR", "WORKER"), jobs, right="runs for") if jobs else "")


def _row(worker: Seen) -> tuple[object, ...]:
    said, now = worker.fields, time.time() * 1000
    born = _number(said.get("born"))
    return (
        worker.name,
        said.get("group", ""),
        worker.state,
        f"{said.get('running', '0')}/{said.get('processes', '?')}",
        ", ".join(f"{name} (suspended)" if name in worker.suspended else name for name in worker.queues),
        when(born or None, now),
        _note(worker, now),
    )


def _note(worker: Seen, now: float) -> str:
    if worker.state == "silent":
        heard = _number(worker.fields.get("said"))
        ago = f"; it was last heard {when(heard, now)}" if heard else ""
        return f"it does not answer{ago}: killed, frozen or cut off"
    return "draining" if worker.fields.get("phase") == "draining" else ""
