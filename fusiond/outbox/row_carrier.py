"""
What is done with the rows of an outbox, from the table to Redis, while nothing fails.

1. read      the oldest rows that no queue has yet
2. assign    write the queue of each into it, so that a repeat after a change of the file goes to the same queue
3. store     the jobs, with a marker for each, in Redis (hand_over.py)
4. confirm   beside the next rows: wait until the disk of Redis, or its replicas, have them
5. delete    the rows, and commit; the markers are kept for 10 more minutes

Rows with a queue that are not stored, since their queue is full or a program died, are read by their queue. No
transaction is open while Redis is asked. If anything fails, the carrier is thrown away, and the next one begins with
the table: what is there was not deleted, and the markers tell what Redis has.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fusiond.broker.call import Call
from fusiond.broker.records import NewJob
from fusiond.broker.redis.connection import AsyncConnection
from fusiond.broker.redis.durability import CONFIRM_MS, confirmation
from fusiond.broker.verbs import Verbs
from fusiond.config.model.outboxes import Outbox
from fusiond.errors import BrokerError, BrokerUnavailable
from fusiond.outbox.hand_over import HandOver, boot_time
from fusiond.outbox.row_jobs import RowJobs
from fusiond.outbox.table import Row, Table

log = logging.getLogger(__name__)

#: rows that are read at once; rows that may be stored and not deleted yet
_ROWS, _MOST = 500, 10_000
#: s for which the rows of a full queue are left alone, and those that are left when all have been read
_FULL, _AGAIN = 1.0, 0.5
#: s after which it is seen which queues have rows, though others are on their way
_LOOK = 60.0


@dataclass
class _Left:
    """Rows of a queue that were assigned to it, and are not stored."""

    #: the last one that was read; None: they are read from the first one on
    behind: Row | None = None
    #: monotonic s until which they are left alone
    until: float = 0.0


@dataclass(frozen=True)
class Ways:
    """What a carrier works with."""

    verbs: Verbs
    connection: AsyncConnection
    #: for what waits until Redis has its data on the disk
    slow_connection: AsyncConnection
    #: run a method of the table in a thread, and keep the lease meanwhile
    in_table: Callable[..., Awaitable[Any]]
    #: told why rows were refused: id → why
    on_refused: Callable[[Mapping[str, str]], Awaitable[None]]
    #: set when rows were deleted, so that the next ones are
    changed: asyncio.Event


class RowCarrier:
    """The rows of one table, for as long as nothing fails. Its methods raise BrokerError, OutboxError."""

    def __init__(self, name: str, outbox: Outbox, table: Table, rows: RowJobs, ways: Ways, *, cluster: bool) -> None:
        """`cluster`: whether the queues may be on several servers."""
        self._name, self._outbox, self._table, self._rows, self._ways = name, outbox, table, rows, ways
        self._hand_over = HandOver(ways.verbs, name)
        self._cluster = cluster
        #: queue → its rows that were left behind
        self._left: dict[str, _Left] = {}
        #: queue → ids of rows that are stored and not deleted
        self._stored: dict[str, list[str]] = defaultdict(list)
        self._deleting: asyncio.Task[None] | None = None
        self._has_deleted = False
        #: monotonic s: when it was last seen which queues have rows
        self._looked_at = float("-inf")
        #: waits until Redis has kept what it was told before; None: nothing does
        self._wait: Call[int] | None = None

    @property
    def works(self) -> bool:
        """Whether rows have come all the way, or there are none on it."""
        return self._has_deleted or (self._deleting is None and not any(self._stored.values()))

    @property
    def queues_left(self) -> list[str]:
        """The queues that have rows which are not stored."""
        return [*self._left]

    async def begin(self) -> None:
        """
        Find out what an earlier carrier has left: rows with a queue, and markers of rows that it has deleted.

        Raises BrokerUnfit where Redis cannot confirm as the file asks.
        """
        self._wait = await self._ways.connection.run(confirmation(self._outbox.durability, self._outbox.replicas))
        for queue in await self._ways.connection.run(self._ways.verbs.queues()):
            skipped = 0
            while ids := await self._ways.connection.run(self._ways.verbs.pending_handed(queue, self._name, skipped)):
                present = await self._ways.in_table(self._table.present, ids)
                gone = [id_ for id_ in ids if id_ not in present]
                await self._ways.connection.run(self._ways.verbs.end_handed(queue, self._name, gone))
                skipped += len(present)
        await self.find_left()

    async def find_left(self) -> None:
        """See which queues have rows: a relay that was frozen may have assigned some late, and left them."""
        is_busy = self._deleting is not None or any(self._stored.values())
        if is_busy and time.monotonic() - self._looked_at < _LOOK:
            return
        await self.finish()  # rows that are on their way have a queue, too
        self._looked_at = time.monotonic()
        for queue in await self._ways.in_table(self._table.queues):
            self._left.setdefault(queue, _Left())

    async def carry(self) -> bool:
        """Take some rows further; whether there may be more at once."""
        found = await self._carry_new()
        for queue, left in [*self._left.items()]:
            if time.monotonic() >= left.until:
                found |= await self._carry_left(queue, left)
        self._delete_stored()
        if self._deleting is not None and sum(map(len, self._stored.values())) >= _MOST:
            await asyncio.wait([self._deleting])
        return found

    def pause(self, poll: float) -> float:
        """Seconds after which it is to be called again: `poll`, or less where rows are left."""
        soonest = min((left.until for left in self._left.values()), default=float("inf"))
        return max(0.0, min(poll, soonest - time.monotonic()))

    async def finish(self) -> None:
        """Until the rows that are stored are deleted."""
        while self._deleting is not None or any(self._stored.values()):
            self._delete_stored()
            if self._deleting is not None:
                await asyncio.wait([self._deleting])

    async def give_up(self) -> None:
        """Until nothing is under way any more, whatever became of it."""
        if self._deleting is not None:
            await asyncio.gather(self._deleting, return_exceptions=True)

    async def _carry_new(self) -> bool:
        """The oldest rows that have no queue."""
        read_at = boot_time()
        rows = await self._ways.in_table(self._table.new_rows, _ROWS)
        if not rows:
            return False
        made = await self._ways.connection.run(self._rows.make(rows))
        if made.jobs:
            ids = {queue: [job.id for job in jobs] for queue, jobs in made.jobs.items()}
            await self._ways.in_table(self._table.assign, ids)
        await self._refuse(made.reasons)
        for queue, jobs in made.jobs.items():
            # Rows of a queue that has older ones wait behind these.
            if queue not in self._left:
                await self._store(queue, jobs, read_at)
        return bool(made.jobs or made.reasons)

    async def _carry_left(self, queue: str, left: _Left) -> bool:
        """Rows of a queue that were left behind."""
        if left.behind is None:
            await self.finish()  # so that none of them is read that is stored
        read_at = boot_time()
        rows = await self._ways.in_table(self._table.queued_rows, queue, left.behind, _ROWS)
        if not rows:
            if left.behind is None:
                del self._left[queue]
            left.behind, left.until = None, time.monotonic() + _AGAIN
            return False
        is_all = left.behind is None and len(rows) < _ROWS
        left.behind = rows[-1]
        made = await self._ways.connection.run(self._rows.make(rows))
        await self._refuse(made.reasons)
        await self._store(queue, made.jobs.get(queue, []), read_at)
        if is_all and self._left[queue] is left:
            del self._left[queue]  # new rows need not wait behind any
        return True

    async def _refuse(self, reasons: dict[str, str]) -> None:
        if reasons:
            await self._ways.in_table(self._table.refuse, reasons)
            await self._ways.on_refused(reasons)

    async def _store(self, queue: str, jobs: Sequence[NewJob], read_at: float) -> None:
        """Have Redis store jobs; those that it does not take are left behind."""
        if not jobs:
            return
        handed = await self._ways.connection.run(self._hand_over.hand_over(queue, jobs, read_at))
        self._stored[queue] += handed.done
        await self._refuse(handed.refused)
        if handed.is_late:
            log.warning("rows of queue '%s' were read too long ago, and are read again", queue)
        if handed.is_full or handed.is_late:
            self._left[queue] = _Left(until=time.monotonic() + (_FULL if handed.is_full else 0.0))

    def _delete_stored(self) -> None:
        """Begin to delete the rows that are stored, unless others are being deleted. Raises what became of those."""
        if self._deleting is not None and self._deleting.done():
            self._deleting.result()
            self._deleting = None
        if self._deleting is None and any(self._stored.values()):
            stored, self._stored = self._stored, defaultdict(list)
            self._deleting = asyncio.create_task(self._delete(stored))
            self._deleting.add_done_callback(lambda _: self._ways.changed.set())

    async def _delete(self, stored: Mapping[str, list[str]]) -> None:
        """Wait until Redis has kept the jobs of these rows, delete the rows, end their markers."""
        lost = 0
        parts = [(queue, ids[i : i + _ROWS]) for queue, ids in stored.items() for i in range(0, len(ids), _ROWS)]
        for group in self._confirmed_together(parts):
            for queue, ids, kept in await self._confirm(group):
                lost += len(ids) - len(kept)
                await self._ways.in_table(self._table.delete, kept)
                await self._end(queue, kept)
        self._has_deleted = True
        if lost:
            raise BrokerUnavailable(f"Redis has lost {lost} jobs of rows; they are handed over again")

    async def _end(self, queue: str, ids: list[str]) -> None:
        """Say that these rows are deleted."""
        await self._ways.slow_connection.run(self._ways.verbs.end_handed(queue, self._name, ids))

    def _confirmed_together(self, parts: list[tuple[str, list[str]]]) -> Iterator[list[tuple[str, list[str]]]]:
        """One wait holds for all that one server was told before."""
        if not self._cluster:
            yield parts
            return
        for queue in dict(parts):
            yield [part for part in parts if part[0] == queue]

    async def _confirm(self, parts: list[tuple[str, list[str]]]) -> list[tuple[str, list[str], list[str]]]:
        """Queue, rows, and those of the rows whose jobs Redis has kept as the file asks."""
        connection, verbs = self._ways.slow_connection, self._ways.verbs
        calls: list[Call[Any]] = [verbs.confirm_handed(queue, self._name, ids) for queue, ids in parts]
        replies = await connection.run_many([*calls, *([self._wait] if self._wait else [])])
        if failed := [reply for reply in replies if isinstance(reply, BrokerError)]:
            raise failed[0]
        if self._wait and replies[-1] < 1:
            raise BrokerUnavailable(f"{self._outbox.durability} has not confirmed within {CONFIRM_MS / 1000:g} s")
        return [
            (queue, ids, [id_ for id_, is_there in zip(ids, reply[1], strict=True) if is_there])
            for (queue, ids), reply in zip(parts, replies, strict=False)
        ]
