"""
Attempts of jobs that may begin once only, from their claim until Redis has stored that they may begin.

1. wait   until a child is free: what has a permit and has not begun fails with its dispatcher
2. ask    for as many permits as children are free
3. leave  with the answer, to be handed to a child

Pure: who asks, and what an answer means, is the dispatcher's.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fusiond.worker.pool.attempt import Attempt


class Permits:
    """Those of one dispatcher."""

    def __init__(self) -> None:
        #: no child was free for them yet
        self.waiting: deque[Attempt] = deque()
        self._asked: list[Attempt] = []

    def __len__(self) -> int:
        """How many wait or are asked for."""
        return len(self.waiting) + len(self._asked)

    def __iter__(self) -> Iterator[Attempt]:
        """Those that wait and those that are asked for."""
        yield from self.waiting
        yield from self._asked

    def ask(self, free: int) -> list[Attempt]:
        """The next attempts to ask for, as many as children are free."""
        count = min(free, len(self.waiting))
        self._asked = [self.waiting.popleft() for _ in range(count)]
        return self._asked

    def answered(self) -> list[Attempt]:
        """Those of which Redis has said something; of the others it is not known, they wait again."""
        asked, self._asked = self._asked, []
        self.waiting.extendleft(each for each in reversed(asked) if not _is_decided(each))
        return [attempt for attempt in asked if _is_decided(attempt)]

    def take_waiting(self) -> list[Attempt]:
        """Those that wait, which leave."""
        taken = list(self.waiting)
        self.waiting.clear()
        return taken


def _is_decided(attempt: Attempt) -> bool:
    return attempt.permitted or attempt.lost or attempt.canceled
