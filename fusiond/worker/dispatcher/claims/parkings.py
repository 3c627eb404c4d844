"""
Jobs that a wake-up brings. A claim that gets fewer jobs than it asked for leaves a token in Redis, its parking. The
enqueue that finds it there begins its job under that token, and the message that wakes the dispatchers has the job.

1. park   in as many queues as children are free, at most. Where the claim gives jobs for all of them, it leaves none
2. take   a job under a token of ours. Redis keeps it for this dispatcher for CARRIED ms from the enqueue; it is trusted
          for TRUSTED ms. After that Redis must confirm it before a child begins it: another dispatcher may have it
3. leave  a queue that is not served any more, or for whose jobs no child is free: the token is taken back
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection
from typing import NamedTuple

from fusiond.broker.call import Call
from fusiond.broker.records import CarriedJob
from fusiond.broker.verbs import Verbs
from fusiond.job import new_token
from fusiond.worker.pool.attempt import Attempt
from fusiond.worker.runtime.wire import boot_ns

#: ms; how long Redis keeps a job for the dispatcher to which a wake-up brings it, as carry.lua has it; and for how much
#: of that the dispatcher trusts it. The rest is for ending the child of a job that was not confirmed: a container that
#: may not use more of a processor stands still for 100 ms at a time
CARRIED, TRUSTED = 700, 400
#: tokens of a queue that are remembered: a job may come by one that a later claim is just replacing
_TOKENS = 4


class _Token(NamedTuple):
    """What a claim leaves in Redis."""

    text: str
    #: boot ns, before the claim was sent
    made: int


class Parkings:
    """The parkings of one dispatcher."""

    def __init__(self, mark: str, free: Callable[[], int]) -> None:
        """`mark`: the first letters of its tokens; `free`: how many children could begin a job."""
        self._mark, self._free = mark, free
        #: queue → its last tokens
        self._tokens: dict[str, deque[_Token]] = {}
        #: queues that may have one of them
        self._parked: set[str] = set()
        #: queues to be left, with tokens that may be there
        self._leaving: dict[str, list[str]] = {}

    def park(self, queue: str) -> str:
        """A token to be left in the queue; empty: none, there are as many as free children."""
        self._parked.discard(queue)
        if len(self._parked) >= self._free():
            return ""
        self._parked.add(queue)
        token = new_token(self._mark)
        self._tokens.setdefault(queue, deque(maxlen=_TOKENS)).append(_Token(token, boot_ns()))
        return token

    def note_none_left(self, queue: str) -> None:
        """A claim gave jobs for all the children that were free for the queue, and left no token there."""
        self._parked.discard(queue)

    def leave_excess(self, free: int) -> None:
        """Have wake-ups bring no more jobs than this number of free children can begin."""
        self.leave(tuple(self._parked)[free:])

    def leave(self, queues: Collection[str]) -> None:
        """Have no wake-up bring jobs of these queues any more."""
        for queue, tokens in self._tokens.items():
            if queue in queues and tokens:
                self._leaving[queue] = [token.text for token in tokens]
        self._parked.difference_update(queues)

    def leave_all(self) -> None:
        """The same for all."""
        self.leave(tuple(self._tokens))

    @property
    def is_leaving(self) -> bool:
        """Whether Redis has yet to be told of a queue that is left."""
        return bool(self._leaving)

    def unpark(self, broker: Verbs) -> list[Call[int]]:
        """What takes back the tokens of the queues that are left."""
        leaving, self._leaving = self._leaving, {}
        return [broker.unpark(queue, tokens) for queue, tokens in leaving.items()]

    def take(self, queue: str, job: CarriedJob) -> Attempt | None:
        """The attempt, whose lease may be over already; None: it is another dispatcher's."""
        token = next((each for each in self._tokens.get(queue, ()) if each.text == job.token), None)
        if token is None:
            return None
        self._tokens[queue].remove(token)
        self._parked.discard(queue)
        # The claim that left the token came to Redis after this host had made it, so the job is not older than this
        # says. If Redis' clock was set forward meanwhile, it may say too much.
        enqueued = min(token.made + job.after * 1_000_000, boot_ns())
        lease, now = enqueued + TRUSTED * 1_000_000, time.monotonic_ns()
        return Attempt(queue, job.id, job.token, job.task, job.args, job.header, 1, 0, 0, lease, now, unconfirmed=True)
