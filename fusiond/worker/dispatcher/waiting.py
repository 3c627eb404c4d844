"""
Claimed jobs that no child has yet.

0. slots  a job whose task needs pools waits until it has its slots (claims/pool_slots.py)
1. wait   for a child. A job that may begin once only waits for a permit first, until a child is free for it: a job
          that has a permit and has not begun fails with its dispatcher
2. ask    permits for as many jobs as children are free
3. hand   jobs to children
4. leave  what no child takes in time goes back to the queue; so does what must not begin here (attempt_settler.py)

Knows no Redis: the dispatcher asks for permits.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from fusiond.worker.dispatcher.ends.attempt_settler import AttemptSettler
from fusiond.worker.pool.attempt import Attempt
from fusiond.worker.pool.group_config import GroupConfig
from fusiond.worker.pool.pool import Pool
from fusiond.worker.pool.run_times import PENDING


class Waiting:
    """The jobs of one dispatcher."""

    def __init__(self, pool: Pool, settler: AttemptSettler, conf: GroupConfig, wake: Callable[[], None]) -> None:
        """`wake`: called when jobs have come back or have left."""
        self._pool, self._settler, self._conf, self._wake = pool, settler, conf, wake
        #: nothing begins here any more
        self._draining = False
        self.for_child: deque[Attempt] = deque()
        self.for_permit: deque[Attempt] = deque()
        #: those whose slots of pools are being asked for
        self.for_slots: deque[Attempt] = deque()
        #: permits for these are asked for now
        self._asked: list[Attempt] = []
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self.for_child) + len(self.for_slots) + self._reserved

    def __iter__(self) -> Iterator[Attempt]:
        return chain(self.for_child, self.for_permit, self.for_slots, self._asked)

    @property
    def _reserved(self) -> int:
        """Jobs without a permit; a child is kept free for each."""
        return len(self.for_permit) + len(self._asked)

    def add(self, attempts: Iterable[Attempt]) -> None:
        """Have claimed jobs wait."""
        # Whether a job may run here depends on its task alone, as a rule: a claim of hundreds asks once for each task.
        plain: set[bytes] = set()
        for attempt in attempts:
            own = b'"retry"' in attempt.header
            line = self.for_child if attempt.task in plain and not own else self._line(attempt)
            if line is not None:
                if not (attempt.once or own or attempt.task in self._conf.pooled):
                    plain.add(attempt.task)
                line.append(attempt)

    def put_back(self, attempts: list[Attempt]) -> None:
        """Have jobs that were never begun wait again, before all others."""
        for attempt in reversed(attempts):
            if (line := self._line(attempt)) is not None:
                line.appendleft(attempt)
        if self._timer:
            # They may have waited for longer than those for which it was set.
            self._timer.cancel()
            self._timer = None
        self._wake()

    def follow(self, former_once: frozenset[bytes]) -> None:
        """Tasks and their retry policies may have changed; `former_once`: those whose jobs could begin once only."""
        if turned := self._conf.once - former_once:
            # What waits in a child has no permit: it comes back for one, unless it has begun under the former policy.
            self._pool.children.take_back_all(turned)
        # A job whose task this reload removed must not be handed to a child.
        self.look_again()

    def drain(self) -> None:
        """Give back what was not begun, also what waits in a child."""
        self._draining = True
        self.look_again()
        self._pool.drain()

    def free(self) -> int:
        """Children that could begin a job that is yet to be claimed."""
        return max(0, self._pool.capacity.free() - len(self))

    def look_again(self, which: Callable[[Attempt], bool] | None = None) -> None:
        """Have the jobs in line of which this is true, or all, leave if they must not begin here any more."""
        self.put_back(self._take(which))

    def ask_permits(self) -> list[Attempt]:
        """The next jobs to ask permits for, as many as children are free."""
        count = min(self._pool.capacity.free(), len(self.for_permit)) if self.for_permit else 0
        self._asked = [self.for_permit.popleft() for _ in range(count)]
        return self._asked

    def note_slots(self, attempt: Attempt, until: int, *, held: bool) -> None:
        """It has its slots until then, boot ns; 0: it does not get them, and goes back, `held` by its task or not."""
        if attempt not in self.for_slots:
            return
        self.for_slots.remove(attempt)
        if until:
            # If this process stood still before it read the answer, they may be over.
            attempt.slots_until, attempt.lease = until, min(attempt.lease, until)
            self.add([attempt])
        else:
            self._settler.on_full(attempt, held=held)

    def note_permits(self) -> None:
        """Redis was asked for permits: the jobs of which it has said something leave or wait for a child."""
        asked, self._asked = self._asked, []
        self.for_permit.extendleft(each for each in reversed(asked) if not _is_answered(each))
        self.put_back([attempt for attempt in asked if _is_answered(attempt)])

    def hand(self) -> None:
        """Hand jobs to children, as far as there is room."""
        self._pool.assigner.hand_out(self.for_child, self._reserved)
        if self._timer is None and (self.for_child or self.for_permit):
            first = min(attempt.claimed for attempt in chain(self.for_child, self.for_permit))
            seconds = first / 1e9 + PENDING - time.monotonic() + 0.001
            self._timer = asyncio.get_running_loop().call_later(seconds, self._release_old)

    def begin(self, attempt: Attempt, *, in_time: bool) -> None:
        """Hand out a job that a wake-up has brought; give it back if it came too late, or no child is free for it."""
        # It needs nothing but a child.
        is_plain = not (
            self._draining
            or len(self)
            or self._pool.servers.problems
            or attempt.task in self._conf.pooled
            or self._conf.policy(attempt).at_most_once
        )
        if not (in_time and self.free()):
            self._settler.release(attempt, "no child was free" if in_time else "it came too late")
        elif is_plain and self._pool.assigner.hand_one(attempt):
            return
        else:
            self.add([attempt])
            self.hand()
        self._wake()

    def _release_old(self) -> None:
        """Give back what no child has taken in time: another host may have one that is free."""
        self._timer = None
        now = time.monotonic()
        limit = int((now - PENDING) * 1e9)
        for attempt in self._take(lambda attempt: attempt.claimed <= limit):
            self._settler.release(attempt, "no child was free")
            self._pool.children.ahead.stop(now)
        self._wake()

    def _line(self, attempt: Attempt) -> deque[Attempt] | None:
        """Where a job waits that has not begun; None: nowhere, it must not begin here."""
        if attempt.lost or self._settler.refuse(attempt, self._pool.servers.problems, draining=self._draining):
            return None
        if not attempt.slots_until and attempt.task in self._conf.pooled:
            return self.for_slots
        attempt.once = attempt.permitted or self._conf.policy(attempt).at_most_once
        return self.for_permit if attempt.once and not attempt.permitted else self.for_child

    def _take(self, which: Callable[[Attempt], bool] | None) -> list[Attempt]:
        """Take them out of their lines; those whose permits are being asked for stay."""
        taken = []
        for line in (self.for_child, self.for_permit, self.for_slots):
            for attempt in [each for each in line if which is None or which(each)]:
                line.remove(attempt)
                taken.append(attempt)
        return taken


def _is_answered(attempt: Attempt) -> bool:
    return attempt.permitted or attempt.lost or attempt.canceled
