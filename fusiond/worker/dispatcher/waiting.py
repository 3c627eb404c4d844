"""
Claimed jobs that no child has yet.

1. wait   for a child. A job that may begin once only waits for a permit first, until a child is free for it: a job
          that has a permit and has not begun fails with its dispatcher
2. ask    permits for as many jobs as children are free
3. hand   jobs to children
4. leave  what no child takes in time goes back to the queue; so does what must not begin here (endings.py)

Knows no Redis: the dispatcher asks for permits.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from fusiond.config.model import Config
from fusiond.worker.dispatcher.ends.endings import Endings
from fusiond.worker.pool.attempt import Attempt
from fusiond.worker.pool.call_options import call_options
from fusiond.worker.pool.pool import Pool
from fusiond.worker.pool.run_times import PENDING
from fusiond.worker.runtime.wire import boot_ns


class Waiting:
    """The jobs of one dispatcher."""

    def __init__(self, pool: Pool, endings: Endings, config: Config, wake: Callable[[], None]) -> None:
        """`wake`: called when jobs have come back or have left."""
        self._pool, self._endings, self._wake = pool, endings, wake
        #: the tasks whose jobs may begin once only
        self.once = _once(config)
        self._set_policies(config)
        #: nothing begins here any more
        self._draining = False
        self.for_child: deque[Attempt] = deque()
        self.for_permit: deque[Attempt] = deque()
        #: permits for these are asked for now
        self._asked: list[Attempt] = []
        #: a wake-up has brought them, and Redis has not confirmed them yet
        self._unconfirmed: list[Attempt] = []
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self.for_child) + self._reserved

    def __iter__(self) -> Iterator[Attempt]:
        return chain(self.for_child, self.for_permit, self._asked, self._unconfirmed)

    @property
    def _reserved(self) -> int:
        """Jobs without a permit or a lease; a child is kept free for each."""
        return len(self.for_permit) + len(self._asked) + len(self._unconfirmed)

    def add(self, attempts: Iterable[Attempt]) -> None:
        """Have claimed jobs wait."""
        # Whether a job may run here depends on its task alone, as a rule: a claim of hundreds asks once for each task.
        plain: set[bytes] = set()
        for attempt in attempts:
            own = b'"retry"' in attempt.header
            line = self.for_child if attempt.task in plain and not own else self._line(attempt)
            if line is not None:
                if not (attempt.once or own):
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

    def set_config(self, config: Config) -> None:
        """Follow tasks and their retry policies."""
        former, self.once = self.once, _once(config)
        self._set_policies(config)
        if turned := self.once - former:
            # What waits in a child has no permit: it comes back for one, unless it has begun under the former policy.
            self._pool.take_back(turned)
        # A job whose task this reload removed must not be handed to a child.
        self.look_again()

    def _set_policies(self, config: Config) -> None:
        #: retry policy, as a call may name it → whether its jobs may begin once only
        self._are_once = {name: policy.at_most_once for name, policy in config.retry_policies.items()}

    def may_begin_once(self, attempt: Attempt) -> bool:
        """Whether its job may begin once only, by the retry policy of its call, if that names one, or of its task."""
        own = self._are_once.get(call_options(attempt.header).retry or "")
        return attempt.task in self.once if own is None else own

    def drain(self) -> None:
        """Give back what was not begun, also what waits in a child."""
        self._draining = True
        self.look_again()
        self._pool.drain()

    def free(self) -> int:
        """Children that could begin a job that is yet to be claimed."""
        return max(0, self._pool.free() - len(self))

    def look_again(self, which: Callable[[Attempt], bool] | None = None) -> None:
        """Have the jobs in line of which this is true, or all, leave if they must not begin here any more."""
        self.put_back(self._take(which))

    def ask_permits(self) -> list[Attempt]:
        """The next jobs to ask permits for, as many as children are free."""
        count = min(self._pool.free(), len(self.for_permit)) if self.for_permit else 0
        self._asked = [self.for_permit.popleft() for _ in range(count)]
        return self._asked

    def note_permits(self) -> None:
        """Redis was asked for permits: the jobs of which it has said something leave or wait for a child."""
        asked, self._asked = self._asked, []
        self.for_permit.extendleft(each for each in reversed(asked) if not _is_answered(each))
        self.put_back([attempt for attempt in asked if _is_answered(attempt)])

    def hand(self) -> None:
        """Hand jobs to children, as far as there is room."""
        self._pool.hand_out(self.for_child, self._reserved)
        if self._timer is None and (self.for_child or self.for_permit):
            first = min(attempt.claimed for attempt in chain(self.for_child, self.for_permit))
            seconds = first / 1e9 + PENDING - time.monotonic() + 0.001
            self._timer = asyncio.get_running_loop().call_later(seconds, self._release_old)

    def hand_at_once(self, attempt: Attempt) -> bool:
        """Hand a job that a wake-up has just brought to a child; False: Redis must confirm it first."""
        if self._draining or len(self) or self._pool.problems or self.may_begin_once(attempt):
            return False
        return attempt.lease > boot_ns() and self._pool.hand_one(attempt)

    def expect(self, attempt: Attempt) -> None:
        """Keep a child free for a job that a wake-up has brought, until Redis has said whether it is ours."""
        self._unconfirmed.append(attempt)

    def take_expected(self, attempt: Attempt) -> None:
        """Redis has said it: hand the job to a child now, or give it back if none is free."""
        self._unconfirmed.remove(attempt)
        self.add([attempt])
        self.hand()
        for given_back in self._take(lambda each: each is attempt):
            self._endings.release(given_back, "no child was free")
        if not attempt.handed_at:
            self._wake()

    def _release_old(self) -> None:
        """Give back what no child has taken in time: another host may have one that is free."""
        self._timer = None
        now = time.monotonic()
        limit = int((now - PENDING) * 1e9)
        for attempt in self._take(lambda attempt: attempt.claimed <= limit):
            self._endings.release(attempt, "no child was free")
            self._pool.claim_less(now)
        self._wake()

    def _line(self, attempt: Attempt) -> deque[Attempt] | None:
        """Where a job waits that has not begun; None: nowhere, it must not begin here."""
        if attempt.lost or self._endings.refuse(attempt, self._pool.problems, draining=self._draining):
            return None
        attempt.once = attempt.permitted or self.may_begin_once(attempt)
        return self.for_permit if attempt.once and not attempt.permitted else self.for_child

    def _take(self, which: Callable[[Attempt], bool] | None) -> list[Attempt]:
        """Take them out of their lines; those whose permits are being asked for stay."""
        taken = []
        for line in (self.for_child, self.for_permit):
            for attempt in [each for each in line if which is None or which(each)]:
                line.remove(attempt)
                taken.append(attempt)
        return taken


def _is_answered(attempt: Attempt) -> bool:
    return attempt.permitted or attempt.lost or attempt.canceled


def _once(config: Config) -> frozenset[bytes]:
    """The tasks whose jobs may begin once only."""
    tasks = config.tasks.items()
    return frozenset(name.encode() for name, task in tasks if config.retry_policies[task.retry].at_most_once)
