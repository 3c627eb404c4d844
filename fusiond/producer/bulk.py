"""
Enqueue many jobs: send some while Redis stores the ones before.

1. take    one job after the other from the caller's iterator, which may be endless
2. gather  the jobs of each queue in chunks of CHUNK jobs, or of CHUNK_BYTES of arguments
3. send    a chunk when it is full; a few chunks may be without an answer
4. report  which jobs were stored if anything raises: a wrong job, the caller's iterator, Redis

The jobs of a chunk are all stored or, at max_length, none. Their ids are made before they are sent, so that a chunk
whose reply was lost can be sent again. Of what is stored only the names are kept.
"""

import contextlib
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from fusiond.broker.call import Plan, SendAhead, Unreadable
from fusiond.broker.records import NewJob
from fusiond.enqueue_options import Options, safe_repr
from fusiond.errors import BrokerError, BrokerUnavailable, Enqueued, EnqueueError, FusionError
from fusiond.producer.loading_guard import refuse_while_loading
from fusiond.producer.new_jobs import JobMaker, JobRef, TaskCall, with_trace
from fusiond.producer.store import Store
from fusiond.producer.tracing import traceparent

#: jobs, and bytes of their arguments, in one chunk
CHUNK, CHUNK_BYTES = 250, 1 << 19
#: types of the arguments, as most callers give them
_LISTS = (tuple, list)


@dataclass(slots=True)
class _Chunk:
    """Jobs of one queue that are sent together."""

    queue: str
    jobs: list[NewJob] = field(default_factory=list)
    #: the number of each, from 0, in what the caller gave
    numbers: list[int] = field(default_factory=list)
    #: of their arguments
    bytes: int = 0


class Bulk:
    """One call of `enqueue_many`."""

    def __init__(self, maker: JobMaker, store: Store, options: Options, jobs: Iterable[Any]) -> None:
        self._maker, self._store, self._options, self._jobs = maker, store, options, jobs
        #: of all jobs that were made, in their order
        self._refs: list[JobRef] = []
        #: queue -> what is not sent yet
        self._gathered: dict[str, _Chunk] = {}
        #: sent and not answered, the oldest first; lost, so that Redis may have stored them or not; refused
        self._sent: deque[_Chunk] = deque()
        self._unknown: list[_Chunk] = []
        self._refused: list[_Chunk] = []
        self._error: Exception | None = None

    def plan(self) -> Plan[list[JobRef]]:
        """
        Store the jobs; returns them in the caller's order.

        Raises the first error, of whatever kind, once everything that was sent is answered.
        """
        refuse_while_loading()
        if self._options.id is not None or self._options.key is not None:
            raise EnqueueError("enqueue_many: id and key are for one job; call enqueue for each")
        if not self._store.is_ready:
            yield from self._store.prepare()
        try:
            yield from self._send_all()
        except Exception as error:  # noqa: BLE001 - the caller's iterator may raise anything
            self._error = self._error or error
        self._answered((yield SendAhead([])))
        if self._options.after:
            for queue in {ref.queue for ref in self._refs}:
                yield from self._store.deliver(queue)
        if self._error is not None:
            raise self._error
        return self._refs

    @contextlib.contextmanager
    def reported(self) -> Iterator[None]:
        """Around the run of the plan: an exception that leaves it says what was stored."""
        try:
            yield
        except BaseException as error:
            done = self._enqueued()
            with contextlib.suppress(AttributeError):  # of a class that allows no attributes
                error.enqueued = done  # type: ignore[attr-defined]
            if isinstance(error, FusionError):
                error.args = (f"{error}; {done}",)
            else:
                error.add_note(f"enqueue_many: {done}")
            raise

    def stored(self) -> dict[int, JobRef]:
        """Number in what the caller gave -> the job, of those that Redis has."""
        missing = self._gathered.values(), self._sent, self._unknown, self._refused
        numbers = {number for chunks in missing for chunk in chunks for number in chunk.numbers}
        return {number: ref for number, ref in enumerate(self._refs) if number not in numbers}

    def _enqueued(self) -> Enqueued:
        unknown = [number for chunks in (self._unknown, self._sent) for chunk in chunks for number in chunk.numbers]
        stored = {number: ref.name for number, ref in self.stored().items()}
        return Enqueued(stored, {number: self._refs[number].name for number in unknown})

    def _send_all(self) -> Plan[None]:
        make, options, refs, gathered = self._maker.make, self._options, self._refs, self._gathered
        # Once for all jobs: to look for a variable that is not there takes as long as to make an id.
        trace = traceparent()
        for job in self._jobs:
            is_usual = type(job) is tuple and len(job) == 3 and type(job[1]) in _LISTS and type(job[2]) is dict
            call = job if is_usual else _task_call(job)
            queue, new, served = make(options, call) or (yield from self._maker.reread_and_make(options, call))
            if trace:
                new = with_trace(new, trace)
            chunk = gathered.get(queue)
            if chunk is None:
                chunk = gathered[queue] = _Chunk(queue)
            chunk.jobs.append(new)
            chunk.numbers.append(len(refs))
            refs.append(JobRef(queue, new.id, served))
            chunk.bytes += len(new.args)
            if len(chunk.jobs) == CHUNK or chunk.bytes >= CHUNK_BYTES:
                yield from self._send(chunk)
                if self._error is not None:
                    return
        for chunk in list(gathered.values()):
            if self._error is None:
                yield from self._send(chunk)

    def _send(self, chunk: _Chunk) -> Plan[None]:
        calls = self._store.calls(chunk.queue, chunk.jobs)
        # In this order, as in `_answered`: an interrupt may come between two lines, and a job that is in none of these
        # lists counts as stored.
        self._sent.append(chunk)
        del self._gathered[chunk.queue]
        self._answered((yield SendAhead(calls)))

    def _answered(self, answers: list[list[Any]]) -> None:
        """Note what became of the chunks that were sent first."""
        for replies in answers:
            chunk = self._sent[0]
            try:
                for reply in replies:
                    if isinstance(reply, BrokerError):
                        raise reply
                self._note_existing(chunk, self._store.check(chunk.queue, chunk.jobs, replies))
            except (BrokerUnavailable, Unreadable) as error:
                self._unknown.append(chunk)
                self._error = self._error or error
            except FusionError as error:
                self._refused.append(chunk)
                self._error = self._error or error
            self._sent.popleft()

    def _note_existing(self, chunk: _Chunk, existing: dict[str, str]) -> None:
        """Have the caller get the jobs that were there in place of those that were not stored."""
        if existing:
            for number, job in zip(chunk.numbers, chunk.jobs, strict=True):
                if job.id in existing:
                    self._refs[number] = self._refs[number]._replace(id=existing[job.id], existing=True)


def _task_call(job: Any) -> TaskCall:
    """(task, args, kwargs) of a tuple that may leave out the last two. Raises EnqueueError."""
    if isinstance(job, (tuple, list)) and 1 <= len(job) <= 3:
        given: list[Any] = [*job, *((), {})[len(job) - 1 :]]
        task, args, kwargs = given
        if isinstance(args, (tuple, list)) and isinstance(kwargs, dict):
            return task, args, kwargs
    raise EnqueueError(f"enqueue_many: {safe_repr(job)} is not (task, [argument, …], {{name: argument, …}})")
