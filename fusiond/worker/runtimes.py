"""
How long tasks run, as lately seen: what decides how many jobs one child may be handed at once.

A batch is as many jobs as fit into about 5 ms of work: few enough that none waits long behind another, many enough that
a message costs little. What is unknown counts as long.
"""

from __future__ import annotations

import math

#: s; the work that one child may be handed at once
BATCH = 0.005
#: jobs that one child may be handed at once; the page's ring must hold two batches
DEPTH = 64
#: bytes of arguments that one child may be handed at once, unless one job alone has more: far below a frame's limit
BATCH_BYTES = 1 << 20
#: how much the newest run time weighs in a mean
_WEIGHT = 0.2


class RunTimes:
    """Moving means, of each task and of all."""

    def __init__(self) -> None:
        self._by_task: dict[bytes, float] = {}
        self._all = math.inf

    def note(self, task: bytes, seconds: float) -> None:
        """A job of the task has run so long."""
        known = self._by_task.get(task, seconds)
        self._by_task[task] = known + (seconds - known) * _WEIGHT
        # One job of an hour must not count as an hour each for the next hundred.
        mean = seconds if self._all == math.inf else min(self._all, 2 * BATCH)
        self._all = mean + (seconds - mean) * _WEIGHT

    def expected(self, task: bytes) -> float:
        """Seconds that a job of the task should run; inf: unknown."""
        return self._by_task.get(task, math.inf)

    @property
    def quick(self) -> bool:
        """Whether jobs are so short that a child may be handed more than one."""
        return self._all < BATCH

    def depth(self) -> int:
        """How many of the jobs to come one child may be handed."""
        if not self.quick:
            return 1
        return max(1, min(DEPTH, int(BATCH / self._all))) if self._all > 0 else DEPTH
