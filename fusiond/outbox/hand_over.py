"""
Have Redis store the jobs of rows, each once.

1. clock    what time it is by the clock of the queue's Redis, as told before
2. store    the jobs with their markers, until 10 s after their rows were read: a relay that was frozen longer, or a
            command that was held back on its way, comes too late, and Redis refuses it
3. halve    jobs that are refused together, until the refused one is alone

A queue's clock is known by what it said, and by how long ago. CLOCK_BOOTTIME tells that, which goes on while the host
is suspended. The answer came after Redis had read its clock, so the time is never taken to be later than it is.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from fusiond.broker.call import Plan
from fusiond.broker.records import Existing, NewJob, Stored
from fusiond.broker.verbs import Verbs
from fusiond.errors import BrokerError

#: ms after the reading of a row in which its job may be stored
_IN_TIME = 10_000
#: s for which it is known what the clock of a Redis says
_CLOCK_AGE = 5.0


def boot_time() -> float:
    """Seconds since the host was started, suspended or not."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass
class HandedOver:
    """What became of the rows of a queue."""

    #: ids of rows whose jobs are stored
    done: list[str] = field(default_factory=list)
    #: id → why there can be no job
    refused: dict[str, str] = field(default_factory=dict)
    #: whether the rest waits, since the queue is full; or since they came too late
    is_full: bool = False
    is_late: bool = False


class HandOver:
    """The rows of one outbox, on their way to Redis."""

    def __init__(self, verbs: Verbs, outbox: str) -> None:
        self._verbs, self._outbox = verbs, outbox
        #: queue → (epoch ms by its Redis, our s when that had been told)
        self._clocks: dict[str, tuple[int, float]] = {}

    def hand_over(self, queue: str, jobs: Sequence[NewJob], read_at: float) -> Plan[HandedOver]:
        """Store jobs. `read_at`: `boot_time` before their rows were read. Raises BrokerError."""
        found = HandedOver()
        yield from self._store(queue, jobs, (yield from self._deadline(queue, read_at)), found)
        if any(job.after for job in jobs):
            yield from self._verbs.deliver(queue)
        return found

    def _deadline(self, queue: str, read_at: float) -> Plan[int]:
        """Epoch ms by the clock of the queue's Redis."""
        said, told_at = self._clocks.get(queue, (0, float("-inf")))
        if boot_time() - told_at > _CLOCK_AGE:
            said, _ = yield self._verbs.confirm_handed(queue, self._outbox, ())
            told_at = boot_time()
            self._clocks[queue] = said, told_at
        return said + int((read_at - told_at) * 1000) + _IN_TIME

    def _store(self, queue: str, jobs: Sequence[NewJob], deadline: int, found: HandedOver) -> Plan[None]:
        try:
            replies = yield self._verbs.enqueue_handed(queue, self._outbox, jobs, deadline)
        except BrokerError as error:
            if type(error) is not BrokerError:
                raise  # Redis is away, full or unfit: that is no matter of these jobs
            if len(jobs) == 1:
                found.refused[jobs[0].id] = str(error)
                return
            yield from self._store_halves(queue, jobs, deadline, found)
            return
        if replies is None:
            found.is_late = True
            return
        left = [job for job, reply in zip(jobs, replies, strict=True) if not self._is_settled(queue, job, reply, found)]
        if len(left) > 1 or len(left) < len(jobs):
            yield from self._store_halves(queue, left, deadline, found)
        elif left:
            found.is_full = True

    def _store_halves(self, queue: str, jobs: Sequence[NewJob], deadline: int, found: HandedOver) -> Plan[None]:
        middle = (len(jobs) + 1) // 2
        for part in (jobs[:middle], jobs[middle:]):
            if part and not found.is_full and not found.is_late:
                yield from self._store(queue, part, deadline, found)

    @staticmethod
    def _is_settled(queue: str, job: NewJob, reply: Stored, found: HandedOver) -> bool:
        """Note what became of a job; False: it was refused together with others, or the queue is full."""
        if isinstance(reply, Existing) and reply.refused:
            found.refused[job.id] = f"job {queue}/{reply.id} exists already, and task {job.task!r} is `unique`"
        elif reply == "conflict":
            found.refused[job.id] = f"id {job.id} is taken by a job with another task or other arguments"
        elif reply in ("full", "unstored"):
            return False
        else:
            found.done.append(job.id)
        return True
