"""
The producer's face: Client for threads, AsyncClient for asyncio.

    jobs = Client("redis://localhost")
    job = jobs.enqueue("send_otp", "+4912345", code="1234")
    job = jobs.options(delay="5m", priority="high", key="otp-77").enqueue("send_otp", "+49…", code="9")
    job.result(timeout=10)

What both do is in producer.py; here it is only run. A call whose connection was lost is repeated once, which makes no
second job: its id was made before.
"""

from __future__ import annotations

import copy
import dataclasses
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Self, TypeVar, overload

from fusiond import pointers
from fusiond.broker.broker import Broker
from fusiond.broker.redis.connection import TIMEOUT, connect, connect_async
from fusiond.config import model
from fusiond.config.endpoints import BadUrl, split_namespace
from fusiond.errors import BrokerUnavailable, ConfigError
from fusiond.options import NO_OPTIONS, Duration, Moment, Options
from fusiond.paths import (
    ETC,
    control_socket,
    current_snapshot,
    find_config,
    redis_socket,
    runtime_directory,
    state_directory,
)
from fusiond.producer import Place, Producer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType

    from fusiond.broker.durability import Durability
    from fusiond.broker.records import Counts
    from fusiond.broker.redis.connection import AsyncConnection, Connection
    from fusiond.config.yaml.nodes import Node
    from fusiond.job import JobRecord, JobStatus

P = ParamSpec("P")
R = TypeVar("R")
log = logging.getLogger(__name__)


class _Handle:
    """A job's name; what Job and AsyncJob have in common."""

    __slots__ = ("_client", "_place")

    def __init__(self, client: Any, place: Place) -> None:
        self._client, self._place = client, place

    @property
    def id(self) -> str:
        """The job's id."""
        return self._place.id

    @property
    def queue(self) -> str:
        """The queue that holds it."""
        return self._place.queue

    @property
    def name(self) -> str:
        """`queue/id`, the job's full name."""
        return f"{self._place.queue}/{self._place.id}"

    @property
    def served(self) -> bool | None:
        """
        Whether a living worker group ran jobs of this task from this queue when the job was enqueued.

        False: the job waits until one does; `fusiond status` says how to move it. None: the handle was made by name.
        """
        return self._place.served

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Handle) and self._place[:2] == other._place[:2]

    def __hash__(self) -> int:
        return hash(self._place[:2])


class _Client:
    """What Client and AsyncClient have in common: options, and how a name becomes a place."""

    _producer: Producer
    _options: Options = NO_OPTIONS

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
        return self._client._run(self._client._producer.outcome(self._place)).status  # noqa: SLF001

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
        return self._client._run(self._client._producer.result(self._place, timeout))  # type: ignore[no-any-return]  # noqa: SLF001

    def cancel(self) -> bool:
        """End it, or have it ended if it runs; False: it had ended before. Raises JobNotFound."""
        return self._client._run(self._client._producer.cancel(self._place))  # noqa: SLF001

    def requeue(self) -> bool:
        """Run it again if it failed or was canceled; False: it is neither, nor queued."""
        return self._client._run(self._client._producer.requeue(self._place))  # noqa: SLF001

    def discard(self) -> bool:
        """Drop it if it failed or was canceled, at the latest a minute after its end; False: it is neither."""
        return self._client._run(self._client._producer.discard(self._place))  # noqa: SLF001


class Client(_Client):
    """Enqueues jobs; threads may share it. It connects at the first call."""

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
            namespace: the head of each key; None: the file's, or `fusion`.
            durability: what enqueue waits for: Redis has the job; its disk has it; `replica`: replicas have it.
            replicas: how many of them. With fewer than there are, one that has not got the job may be promoted.
            timeout: seconds that Redis may take to accept a connection, and then to answer; a call that got no answer
                is sent once more. `result` has a timeout of its own.
            ca_file: with rediss://, the certificates that the server's is checked against; None: the system's.
            cert_file: with rediss://, the client's own certificate.
            key_file: the key of that certificate.

        Raises:
            ValueError: the timeout is not above 0.
        """
        settings, runtime = find_broker(url, namespace, model.Tls(ca_file, cert_file, key_file))
        self._producer = Producer(Broker(settings.namespace), durability, replicas)
        self._connection: Connection = connect(settings, runtime, repeats=1, timeout=_above_zero(timeout))
        self._run = self._connection.run

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
        return [Job(self, place) for place in self._run(self._producer.enqueue_many(self._options, jobs))]

    def job(self, name: str) -> Job[Any]:
        """The job of that full name, `queue/id`, whether there is one or not."""
        return Job(self, _place(name))

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

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


class AsyncJob(_Handle, Generic[R]):
    """A job that was enqueued; each method asks Redis."""

    __slots__ = ()
    _client: AsyncClient

    async def status(self) -> JobStatus:
        """As `Job.status`."""
        return (await self._client._run(self._client._producer.outcome(self._place))).status  # noqa: SLF001

    async def result(self, timeout: float | None = None) -> R:  # noqa: ASYNC109 - the same face as Job's
        """As `Job.result`."""
        return await self._client._run(self._client._producer.result(self._place, timeout))  # noqa: SLF001

    async def cancel(self) -> bool:
        """As `Job.cancel`."""
        return await self._client._run(self._client._producer.cancel(self._place))  # noqa: SLF001

    async def requeue(self) -> bool:
        """As `Job.requeue`."""
        return await self._client._run(self._client._producer.requeue(self._place))  # noqa: SLF001

    async def discard(self) -> bool:
        """As `Job.discard`."""
        return await self._client._run(self._client._producer.discard(self._place))  # noqa: SLF001


class AsyncClient(_Client):
    """Enqueues jobs from one event loop; its tasks may share it. It connects at the first call."""

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
        """As `Client`."""
        settings, runtime = find_broker(url, namespace, model.Tls(ca_file, cert_file, key_file))
        self._producer = Producer(Broker(settings.namespace), durability, replicas)
        self._connection: AsyncConnection = connect_async(settings, runtime, repeats=1, timeout=_above_zero(timeout))
        self._run = self._connection.run

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
        return [AsyncJob(self, place) for place in await self._run(self._producer.enqueue_many(self._options, jobs))]

    def job(self, name: str) -> AsyncJob[Any]:
        """As `Client.job`."""
        return AsyncJob(self, _place(name))

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

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self.close()


def _above_zero(timeout: float) -> float:
    if not timeout > 0:
        raise ValueError(f"timeout={timeout}: write seconds above 0")
    return timeout


def find_broker(url: str | None, namespace: str | None, tls: model.Tls | None = None) -> tuple[model.Broker, Path]:
    """
    Which Redis a producer is to use, and the runtime directory of an embedded one.

    Raises:
        ConfigError: no URL is given, and there is no file, or one with problems.
    """
    url = url or os.environ.get("FUSION_URL")
    settings, runtime = _of_url(url) if url else _of_the_file()
    if tls is not None and tls != model.Tls():
        settings = dataclasses.replace(settings, tls=tls)
    try:
        return dataclasses.replace(settings, namespace=Broker(namespace or settings.namespace).keys.namespace), runtime
    except ValueError as error:
        raise BrokerUnavailable(str(error)) from None


def _of_the_file() -> tuple[model.Broker, Path]:
    from fusiond.config.load import load  # YAML is read by those only who give no URL

    try:
        path = find_config()
    except ConfigError:
        raise ConfigError(
            "no broker is named: give the Client a URL, or set $FUSION_URL or $FUSION_CONFIG; "
            f"neither ./fusion.yaml nor {ETC} exists"
        ) from None
    loaded = load(path, environ=os.environ)
    config = _in_force(path, loaded.root, loaded.config)
    if config is None:
        raise ConfigError(f"{path} has problems, `fusiond validate {path}` shows them; or set $FUSION_URL")
    if config.broker.url != "embedded":
        return config.broker, Path("/")
    return config.broker, _runtime(path, config.runtime_directory)


def _in_force(file: Path, root: Node | None, written: model.Config | None) -> model.Config | None:
    """
    What the file says; where it has problems, or names another broker than its daemon runs on, what that has accepted.

    A daemon takes another broker at its next start only. None: the file has problems, and nothing was accepted.
    """
    accepted = _accepted(file, root)
    if accepted is None or written is None:
        if accepted is not None:
            log.warning("%s has problems; jobs go to the broker of the configuration that was accepted last", file)
        return written or accepted
    same = (accepted.broker.url, accepted.broker.namespace) == (written.broker.url, written.broker.namespace)
    if same or not _is_run(file):
        return written
    log.warning("%s names another broker than its daemon runs on; jobs go to the daemon's until it is restarted", file)
    return accepted


def _is_run(file: Path) -> bool:
    """Whether a production daemon of the file listens."""
    sockets = [control_socket(Path(pointer.runtime)) for pointer in pointers.find(file) if not pointer.development]
    return any(pointers.is_listening(path, pointers.trusted(file)) for path in sockets)


def _accepted(file: Path, root: Node | None) -> model.Config | None:
    """
    What the file's production daemon accepted last, as far as this user may read it.

    It is looked for in the state directory that the file names, or that is the file's own.
    """
    from fusiond.config.accepted.snapshot import read_snapshot
    from fusiond.config.build import Directories, directories

    said = directories(root) if root is not None else Directories()
    try:
        snapshot = read_snapshot(current_snapshot(state_directory(file, said.state_directory)))
    except ConfigError:
        return None
    return snapshot.config if pointers.same_file(snapshot.source, file) else None


def _of_url(url: str) -> tuple[model.Broker, Path]:
    try:
        bare, namespace = split_namespace(url)
    except BadUrl as error:
        raise BrokerUnavailable(f"{error}; {error.remedy}") from None
    return (model.Broker(url=bare, namespace=namespace) if namespace else model.Broker(url=bare)), Path("/")


def _runtime(file: Path, key: str | None) -> Path:
    """
    The runtime directory whose embedded server listens: that of the production daemon, else that of `fusiond dev`.

    A daemon that was given the file by another name, such as a symlink to it, comes after all that were given this one.
    Where none listens, the place where production's would be. Raises BrokerUnavailable where another file's daemon has
    taken that place.
    """
    usual, found = runtime_directory(file, key), pointers.find(file)
    if other := pointers.other_file(usual, file):
        raise BrokerUnavailable(f"{usual} is that of the daemon of {other}, not of {file}; set runtime_directory apart")
    # By another name or not, of `fusiond dev` or not; False comes before True.
    places = [(pointer.file != str(file), pointer.development, Path(pointer.runtime)) for pointer in found]
    for _, development, runtime in sorted([*places, (False, False, usual)], key=lambda place: place[:2]):
        if pointers.is_listening(redis_socket(runtime), None if runtime == usual else pointers.trusted(file)):
            if development:
                log.warning("only fusiond dev runs %s on this host; jobs go to its broker", file)
            return runtime
    return usual


def _place(name: str) -> Place:
    queue, _, id_ = name.rpartition("/")
    if not queue or not id_:
        raise ValueError(f"{name!r} is no full name of a job, which is queue/id")
    return Place(queue, id_)
