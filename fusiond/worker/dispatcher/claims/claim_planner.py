"""
Which queues one dispatcher asks for jobs, when, and what it does with their answers.

A queue is asked when it may have jobs: at a wake-up, when its next job comes due, when a child becomes free that its
next job needs, and every POLL seconds. queue_order.py decides how many jobs to ask of each; loop.py sends the question.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from functools import partial

from fusiond.broker.records import Claim
from fusiond.worker.dispatcher.claims.queue_order import Share, queues_of
from fusiond.worker.dispatcher.claims.reservations import Reservations
from fusiond.worker.dispatcher.timers import Timers
from fusiond.worker.dispatcher.waiting import Waiting
from fusiond.worker.pool.attempt import Attempt
from fusiond.worker.pool.group_config import GroupConfig
from fusiond.worker.pool.pool import Pool

#: s; a claim of all queues in case a wake-up was lost
POLL = 5.0


class ClaimPlanner:
    """The questions and answers of one dispatcher."""

    def __init__(
        self, conf: GroupConfig, pool: Pool, waiting: Waiting, timers: Timers, reservations: Reservations
    ) -> None:
        """
        No queue is asked yet.

        Args:
            conf: of the group.
            pool: whose children are free.
            waiting: the jobs that no child has yet.
            timers: wake the dispatcher, at once or later.
            reservations: are told how many children are free; each poll asks what they were given.
        """
        self._conf, self._pool, self._waiting, self._timers = conf, pool, waiting, timers
        self._reservations = reservations
        self.follow()
        self._rand = random.Random()  # noqa: S311 - guards no secret

    def follow(self) -> None:
        """The group's queues may have changed; each of them may have jobs."""
        config = self._conf.config
        self.queues = queues_of(config, self._conf.group)
        #: whether jobs of these queues may wait for the end of others, as a limit has it
        limits = [task.limit for task in config.tasks.values() if task.limit and task.queue in self.queues.names]
        of_queues = [config.queues[name].max_running for name in self.queues.names]
        self.limited = any([self._conf.pooled, *of_queues, *(limit.max_running for limit in limits)])

    def claim_from(self, queue: str | None = None) -> None:
        """Ask the queue, or all: there may be jobs."""
        self.queues.mark_open(queue)
        self._timers.wake()

    def claim_when_due(self, queue: str, due_ms: int) -> None:
        """Ask the queue in so many milliseconds, or earlier if that was planned."""
        # Answers of two lanes, and wake-ups, may overtake each other.
        self._timers.advance(f"due {queue}", due_ms / 1000 + 0.001, partial(self.claim_from, queue))

    def claim_full(self) -> None:
        """Ask again for jobs that need a free child, if there is one."""
        if self.queues.full and self._waiting.free():
            self.queues.open_full()
            self._timers.wake()

    def poll(self) -> None:
        """Ask all queues, now and again: a wake-up may have been lost, and nobody else may rescue what is in them."""
        self.queues.poll()
        self._reservations.ask_all()
        self._timers.start("poll", POLL, self.poll)

    def shares(self, beside: list[Share], most: int) -> list[Share]:
        """
        What to ask of which queue.

        Args:
            beside: what is being asked meanwhile.
            most: how many more jobs `max_running` of the file lets it claim.
        """
        begin, more = self._pool.capacity.room()
        begin -= len(self._waiting)
        asked = sum(share.want for share in beside)
        free = max(0, min(most - asked, begin - sum(share.free for share in beside)))
        self._reservations.free = free
        room = min(most, begin + more) - asked
        return self.queues.shares(room, free, self._rand, {share.queue for share in beside})

    def note(self, found: Iterable[tuple[Share, Claim, list[Attempt]]]) -> None:
        """The answers: the jobs wait for a child, and a queue whose next job comes due soon is asked then."""
        for share, claim, attempts in found:
            due_ms = None if self.queues.note(share, claim) else claim.next_due_ms
            if due_ms is not None and due_ms < POLL * 1000:
                self.claim_when_due(share.queue, due_ms)
            self._waiting.add(attempts)
