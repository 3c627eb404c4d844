"""
Jobs that a wake-up brings. A claim that gets fewer jobs than it asked for leaves a token in Redis, its reservation. The
enqueue that finds it claims its job under that token, and the message that wakes the dispatchers has the job.

1. reserve    in as many queues as children are free, at most. A claim that gives jobs for all of them leaves no token
2. take       the job that was given under a token of ours, whether a message brings it or the answer to a question
3. ask        Redis what the tokens were given: with each poll, and when the connection for wake-ups is new, since a
              message may have been lost
4. take back  the tokens of a queue that is no longer served, or for whose jobs no child is free; the answer says what
              they were given before
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from typing import NamedTuple

from fusiond.broker.records import GivenJob
from fusiond.job import new_token
from fusiond.worker.dispatcher.claims.leases import FIRST_TRUST
from fusiond.worker.pool.attempt import Attempt
from fusiond.worker.runtime.wire import boot_ns


class Question(NamedTuple):
    """What the tokens of a queue were given; `take_back`: they are given nothing from now on."""

    queue: str
    tokens: list[str]
    take_back: bool


class Reservations:
    """The reservations of one dispatcher."""

    def __init__(self, mark: str) -> None:
        """`mark`: the first letters of its tokens."""
        self._mark = mark
        #: children that could begin a job, as of the last claim
        self.free = 0
        #: queue → token → boot ns before its claim was sent, of those of which nothing was heard; the oldest first
        self._tokens: dict[str, dict[str, int]] = {}
        #: queues that may have one of them
        self._reserved: set[str] = set()
        #: queues of which Redis is to be asked → whether their tokens are taken back
        self._asked: dict[str, bool] = {}

    def reserve(self, queue: str) -> str:
        """A token to be left in the queue; empty: none, there are as many as free children."""
        self._reserved.discard(queue)
        if len(self._reserved) >= self.free:
            return ""
        self._reserved.add(queue)
        token = new_token(self._mark)
        self._tokens.setdefault(queue, {})[token] = boot_ns()
        return token

    def note_none_left(self, queue: str, token: str) -> None:
        """A claim gave jobs for all the children that were free for the queue, and left no token there."""
        self._reserved.discard(queue)
        self._tokens[queue].pop(token, None)

    def take_back_excess(self, free: int) -> None:
        """Have wake-ups bring no more jobs than this number of free children can begin."""
        self.take_back(tuple(self._reserved)[free:])

    def take_back(self, queues: Collection[str]) -> None:
        """Have no wake-up bring jobs of these queues any more."""
        self._asked |= {queue: True for queue in queues if self._tokens.get(queue)}
        self._reserved.difference_update(queues)

    def ask_all(self) -> None:
        """A message may have been lost: ask what all tokens were given."""
        self._asked = {queue: False for queue, tokens in self._tokens.items() if tokens} | self._asked

    @property
    def is_taking_back(self) -> bool:
        """Whether Redis has yet to be told of tokens that are taken back."""
        return any(self._asked.values())

    def questions(self) -> list[Question]:
        """What is to be asked now."""
        asked, self._asked = self._asked, {}
        return [Question(queue, list(self._tokens[queue]), take_back) for queue, take_back in asked.items()]

    def ask_again(self, question: Question) -> None:
        """Redis has refused it."""
        self._asked[question.queue] = question.take_back or self._asked.get(question.queue, False)

    def answered(self, question: Question, jobs: Sequence[GivenJob | None]) -> list[Attempt]:
        """The attempts of jobs of which nothing was heard before."""
        found = [self.take(question.queue, job) for job in jobs if job]
        # A later claim has replaced the other tokens; the last one may still be there.
        for token in question.tokens if question.take_back else question.tokens[:-1]:
            self._tokens[question.queue].pop(token, None)
        return [attempt for attempt in found if attempt]

    def take(self, queue: str, job: GivenJob) -> Attempt | None:
        """The attempt, whose lease may be over already; None: it is another dispatcher's, or was taken before."""
        made = self._tokens.get(queue, {}).pop(job.token, None)
        if made is None:
            return None
        self._reserved.discard(queue)
        # The claim that left the token came to Redis after this host had made it, so the job is not older than this
        # says. If Redis' clock was set forward meanwhile, it may say too much.
        enqueued = min(made + job.after * 1_000_000, boot_ns())
        lease, now = enqueued + int(FIRST_TRUST * 1e9), time.monotonic_ns()
        return Attempt(queue, job.id, job.token, job.task, job.args, job.header, 1, 0, 0, lease, now)
