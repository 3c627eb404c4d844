"""
The verbs of operators and of the daemon itself: cancel, requeue, discard, suspend, configure, declare, sweep, inspect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from fusiond.broker.call import Call, Plan, Word, decoded, nothing, number, numbers, plain, scripted, texts
from fusiond.broker.queries import QueryVerbs
from fusiond.broker.records import Swept

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

#: ms that a canceled job is kept, 1 day
CANCELED_KEPT = 86_400_000
#: keys that one sweep looks at
SCANNED = 500

#: field of ns:meta: queues still to come are suspended
_MARK = "suspended"

Canceled = Literal["canceled", "asked", "ended", "missing"]


class OperatorVerbs(QueryVerbs):
    """Verbs that move jobs by hand, and those that say how a queue is to behave."""

    def cancel(self, queue: str, id: str, *, kept_ms: int = CANCELED_KEPT) -> Call[Canceled]:  # noqa: A002
        """End a job that waits; of one that runs, ask for the end (`asked`)."""
        return scripted("cancel", self.keys.root(queue), (id, kept_ms), bytes.decode)  # type: ignore[arg-type]

    def requeue(self, queue: str, ids: Sequence[str | bytes]) -> Call[list[int]]:
        """Run failed and canceled jobs again. 1: moved · 2: it is queued already · 0: neither."""
        return scripted("requeue", self.keys.root(queue), ids, numbers(len(ids)))

    def requeue_all(self, queue: str, *, limit: int = 500) -> Plan[tuple[int, int]]:
        """The same for the next `limit` failed jobs: (moved, left). Call until none are left."""
        registry = self.keys.of(queue, "failed")
        ids: list[bytes] = yield plain(texts, "ZRANGE", registry, 0, limit - 1)
        replies: list[int] = (yield self.requeue(queue, ids)) if ids else []
        left: int = yield plain(number, "ZCARD", registry)
        return replies.count(1), left

    def discard(self, queue: str, ids: Sequence[str | bytes]) -> Call[list[int]]:
        """Drop failed and canceled jobs. 1: dropped · 2: it will be, a minute after its end · 0: it is neither."""
        return scripted("discard", self.keys.root(queue), ids, numbers(len(ids)))

    def discard_all(self, queue: str, *, limit: int = 500) -> Plan[tuple[int, int]]:
        """The same for all failed jobs: how many were dropped, and how many will be, a minute after their end."""
        start, total = 0, 0
        while ids := (yield plain(texts, "ZRANGE", self.keys.of(queue, "failed"), start, start + limit - 1)):
            replies: list[int] = yield self.discard(queue, ids)
            total += len(ids)
            # Those that are kept for a moment move to the front: the next page begins behind them.
            start += replies.count(2)
        return total - start, start

    def suspend(self, queue: str, *, by: Literal["operator", "file"], on: bool) -> Call[bool]:
        """Have nothing claimed from the queue, or let it go on; whether it is suspended now, by either of the two."""
        return scripted("suspend", self.keys.root(queue), (by, int(on)), bool)

    def suspend_all(self, *, on: bool) -> Plan[dict[str, bool]]:
        """As `suspend` by the operator, of all queues and of those still to come; each queue with whether it is now."""
        # the mark before the list: whoever declares a queue between the two reads the mark after it is in the list
        meta = self.keys.meta
        yield plain(nothing, "HSET", meta, _MARK, 1) if on else plain(nothing, "HDEL", meta, _MARK)
        names: list[str] = yield self.queues()
        now = yield [self.suspend(name, by="operator", on=on) for name in names]
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
        names = list(queues)
        if not names:
            return
        is_marked = plain(bool, "HEXISTS", self.keys.meta, _MARK)
        listed, wanted = yield [plain(numbers(len(names)), "SMISMEMBER", self.keys.queues, *names), is_marked]
        new = [name for name, there in zip(names, listed, strict=True) if not there]
        suspended = False
        while new:
            # before they are listed, so that none is claimed from unsuspended once it is known
            if wanted != suspended:
                yield [self.suspend(name, by="operator", on=wanted) for name in new]
                suspended = wanted
            _, wanted = yield [plain(nothing, "SADD", self.keys.queues, *new), is_marked]
            if wanted == suspended:
                return  # who changes the mark from now on finds them in the list

    def sweep(self, queue: str, *, cursor: int = 0, limit: int = 500) -> Plan[Swept]:
        """
        Do a bounded part of the housekeeping that no other verb does.

        1. drop ended jobs whose time is over, `limit` of each registry
        2. look at the next keys, and mend the jobs that are in no set; call again with the cursor that comes back
        """
        (trimmed, expired), (following, ids) = yield [
            scripted("sweep", self.keys.root(queue), (limit,), numbers(2)),
            self.scan(queue, cursor, SCANNED),
        ]
        strays = (yield self.inspect(queue, "strays", ids, repair=True)) if ids else ()
        return Swept(trimmed, len(strays), following, expired)

    def scan(self, queue: str, cursor: int, count: int) -> Call[tuple[int, list[bytes]]]:
        """The next cursor, 0 at the end, and ids of about `count` jobs, some of which may come twice in one scan."""
        head = self.keys.of(queue, "job", "").encode()

        def ids(reply: Any) -> tuple[int, list[bytes]]:
            return int(reply[0]), list({key[len(head) :] for key in reply[1]})

        return plain(ids, "SCAN", cursor, "MATCH", head + b"*", "COUNT", count)

    def inspect(
        self, queue: str, what: Literal["keys", "members", "strays"], ids: Sequence[bytes], *, repair: bool
    ) -> Call[list[tuple[str, str, str, str]]]:
        """What is wrong with these jobs: id, kind, detail, status that is right; with `repair` it is put right."""

        def findings(flat: list[bytes]) -> list[tuple[str, str, str, str]]:
            words = map(decoded, flat)
            return list(zip(words, words, words, words, strict=True))

        return scripted("inspect", self.keys.root(queue), (int(repair), what, *ids), findings)
