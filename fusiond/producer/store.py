"""
The Calls with which a producer has jobs stored, and what their replies mean. No I/O.
"""

from collections.abc import Sequence
from typing import Any

from fusiond.broker.call import Call, Plan
from fusiond.broker.effects import FEW_PAGES
from fusiond.broker.records import Existing, NewJob
from fusiond.broker.redis.durability import CONFIRM_MS, DURABILITIES, Durability, confirmation
from fusiond.broker.verbs import Verbs
from fusiond.config.lint.suggest import listed
from fusiond.errors import BrokerError, BrokerUnavailable, JobConflict, QueueFull


class Store:
    """The Calls that store jobs, and wait for what the client's `durability` asks for."""

    def __init__(self, broker: Verbs, durability: Durability, replicas: int = 1) -> None:
        if durability not in DURABILITIES:
            raise ValueError(f"durability={durability!r}: use one of {listed(DURABILITIES)}")
        if replicas < 1:
            raise ValueError(f"replicas={replicas}: use at least 1, or durability='memory', which waits for none")
        self._broker, self._durability, self._replicas = broker, durability, replicas
        #: the call that waits until the jobs are confirmed; it is sent behind each enqueue
        self._wait: Call[int] | None = None
        #: whether `prepare` has asked this Redis how it confirms; `memory` needs no answer
        self.is_ready = durability == "memory"

    def confirmation(self) -> Plan[Call[int] | None]:
        """The call that waits until what was just stored is confirmed: its reply is 0 if it is not. None: none does."""
        if not self.is_ready:
            yield from self.prepare()
        return self._wait

    def prepare(self) -> Plan[None]:
        """Ask this Redis how it confirms. Raises BrokerUnfit."""
        self._wait = yield from confirmation(self._durability, self._replicas)
        self.is_ready = True

    def deliver(self, queue: str) -> Plan[int]:
        """
        Bring what the queue has for others to them, a few pages: which of their jobs are waited for.

        The rest is left to the daemons: the queue's dispatchers, else the sweeps. They do all of it if this fails.
        """
        try:
            return (yield from self._broker.deliver(queue, pages=FEW_PAGES))
        except BrokerError:
            return 0

    def calls(self, queue: str, jobs: Sequence[NewJob]) -> list[Call[Any]]:
        """What stores the jobs, and what confirms them."""
        enqueue = self._broker.enqueue(queue, jobs, confirmed=self._durability != "memory")
        return [enqueue] if self._wait is None else [enqueue, self._wait]

    def check(self, queue: str, jobs: Sequence[NewJob], replies: Sequence[Any]) -> dict[str, str]:
        """
        Raise BrokerUnavailable if they are not confirmed, EnqueueError if they are refused.

        Returns:
            id of each unique job that was not stored, since another one is there → id of that one.
        """
        if self._wait is not None and replies[1] < 1:
            raise BrokerUnavailable(
                f"{self._durability} has not confirmed within {CONFIRM_MS / 1000:g} s; the outcome is unknown:"
                " enqueue again with the same id or key"
            )
        existing: dict[str, str] = {}
        if replies[0].count("stored") == len(jobs):
            return existing
        for job, reply in zip(jobs, replies[0], strict=True):
            if reply == "full":
                raise QueueFull(f"queue {queue!r} is at its max_length")
            if isinstance(reply, Existing):
                if reply.refused:
                    raise JobConflict(
                        f"job {queue}/{reply.id} exists already, and task {job.task!r} is `unique`:"
                        " a second job with the same arguments is refused"
                    )
                existing[job.id] = reply.id
            # That the same job was there already is not a refusal.
            if reply == "conflict":
                what = f"key {job.key!r}" if job.key else f"id {job.id}"
                raise JobConflict(f"{what} is taken by a job with another task or other arguments")
        return existing
