"""
Ask Redis whether a job that a wake-up has brought is this dispatcher's. Its child begins it only after the answer.

1. ask      at once, on the connection of the leases: the answer renews the job's lease, and stores its permit
2. wait     for the answer in a task of its own, so that other wake-ups are heard, however long Redis is away
3. hand     the job to a child, or give it back (waiting.py)
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Literal, NamedTuple

from fusiond.broker.call import Call
from fusiond.broker.records import Renewal
from fusiond.broker.redis.connection import AsyncConnection
from fusiond.broker.redis.links import Sent
from fusiond.broker.redis.outage import Outage
from fusiond.broker.verbs import Verbs
from fusiond.errors import BrokerError, BrokerUnavailable
from fusiond.worker.dispatcher.claims.leases import LEASE_MS, SHORT_PAUSE, mark, trusted_until
from fusiond.worker.dispatcher.waiting import Waiting
from fusiond.worker.pool.attempt import Attempt
from fusiond.worker.runtime.wire import boot_ns

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
        on_answer: Callable[[str], None],
    ) -> None:
        """`connection`: that of the leases; `on_answer`: told the queue of each job that was answered."""
        self._broker, self._connection, self._outage = broker, connection, outage
        self._waiting, self._on_answer = waiting, on_answer
        self._tasks: set[asyncio.Task[None]] = set()

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
            task = asyncio.get_running_loop().create_task(self._finish(question, sent))
            self._tasks.add(task)
            task.add_done_callback(self._on_done)

    def _question(self, attempt: Attempt) -> Question:
        # What has a permit and has not begun fails with this dispatcher: none for a job that no child is free for.
        may_begin_once = self._waiting.may_begin_once(attempt)
        note: Literal["", "permit"] = "permit" if may_begin_once and self._waiting.free() else ""
        call = self._broker.renew(attempt.queue, [Renewal(attempt.id, attempt.token, note)], LEASE_MS)
        return Question(attempt, note, trusted_until(boot_ns()), call)

    async def _finish(self, question: Question, sent: Sent | None) -> None:
        await self._confirm(question, sent)
        self._waiting.take_expected(question.attempt)
        self._on_answer(question.attempt.queue)

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
                attempt.permitted |= note == "permit" and not attempt.lost
                return

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        # A callback that raises fails the program.
        if not task.cancelled():
            task.result()
