"""
What a dispatcher does when it gets a message about a queue, which Redis sends to all dispatchers of that queue.

- there may be jobs          it asks the queue
- there are effects          it delivers them
- a job, with our token      it is claimed for this dispatcher: a child begins it at once, or it is given back
- a job, with another token  it is another dispatcher's, which may be gone: the queue is asked when that shows
"""

from __future__ import annotations

from collections.abc import Callable

from fusiond.broker.jobs import given_job
from fusiond.worker.dispatcher.claims.claim_planner import ClaimPlanner
from fusiond.worker.dispatcher.claims.leases import FIRST_LEASE, FIRST_RENEWAL, FIRST_TRUST, LATEST_BEGIN, Leases
from fusiond.worker.dispatcher.claims.reservations import Reservations
from fusiond.worker.dispatcher.timers import Timers
from fusiond.worker.dispatcher.waiting import Waiting
from fusiond.worker.pool.attempt import Attempt
from fusiond.worker.runtime.wire import boot_ns

#: s; from when such a job has come until the next token is left, unless the job has ended by then. On a busy machine
#: its child cannot begin while this process has something to do
_RESERVE_AGAIN = 0.001


class WakeUps:
    """The wake-ups of one dispatcher."""

    def __init__(
        self,
        reservations: Reservations,
        waiting: Waiting,
        leases: Leases,
        planner: ClaimPlanner,
        timers: Timers,
        *,
        on_effects: Callable[[str], None],
    ) -> None:
        """
        None has come yet.

        Args:
            reservations: know which jobs are ours.
            waiting: hands a job to a child.
            leases: renew the short lease that it comes with.
            planner: is told which queue may have jobs.
            timers: of the dispatcher.
            on_effects: told the queue that has effects.
        """
        self._reservations, self._waiting, self._leases = reservations, waiting, leases
        self._planner, self._timers, self._on_effects = planner, timers, on_effects

    def hear(self, queue: str, message: bytes) -> None:
        """Do what the message of the queue says."""
        if message == b"effects":
            self._on_effects(queue)
            return
        job = given_job(message)
        if job is None:
            self._planner.claim_from(queue)
        elif attempt := self._reservations.take(queue, job):
            self.begin(attempt)
        else:
            self._planner.claim_when_due(queue, int(FIRST_LEASE * 1000))

    def begin(self, attempt: Attempt) -> None:
        """Have a child begin this job, which was given to us; give it back if it came late, or no child is free."""
        self._waiting.begin(attempt, in_time=attempt.lease - boot_ns() >= (FIRST_TRUST - LATEST_BEGIN) * 1e9)
        self._timers.start("first lease", FIRST_RENEWAL, self._leases.renew_first)
        # The round trip that settles it leaves the next token, too.
        self._planner.queues.mark_open(attempt.queue)
        self._timers.start("reserve", _RESERVE_AGAIN)
