"""
What a producer does, without I/O: Client and AsyncClient run the same plans.

1. enqueue  one job: make it (new_jobs.py), and send it in a round trip (store.py); or many (bulk.py)
2. follow   a job until it has ended; cancel, requeue and discard it
3. count    jobs, and list those that failed
"""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from fusiond.broker.call import Plan, looked_at
from fusiond.broker.maintenance.operator import LOCKED
from fusiond.broker.records import Counts, JobOutcome
from fusiond.broker.redis.durability import Durability
from fusiond.broker.verbs import Verbs
from fusiond.enqueue_options import Options
from fusiond.errors import BrokerError, JobCanceled, JobConflict, JobFailed, JobNotFound, ResultTimeout
from fusiond.job import JobProgress, JobRecord, JobStatus
from fusiond.producer.bulk import Bulk
from fusiond.producer.loading_guard import refuse_while_loading
from fusiond.producer.new_jobs import JobMaker, JobRef, with_trace
from fusiond.producer.store import Store
from fusiond.producer.tracing import traceparent


class Producer:
    """Makes the plans of one client."""

    def __init__(self, broker: Verbs, durability: Durability, replicas: int = 1) -> None:
        self._broker = broker
        self._maker, self.store = JobMaker(broker), Store(broker, durability, replicas)

    def enqueue(
        self, options: Options, task: str | Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
    ) -> Plan[JobRef]:
        """Store one job. Raises an EnqueueError, and stores nothing, if that cannot be."""
        refuse_while_loading()
        call = (task, args, kwargs)
        queue, job, served = self._maker.make(options, call) or (yield from self._maker.reread_and_make(options, call))
        job = with_trace(job, traceparent())
        if not self.store.is_ready:
            yield from self.store.prepare()
        calls = self.store.calls(queue, (job,))
        existing = self.store.check(queue, (job,), [(yield calls[0])] if len(calls) == 1 else (yield calls))
        if existing:
            return JobRef(queue, existing[job.id], served, existing=True)
        if job.after:
            yield from self.store.deliver(queue)
        return JobRef(queue, job.id, served)

    def enqueue_many(self, options: Options, jobs: Iterable[tuple[Any, ...]]) -> Bulk:
        """An object whose plan stores many jobs."""
        return Bulk(self._maker, self.store, options, jobs)

    def outcome(self, job: JobRef) -> Plan[JobOutcome]:
        """The job's status and result now. Raises JobNotFound."""
        outcome = yield self._broker.outcome(job.queue, job.id)
        if outcome is None:
            raise JobNotFound(f"{job.name}: no such job; it may have been dropped after its ttl")
        return outcome  # type: ignore[no-any-return]

    def result(self, job: JobRef, timeout: float | None) -> Plan[Any]:
        """Wait until the job has ended; what it returned."""
        outcome = yield from looked_at(lambda: self.outcome(job), lambda found: found.status.ended, timeout)
        if outcome.status.ended:
            return returned(job, outcome)
        raise ResultTimeout(f"{job.name} has not ended in time: it is {outcome.status}")

    def progress(self, job: JobRef) -> Plan[JobProgress | None]:
        """How far the job has said that it is; None: it has not. Raises JobNotFound."""
        record = yield self._broker.job(job.queue, job.id)
        if record is None:
            raise JobNotFound(f"{job.name}: no such job; it may have been dropped after its ttl")
        return record.progress  # type: ignore[no-any-return]

    def cancel(self, job: JobRef) -> Plan[bool]:
        """Remove the job from its queue, or kill it if it runs. False: it had ended already. Raises JobNotFound."""
        reply = yield self._broker.cancel(job.queue, job.id)
        if reply == "missing":
            raise JobNotFound(f"{job.name}: no such job; it may have been dropped after its ttl")
        return bool(reply != "ended")

    def requeue(self, job: JobRef) -> Plan[bool]:
        """
        Put a failed or canceled job back into its queue. False: it is neither, and not queued.

        Raises JobConflict if another job is there that is the same by `unique`.
        """
        [reply] = yield self._broker.requeue(job.queue, [job.id])
        if reply == LOCKED:
            raise JobConflict(
                f"{job.name} is not requeued: its task is `unique`, and another job with these arguments exists"
            )
        return bool(reply)

    def discard(self, job: JobRef) -> Plan[bool]:
        """Delete a failed or canceled job. False: it is neither."""
        [reply] = yield self._broker.discard(job.queue, [job.id])
        return bool(reply)

    def counts(self, queue: str | None) -> Plan[dict[str, Counts]]:
        """Queue → its number of jobs by status: this queue, or all queues."""
        queues = yield from self._queues(queue)
        found = yield [self._broker.counts(name) for name in queues]
        return dict(zip(queues, found, strict=True))

    def failed(self, queue: str | None, limit: int) -> Plan[list[JobRecord]]:
        """The failed jobs of all queues, or of this one, the newest first, `limit` at most."""
        queues = yield from self._queues(queue)
        pages = yield [self._broker.jobs(name, JobStatus.FAILED, count=limit) for name in queues]
        found = [job for page in pages for job in page]
        return sorted(found, key=lambda job: job.ended_at or 0, reverse=True)[:limit]

    def _queues(self, queue: str | None) -> Plan[list[str]]:
        if queue is not None:
            return [queue]
        found: list[str] = yield self._broker.queues()
        return found


def returned(job: JobRef, outcome: JobOutcome) -> Any:
    """What an ended job returned; raises what it ended with."""
    if outcome.status is JobStatus.FINISHED:
        return _read(job, outcome.result or b"null")
    if outcome.status is JobStatus.CANCELED:
        raise JobCanceled(f"{job.name} was canceled")
    error = _read(job, outcome.error or b"{}")
    code, kind, message, traceback = map(error.get if isinstance(error, dict) else {}.get, _ERROR)
    raise JobFailed(str(code or "EXCEPTION"), str(kind or ""), str(message or ""), str(traceback or ""))


_ERROR = ("code", "type", "message", "traceback")


def _read(job: JobRef, raw: bytes) -> Any:
    """The stored result or error of a job. Raises BrokerError if it is not JSON: another program has written it."""
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        raise BrokerError(f"{job.name} has ended, and its stored result is not JSON") from None
