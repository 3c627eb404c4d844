"""
A dispatcher's two lanes, each of which makes one round trip to Redis at a time. While one lane waits for an answer, the
dispatcher hands out the jobs that the other one has claimed, so its children always have work.

1. first   makes all round trips while it is free: permits, settles, claims. An idle or slow group uses no other lane
2. second  begins while the first one waits, if so many jobs have ended that another round trip pays. It connects when
           it is first needed
3. fail    a lane without an answer repeats its own request until there is one. If it is the second, the first one goes
           on; if it is the first, the second one does not begin
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from itertools import chain

from fusiond.broker.redis.connection import AsyncConnection
from fusiond.broker.verbs import Verbs
from fusiond.worker.dispatcher.claims.held_tasks import HeldTasks
from fusiond.worker.dispatcher.claims.lane import Lane
from fusiond.worker.dispatcher.claims.leases import FIRST_TRUST
from fusiond.worker.dispatcher.claims.queue_order import Share
from fusiond.worker.dispatcher.claims.reservations import Reservations
from fusiond.worker.dispatcher.ends.outcomes import Outcomes, Refusals
from fusiond.worker.pool.attempt import Attempt
from fusiond.worker.runtime.wire import boot_ns

#: s; between two round trips, while children have work, and jobs wait for them here; the same where others may wait for
#: the end of a job, since a limit says so
PACE, LIMITED_PACE = 0.01, 0.005
#: so many outcomes are worth a second round trip at the same time; seconds that the first lane waits for so many while
#: the second one waits for its answer
_WORTH, _WAIT = 128, 0.02


class Lanes:
    """The round trips of one dispatcher, up to two side by side."""

    def __init__(
        self,
        name: str,
        broker: Verbs,
        connections: tuple[AsyncConnection, AsyncConnection],
        outcomes: Outcomes,
        *,
        held_tasks: HeldTasks | None = None,
        reservations: Reservations | None = None,
    ) -> None:
        """`name`: of the dispatcher; `connections`: one for each lane alone; the others as Lane has them."""
        self.outcomes, refusals = outcomes, Refusals()
        # Redis keeps one nonce for each name.
        self.first = Lane(
            name, broker, connections[0], outcomes, refusals, held_tasks=held_tasks, reservations=reservations
        )
        self.second = Lane(f"2/{name}", broker, connections[1], outcomes, refusals, held_tasks=held_tasks)

    def unsettled(self) -> Iterator[Attempt]:
        """The attempts that have ended, and of which Redis has not confirmed that they are settled."""
        return chain(self.outcomes.unsettled(), self.first.unsettled(), self.second.unsettled())

    @property
    def is_done(self) -> bool:
        """Whether every outcome is settled, and every round trip answered."""
        return self.outcomes.is_done and self.first.is_done and self.second.is_done

    @property
    def failures(self) -> int:
        """Round trips without an answer, counted for each lane since its last answer."""
        return self.first.failures + self.second.failures

    @property
    def refused(self) -> bool:
        """Whether Redis has refused something of what a lane asked last."""
        return self.first.refused or self.second.refused

    @property
    def is_late(self) -> bool:
        """Whether leases may have expired since the last request: it was long ago, or Redis has not answered."""
        sent = max(self.first.sent_boot, self.second.sent_boot)
        return self.failures > 0 or sent + FIRST_TRUST * 1e9 < boot_ns()

    def ask_lost(self) -> None:
        """Ask lost nodes again."""
        self.first.ask_lost()
        self.second.ask_lost()

    def beside(self, lane: Lane) -> list[Share]:
        """What the other lane claims just now."""
        return (self.second if lane is self.first else self.first).asked

    def is_second_due(self, deep: Collection[str]) -> bool:
        """Whether the second lane is to begin; `deep`: the queues that are known to have more jobs."""
        return (
            self.first.is_under_way
            and not (self.second.is_under_way or self.failures)
            and bool(deep)
            and len(self.outcomes) >= _WORTH
        )

    def delay_before_next(self, *, jobs_wait: bool, limited: bool = False) -> float:
        """
        Seconds until a round trip of the first lane is worth its price.

        Args:
            jobs_wait: jobs wait here for children, so these have work meanwhile.
            limited: the group's queues, or tasks in them, have a `max_running`.
        """
        pace = (LIMITED_PACE if limited else PACE) if jobs_wait else 0.0
        if self.second.is_under_way and not self.second.failures and len(self.outcomes) < _WORTH:
            pace = _WAIT
        return pace - (time.monotonic_ns() - max(self.first.sent, self.second.sent)) / 1e9 if pace else 0.0
