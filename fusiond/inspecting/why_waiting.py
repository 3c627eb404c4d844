"""Why a job has not begun, as a sentence, and where it stands in its queue."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from fusiond.broker.call import Plan
from fusiond.broker.hosts.host_records import Worker
from fusiond.broker.pool_verbs import ALL_JOBS, PoolUse
from fusiond.broker.records import Counts
from fusiond.broker.verbs import Verbs
from fusiond.inspecting.audit import who_suspended
from fusiond.inspecting.worker_states import state_of
from fusiond.job import JobRecord, JobStatus

#: s → a length of time in words
Span = Callable[[float], str]
#: asks the workers: each with whether it has answered
Asking = Callable[[], Plan[Sequence[tuple[Worker, bool]]]]


def why_not_begun(verbs: Verbs, job: JobRecord, asking: Asking, span: Span) -> Plan[str]:
    """Why a job has not begun, otherwise its place; "" if it has, or if its status says it. Raises BrokerError."""
    if job.status not in (JobStatus.QUEUED, JobStatus.HELD):
        return ""
    why = yield from why_waiting(verbs, job, asking, span)
    return why or (yield from _place(verbs, job, span))


def why_waiting(verbs: Verbs, job: JobRecord, asking: Asking, span: Span) -> Plan[str]:
    """Why a job has not begun; "" if it has, or if a worker serves it. Raises BrokerError."""
    if job.status not in (JobStatus.QUEUED, JobStatus.HELD) or job.limit:
        return ""
    counts: Counts = yield verbs.counts(job.queue)
    held = next((each for each in counts.held_tasks if each.task == job.task), None)
    if held and held.what:
        remedy = f"; fusiond task resume {job.task}" if held.what == "operator" else ""
        return f"task {job.task!r} is suspended by the {held.what}{remedy}"
    if held and held.error and job.status is JobStatus.HELD:
        return f"the code of task {job.task!r} does not load; fusiond status says why"
    uses: dict[str, PoolUse] = yield from verbs.pool_uses()
    for name, use in uses.items():
        is_full = name == ALL_JOBS and use.slots is not None and use.held >= use.slots
        if is_full or (job.status is JobStatus.HELD and job.task in use.waiters):
            return use.sentence(name)
    return (yield from _why_unserved(verbs, job.queue, job.task, asking, span))


def _why_unserved(verbs: Verbs, queue: str, task: str, asking: Asking, span: Span) -> Plan[str]:
    """
    Why no worker begins a job of the task from the queue; "" if one serves both.

    It needs two things: a worker that answers now and claims from the queue, and a living daemon whose file has the
    task and whose workers claim from the queue. `served` of a producer's job checks only the second.
    """
    counts: Counts = yield verbs.counts(queue)
    if counts.is_suspended:
        by = yield from _by_whom(verbs, queue, counts, span)
        return f"queue {queue!r} is suspended{by}; fusiond resume {queue}"
    workers = [(worker, answered) for worker, answered in (yield from asking()) if queue in worker.queues]
    states = [(worker, state_of(worker, set(), answered=answered)) for worker, answered in workers]
    if any(state in ("idle", "busy") and worker.fields.get("phase") == "serving" for worker, state in states):
        if (yield from verbs.catalogue()).serves(task, queue):
            return ""
        return f"what serves queue {queue!r} now has no task {task!r} in its file; reload the daemon that has it"
    found = [_in_words(worker, state) for worker, state in states if state not in ("silent", "gone")]
    if silent := len(states) - len(found):
        found.append(f"{silent:,} worker{'s' if silent > 1 else ''} of it killed, frozen or cut off")
    reason = ", ".join(found) or "no worker group claims from it"
    return f"nothing serves queue {queue!r} now: {reason}; fusiond status shows the programs"


def _by_whom(verbs: Verbs, queue: str, counts: Counts, span: Span) -> Plan[str]:
    if not counts.suspended_by_operator:
        return " by the file"
    act = yield from who_suspended(verbs, queue)
    return f" by {act.who}, {span(max(0, time.time() - act.at / 1000))} ago" if act else " by an operator"


def _in_words(worker: Worker, state: str) -> str:
    """The worker's state, and what keeps it from serving, if it says so."""
    trouble = worker.fields.get("trouble")
    return f"{worker.name} is {state}" + (f" ({trouble})" if trouble else "")


def _place(verbs: Verbs, job: JobRecord, span: Span) -> Plan[str]:
    """Where a ready job stands in its queue, and about when it begins; "" if it is not ready."""
    place: int | None = yield verbs.place(job.queue, job.id)
    if place is None:
        return ""
    counts: Counts = yield verbs.counts(job.queue)
    words = f"it is number {place + 1:,} of {counts.queued:,} ready job{'' if counts.queued == 1 else 's'}"
    if counts.max_running is not None and counts.started >= counts.max_running:
        words += f"; the queue runs {counts.started:,} of at most {counts.max_running:,} jobs at once"
    leaves = (yield from verbs.rates([job.queue], time.time()))[job.queue].leaves
    return words + (f"; about in {span((place + 1) / leaves)}, as of the last 3 minutes" if leaves else "")
