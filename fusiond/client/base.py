"""What the two clients have in common: their settings, the options of a call, and the name of a job."""

import copy
import dataclasses
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Self

from fusiond.broker.layout import LayoutCheck
from fusiond.broker.redis.connection import TIMEOUT
from fusiond.broker.redis.durability import Durability
from fusiond.broker.verbs import Verbs
from fusiond.config import model
from fusiond.enqueue_options import NO_OPTIONS, Duration, Moment, Options
from fusiond.flows.run_control import RunRef
from fusiond.locate.find_broker import find_broker
from fusiond.producer.flow_calls import FlowStarter
from fusiond.producer.new_jobs import JobRef
from fusiond.producer.plans import Producer


class Handle:
    """The name of what is kept in Redis: of a job, or of a run of a flow."""

    __slots__ = ("_ref",)

    def __init__(self, ref: JobRef | RunRef) -> None:
        self._ref = ref

    @property
    def id(self) -> str:
        """Its id."""
        return self._ref.id

    @property
    def queue(self) -> str:
        """The queue that holds it; of a run, that of its flow."""
        return self._ref.queue

    @property
    def name(self) -> str:
        """`queue/id`, its full name."""
        return self._ref.name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Handle) and type(self._ref) is type(other._ref) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)


class JobHandle(Handle):
    """What Job and AsyncJob have in common."""

    __slots__ = ("_client",)
    _ref: JobRef

    def __init__(self, client: Any, ref: JobRef) -> None:
        super().__init__(ref)
        self._client = client

    @property
    def served(self) -> bool | None:
        """
        Whether a living worker group ran jobs of this task from this queue when the job was enqueued.

        False: the job waits until one does; `fusiond status` says how to move it. None: the handle was made by name.
        """
        return self._ref.served

    @property
    def existing(self) -> bool:
        """Whether the call stored no job: this one, which was there, is the same by `unique` of its task."""
        return self._ref.existing


class BaseClient:
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
            durability: what `enqueue` and `run_flow` wait for: `memory`: Redis has the job; `fsync`: its disk has it;
                `replica`: replicas have it.
            replicas: how many replicas must have it. If Redis has more, one without the job may be promoted.
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
        broker = Verbs(settings.namespace)
        self._producer = Producer(broker, durability, replicas)
        self._flows = FlowStarter(broker, self._producer.store)
        self._layout = LayoutCheck(broker.keys)
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
        on_success: dict[str, str] | None = None,
        on_failure: dict[str, str] | None = None,
        retry: str | None = None,
        result_ttl: Duration | None = None,
        failure_ttl: Duration | None = None,
        description: str | None = None,
        traceparent: str | None = None,
        after: Iterable[Any] | None = None,
        join: str | int | None = None,
        on_parent_failure: str | None = None,
        id: str | None = None,
    ) -> Self:
        """
        The same client, over the same connection, whose calls have these options.

        Args:
            delay: the job begins after this time at the earliest: seconds, `5m` or a timedelta.
            at: the job begins at this time at the earliest: a datetime with its zone, ISO 8601 with an offset, or epoch
                seconds.
            priority: a name from the file's `priorities`, or 0 to 255; a higher one goes first.
            key: a second call with the same task and key returns the first job.
            queue: a queue to use instead of the task's.
            expires: a job that has not begun within this time fails with EXPIRED.
            meta: JSON that the function gets with `pass_job`.
            log_tag: a word that is added to the job's log lines and events.
            timeout: the timeout of one attempt, instead of the task's.
            on_success: what is called when the job has finished, instead of the task's: `{"task": NAME}`,
                `{"webhook": URL}`, or `{}` for nothing.
            on_failure: the same when the job has failed.
            retry: a retry policy of the file, instead of the task's.
            result_ttl: how long the job is kept once it has finished, instead of the task's.
            failure_ttl: the same once it has failed, or was canceled.
            description: a text for people, which `job show` shows.
            traceparent: the span in which the job is enqueued, as a W3C traceparent; None: OpenTelemetry's current one.
            after: jobs, or their full names, `queue/id`: the job waits, as `deferred`, until they have ended.
            join: how many of these must end well: `all` (default), `any`, or a number.
            on_parent_failure: `fail` (default): the job fails once not enough of them can end well any more. `run`:
                each end is a good one.
            id: the job's id; None: one is generated.
        """
        given = {name: value for name, value in locals().items() if name != "self" and value is not None}
        if isinstance(after, Iterable):
            given["after"] = tuple(after)
        twin = copy.copy(self)
        twin._options = dataclasses.replace(self._options, **given)
        return twin
