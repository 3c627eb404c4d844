"""
From which queues to claim next, and how many jobs of each. Pure.

1. open    a queue until it is asked, and again when it gave all that was asked for, or at a wake-up, its next due job,
           a free child or the poll. So an idle group sends nothing, and a busy one asks only where jobs are
2. divide  what there is room for among the open queues, in the group's order
3. beside  a claim that is under way, ask the same queue once more if it is deep, which means that its last answer said
           that there is more; where the order is strict, no queue behind one whose answer is not known
4. limit   the jobs that may begin once only, and those that count towards a limit, to as many as children are free:
           the former need a permit and a child at once, the latter must not wait here while another host is free.
           While such a job waits for a child, nothing is claimed ahead, which would take each child that becomes free
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from random import Random
from typing import NamedTuple

from fusiond.broker.records import Claim
from fusiond.config.model import Config, WorkerGroup
from fusiond.config.model.worker_groups import Order

#: jobs asked for in one round trip
_MOST = 512


class Share(NamedTuple):
    """What is asked of one queue."""

    queue: str
    #: jobs
    want: int
    #: children that are free for them: of jobs that may begin once only, or count towards a limit, at most so many
    free: int = 0


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
        #: which had more than was asked for, by their last answers
        self.deep: set[str] = set()
        #: whose next job needs a free child, and there is none
        self.full: set[str] = set()
        #: those of which the last answer said so
        self.narrow: set[str] = set()
        #: not asked since the last poll; nor between the two polls before
        self._unasked: set[str] = set()
        self._neglected: set[str] = set()

    def mark_open(self, name: str | None = None) -> None:
        """The queue may have jobs; None: any may."""
        self._open.update(self.names if name is None else {name} & self._credit.keys())

    @property
    def may_have_jobs(self) -> list[str]:
        """The queues that are not known to be empty."""
        return [name for name in self.names if name in self._open or name in self.deep or name in self.full]

    def poll(self) -> None:
        """Open all, and have those asked in any case of which nothing was asked since the last poll."""
        self._neglected, self._unasked = self._unasked, set(self.names)
        self.mark_open()

    def open_full(self) -> None:
        """A child is free: open the queues that wait for one."""
        self._open |= self.full
        self.full.clear()

    def shares(self, room: int, free: int, rand: Random, asked: Collection[str] = ()) -> list[Share]:
        """
        What to ask of which queues, each of which is not open then.

        A claim rescues expired leases, ends what was canceled and takes in the inbox even if it brings no job. Nobody
        would do so where each group is full, or never comes to the last queue of a strict order: so each queue is asked
        once between two polls.

        Args:
            room: jobs that there is room for.
            free: children that could begin a job at once.
            rand: which queue has the free children first.
            asked: queues of which another claim is under way.
        """
        most = min(room, free) if self._keeps_children() else room
        wants = dict.fromkeys(self._neglected, 0) | self.divide(min(_MOST, most), asked)
        self._neglected = set()
        shares = []
        for name in rand.sample(list(wants), len(wants)):
            # Not when the reply has come: a wake-up may overtake it, on another connection, and opens the queue again.
            self.mark_dry(name)
            own = min(wants[name], free)
            free -= own
            shares.append(Share(name, wants[name], own))
        return shares

    def _keeps_children(self) -> bool:
        """Whether a job waits for a free child in a queue whose turn it is."""
        if not self._strict or not self.narrow:
            return bool(self.narrow)
        turn = next((at for at, name in enumerate(self.names) if name in self._open), 0)
        return not self.narrow.isdisjoint(self.names[: turn + 1])

    def mark_dry(self, name: str) -> None:
        """The queue is being asked; there may be no more in it than it will give."""
        self._open.discard(name)
        self._unasked.discard(name)

    def note(self, share: Share, claim: Claim) -> bool:
        """What a claim tells of its queue; false: there is nothing more for this group, until a job comes due."""
        (self.deep.add if claim.more and not claim.few else self.deep.discard)(share.queue)
        (self.narrow.add if claim.few else self.narrow.discard)(share.queue)
        if claim.few:
            self.full.add(share.queue)
        elif len(claim.jobs) == share.want or claim.more:
            self.mark_open(share.queue)
            return True
        return False

    def divide(self, want: int, asked: Collection[str] = ()) -> dict[str, int]:
        """
        How many jobs to ask of which open queues; `want` in all, nothing where no queue is open.

        Strict order asks the first open queue alone. Otherwise each gets its weight's share; what a whole number cannot
        hold is kept as credit, so that small claims are fair over time too.
        """
        deep = self.deep.intersection(asked)
        names = [name for name in self.names if name in self._open or name in deep]
        if not names or want <= 0:
            return {}
        if self._strict:
            # Behind a queue that has not answered yet none may have its turn.
            first = next(name for name in self.names if name in self._open or name in asked)
            return {first: want} if first in names else {}
        if len(names) == 1:
            return {names[0]: want}
        total, counts = sum(self._weights[name] for name in names), {}
        for name in names:
            counts[name], rest = divmod(want * self._weights[name], total)
            self._credit[name] += rest / total
        for name in sorted(names, key=self._credit.__getitem__, reverse=True)[: want - sum(counts.values())]:
            counts[name] += 1
            self._credit[name] -= 1
        return {name: count for name, count in counts.items() if count}
