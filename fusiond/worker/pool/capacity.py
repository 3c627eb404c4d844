"""
How many children a group has, and how many jobs may be claimed for them.

1. size     as many children as the file says, or as its load needs; those that stand ready, or run one job alone, come
            on top. Of a range, `max` bounds all children but those for jobs that run alone: also those that stand
            ready, those that end, and those of the group's former generation
2. count    what is free, what is in use, and what may be claimed ahead of a free child
"""

from __future__ import annotations

import math
import sys
import time

from fusiond.worker.pool.children import Children
from fusiond.worker.pool.group_config import GroupConfig
from fusiond.worker.pool.run_times import BATCH, QUICK
from fusiond.worker.pool.slots import ChildHandle

#: quick jobs that wait for the next child of isolation `fork`, for each process: a claim costs Redis and this process
#: little more for ten jobs than for one. They wait for about a tenth of a second at most: `ahead` bounds them, too
WAITING = 6
#: s; a child that runs many jobs at once gets no more while one that it was handed so long ago has not begun
LAG = 0.02
#: s; a child of isolation `fork` is ready to begin so long after its fork was asked for
PREPARED = 0.015
#: children beyond the group's processes, at most: of isolation `fork` that stand ready, or for jobs that run alone
AHEAD = 4


class Capacity:
    """What one group's children can take."""

    def __init__(self, conf: GroupConfig, children: Children) -> None:
        """Nothing is claimed before `begin`; `follow` comes first."""
        self._conf, self._children = conf, children
        #: each child runs one job
        self._one_job = conf.group.isolation == "fork"
        #: how many jobs each child runs at once
        self.concurrency = conf.group.concurrency
        #: how many slots the group's former generation still uses
        self._left = 0
        #: how many children there should be; of a range only one, before `begin`
        self.processes, self._begun = 1, False
        #: children beyond these, for jobs that run alone
        self._extra = 0

    def follow(self) -> None:
        """The number of processes, or the range, may have changed."""
        group = self._conf.group
        least = group.scaling.min if group.scaling and self._begun else 1
        self.processes = min(max(self.processes, least), group.processes) if group.scaling else group.processes
        self.resize()

    def set_extra(self, extra: int) -> bool:
        """So many jobs run alone, or wait for a child to do so; whether that is news, for `resize` to follow."""
        former, self._extra = self._extra, min(AHEAD, extra)
        return self._extra != former

    def resize(self) -> None:
        """Have as many children as there should be."""
        wanted = self._most + (min(self._most, AHEAD) if self._one_job else self._extra)
        # A job that runs alone would wait for ever for a child that is idle, if the others always have jobs.
        limit = self._limit + (0 if self._one_job or self._conf.group.slot_variable else self._extra)
        self._children.resize(min(wanted, limit), limit)
        if self._extra and self._conf.group.slot_variable:
            # No number is left for one more. The next child is idle when it begins.
            self._children.renew_older_than(0.0)

    @property
    def _most(self) -> int:
        """How many children may run jobs."""
        return min(self.processes, self._limit)

    @property
    def _limit(self) -> int:
        """How many children there may be: as many as the group's former generation leaves, if bounded; 1 on trial."""
        if not self._conf.group.is_bounded:
            return sys.maxsize
        return max(0, self._conf.group.processes - math.ceil(self._left / self.concurrency)) if self._begun else 1

    @property
    def has_started(self) -> bool:
        """Whether as many children serve as there should be."""
        return sum(child.serves for child in self._children.living.values()) >= self._most

    @property
    def running(self) -> int:
        """Jobs that run, at most so many of each child as it runs at once."""
        counts = [len(child.outstanding) for child in self._children.living.values() if child.outstanding]
        return len(counts) if self.concurrency == 1 else sum(min(self.concurrency, count) for count in counts)

    def unused(self) -> int:
        """How many more jobs the group may run."""
        return min(self.processes * self.concurrency, self._conf.group.slots - self._left) - self.running

    def takers(self) -> list[ChildHandle]:
        """Children that may take a job, those with the fewest jobs first; none of them has a long one."""
        if self._children.silent:
            return []
        living = self._children.living.values()
        if self._one_job:
            return [child for child in living if self._is_free(child)]
        now = time.monotonic_ns()
        if self.concurrency > 1:
            takers = (child for child in living if child.serves and not (child.is_alone or child.lags(now, LAG)))
        else:
            takers = (
                child
                for child in living
                if child.serves and (child.ran(now) < BATCH if child.outstanding else not child.owes)
            )
        return sorted(takers, key=lambda child: len(child.outstanding))

    def taker(self) -> ChildHandle | None:
        """A child that can begin one job now: the newest of those that are ready; None: there is none."""
        if self._children.silent or self.unused() <= 0:
            return None
        ready = time.monotonic() - (PREPARED if self._one_job else 0.0)
        # The newest come last. A single job waits for this to end, and as a rule the first child fits.
        for child in reversed(self._children.living.values()):
            if not child.outstanding and self._is_free(child) and child.slot.forked_at <= ready:
                return child
        free = (child for child in self.takers() if len(child.outstanding) < self.concurrency)
        return min(free, key=lambda child: (len(child.outstanding), -child.slot.forked_at), default=None)

    def _is_free(self, child: ChildHandle) -> bool:
        """Whether a child that has no job may take one."""
        # In this order: most children have been handed a job, and `serves` costs three calls.
        return not (child.handed if self._one_job else child.taken_back) and child.serves

    def free(self) -> int:
        """How many jobs children could begin now."""
        return self._free(self.takers()) if self.unused() > 0 else 0

    def _free(self, takers: list[ChildHandle]) -> int:
        most = self.concurrency
        places = sum(most - len(child.outstanding) for child in takers if len(child.outstanding) < most)
        return max(0, min(places, self.unused()))

    def room(self) -> tuple[int, int]:
        """How many jobs children could begin now, and how many more may be claimed as children are soon free again."""
        now = time.monotonic()
        takers, ahead = self.takers(), self._children.ahead.limit(now)
        begin = self._free(takers)
        if self._one_job:
            quick = ahead and self._children.times.quick
            return begin, min(ahead, WAITING * self._soon_free()) if quick else 0
        beyond = self.beyond(ahead)
        if not beyond:
            return begin, 0 if self._children.silent else self._children.ahead.limit_of_next(now)
        idle = sum(1 for child in takers if not child.outstanding)
        most = self.concurrency + beyond
        busy = sum(min(beyond, max(0, most - len(child.outstanding))) for child in takers if child.outstanding)
        return begin, min(min(idle, begin) * beyond + busy, ahead)

    def beyond(self, ahead: int) -> int:
        """
        How many jobs one child may have beyond those that it runs at once.

        It may be handed as many at once as fit into BATCH seconds, and may have twice as many.
        """
        places = max(1, min(self.processes, self._conf.group.processes - self._left // self.concurrency))
        depth = max(1, min(self._children.times.depth(self.concurrency), math.ceil(ahead / (2 * places))))
        return 2 * depth - 1 if depth > 1 else 0

    def _soon_free(self) -> int:
        """Children of isolation `fork` whose job has not turned out to be long."""
        now = time.monotonic_ns()
        soon = sum(1 for child in self._children.living.values() if child.serves and child.ran(now) < QUICK)
        return min(self.processes, self._conf.group.processes - self._left, soon)

    def used(self) -> int:
        """Slots that a next generation must leave to this one."""
        if not self._conf.group.is_bounded:
            return self.running
        # Also those of a child that is idle or ends: together there are never more children than the group may have.
        return self.concurrency * len(self._children.living)

    def begin(self) -> None:
        """Jobs are claimed from now on: a group that follows its load has one child until then."""
        self._begun = True
        if self._conf.group.scaling:
            self.processes = max(self.processes, self._conf.group.scaling.min)
        if self._conf.group.is_bounded and self._most:
            self.resize()

    def leave(self, slots: int) -> None:
        """Leave so many slots unused, since the group's former generation still uses them."""
        fewer, self._left = slots < self._left, slots
        if self._conf.group.is_bounded and fewer:
            # What it used is needed here, too.
            self.processes = min(max(self.processes, math.ceil(slots / self.concurrency)), self._conf.group.processes)
            self.resize()

    def scale(self, processes: int) -> None:
        """Have so many children; those that are too many end after their jobs."""
        self.processes = processes
        self.resize()
