"""
From which queues to claim next, and how many jobs of each. Pure.

1. open    a queue until it is asked, and again when it gave all that was asked for, or at a wake-up, its next due job,
           a free child or the poll. So an idle group sends nothing, and a busy one asks only where jobs are
2. divide  what there is room for among the open queues, in the group's order
3. limit   the jobs that may begin once only to as many as children are free: each needs a permit and a child at once
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from random import Random

    from fusiond.broker.records import Claim
    from fusiond.config.model import Config, Order, WorkerGroup

#: jobs asked for in one round trip
_MOST = 512


class Share(NamedTuple):
    """What is asked of one queue."""

    queue: str
    #: jobs
    want: int
    #: at most so many of them may begin once only
    once: int = 0


def queues_of(config: Config, group: WorkerGroup) -> Queues:
    """The group's queues; `*` stands for each that the file has."""
    names = dict.fromkeys(name for entry in group.queues for name in (config.queues if entry == "*" else (entry,)))
    return Queues(names, group.order, group.weights)


class Queues:
    """The queues of one group, in its order."""

    def __init__(self, names: Iterable[str], order: Order, weights: Mapping[str, int]) -> None:
        self.names = list(names)
        self._strict = order == "strict"
        self._weights = {name: weights.get(name, 1) if order == "weighted" else 1 for name in self.names}
        self._credit = dict.fromkeys(self.names, 0.0)
        self._open = set(self.names)
        #: whose next job may begin once only, and no child is free for it
        self.full: set[str] = set()
        #: not asked since the last poll; nor between the two polls before
        self._unasked: set[str] = set()
        self._neglected: set[str] = set()

    def mark_open(self, name: str | None = None) -> None:
        """The queue may have jobs; None: any may."""
        self._open.update(self.names if name is None else {name} & self._credit.keys())

    def poll(self) -> None:
        """Open all, and have those asked in any case of which nothing was asked since the last poll."""
        self._neglected, self._unasked = self._unasked, set(self.names)
        self.mark_open()

    def open_full(self) -> None:
        """A child is free: open the queues that wait for one."""
        self._open |= self.full
        self.full.clear()

    def shares(self, room: int, free: int, rand: Random) -> list[Share]:
        """
        What to ask of which queues, each of which is not open then.

        A claim rescues expired leases, ends what was canceled and takes in the inbox even if it brings no job. Nobody
        would do so where each group is full, or never comes to the last queue of a strict order: so each queue is asked
        once between two polls.

        Args:
            room: jobs that there is room for.
            free: children that could begin a job at once.
            rand: which queue has the free children first.
        """
        wants = dict.fromkeys(self._neglected, 0) | self.divide(min(_MOST, room))
        self._neglected = set()
        shares = []
        for name in rand.sample(list(wants), len(wants)):
            # Not when the reply has come: a wake-up may overtake it, on another connection, and opens the queue again.
            self.mark_dry(name)
            once = min(wants[name], free)
            free -= once
            shares.append(Share(name, wants[name], once))
        return shares

    def mark_dry(self, name: str) -> None:
        """The queue is being asked; there may be no more in it than it will give."""
        self._open.discard(name)
        self._unasked.discard(name)

    def note(self, share: Share, claim: Claim) -> bool:
        """What a claim tells of its queue; false: there is nothing more for this group, until a job comes due."""
        if claim.few:
            self.full.add(share.queue)
        elif len(claim.jobs) == share.want or claim.more:
            self.mark_open(share.queue)
            return True
        return False

    def divide(self, want: int) -> dict[str, int]:
        """
        How many jobs to ask of which open queues; `want` in all, nothing where no queue is open.

        Strict order asks the first open queue alone. Otherwise each gets its weight's share; what a whole number cannot
        hold is kept as credit, so that small claims are fair over time too.
        """
        names = [name for name in self.names if name in self._open]
        if not names or want <= 0:
            return {}
        if self._strict or len(names) == 1:
            return {names[0]: want}
        total, counts = sum(self._weights[name] for name in names), {}
        for name in names:
            counts[name], rest = divmod(want * self._weights[name], total)
            self._credit[name] += rest / total
        for name in sorted(names, key=self._credit.__getitem__, reverse=True)[: want - sum(counts.values())]:
            counts[name] += 1
            self._credit[name] -= 1
        return {name: count for name, count in counts.items() if count}
