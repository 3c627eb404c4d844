"""
What producers use: Client for threads, AsyncClient for asyncio.

    jobs = Client("redis://localhost")
    job = jobs.enqueue("send_otp", "+4912345", code="1234")
    job = jobs.options(delay="5m", priority="high", key="otp-77").enqueue("send_otp", "+49…", code="9")
    job.result(timeout=10)

Both run the plans of producer.py. A call whose connection was lost is repeated once; since the job's id was made
before, that makes no second job.
"""

from __future__ import annotations

import copy
import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar, Generic, ParamSpec, Self, TypeVar, overload

from fusiond.broker.redis.connection import TIMEOUT, connect, connect_async
from fusiond.broker.verbs import Verbs
from fusiond.config import model
from fusiond.enqueue_options import NO_OPTIONS, Duration, Moment, Options
from fusiond.find_broker import find_broker
from fusiond.producer import JobRef, Producer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from fusiond.broker.call import Call, Plan
    from fusiond.broker.durability import Durability
    from fusiond.broker.records import Counts
    from fusiond.broker.redis.connection import AsyncConnection, Connection
    from fusiond.job import JobRecord, JobStatus

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class _Handle:
    """What Job and AsyncJob have in common: they name a job."""

    __slots__ = ("_client", "_ref")

    def __init__(self, client: Any, ref: JobRef) -> None:
        self._client, self._ref = client, ref

    @property
    def id(self) -> str:
        """The job's id."""
        return self._ref.id

    @property
    def queue(self) -> str:
        """The queue that holds it."""
        return self._ref.queue

    @property
    def name(self) -> str:
        """`queue/id`, the job's full name."""
        return self._ref.name

    @property
    def served(self) -> bool | None:
        """
        Whether a living worker group ran jobs of this task from this queue when the job was enqueued.

        False: the job waits until one does; `fusiond status` says how to move it. None: the handle was made by name.
        """
        return self._ref.served

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Handle) and self._ref[:2] == other._ref[:2]

    def __hash__(self) -> int:
        return hash(self._ref[:2])


class _Client:
    """What Client and AsyncClient have in common: all but the running of plans."""

    #: makes the connection
    _connect: ClassVar[Callable[..., Any]]
    _connection: Any
    _options: Options = NO_OPTIONS

    def __init__(
        self,
        url: str | None = None,
        *,
        namespace: str | None = None,
        durability: Durability = "memory",
        replicas: int = 1,
        timeout: float = TIMEOUT,
        ca_file: str | None = None,
        cert_file: str | None = None,
        key_file: str | None = None,
    ) -> None:
        """
        A client of the Redis at `url`.

        Args:
            url: as `broker.url` of the file; None: $FUSION_URL, else what the daemon's file says.
            namespace: the prefix of each key; None: the file's, or `fusion`.
            durability: what enqueue waits for: `memory`: Redis has the job; `fsync`: its disk has it; `replica`:
                replicas have it.
            replicas: how many replicas. With fewer than there are, one that has not got the job may be promoted.
            timeout: seconds that Redis may take to accept a connection, and then to answer; a call that got no answer
                is sent once more. `result` has a timeout of its own.
            ca_file: with rediss://, the certificates that the server's is checked against; None: the system's.
            cert_file: with rediss://, the client's own certificate.
            key_file: the key of that certificate.

        Raises:
            ValueError: the timeout is not above 0.
        """
        if not timeout > 0:
            raise ValueError(f"timeout={timeout}: write seconds above 0")
        settings, runtime = find_broker(url, namespace, model.Tls(ca_file, cert_file, key_file))
        self._producer = Producer(Verbs(settings.namespace), durability, replicas)
        self._connection = self._connect(settings, runtime, repeats=1, timeout=timeout)

    def options(
        self,
        *,
        delay: Duration | None = None,
        at: Moment | None = None,
        priority: str | int | None = None,
        key: str | None = None,
        queue: str | None = None,
        expires: Duration | None = None,
        meta: dict[str, Any] | None = None,
        log_tag: str | None = None,
        timeout: Duration | None = None,
        id: str | None = None,  # noqa: A002
    ) -> Self:
        """
        The same client, over the same connection, whose calls have these options.

        Args:
            delay: not before so long: seconds, `5m` or a timedelta.
            at: not before this time: a datetime with its zone, ISO 8601 with an offset, or epoch seconds.
            priority: a name of the file, or 0 to 255, more first.
            key: a second job of the same task with the same key is the first one.
            queue: another queue than the task's.
            expires: not begun within it, the job fails with EXPIRED.
            meta: JSON that the function is handed with `pass_job`.
            log_tag: the word that marks the job's lines and events.
            timeout: of one attempt, in place of the task's.
            id: the job's id, if it must be a certain one.
        """
        given = {name: value for name, value in locals().items() if name != "self" and value is not None}
        twin = copy.copy(self)
        twin._options = dataclasses.replace(self._options, **given)  # noqa: SLF001 - it is one of us
        return twin


class Job(_Handle, Generic[R]):
    """A job that was enqueued; each method asks Redis."""

    __slots__ = ()
    _client: Client

    def status(self) -> JobStatus:
        """Its status now. Raises JobNotFound."""
        return self._client._run(self._client._producer.outcome(self._ref)).status  # noqa: SLF001

    def result(self, timeout: float | None = None) -> R:
        """
        Wait for its end; what the function returned, as JSON has it.

        Args:
            timeout: seconds; None: for ever.

        Raises:
            JobFailed, JobCanceled: it ended so.
            ResultTimeout: it has not ended in time; it goes on.
            JobNotFound: it was dropped after its result_ttl.
        """
        return self._client._run(self._client._producer.result(self._ref, timeout))  # type: ignore[no-any-return]  # noqa: SLF001

    def cancel(self) -> bool:
        """End it, or have it ended if it runs; False: it had ended before. Raises JobNotFound."""
        return self._client._run(self._client._producer.cancel(self._ref))  # noqa: SLF001

    def requeue(self) -> bool:
        """Run it again if it failed or was canceled; False: it is neither, nor queued."""
        return self._client._run(self._client._producer.requeue(self._ref))  # noqa: SLF001

    def discard(self) -> bool:
        """Drop it if it failed or was canceled, at the latest a minute after its end; False: it is neither."""
        return self._client._run(self._client._producer.discard(self._ref))  # noqa: SLF001


class Client(_Client):
    """Enqueues jobs; threads may share it. It connects at the first call."""

    _connect = staticmethod(connect)
    _connection: Connection

    def _run(self, what: Call[T] | Plan[T]) -> T:
        return self._connection.run(what)

    @overload
    def enqueue(self, task: str, /, *args: Any, **kwargs: Any) -> Job[Any]: ...
    @overload
    def enqueue(self, task: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Job[R]: ...
    def enqueue(self, task: Any, /, *args: Any, **kwargs: Any) -> Job[Any]:
        """Enqueue one job of the task: its name, or the function that it runs. Raises EnqueueError or BrokerError."""
        return Job(self, self._run(self._producer.enqueue(self._options, task, args, kwargs)))

    @overload
    def enqueue_in(self, delay: Duration, task: str, /, *args: Any, **kwargs: Any) -> Job[Any]: ...
    @overload
    def enqueue_in(self, delay: Duration, task: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Job[R]: ...
    def enqueue_in(self, delay: Duration, task: Any, /, *args: Any, **kwargs: Any) -> Job[Any]:
        """The same, not before so long: seconds, `10m` or a timedelta."""
        return self.options(delay=delay).enqueue(task, *args, **kwargs)

    @overload
    def enqueue_at(self, when: Moment, task: str, /, *args: Any, **kwargs: Any) -> Job[Any]: ...
    @overload
    def enqueue_at(self, when: Moment, task: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Job[R]: ...
    def enqueue_at(self, when: Moment, task: Any, /, *args: Any, **kwargs: Any) -> Job[Any]:
        """The same, not before this time: a datetime with its zone, ISO 8601 with an offset, or epoch seconds."""
        return self.options(at=when).enqueue(task, *args, **kwargs)

    def enqueue_many(self, jobs: Iterable[tuple[Any, ...]]) -> list[Job[Any]]:
        """Enqueue (task, args, kwargs), the last two may be left out, 500 in a round trip; the jobs in their order."""
        return [Job(self, ref) for ref in self._run(self._producer.enqueue_many(self._options, jobs))]

    def job(self, name: str) -> Job[Any]:
        """The job of that full name, `queue/id`, whether there is one or not."""
        return Job(self, JobRef.named(name))

    def counts(self, queue: str | None = None) -> dict[str, Counts]:
        """Queue → how many jobs it holds by status; of this queue alone, or of all that were ever declared."""
        return self._run(self._producer.counts(queue))

    def failed(self, queue: str | None = None, *, limit: int = 100) -> list[JobRecord]:
        """The failed jobs of this queue, or of all, the newest first; `job(record.name)` is a handle of each."""
        return self._run(self._producer.failed(queue, limit))

    def close(self) -> None:
        """End the connection; the next call would make a new one."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncJob(_Handle, Generic[R]):
    """A job that was enqueued; each method asks Redis."""

    __slots__ = ()
    _client: AsyncClient

    async def status(self) -> JobStatus:
        """As `Job.status`."""
        return (await self._client._run(self._client._producer.outcome(self._ref))).status  # noqa: SLF001

    async def result(self, timeout: float | None = None) -> R:  # noqa: ASYNC109 - the same face as Job's
        """As `Job.result`."""
        return await self._client._run(self._client._producer.result(self._ref, timeout))  # noqa: SLF001

    async def cancel(self) -> bool:
        """As `Job.cancel`."""
        return await self._client._run(self._client._producer.cancel(self._ref))  # noqa: SLF001

    async def requeue(self) -> bool:
        """As `Job.requeue`."""
        return await self._client._run(self._client._producer.requeue(self._ref))  # noqa: SLF001

    async def discard(self) -> bool:
        """As `Job.discard`."""
        return await self._client._run(self._client._producer.discard(self._ref))  # noqa: SLF001


class AsyncClient(_Client):
    """Enqueues jobs from one event loop; its tasks may share it. It connects at the first call."""

    _connect = staticmethod(connect_async)
    _connection: AsyncConnection

    async def _run(self, what: Call[T] | Plan[T]) -> T:
        return await self._connection.run(what)

    @overload
    async def enqueue(self, task: str, /, *args: Any, **kwargs: Any) -> AsyncJob[Any]: ...
    @overload
    async def enqueue(self, task: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> AsyncJob[R]: ...
    async def enqueue(self, task: Any, /, *args: Any, **kwargs: Any) -> AsyncJob[Any]:
        """As `Client.enqueue`."""
        return AsyncJob(self, await self._run(self._producer.enqueue(self._options, task, args, kwargs)))

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
        return [AsyncJob(self, ref) for ref in await self._run(self._producer.enqueue_many(self._options, jobs))]

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
