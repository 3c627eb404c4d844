"""
What a dispatcher does when it gets a message about a queue, which Redis sends to all dispatchers of that queue.

- there may be jobs          it asks the queue
- the outbox has something   it empties the outbox
- a job, with our token      a child begins it, and Redis is asked a moment later whether it is ours (confirming.py); or
                             Redis is asked first, where the message came late or the job may begin only once
- a job, with another token  it is another dispatcher's, which may be gone: the queue is asked when that shows
"""

from __future__ import annotations

from collections.abc import Callable

from fusiond.broker.jobs import carried_job
from fusiond.worker.dispatcher.claims.asking import Asking
from fusiond.worker.dispatcher.claims.confirming import Confirming
from fusiond.worker.dispatcher.claims.parkings import CARRIED, Parkings
from fusiond.worker.dispatcher.waiting import Waiting


class WakeUps:
    """The wake-ups of one dispatcher."""

    def __init__(
        self,
        parkings: Parkings,
        waiting: Waiting,
        confirming: Confirming,
        asking: Asking,
        *,
        on_outbox: Callable[[str], None],
    ) -> None:
        """
        None has come yet.

        Args:
            parkings: know which jobs are ours.
            waiting: hands a job to a child.
            confirming: asks Redis about it.
            asking: is told which queue may have jobs.
            on_outbox: told the queue whose outbox has something.
        """
        self._parkings, self._waiting, self._confirming = parkings, waiting, confirming
        self._asking, self._on_outbox = asking, on_outbox

    async def hear(self, queue: str, message: bytes) -> None:
        """Do what the message of the queue says."""
        if message == b"outbox":
            self._on_outbox(queue)
            return
        job = carried_job(message)
        if job is None:
            self._asking.claim_from(queue)
        elif attempt := self._parkings.take(queue, job):
            if self._waiting.hand_at_once(attempt):
                self._confirming.ask_later(attempt)
            else:
                await self._confirming.ask(attempt)
        else:
            self._asking.claim_when_due(queue, CARRIED)
