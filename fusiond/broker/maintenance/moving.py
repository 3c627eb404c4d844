"""
Move waiting jobs from one queue to another, which may be on another node of a Cluster: no script touches both.

1. leave    one script takes jobs out of their queue and stores them as effects
2. deliver  the other queue takes each of them once; those of which it has the id or the lock come back

A mover that is killed leaves entries in effects; the next move, a dispatcher or a sweep delivers them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from fusiond.broker.call import Plan, number, plain, scripted
from fusiond.broker.effects import EffectVerbs
from fusiond.broker.jobs import JobVerbs


class Leaving(NamedTuple):
    """A job that leaves its queue."""

    id: bytes
    #: queued or scheduled
    kind: bytes


class Moved(NamedTuple):
    """What a step did."""

    #: jobs that wait in the other queue now
    jobs: int
    #: jobs that run in the first one
    running: int
    #: jobs that came back, since another job in the other queue has their id or lock
    taken: list[Leaving]


class MovingVerbs(JobVerbs, EffectVerbs):
    """The verb that concerns two queues."""

    def move(self, source: str, target: str, *, limit: int = 200, skip: tuple[int, int] = (0, 0)) -> Plan[Moved]:
        """
        Move up to `limit` jobs that wait in `source`; id, arguments, attempts and priority stay.

        Args:
            source: the queue that holds them; what its inbox holds, and what a dead dispatcher has left, comes along.
            target: another queue, which is to hold them. Its max_length does not count.
            limit: jobs in one step.
            skip: how many of the ready and of the scheduled jobs stay, at the head of each.
        """
        root = self.keys.root(source)
        yield self.rescue(source)
        running, left = yield scripted("move", root, (target, limit, *skip), _left)
        yield from self.deliver(source)
        yield from self.deliver(target)
        found = (yield [plain(number, "EXISTS", root + b":job:" + job.id) for job in left]) if left else []
        taken = [job for job, is_back in zip(left, found, strict=True) if is_back]
        return Moved(len(left) - len(taken), running, taken)


def _left(reply: Any) -> tuple[int, list[Leaving]]:
    """How many jobs run, and those that have left."""
    running, *words = reply
    return number(running), list(map(Leaving._make, zip(*[iter(words)] * 2, strict=True)))
