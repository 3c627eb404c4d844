"""
From which queue to claim next, and how much. Pure.

A queue is open until it is claimed from; then it is dry, and nothing is asked of it until that claim came back full, or
a wake-up, its next due job, or the poll opens it again. So an idle group sends nothing, and a busy one asks only
where jobs are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fusiond.config.model import Order


class Queues:
    """The queues of one group, in its order."""

    def __init__(self, names: Iterable[str], order: Order, weights: Mapping[str, int]) -> None:
        self.names = list(names)
        self._strict = order == "strict"
        self._weights = {name: weights.get(name, 1) if order == "weighted" else 1 for name in self.names}
        self._credit = dict.fromkeys(self.names, 0.0)
        self._open = set(self.names)
        #: not asked since the last poll
        self._unasked: set[str] = set()

    def mark_open(self, name: str) -> None:
        """The queue may have jobs."""
        if name in self._credit:
            self._open.add(name)

    def mark_all_open(self) -> None:
        """Any queue may have jobs."""
        self._open.update(self.names)

    def mark_dry(self, name: str) -> None:
        """The queue is being asked; there may be no more in it than it will give."""
        self._open.discard(name)
        self._unasked.discard(name)

    def poll(self) -> list[str]:
        """Open all; returns those of which nothing was asked since the last poll."""
        left = [name for name in self.names if name in self._unasked]
        self._unasked = set(self.names)
        self.mark_all_open()
        return left

    def shares(self, want: int) -> list[tuple[str, int]]:
        """
        How many jobs to ask of which queues; `want` in all, nothing where no queue is open.

        Strict order asks the first open queue alone. Otherwise each gets its weight's share; what a whole number cannot
        hold is kept as credit, so that small claims are fair over time too.
        """
        names = [name for name in self.names if name in self._open]
        if not names or want <= 0:
            return []
        if self._strict or len(names) == 1:
            return [(names[0], want)]
        total = sum(self._weights[name] for name in names)
        credit = self._credit
        for name in names:
            credit[name] += want * self._weights[name] / total
        counts = {name: max(0, int(credit[name])) for name in names}
        # Credit from when other queues were open may add up to more or less than there is to share.
        while (rest := want - sum(counts.values())) > 0:
            counts[max(names, key=lambda name: credit[name] - counts[name])] += 1
        for _ in range(-rest):
            counts[max(names, key=lambda name: (counts[name] > 0, counts[name] - credit[name]))] -= 1
        for name in names:
            credit[name] = min(1.0, max(-1.0, credit[name] - counts[name]))
        return [(name, count) for name, count in counts.items() if count]
