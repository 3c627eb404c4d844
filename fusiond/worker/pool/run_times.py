"""
How long tasks have run, and how many jobs have ended, lately. This decides how many jobs may be claimed and handed out
before a child is free for them.

A batch is as many jobs as fit into about 5 ms of work: few enough that none waits long behind another, many enough that
a message costs little. A task that has not run yet counts as long. At most as many jobs are claimed ahead as ended
within the last LATELY seconds, so a dispatcher that was idle claims for its idle children alone.
"""

from __future__ import annotations

import math

#: s; the work that one child may be handed at once
BATCH = 0.005
#: s; jobs that take less are claimed before a child of isolation `fork` is free for them
QUICK = 0.02
#: jobs that one child may be handed at once; the page's ring must hold two batches
DEPTH = 64
#: bytes of arguments that one child may be handed at once, unless a single job has more; far below a frame's limit
BATCH_BYTES = 1 << 20
#: s; how long a claimed job may wait for a child before it goes back
PENDING = 0.2
#: how much the newest run time weighs in a mean
_WEIGHT = 0.2
#: s; jobs that ended within about this time are counted
LATELY = 0.1
#: s; a claim, from one to the next, until its jobs are here
SOON = 0.008
#: s; how long nothing is claimed ahead after a claimed job found no free child: the first time, and at most, since it
#: doubles each time
MODEST, MOST_MODEST = 0.2, 6.4


class RunTimes:
    """Moving means of run times: of each task, and of all jobs."""

    def __init__(self) -> None:
        self._by_task: dict[bytes, float] = {}
        self._all = math.inf

    def note(self, task: bytes, seconds: float) -> None:
        """A job of the task has run for so many seconds."""
        known = self._by_task.get(task, seconds)
        self._by_task[task] = known + (seconds - known) * _WEIGHT
        # One job of an hour must not count as an hour each for the next hundred.
        mean = seconds if self._all == math.inf else min(self._all, 2 * QUICK)
        self._all = mean + (seconds - mean) * _WEIGHT

    def expected(self, task: bytes) -> float:
        """Seconds that a job of the task should run; inf: unknown."""
        return self._by_task.get(task, math.inf)

    @property
    def quick(self) -> bool:
        """Whether jobs are so short that they may wait for a child of isolation `fork`."""
        return self._all < QUICK

    def depth(self, concurrency: int) -> int:
        """How many of the jobs to come one child may be handed that runs so many at once."""
        most = max(DEPTH, concurrency)
        return max(1, min(most, int(concurrency * BATCH / self._all))) if self._all > 0 else most


class PrefetchBudget:
    """How many jobs may be claimed beyond those that idle children begin at once."""

    def __init__(self) -> None:
        #: jobs that ended; the weight of each falls to 1/e in LATELY seconds
        self._ended = 0.0
        #: monotonic s of the last look, and until when nothing is claimed ahead
        self._looked = self._none_until = 0.0
        #: s; the length of that pause
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

    def limit(self, now: float) -> int:
        """As many as ended lately; `now` in monotonic seconds."""
        self._ended *= math.exp((self._looked - now) / LATELY)
        self._looked = now
        return int(self._ended) if now >= self._none_until else 0

    def limit_of_next(self, now: float) -> int:
        """As many as should end before the jobs of the next claim are here; `now` in monotonic seconds."""
        return int(self.limit(now) * SOON / LATELY)
