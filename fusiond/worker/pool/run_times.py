"""
How long tasks run and how many jobs end, as lately seen: what decides how many jobs may be claimed and handed out
before a child is free for them.

A batch is as many jobs as fit into about 5 ms of work: few enough that none waits long behind another, many enough that
a message costs little. What is unknown counts as long. No more is claimed ahead than ended within the last LATELY
seconds, so a dispatcher that was idle claims for its idle children alone.
"""

from __future__ import annotations

import math

#: s; the work that one child may be handed at once
BATCH = 0.005
#: jobs that one child may be handed at once; the page's ring must hold two batches
DEPTH = 64
#: bytes of arguments that one child may be handed at once, unless one job alone has more: far below a frame's limit
BATCH_BYTES = 1 << 20
#: s; how long a claimed job may wait for a child before it goes back
PENDING = 0.2
#: how much the newest run time weighs in a mean
_WEIGHT = 0.2
#: s; the ended jobs of about this time are counted
LATELY = 0.1
#: s; nothing is claimed ahead for so long after a claimed job found no free child: the first time, and at most where
#: that happens again and again
MODEST, MOST_MODEST = 0.2, 6.4


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


class Ahead:
    """How many jobs may be claimed beyond those that idle children begin at once."""

    def __init__(self) -> None:
        #: jobs that ended, each one's weight falls by 1/e in LATELY seconds
        self._ended = 0.0
        #: monotonic s of the last look, and until when nothing is claimed ahead
        self._looked = self._none_until = 0.0
        #: s; how long that was, or is
        self._pause = 0.0

    def note(self, jobs: int) -> None:
        """So many jobs have ended."""
        self._ended += jobs

    def stop(self, now: float) -> None:
        """A job that was claimed ahead found no free child; `now` in monotonic seconds."""
        if now >= self._none_until:
            again = now < self._none_until + 4 * self._pause
            self._pause = min(2 * self._pause, MOST_MODEST) if again else MODEST
        self._ended, self._none_until = 0.0, now + self._pause

    def most(self, now: float) -> int:
        """As many as ended lately; `now` in monotonic seconds."""
        self._ended *= math.exp((self._looked - now) / LATELY)
        self._looked = now
        return int(self._ended) if now >= self._none_until else 0
