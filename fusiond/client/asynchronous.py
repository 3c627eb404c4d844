"""The client for asyncio: the methods of the one for threads, awaited."""

from collections.abc import Callable, Iterable
from typing import Any, Generic, ParamSpec, Self, TypeVar, overload

from fusiond.broker.call import Call, Plan
from fusiond.broker.records import Counts
from fusiond.broker.redis.connection import AsyncConnection, connect_async
from fusiond.client.base import BaseClient, JobHandle
from fusiond.client.flow_handles import AsyncFlowRun
from fusiond.enqueue_options import Duration, Moment
from fusiond.flows.run_control import RunRef
from fusiond.job import JobProgress, JobRecord, JobStatus
from fusiond.producer.new_jobs import JobRef

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class AsyncJob(JobHandle, Generic[R]):
    """A job that was enqueued; each method asks Redis."""

    __slots__ = ()
    _client: "AsyncClient"

    async def status(self) -> JobStatus:
        """As `Job.status`."""
        return (await self._client._run(self._client._producer.outcome(self._ref))).status

    async def result(self, timeout: float | None = None) -> R:  # noqa: ASYNC109 - the same face as Job's
        """As `Job.result`."""
        return await self._client._run(self._client._producer.result(self._ref, timeout))

    async def progress(self) -> JobProgress | None:
        """As `Job.progress`."""
        return await self._client._run(self._client._producer.progress(self._ref))

    async def cancel(self) -> bool:
        """As `Job.cancel`."""
        return await self._client._run(self._client._producer.cancel(self._ref))

    async def requeue(self) -> bool:
        """As `Job.requeue`."""
        return await self._client._run(self._client._producer.requeue(self._ref))

    async def discard(self) -> bool:
        """As `Job.discard`."""
        return await self._client._run(self._client._producer.discard(self._ref))


class AsyncClient(BaseClient):
    """Enqueues jobs from one event loop at a time, whose tasks may share it. It connects at the first call."""

    _connect = staticmethod(connect_async)
    _connection: AsyncConnection

    async def _run(self, what: Call[T] | Plan[T]) -> T:
        return await self._connection.run(self._layout.check_then_run(what))

    @overload
    async def enqueue(self, task: str, /, *args: Any, **kwargs: Any) -> AsyncJob[Any]: ...
    @overload
    async def enqueue(self, task: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> AsyncJob[R]: ...
    async def enqueue(self, task: Any, /, *args: Any, **kwargs: Any) -> AsyncJob[Any]:
        """As `Client.enqueue`."""
        return AsyncJob(self, await self._connection.run(self._producer.enqueue(self._options, task, args, kwargs)))

    @overload
    async def enqueue_in(self, delay: Duration, task: str, /, *args: Any, **kwargs: Any) -> AsyncJob[Any]: ...
    @overload
    async def enqueue_in(
        self, delay: Duration, task: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs
    ) -> AsyncJob[R]: ...
    async def enqueue_in(self, delay: Duration, task: Any, /, *args: Any, **kwargs: Any) -> AsyncJob[Any]:
        """As `Client.enqueue_in`."""
        return await self.options(delay=delay).enqueue(task, *args, **kwargs)

    @overload
    async def enqueue_at(self, when: Moment, task: str, /, *args: Any, **kwargs: Any) -> AsyncJob[Any]: ...
    @overload
    async def enqueue_at(
        self, when: Moment, task: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs
    ) -> AsyncJob[R]: ...
    async def enqueue_at(self, when: Moment, task: Any, /, *args: Any, **kwargs: Any) -> AsyncJob[Any]:
        """As `Client.enqueue_at`."""
        return await self.options(at=when).enqueue(task, *args, **kwargs)

    async def enqueue_many(self, jobs: Iterable[tuple[Any, ...]]) -> list[AsyncJob[Any]]:
        """As `Client.enqueue_many`."""
        bulk = self._producer.enqueue_many(self._options, jobs)
        with bulk.reported():
            return [AsyncJob(self, ref) for ref in await self._connection.run(bulk.plan())]

    async def run_flow(self, flow: str, /, **inputs: Any) -> AsyncFlowRun:
        """As `Client.run_flow`."""
        return AsyncFlowRun(
            self._run, self._flows.control, await self._connection.run(self._flows.run_flow(flow, inputs))
        )

    def flow_run(self, name: str) -> AsyncFlowRun:
        """As `Client.flow_run`."""
        return AsyncFlowRun(self._run, self._flows.control, RunRef.named(name))

    def job(self, name: str) -> AsyncJob[Any]:
        """As `Client.job`."""
        return AsyncJob(self, JobRef.named(name))

    async def counts(self, queue: str | None = None) -> dict[str, Counts]:
        """As `Client.counts`."""
        return await self._run(self._producer.counts(queue))

    async def failed(self, queue: str | None = None, *, limit: int = 100) -> list[JobRecord]:
        """As `Client.failed`."""
        return await self._run(self._producer.failed(queue, limit))

    async def close(self) -> None:
        """As `Client.close`."""
        await self._connection.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
