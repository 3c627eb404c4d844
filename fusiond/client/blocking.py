"""The client for threads."""

from collections.abc import Callable, Iterable
from typing import Any, Generic, ParamSpec, Self, TypeVar, overload

from fusiond.broker.call import Call, Plan
from fusiond.broker.records import Counts
from fusiond.broker.redis.connection import Connection, connect
from fusiond.client.base import BaseClient, JobHandle
from fusiond.client.flow_handles import FlowRun
from fusiond.enqueue_options import Duration, Moment
from fusiond.flows.run_control import RunRef
from fusiond.job import JobProgress, JobRecord, JobStatus
from fusiond.producer.new_jobs import JobRef

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class Job(JobHandle, Generic[R]):
    """A job that was enqueued; each method asks Redis."""

    __slots__ = ()
    _client: "Client"

    def status(self) -> JobStatus:
        """Its status now. Raises JobNotFound."""
        return self._client._run(self._client._producer.outcome(self._ref)).status

    def result(self, timeout: float | None = None) -> R:
        """
        Wait until the job has ended; returns what the function returned, as JSON.

        Args:
            timeout: seconds; None: for ever.

        Raises:
            JobFailed, JobCanceled: the job failed, or was canceled.
            ResultTimeout: it has not ended in time; it goes on.
            JobNotFound: it was deleted after its result_ttl.
        """
        return self._client._run(self._client._producer.result(self._ref, timeout))  # type: ignore[no-any-return]

    def progress(self) -> JobProgress | None:
        """How far the job has said that it is, at most half a second ago; None: it has not. Raises JobNotFound."""
        return self._client._run(self._client._producer.progress(self._ref))

    def cancel(self) -> bool:
        """Remove the job from its queue, or kill it if it runs. False: it had ended already. Raises JobNotFound."""
        return self._client._run(self._client._producer.cancel(self._ref))

    def requeue(self) -> bool:
        """
        Put the job back into its queue if it failed or was canceled. False: it did neither, and is not queued.

        Raises JobConflict if another job is there that is the same by `unique` of its task.
        """
        return self._client._run(self._client._producer.requeue(self._ref))

    def discard(self) -> bool:
        """Delete the job, a minute after its end at the earliest. False: it neither failed nor was canceled."""
        return self._client._run(self._client._producer.discard(self._ref))


class Client(BaseClient):
    """Enqueues jobs; threads may share it. It connects at the first call."""

    _connect = staticmethod(connect)
    _connection: Connection

    def _run(self, what: Call[T] | Plan[T]) -> T:
        return self._connection.run(self._layout.check_then_run(what))

    @overload
    def enqueue(self, task: str, /, *args: Any, **kwargs: Any) -> Job[Any]: ...
    @overload
    def enqueue(self, task: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Job[R]: ...
    def enqueue(self, task: Any, /, *args: Any, **kwargs: Any) -> Job[Any]:
        """Enqueue one job of the task: its name, or the function that it runs. Raises EnqueueError or BrokerError."""
        # What reads the catalogue has the layout with it.
        return Job(self, self._connection.run(self._producer.enqueue(self._options, task, args, kwargs)))

    @overload
    def enqueue_in(self, delay: Duration, task: str, /, *args: Any, **kwargs: Any) -> Job[Any]: ...
    @overload
    def enqueue_in(self, delay: Duration, task: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Job[R]: ...
    def enqueue_in(self, delay: Duration, task: Any, /, *args: Any, **kwargs: Any) -> Job[Any]:
        """Enqueue a job that begins after this time at the earliest: seconds, `10m` or a timedelta."""
        return self.options(delay=delay).enqueue(task, *args, **kwargs)

    @overload
    def enqueue_at(self, when: Moment, task: str, /, *args: Any, **kwargs: Any) -> Job[Any]: ...
    @overload
    def enqueue_at(self, when: Moment, task: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Job[R]: ...
    def enqueue_at(self, when: Moment, task: Any, /, *args: Any, **kwargs: Any) -> Job[Any]:
        """Enqueue a job that begins at this time at the earliest; `when` is as `at` of `options`."""
        return self.options(at=when).enqueue(task, *args, **kwargs)

    def enqueue_many(self, jobs: Iterable[tuple[Any, ...]]) -> list[Job[Any]]:
        """
        Enqueue a job for each (task, args, kwargs); args and kwargs may be left out.

        If it raises, `enqueued` of the exception names the jobs that were stored.
        """
        bulk = self._producer.enqueue_many(self._options, jobs)
        with bulk.reported():
            return [Job(self, ref) for ref in self._connection.run(bulk.plan())]

    def run_flow(self, flow: str, /, **inputs: Any) -> FlowRun:
        """Start a run of a flow of the file. Raises UnknownTask, BadArguments or BrokerError."""
        return FlowRun(self._run, self._flows.control, self._connection.run(self._flows.run_flow(flow, inputs)))

    def flow_run(self, name: str) -> FlowRun:
        """A handle of the run with this full name, `queue/id`; it does not ask whether the run exists."""
        return FlowRun(self._run, self._flows.control, RunRef.named(name))

    def job(self, name: str) -> Job[Any]:
        """
        A handle of the job with this full name, `queue/id`. It does not ask whether the job exists.

        Raises ValueError if the name has no queue: a client does not search all queues for an id, as the commands do.
        """
        return Job(self, JobRef.named(name))

    def counts(self, queue: str | None = None) -> dict[str, Counts]:
        """Queue → its number of jobs by status: this queue, or all queues that were ever declared."""
        return self._run(self._producer.counts(queue))

    def failed(self, queue: str | None = None, *, limit: int = 100) -> list[JobRecord]:
        """The failed jobs of this queue or of all queues, newest first; `job(record.name)` is a handle of one."""
        return self._run(self._producer.failed(queue, limit))

    def close(self) -> None:
        """Close the connection; a later call opens a new one."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
