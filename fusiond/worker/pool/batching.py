"""
Which attempts a group's children are handed, and how many more may be claimed.

A child is handed as many as fit into about 5 ms of work by recent run times, and one where jobs are long or each has a
child of its own. What has waited for PENDING seconds since its claim is handed to an idle child alone, where it begins
at once: behind another job it might wait for as long again, while a child of another host is idle.
"""

from __future__ import annotations

import json
import math
import time
from typing import TYPE_CHECKING

from fusiond.worker.pool.run_times import BATCH, BATCH_BYTES, Ahead, RunTimes

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Iterator, Mapping

    from fusiond.config.model import Config, WorkerGroup
    from fusiond.worker.pool.attempt import Attempt
    from fusiond.worker.pool.slots import Slot

#: quick jobs that wait for the next child of isolation `fork`, for each process: with one of each the dispatcher claims
#: 1.6 at a time, and half of what Redis does for a job is the call around it
WAITING = 3
#: s; how long a claimed job may wait for a child before it goes back
PENDING = 0.2


class Batching:
    """Decides for the slots of one pool."""

    def __init__(self, slots: Mapping[int, Slot]) -> None:
        self._slots = slots
        self.times, self.ahead = RunTimes(), Ahead()
        #: slots that the group's former generation still uses
        self.left = 0

    def set_config(self, config: Config, group: WorkerGroup) -> None:
        """Follow timeouts and the number of processes."""
        self._hard = {name.encode(): task.timeout.hard for name, task in config.tasks.items()}
        self._processes, self._one_job = group.processes, group.isolation == "fork"

    @property
    def _places(self) -> int:
        return self._processes - self.left

    @property
    def running(self) -> int:
        """Slots that have a job."""
        return sum(1 for slot in self._slots.values() if slot.outstanding)

    def room(self) -> int:
        """How many jobs may be claimed: as many as begin at once, and more where the children are soon free again."""
        takers, ahead = self._takers(), self.ahead.most(time.monotonic())
        idle = sum(1 for slot in takers if not slot.outstanding)
        begin = max(0, min(self._places - self.running, idle))
        if self._one_job:
            return begin + (min(ahead, WAITING * self._soon_free()) if ahead and self.times.quick else 0)
        depth = self._depth(ahead)
        if depth == 1:
            return begin
        busy = sum(max(0, 2 * depth - len(slot.outstanding)) for slot in takers if slot.outstanding)
        return min(begin * 2 * depth + busy, begin + ahead)

    def _depth(self, ahead: int) -> int:
        """How many jobs one child may be handed at once; it may have twice as many."""
        return max(1, min(self.times.depth(), math.ceil(ahead / (2 * max(1, self._places)))))

    def _soon_free(self) -> int:
        """Children of isolation `fork` whose job has not turned out to be long."""
        now = time.monotonic_ns()
        return min(self._places, sum(1 for slot in self._slots.values() if slot.serves and slot.ran(now) < BATCH))

    def _takers(self) -> list[Slot]:
        """Slots that may take a job, or more beside quick ones, the emptiest first."""
        if self._one_job:
            return [slot for slot in self._slots.values() if not slot.handed and slot.serves]
        now = time.monotonic_ns()
        slots = [
            slot
            for slot in self._slots.values()
            if slot.serves and (slot.ran(now) < BATCH if slot.outstanding else not slot.owes)
        ]
        return sorted(slots, key=lambda slot: len(slot.outstanding))

    def free(self) -> int:
        """How many children could begin a job now."""
        idle = sum(1 for slot in self._takers() if not slot.outstanding)
        return max(0, min(idle, self._places - self.running))

    def batches(self, pending: deque[Attempt], reserved: int) -> Iterator[tuple[Slot, list[Attempt]]]:
        """
        Which slots are handed what of the pending attempts, as far as there is room; the rest stays pending.

        `reserved`: children to keep free for jobs that wait for a permit.
        """
        takers = self._takers()
        free = self._places - self.running - reserved
        depth = 1 if self._one_job else self._depth(self.ahead.most(time.monotonic()))
        most = 1 if depth == 1 else 2 * depth
        for at, slot in enumerate(takers):
            if not pending:
                return
            if not slot.outstanding:
                if free <= 0:
                    continue
                free -= 1
            share = math.ceil(len(pending) / (len(takers) - at))
            batch = self._batch(slot, pending, min(share, most - len(slot.outstanding)))
            if batch:
                yield slot, batch

    def _batch(self, slot: Slot, pending: deque[Attempt], most: int) -> list[Attempt]:
        """The next attempts for this child: one where jobs are long or unknown, many where they are short."""
        batch: list[Attempt] = []
        work, size = slot.work, 0
        now = time.monotonic_ns()
        old = now - int(PENDING * 1e9)
        while pending and len(batch) < most:
            attempt = pending[0]
            if attempt.once:
                # What has a permit and has not begun fails if this process dies: it waits behind no other job.
                if batch or slot.outstanding:
                    break
                most = 1
            cost = self.times.expected(attempt.task)
            size += len(attempt.args) + len(attempt.header)
            behind = batch or slot.outstanding
            if (behind and (work + cost > BATCH or attempt.claimed <= old)) or (batch and size > BATCH_BYTES):
                break
            work += cost
            attempt.cost, attempt.hard, attempt.handed_at = cost, self._hard_timeout(attempt), now
            batch.append(pending.popleft())
        return batch

    def _hard_timeout(self, attempt: Attempt) -> float:
        """Seconds; the job's own, else its task's. Of a header that cannot be read the child says what is wrong."""
        hard = self._hard[attempt.task]
        if b'"timeout"' in attempt.header:
            try:
                own = float(json.loads(attempt.header)["timeout"]["hard"])
            except (ValueError, TypeError, LookupError, RecursionError):
                return hard
            return own if own > 0 else hard
        return hard
