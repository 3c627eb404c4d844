"""
The verbs of operators and of the daemon itself: cancel, requeue, suspend, configure, cron, sweep.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from fusiond.broker.call import Call, Plan, Word, as_is, nothing, number, numbers, plain, scripted
from fusiond.broker.jobs import new_job_words
from fusiond.broker.keys import is_name
from fusiond.broker.records import CronState, NewJob, Swept

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from fusiond.broker.keys import Keys

#: ms that a canceled job is kept, 1 day
CANCELED_KEPT = 86_400_000
#: keys that one sweep looks at
SCANNED = 500

#: field of ns:meta: queues still to come are suspended
_MARK = "suspended"

Canceled = Literal["canceled", "asked", "ended", "missing"]
Ticked = Literal["enqueued", "skipped", "taken", "suspended"]


class SteeringVerbs:
    """Verbs that move jobs by hand, and those that say how a queue is to behave."""

    __slots__ = ()
    keys: Keys

    def cancel(self, queue: str, id: str, *, kept_ms: int = CANCELED_KEPT) -> Call[Canceled]:  # noqa: A002
        """End a job that waits; of one that runs, ask for the end (`asked`)."""
        return scripted("cancel", self.keys.root(queue), (id, kept_ms), _word)

    def requeue(self, queue: str, ids: Iterable[str]) -> Call[list[int]]:
        """Run failed and canceled jobs again. 1: moved · 2: it is queued already · 0: neither."""
        return scripted("requeue", self.keys.root(queue), tuple(ids), as_is)

    def requeue_all(
        self, queue: str, *, status: Literal["failed", "canceled"] = "failed", limit: int = 500
    ) -> Call[tuple[int, int]]:
        """The same for the next `limit` of them: (moved, left). Call until none are left."""
        return scripted("requeue_all", self.keys.root(queue), (status, limit), _pair)

    def suspend(self, queue: str, *, by: Literal["operator", "file"], on: bool) -> Call[bool]:
        """Have nothing claimed from the queue, or let it go on; whether it is suspended now, by either of the two."""
        return suspension(self.keys, queue, by=by, on=on)

    def suspend_all(self, *, on: bool) -> Plan[dict[str, bool]]:
        """As `suspend` by the operator, of all queues and of those still to come; each queue with whether it is now."""
        # the mark before the list: whoever declares a queue between the two reads the mark after it is in the list
        yield mark(self.keys, on=on)
        names: list[str] = yield plain(_names, "SMEMBERS", self.keys.queues)
        now = yield [suspension(self.keys, name, by="operator", on=on) for name in names]
        return dict(zip(names, now, strict=True))

    def configure(
        self, queue: str, *, max_length: int | None, tasks: Mapping[str, tuple[int, int | None]]
    ) -> Call[None]:
        """
        Tell Redis what enqueue and claim must know of the file.

        Args:
            queue: the queue.
            max_length: jobs that may wait; None: no limit.
            tasks: those that live in the queue -> (priority, ms after which a job has expired or None), for the inbox.
        """
        words: list[Word] = ["" if max_length is None else max_length]
        for task, (priority, expires) in tasks.items():
            words += (task, f"{priority} {'' if expires is None else expires}")
        return scripted("configure", self.keys.root(queue), words, nothing)

    def declare(self, queues: Iterable[str]) -> Plan[None]:
        """Add names to the list of all queues, which may hold them already; a new one obeys `suspend_all`."""
        return declaration(self.keys, list(queues))

    def tick(
        self, queue: str, entry: str, due_ms: int, job: NewJob | None, overlap: Literal["skip", "allow"]
    ) -> Call[Ticked]:
        """
        Decide on one due moment of a cron entry; of many daemons that ask, one is told `enqueued`.

        Args:
            queue: the queue of the entry's task.
            entry: the cron entry's name.
            due_ms: the tick, epoch ms. Ticks of an entry are decided in their order; a job is not ready before it.
            job: what to enqueue, `delay_ms` counting from the tick; None: the tick is passed over.
            overlap: `skip`: pass over while the job of the last tick that enqueued one has not ended.
        """
        words: list[Word] = [entry, due_ms, overlap]
        if job is not None:
            words += new_job_words(job._replace(at_ms=due_ms))
        return scripted("tick", self.keys.root(queue), words, _word)

    def cron_state(self, queue: str, entry: str, *, ticks: bool = False) -> Call[CronState]:
        """What is known of a cron entry; the first who is going to tick it sets its `first_seen_ms`."""
        return scripted("cron_state", self.keys.root(queue), (entry, int(ticks)), _cron_state)

    def suspend_cron(self, queue: str, entry: str, *, on: bool) -> Call[None]:
        """Have the entry's ticks pass without a job, or with one again."""
        key = self.keys.of(queue, "cron", entry)
        return plain(nothing, "HSET", key, "suspended", 1) if on else plain(nothing, "HDEL", key, "suspended")

    def sweep(self, queue: str, *, cursor: int = 0, limit: int = 500) -> Plan[Swept]:
        """
        Do a bounded part of the housekeeping that no other verb does.

        1. drop ended jobs whose time is over, `limit` of each registry
        2. look at the next keys, and give jobs that are in no set a place; call again with the cursor that comes back

        """
        trimmed, (following, ids) = yield [
            scripted("sweep", self.keys.root(queue), (limit,), number),
            self._scan(queue, cursor),
        ]
        adopted = 0
        if ids:
            adopted = yield scripted("adopt", self.keys.root(queue), ids, number)
        return Swept(trimmed, adopted, following)

    def _scan(self, queue: str, cursor: int) -> Call[tuple[int, list[bytes]]]:
        head = self.keys.of(queue, "job", "").encode()

        def ids(reply: Any) -> tuple[int, list[bytes]]:
            return int(reply[0]), [key[len(head) :] for key in reply[1]]

        return plain(ids, "SCAN", cursor, "MATCH", head + b"*", "COUNT", SCANNED)


def suspension(keys: Keys, queue: str, *, by: Literal["operator", "file"], on: bool) -> Call[bool]:
    """See `SteeringVerbs.suspend`."""
    return scripted("suspend", keys.root(queue), (by, int(on)), bool)


def mark(keys: Keys, *, on: bool) -> Call[None]:
    """Whether queues still to come are suspended by the operator."""
    return plain(nothing, "HSET", keys.meta, _MARK, 1) if on else plain(nothing, "HDEL", keys.meta, _MARK)


def declaration(keys: Keys, queues: list[str]) -> Plan[None]:
    """See `SteeringVerbs.declare`."""
    if not queues:
        return
    listed, wanted = yield [
        plain(numbers(len(queues)), "SMISMEMBER", keys.queues, *queues),
        plain(bool, "HEXISTS", keys.meta, _MARK),
    ]
    new = [name for name, there in zip(queues, listed, strict=True) if not there]
    suspended = False
    while new:
        # before they are listed, so that none is claimed from unsuspended once it is known
        if wanted != suspended:
            yield [suspension(keys, name, by="operator", on=wanted) for name in new]
            suspended = wanted
        _, wanted = yield [plain(nothing, "SADD", keys.queues, *new), plain(bool, "HEXISTS", keys.meta, _MARK)]
        if wanted == suspended:
            return  # who changes the mark from now on finds them in the list


def _names(reply: Iterable[bytes]) -> list[str]:
    names = (name.decode(errors="replace") for name in reply)
    return sorted(name for name in names if is_name(name))


def _word(reply: bytes) -> Any:
    return reply.decode()


def _pair(reply: Sequence[int]) -> tuple[int, int]:
    return number(reply[0]), number(reply[1])


def _cron_state(reply: Any) -> CronState:
    last, first_seen, suspended, last_job, last_enqueued, now = reply
    return CronState(
        last_tick_ms=None if last is None else int(last),
        first_seen_ms=number(first_seen),
        suspended=bool(suspended),
        last_job=None if last_job is None else last_job.decode(),
        last_enqueued_ms=None if last_enqueued is None else int(last_enqueued),
        now_ms=number(now),
    )
