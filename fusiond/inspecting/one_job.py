"""One job: why it waits, where its attempts ran; and what became of it when an operator changed it, in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from fusiond.broker.call import Plan
from fusiond.broker.maintenance.operator import LOCKED
from fusiond.broker.verbs import Verbs
from fusiond.job import JobRecord, JobStatus, mark_of

_CANCELED: Final = {
    "canceled": "canceled",
    "asked": "is running and will be stopped",
    "ended": "has already ended",
    "missing": "is no longer there",
}
#: why a job stays that was to be requeued
HAS_RIVAL: Final = "stays: its task is `unique`, and another job has its lock"
_REQUEUED: Final = {1: "requeued", 2: "is queued already", LOCKED: HAS_RIVAL}
_PRIORITIZED: Final = {
    1: "prioritized; it has priority {} now, and higher ones go first",
    2: "has that priority already",
    3: "is running; a priority says only when a job begins",
    4: "has already ended; a priority says only when a job begins",
    0: "is no longer there",
}
#: the id is remembered for a minute, and a sweep deletes the job, some time after that
_LATER: Final = "to be deleted, a minute after its end at the earliest"
#: by the reply of `discard.lua`
_DELETED: Final = {1: "deleted", 2: _LATER, 3: f"no change; it is {_LATER}"}
_DISCARDED: Final = _DELETED | {1: "discarded", 2: f"discarded; {_LATER}"}


#: of many jobs the statuses before are not known
_GONE: Final = "gone, or changed meanwhile"


class Judgement(NamedTuple):
    """What became of a job."""

    #: to be read behind its name and a colon
    text: str
    #: whether that is what was asked for
    done: bool


def canceled(word: str) -> Judgement:
    """By the reply of `cancel`."""
    return Judgement(_CANCELED[word], word in ("canceled", "asked"))


def requeued(code: int, status: JobStatus) -> Judgement:
    """By the reply of `requeue`. `status`: as it was before, or empty; so in the next ones."""
    instead = "; enqueue it again" if status is JobStatus.FINISHED else ""
    return Judgement(_REQUEUED.get(code) or f"{_refusal(status)}{instead}", code in (1, 2))


def prioritized(code: int, priority: int) -> Judgement:
    """By the reply of `prioritize`."""
    return Judgement(_PRIORITIZED[code].format(priority), code in (1, 2))


def deleted(code: int, status: JobStatus) -> Judgement:
    """By the reply of `discard` to a delete."""
    return Judgement(_DELETED.get(code) or (f"{status}, it has not ended" if status else _GONE), bool(code))


def discarded(code: int, status: JobStatus) -> Judgement:
    """By the reply of `discard`."""
    return Judgement(_DISCARDED.get(code) or _refusal(status), bool(code))


def _refusal(status: JobStatus) -> str:
    return f"{status}, neither failed nor canceled" if status else _GONE


def with_hosts(verbs: Verbs, jobs: Sequence[JobRecord]) -> Plan[list[JobRecord]]:
    """The jobs, with the hosts of attempts whose lease was lost, as far as their workers are remembered."""
    if not any(past.worker for job in jobs for past in job.history):
        return [*jobs]
    hosts = {mark_of(name): name.rpartition(".")[0] for name in (yield verbs.worker_names())}
    return [
        replace(job, history=tuple(replace(past, host=past.host or hosts.get(past.worker, "")) for past in job.history))
        for job in jobs
    ]


def held(record: JobRecord) -> str:
    """Why the job is held; empty: it is not."""
    if record.status is not JobStatus.HELD:
        return ""
    if not record.limit:
        return f"until task {record.task!r} is not suspended, its pools have room, and a worker group can run it"
    task, _, values = record.limit.partition(" ")
    return f"by the limit of task {task!r}" + (f", for {values}" if values else "")


def waits_for(need: int, names: Sequence[str], most: int = 5) -> str:
    """`2 of 3 jobs: sms/a, sms/b, sms/c`; "" for none."""
    if not names:
        return ""
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{need} of {len(names)} jobs: {', '.join(names[:most])}{rest}"
