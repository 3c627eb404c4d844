"""
What a producer does, without I/O: Client and AsyncClient run the same plans.

1. name     find the task, by its name or by the dotted path of the function that it runs
2. look up  its queue, priority and expiry in the catalogue that the daemons publish. It is read at most every 10 s, and
            once more before a task is called unknown or unserved
3. check    that the arguments are JSON and the options are valid; otherwise nothing is stored
4. send     one job in a round trip, or up to 500 of `enqueue_many`

A job's id is made here, once, so that a call whose reply was lost can be repeated without making a second job.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from fusiond.broker.durability import CONFIRM_MS, DURABILITIES, Durability, confirmation
from fusiond.broker.records import NO_CATALOGUE, NewJob, Stored, check_id
from fusiond.config.lint.suggest import did_you_mean, listed
from fusiond.enqueue_options import (
    NO_OPTIONS,
    dotted_path,
    duration,
    encoded,
    encoded_meta,
    encoded_timeout,
    lasting,
    moment,
    shown,
    text,
)
from fusiond.errors import (
    BrokerError,
    BrokerUnavailable,
    EnqueueError,
    JobCanceled,
    JobConflict,
    JobFailed,
    JobNotFound,
    QueueFull,
    ResultTimeout,
    UnknownTask,
)
from fusiond.job import JobStatus, id_of_key, new_id
from fusiond.loading_guard import refuse_while_loading

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from fusiond.broker.call import Call, Plan
    from fusiond.broker.records import Counts, JobOutcome
    from fusiond.broker.verbs import Verbs
    from fusiond.enqueue_options import Options
    from fusiond.job import JobRecord

#: jobs in one round trip
CHUNK = 500
#: seconds for which the catalogue is believed
CATALOGUE_AGE = 10.0
#: seconds for which it is believed when it says that nothing serves a task: a group may just have begun
UNSERVED_AGE = 1.0
#: seconds between two looks for a result: the first, the longest, and the growth from one to the next
FIRST_LOOK, LONGEST_LOOK, SLOWER = 0.005, 0.25, 1.5


_Triple = tuple[Any, Sequence[Any], dict[str, Any]]


class JobRef(NamedTuple):
    """Which job."""

    queue: str
    id: str
    #: whether a living worker group ran jobs of this task from this queue when this one was enqueued; None: not known
    served: bool | None = None

    @classmethod
    def named(cls, name: str) -> JobRef:
        """The job of that full name. Raises ValueError for what is none."""
        queue, _, id_ = name.rpartition("/")
        if not queue or not id_:
            raise ValueError(f"{name!r} is no full name of a job, which is queue/id")
        return cls(queue, id_)

    @property
    def name(self) -> str:
        """`queue/id`, the job's full name."""
        return f"{self.queue}/{self.id}"


class Producer:
    """Makes the plans of one client, and remembers the catalogue for them."""

    def __init__(self, broker: Verbs, durability: Durability, replicas: int = 1) -> None:
        if durability not in DURABILITIES:
            raise ValueError(f"durability={durability!r}: use one of {listed(DURABILITIES)}")
        if replicas < 1:
            raise ValueError(f"replicas={replicas}: use at least 1, or durability='memory', which waits for none")
        self._broker, self._durability, self._replicas = broker, durability, replicas
        self._catalogue = NO_CATALOGUE
        self._read_at = float("-inf")
        self._names: dict[str, list[str]] = {}
        #: empty until this Redis was asked what it can do
        self._confirmation: tuple[()] | tuple[Call[int] | None] = ()

    def enqueue(
        self, options: Options, task: str | Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
    ) -> Plan[JobRef]:
        """Store one job. Raises an EnqueueError, and stores nothing, if that cannot be."""
        refuse_while_loading()
        [(queue, job, served)] = yield from self._made(options, ((task, args, kwargs),))
        yield from self._store(queue, (job,))
        return JobRef(queue, job.id, served)

    def enqueue_many(self, options: Options, jobs: Iterable[tuple[Any, ...]]) -> Plan[list[JobRef]]:
        """Store many, in chunks; if one chunk is refused, those before it stay stored."""
        refuse_while_loading()
        if options.id is not None or options.key is not None:
            raise EnqueueError("enqueue_many: id and key are for one job; call enqueue for each")
        made = yield from self._made(options, [_triple(job) for job in jobs])
        by_queue: dict[str, list[NewJob]] = {}
        for queue, job, _ in made:
            by_queue.setdefault(queue, []).append(job)
        sent = 0
        for queue, batch in by_queue.items():
            for first in range(0, len(batch), CHUNK):
                chunk = batch[first : first + CHUNK]
                before = f"; {sent} of {len(made)} jobs were stored before" if len(made) > 1 else ""
                yield from self._store(queue, chunk, before)
                sent += len(chunk)
        return [JobRef(queue, job.id, served) for queue, job, served in made]

    def outcome(self, job: JobRef) -> Plan[JobOutcome]:
        """How the job stands. Raises JobNotFound."""
        outcome = yield self._broker.outcome(job.queue, job.id)
        if outcome is None:
            raise JobNotFound(f"{job.name}: no such job; it may have been dropped after its ttl")
        return outcome  # type: ignore[no-any-return]

    def result(self, job: JobRef, timeout: float | None) -> Plan[Any]:
        """Wait until the job has ended; what it returned."""
        end = float("inf") if timeout is None else time.monotonic() + timeout
        pause = FIRST_LOOK
        while True:
            outcome = yield from self.outcome(job)
            if outcome.status.ended:
                return returned(job, outcome)
            left = end - time.monotonic()
            if left <= 0:
                raise ResultTimeout(f"{job.name} is {outcome.status} after {timeout:g} s; it goes on")
            yield min(pause, left)
            pause = min(pause * SLOWER, LONGEST_LOOK)

    def cancel(self, job: JobRef) -> Plan[bool]:
        """End the job, or have it ended if it runs; False: it had ended before. Raises JobNotFound."""
        reply = yield self._broker.cancel(job.queue, job.id)
        if reply == "missing":
            raise JobNotFound(f"{job.name}: no such job; it may have been dropped after its ttl")
        return bool(reply != "ended")

    def requeue(self, job: JobRef) -> Plan[bool]:
        """Run a failed or canceled job again; False: it is neither, nor queued."""
        [reply] = yield self._broker.requeue(job.queue, [job.id])
        return bool(reply)

    def discard(self, job: JobRef) -> Plan[bool]:
        """Drop a failed or canceled job; False: it is neither."""
        [reply] = yield self._broker.discard(job.queue, [job.id])
        return bool(reply)

    def counts(self, queue: str | None) -> Plan[dict[str, Counts]]:
        """How many jobs each queue holds, or this one."""
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

    def _made(self, options: Options, calls: Sequence[_Triple]) -> Plan[list[tuple[str, NewJob, bool]]]:
        """Of each call the queue, the job, and whether it is served; all are checked."""
        if time.monotonic() - self._read_at > CATALOGUE_AGE:
            yield from self._read_catalogue()
        try:
            made = [self._make(options, *call) for call in calls]
        except UnknownTask:
            # it may have been added since
            yield from self._read_catalogue()
            made = [self._make(options, *call) for call in calls]
        if not all(served for _, _, served in made) and time.monotonic() - self._read_at > UNSERVED_AGE:
            # they may be served by now, or in another queue
            yield from self._read_catalogue()
            made = [self._make(options, *call) for call in calls]
        return made

    def _make(
        self, options: Options, task: str | Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
    ) -> tuple[str, NewJob, bool]:
        name = task if isinstance(task, str) else self._name(task)
        declared = self._catalogue.tasks.get(name) or self._unknown(task)
        body = encoded(name, args, kwargs)
        if options is not NO_OPTIONS:
            queue = self._queue(options, declared)
            return queue, self._with(options, name, body, declared), self._catalogue.serves(name, queue)
        expires = declared.get("expires")
        # by position: half the time of names
        job = NewJob(new_id(), name, body, declared["priority"], None, None, expires and round(expires * 1000))
        return declared["queue"], job, self._catalogue.serves(name, declared["queue"])

    def _with(self, options: Options, name: str, body: bytes, declared: dict[str, Any]) -> NewJob:
        """The job of a call with options."""
        expires = declared.get("expires") if options.expires is None else lasting("expires", options.expires)
        return NewJob(
            self._id(options, name),
            name,
            body,
            self._priority(options, declared),
            delay_ms=None if options.delay is None else round(duration("delay", options.delay) * 1000),
            at_ms=None if options.at is None else round(moment("at", options.at) * 1000),
            expires_ms=None if expires is None else round(expires * 1000),
            key=text("key", options.key),
            meta=None if options.meta is None else encoded_meta(options.meta),
            log_tag=text("log_tag", options.log_tag),
            timeout=None if options.timeout is None else encoded_timeout(options.timeout),
        )

    def _read_catalogue(self) -> Plan[None]:
        self._catalogue = yield from self._broker.catalogue(self._catalogue)
        self._read_at = time.monotonic()
        self._names = {}
        for name, declared in self._catalogue.tasks.items():
            self._names.setdefault(str(declared.get("run")), []).append(name)

    def _name(self, function: Callable[..., Any]) -> str:
        """The name of the task that runs the function."""
        path = dotted_path(function)
        names = self._names.get(path, [])
        if not names:
            raise UnknownTask(f"no task of the daemon's file has `run: {path}`")
        if len(names) > 1:
            raise UnknownTask(f"{path} is run by tasks {', '.join(sorted(names))}; say which one by its name")
        return names[0]

    def _unknown(self, task: str | Callable[..., Any]) -> NoReturn:
        tasks = self._catalogue.tasks
        if not tasks:
            raise UnknownTask(f"no daemon has declared any task under {self._broker.keys.namespace!r}; is one running?")
        raise UnknownTask(f"task {shown(task)} is in no daemon's file; {_nearest(str(task), tasks)}")

    def _queue(self, options: Options, declared: dict[str, Any]) -> str:
        if options.queue is None:
            return str(declared["queue"])
        if text("queue", options.queue) not in self._catalogue.queues:
            nearest = _nearest(options.queue, self._catalogue.queues)
            raise EnqueueError(f"queue {options.queue!r} is in no daemon's file; {nearest}")
        return options.queue

    def _priority(self, options: Options, declared: dict[str, Any]) -> int:
        given = options.priority
        if given is None:
            return int(declared["priority"])
        number = self._catalogue.priorities.get(given) if isinstance(given, str) else given
        if not isinstance(number, int) or not 0 <= number <= 255:
            names = listed(self._catalogue.priorities)
            raise EnqueueError(f"priority {shown(given)} is neither one of {names} nor a number from 0 to 255")
        return int(number)  # of a subclass, a bool: hiredis takes no other

    @staticmethod
    def _id(options: Options, name: str) -> str:
        if options.key is not None:
            if options.id is not None:
                raise EnqueueError("id and key exclude each other: the id is made of the key")
            return id_of_key(name, text("key", options.key) or "")
        if options.id is None:
            return new_id()
        try:
            return check_id(options.id)
        except (ValueError, TypeError) as error:
            raise EnqueueError(str(error)) from None

    def _store(self, queue: str, jobs: Sequence[NewJob], before: str = "") -> Plan[None]:
        """Send jobs in one round trip. `before`: what an error says of those that were stored before."""
        call = self._broker.enqueue(queue, jobs, confirmed=self._durability != "memory")
        replies = (yield call) if self._durability == "memory" else (yield from self._confirmed(call))
        if replies.count("stored") != len(jobs):
            refuse(queue, jobs, replies, before)

    def _confirmed(self, call: Call[list[Stored]]) -> Plan[list[Stored]]:
        """Send the call and have it confirmed."""
        if not self._confirmation:
            self._confirmation = ((yield from confirmation(self._durability, self._replicas)),)
        wait = self._confirmation[0]
        if wait is None:
            replies: list[Stored] = yield call
            return replies
        replies, confirmed = yield [call, wait]
        if confirmed < 1:
            raise BrokerUnavailable(
                f"{self._durability} has not confirmed within {CONFIRM_MS / 1000:g} s; the outcome is unknown:"
                " enqueue again with the same id or key"
            )
        return replies


def _nearest(name: str, known: Collection[str]) -> str:
    """The name that was perhaps meant, or all that there are."""
    return did_you_mean(name, known) or f"there are {listed(known)}"


def refuse(queue: str, jobs: Sequence[NewJob], replies: Sequence[Stored], stored: str) -> None:
    """Raise if a reply is a refusal; that the same job was there already is none."""
    for job, reply in zip(jobs, replies, strict=True):
        if reply == "full":
            raise QueueFull(f"queue {queue!r} is at its max_length{stored}")
        if reply == "conflict":
            what = f"key {job.key!r}" if job.key else f"id {job.id}"
            raise JobConflict(f"{what} is taken by a job with another task or other arguments{stored}")


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
    """What a job has left. Raises BrokerError where that is no JSON, which no worker of ours has written."""
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        raise BrokerError(f"{job.name} has ended, and what it left is no JSON") from None


def _triple(job: Any) -> _Triple:
    """(task, args, kwargs) of a tuple that may leave out the last two. Raises EnqueueError."""
    if isinstance(job, (tuple, list)) and 1 <= len(job) <= 3:
        given: list[Any] = [*job, *((), {})[len(job) - 1 :]]
        task, args, kwargs = given
        if isinstance(args, (tuple, list)) and isinstance(kwargs, dict):
            return task, args, kwargs
    raise EnqueueError(f"enqueue_many: {shown(job)} is not (task, [argument, …], {{name: argument, …}})")
