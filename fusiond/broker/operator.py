"""
The verbs of operators and of the daemon itself: cancel, requeue, suspend, configure, cron, sweep.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from fusiond.broker.call import Call, Plan, Word, as_is, decoded, nothing, number, numbers, plain, scripted
from fusiond.broker.keys import is_name
from fusiond.broker.records import Swept

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

    def discard(self, queue: str, ids: Iterable[str]) -> Call[list[int]]:
        """Drop failed and canceled jobs now. 1: dropped, at the latest a minute after its end · 0: it is neither."""
        return scripted("discard", self.keys.root(queue), tuple(ids), as_is)

    def discard_all(
        self, queue: str, *, status: Literal["failed", "canceled"] = "failed", limit: int = 500
    ) -> Plan[int]:
        """The same for each of them; how many."""
        start, total = 0, 0
        while True:
            # Those that are kept for a moment move to the front of the registry: the next page begins behind them.
            found, kept, left = yield scripted("discard_all", self.keys.root(queue), (status, start, limit), numbers(3))
            total, start = total + int(found), start + int(kept)
            if not found or start >= left:
                return total

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

    def sweep(self, queue: str, *, cursor: int = 0, limit: int = 500) -> Plan[Swept]:
        """
        Do a bounded part of the housekeeping that no other verb does.

        1. drop ended jobs whose time is over, `limit` of each registry
        2. look at the next keys, and mend the jobs that are in no set; call again with the cursor that comes back
        """
        (trimmed, expired), (following, ids) = yield [
            scripted("sweep", self.keys.root(queue), (limit,), numbers(2)),
            self._scan(queue, cursor),
        ]
        strays: list[bytes] = []
        if ids:
            strays = yield scripted("inspect", self.keys.root(queue), ("strays", *ids), lambda found: found[::4])
        if strays:
            yield scripted("mend", self.keys.root(queue), strays, nothing)
        return Swept(trimmed, len(strays), following, expired)

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
    names = map(decoded, reply)
    return sorted(name for name in names if is_name(name))


def _word(reply: bytes) -> Any:
    return reply.decode()


def _pair(reply: Sequence[int]) -> tuple[int, int]:
    return number(reply[0]), number(reply[1])
