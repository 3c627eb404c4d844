"""
Which attempts a group's children are handed: as many to one as fit into about 5 ms of work by recent run times, one
where jobs are long, or each has a child of its own.
"""

from __future__ import annotations

import json
import math
import time
from typing import TYPE_CHECKING

from fusiond.worker import wire
from fusiond.worker.runtimes import BATCH, BATCH_BYTES, DEPTH, RunTimes
from fusiond.worker.slots import Attempt, Slot, State

if TYPE_CHECKING:
    import asyncio
    from collections import deque
    from collections.abc import Mapping

    from fusiond.config.model import Config, WorkerGroup

#: quick jobs that wait for the next child of isolation `fork`, for each process: with one of each the dispatcher claims
#: 1.6 at a time, and half of what Redis does for a job is the call around it
WAITING = 3


class HandOut:
    """Of one pool."""

    def __init__(self, slots: Mapping[int, Slot]) -> None:
        self._slots = slots
        self.times = RunTimes()
        #: number of the newest table, and its frame
        self.table, self._frame = 0, b""
        #: slots that the group's former generation still uses
        self.left = 0

    def set_config(self, config: Config, group: WorkerGroup) -> None:
        """Follow timeouts and the number of processes."""
        self._hard = {name.encode(): task.timeout.hard for name, task in config.tasks.items()}
        self._processes, self._fresh = group.processes, group.isolation == "fork"

    def set_table(self, content: bytes) -> bool:
        """Whether it is another table than before; a child that has an older one gets it with its next jobs."""
        frame = wire.frame(wire.TABLE, content)
        changed = frame != self._frame
        if changed:
            self.table, self._frame = self.table + 1, frame
        return changed

    @property
    def _places(self) -> int:
        return self._processes - self.left

    @property
    def running(self) -> int:
        """Slots that have a job."""
        return sum(1 for slot in self._slots.values() if slot.outstanding)

    def room(self) -> int:
        """How many jobs the children could take now."""
        free = self._places - self.running
        depth = 1 if self._fresh else self.times.depth()
        total = 0
        for slot in self._takers():
            if slot.outstanding:
                total += max(0, 2 * depth - len(slot.outstanding)) if depth > 1 else 0
            elif free > 0:
                free -= 1
                total += depth if depth == 1 else 2 * depth
        waiting = WAITING * self._places
        return total + (waiting if self._fresh and self.times.quick else 0)

    def _takers(self) -> list[Slot]:
        """Slots that may take a job, or more beside quick ones, the emptiest first."""
        ready = [slot for slot in self._slots.values() if slot.state is State.READY and not slot.retiring]
        if self._fresh:
            return [slot for slot in ready if not slot.handed]
        now = time.monotonic_ns()
        slots = [slot for slot in ready if not slot.outstanding or slot.ran(now) < BATCH]
        return sorted(slots, key=lambda slot: len(slot.outstanding))

    def hand(self, pending: deque[Attempt], loop: asyncio.AbstractEventLoop) -> None:
        """Hand out what is pending, as far as there is room; the rest stays."""
        free = self._places - self.running
        takers = self._takers()
        for at, slot in enumerate(takers):
            if not pending:
                break
            if not slot.outstanding:
                if free <= 0:
                    continue
                free -= 1
            batch = self._batch(slot, pending, math.ceil(len(pending) / (len(takers) - at)))
            if batch:
                slot.hand(batch, self._frame if slot.table != self.table else None, loop)
                slot.table = self.table
                if self._fresh:
                    # All that this child prints is this job's; it writes no marks.
                    slot.printing = batch[0]

    def _batch(self, slot: Slot, pending: deque[Attempt], share: int) -> list[Attempt]:
        """The next attempts for this child: one where jobs are long or unknown, many where they are short."""
        batch: list[Attempt] = []
        work, size = slot.work, 0
        most = 1 if self._fresh else min(share, 2 * DEPTH - len(slot.outstanding))
        while pending and len(batch) < most:
            attempt = pending[0]
            cost = self.times.expected(attempt.task)
            size += len(attempt.args) + len(attempt.header)
            if ((batch or slot.outstanding) and work + cost > BATCH) or (batch and size > BATCH_BYTES):
                break
            work += cost
            attempt.cost, attempt.hard = cost, self._hard_timeout(attempt)
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
