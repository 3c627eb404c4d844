"""
Ask Redis whether a job that a wake-up has brought is this dispatcher's: the answer renews its lease.

A job that came in time begins under its first lease, and Redis is asked only if it still runs a moment later. Most have
ended by then. Any other job waits for the answer:

1. ask      at once, on the connection of the leases: the answer stores its permit, too
2. wait     for the answer in a task of its own, so that other wake-ups are heard, however long Redis is away
3. hand     the job to a child, or give it back (waiting.py)

After that its queue is asked again, so that the next token is left there (parkings.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Literal, NamedTuple

from fusiond.broker.call import Call
from fusiond.broker.records import Renewal
from fusiond.broker.redis.connection import AsyncConnection
from fusiond.broker.redis.links import Sent
from fusiond.broker.redis.outage import Outage
from fusiond.broker.verbs import Verbs
from fusiond.errors import BrokerError, BrokerUnavailable
from fusiond.worker.dispatcher.claims.asking import Asking
from fusiond.worker.dispatcher.claims.leases import LEASE_MS, SHORT_PAUSE, mark, renew, trusted_until
from fusiond.worker.dispatcher.timers import Timers
from fusiond.worker.dispatcher.waiting import Waiting
from fusiond.worker.pool.attempt import Attempt
from fusiond.worker.runtime.wire import boot_ns

#: s; from when such a job has come until the next token is left, unless the job has ended by then. On a busy machine
#: its child cannot begin while this process has something to do
_PARK_AGAIN = 0.001

log = logging.getLogger(__name__)


class Question(NamedTuple):
    """Whether a job is this dispatcher's; it may be asked again."""

    attempt: Attempt
    note: Literal["", "permit"]
    #: boot ns until when its lease is trusted if Redis says that it is
    until: int
    call: Call[list[int]]


class Confirming:
    """The questions of one dispatcher that are not answered yet."""

    def __init__(
        self,
        broker: Verbs,
        connection: AsyncConnection,
        outage: Outage,
        waiting: Waiting,
        *,
        asking: Asking,
        timers: Timers,
        on_change: Callable[[], None],
    ) -> None:
        """
        No question is open.

        Args:
            broker: gives the verb.
            connection: that of the leases.
            outage: how long to wait while Redis is away.
            waiting: the jobs without a child.
            asking: is told which queue to ask again.
            timers: of the dispatcher.
            on_change: called when a job that runs turned out lost or canceled.
        """
        self._broker, self._connection, self._outage = broker, connection, outage
        self._waiting, self._asking, self._timers, self._on_change = waiting, asking, timers, on_change
        self._tasks: set[asyncio.Task[None]] = set()
        #: jobs that have begun, and of which Redis was not asked
        self._begun: list[Attempt] = []

    @property
    def busy(self) -> bool:
        """Whether Redis has not answered yet."""
        return bool(self._tasks)

    async def ask(self, attempt: Attempt) -> None:
        """Ask, and return without the answer."""
        question = self._question(attempt)
        self._waiting.expect(attempt)
        sent = None
        try:
            sent = await self._connection.send_at_once(question.call)
        finally:
            # If this is cancelled, too: a child is kept free for the job.
            self._start(self._finish(question, sent))

    def ask_later(self, attempt: Attempt) -> None:
        """Its child was handed this job: ask a moment later, if it has not ended by then."""
        self._begun.append(attempt)
        self._park_again(attempt.queue)

    def _park_again(self, queue: str) -> None:
        """A job that a wake-up has brought is handed to a child, or given back."""
        # The round trip that settles it leaves the next token, too.
        self._asking.queues.mark_open(queue)
        self._timers.start("park", _PARK_AGAIN, self._ask_begun)

    def _ask_begun(self) -> None:
        """Ask about the jobs that were handed out before, and return without the answer."""
        begun, self._begun = _not_ended(self._begun), []
        if begun:
            self._start(self._confirm_begun(begun))

    def _start(self, question: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(question)
        self._tasks.add(task)
        task.add_done_callback(self._on_done)

    async def _confirm_begun(self, attempts: list[Attempt]) -> None:
        """Mark the answer on each. A job without one is asked about, and runs, until its first lease is over."""
        failures = 0
        while attempts := _not_ended(attempts):
            try:
                changed, failed = await renew(self._broker, self._connection, attempts)
            except BrokerUnavailable:
                failures += 1
                await self._outage.wait(failures, longest=SHORT_PAUSE)
            else:
                if failed:
                    log.warning("a job that a wake-up has brought is not confirmed: %s", failed)
                if changed:
                    self._on_change()
                return

    def _question(self, attempt: Attempt) -> Question:
        # What has a permit and has not begun fails with this dispatcher: none for a job that no child is free for.
        may_begin_once = self._waiting.may_begin_once(attempt)
        note: Literal["", "permit"] = "permit" if may_begin_once and self._waiting.free() else ""
        call = self._broker.renew(attempt.queue, [Renewal(attempt.id, attempt.token, note)], LEASE_MS)
        return Question(attempt, note, trusted_until(boot_ns()), call)

    async def _finish(self, question: Question, sent: Sent | None) -> None:
        await self._confirm(question, sent)
        self._waiting.take_expected(question.attempt)
        self._park_again(question.attempt.queue)

    async def _confirm(self, question: Question, sent: Sent | None) -> None:
        """Mark the answer on the attempt. If Redis refuses, the job counts as lost here."""
        attempt, note, until, call = question
        failures = 0
        while True:
            try:
                [flag] = await self._connection.finish(call, sent)
            except BrokerUnavailable:
                failures += 1
                await self._outage.wait(failures, longest=SHORT_PAUSE)
                # By then it is sent again; the lease that it asks for begins then.
                sent, until = None, trusted_until(boot_ns())
            except BrokerError as error:
                log.warning("a job that a wake-up has brought is not confirmed: %s", error)
                attempt.lost = True
                return
            else:
                mark(attempt, flag, until)
                attempt.unconfirmed = False  # no child has it yet
                attempt.permitted |= note == "permit" and not attempt.lost
                return

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        # A callback that raises fails the program.
        if not task.cancelled():
            task.result()


def _not_ended(attempts: list[Attempt]) -> list[Attempt]:
    boot = boot_ns()
    return [each for each in attempts if each.ran is None and not each.lost and each.lease > boot]
