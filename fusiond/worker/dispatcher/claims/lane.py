"""
One lane of a dispatcher: round trips to Redis, one at a time. What has ended is settled, what there is room for is
claimed, in one pipeline.

A round trip without a reply may have been done or not. Then the same is asked again, and nothing else, until there is
an answer: settle knows its token and claim its nonce, so neither happens twice. A repeated claim says that it is one,
and gets only the jobs that the first request took. Redis keeps the last nonce for each name, so a lane claims under a
name of its own. Where a node of a Cluster was lost, what it was asked waits for `ask_lost`, and the round trips to the
other nodes go on meanwhile.

Knows Redis. Which jobs are claimed, and where they go, the dispatcher decides.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator
from itertools import chain
from typing import Any, NamedTuple

from fusiond.broker import reclaimed
from fusiond.broker.call import Call
from fusiond.broker.records import Claim, GivenJob, ProgressReport
from fusiond.broker.redis.connection import AsyncConnection
from fusiond.broker.verbs import Verbs
from fusiond.config.model import Config
from fusiond.errors import BrokerError, BrokerUnavailable
from fusiond.job import mark_of, new_token
from fusiond.worker.dispatcher.claims.held_tasks import UNLIMITED, HeldTasks
from fusiond.worker.dispatcher.claims.leases import LEASE_MS, renew, trusted_until
from fusiond.worker.dispatcher.claims.queue_order import Share
from fusiond.worker.dispatcher.claims.reservations import Question, Reservations
from fusiond.worker.dispatcher.ends.outcomes import Ended, Outcomes, Refusals, Settle, attempts_of
from fusiond.worker.pool.attempt import Attempt
from fusiond.worker.runtime.wire import boot_ns

#: leases that may expire on one job before it fails
MAX_RESCUES = 25


class Claimed(NamedTuple):
    """What one queue gave."""

    share: Share
    claim: Claim
    attempts: list[Attempt]


class _Asked(NamedTuple):
    """What is asked of one queue."""

    share: Share
    nonce: str
    #: the token under which an enqueue may claim one job; empty: none may
    reservation: str
    #: it was asked before, and no reply has come
    again: bool = False


class _Request(NamedTuple):
    """One round trip."""

    settles: list[Settle]
    claims: list[_Asked]
    questions: list[Question]
    #: what the jobs to be settled have said last of how far they are
    reports: list[Call[Any]]
    #: the settles, the claims, then the questions
    calls: list[Call[Any]]


class Lane:
    """Round trips of one lane."""

    def __init__(
        self,
        name: str,
        broker: Verbs,
        connection: AsyncConnection,
        outcomes: Outcomes,
        refusals: Refusals,
        *,
        held_tasks: HeldTasks | None = None,
        reservations: Reservations | None = None,
    ) -> None:
        """
        Nothing is asked yet.

        Args:
            name: of the dispatcher, `host.pid`; of a lane beside its first one `<lane>/host.pid`.
            broker: gives the verbs.
            connection: for nothing else.
            outcomes: of all lanes.
            refusals: of all lanes.
            held_tasks: which held jobs can run here; None: all.
            reservations: where wake-ups may bring jobs; None: this lane leaves none.
        """
        self._name, self._broker, self._connection = name, broker, connection
        self._outcomes, self._refusals = outcomes, refusals
        self._reservations = reservations or Reservations("")
        self._held_tasks = held_tasks or HeldTasks(lambda _: UNLIMITED)
        self._mark = mark_of(name.rpartition("/")[2])
        #: monotonic ns of the last request; the same in boot ns
        self.sent = self.sent_boot = 0
        #: Redis answered, and refused: outcomes are kept; what it will do later is to be asked again
        self.refused = False
        #: round trips in a row without an answer
        self.failures = 0
        #: a round trip is under way, and claims this
        self.is_under_way = False
        self.asked: list[Share] = []
        self._unanswered: _Request | None = None
        #: claims to which a node of a Cluster gave no reply
        self._lost: list[_Asked] = []
        self._asks_lost = False

    async def permit(self, attempts: Iterable[Attempt]) -> None:
        """
        Have Redis store that these attempts may begin, and no other one of their jobs; each is marked with the answer.

        It may be asked again: the permit is the attempt's token. Raises BrokerUnavailable: there was no reply.
        """
        _, failed = await renew(self._broker, self._connection, attempts, "permit")
        if failed:
            self._refusals.log(f"jobs that may begin once only wait for their permit: {failed}")
            self.refused = True

    async def renew_expired(self, held: Iterable[Attempt]) -> bool:
        """
        Renew the leases that seem to have expired, before anything is claimed.

        Otherwise the claim would rescue our own jobs, which nobody else may have taken yet. What a lost node of a
        Cluster has is left out: it is not claimed from, and all other nodes would wait for its answer.

        Args:
            held: what the dispatcher holds.

        Returns:
            whether any lease is lost, or any job canceled.

        Raises:
            BrokerUnavailable: there was no reply.
        """
        boot, owed = boot_ns(), self._owed | set(self._outcomes.kept)
        expired = [each for each in held if each.lease <= boot and each.queue not in owed]
        changed, _ = await renew(self._broker, self._connection, expired)
        return changed

    @property
    def is_done(self) -> bool:
        """Whether every round trip was answered."""
        return self._unanswered is None

    @property
    def has_lost(self) -> bool:
        """Whether a node of a Cluster owes the answer to a claim."""
        return bool(self._lost)

    @property
    def _owed(self) -> set[str]:
        """The queues of claims to which a node of a Cluster owes the answer."""
        return {asked.share.queue for asked in self._lost}

    def unsettled(self) -> Iterator[Attempt]:
        """The attempts that it settles, and of which Redis has not confirmed that they are settled."""
        return attempts_of(batch for _, batch in self._unanswered.settles) if self._unanswered else iter(())

    def ask_lost(self) -> None:
        """Ask a lost node again with the next round trip. By each of them, all others would wait for that node."""
        self._asks_lost = True

    async def settle_and_claim(
        self, shares: Iterable[Share], once: Collection[bytes] = ()
    ) -> tuple[list[Claimed], list[Attempt]]:
        """
        One round trip, or none where there is nothing to say.

        Args:
            shares: what to ask of which queue.
            once: the tasks whose jobs may begin once only.

        Returns:
            what the queues gave; and jobs that wake-ups were to bring, of which this answer is the first to tell.

        Raises:
            BrokerUnavailable: there was no reply.
        """
        request = self._again(self._unanswered) if self._unanswered else self._request(shares, once)
        if not request.calls:
            return [], []
        self._unanswered, self.refused = request, False
        replies = await self._send(request)
        self._unanswered = None
        for (queue, batch), reply in zip(request.settles, replies, strict=False):
            self._settled(queue, batch, reply)
        answers = zip(request.claims, replies[len(request.settles) :], strict=False)
        claimed = [self._claimed(claim, reply) for claim, reply in answers if self._is_claim(claim, reply)]
        past = len(request.settles) + len(request.claims)
        given = list(chain.from_iterable(map(self._given, request.questions, replies[past:])))
        if not (self._lost or self._outcomes.kept or any(isinstance(reply, BrokerError) for reply in replies)):
            self._refusals.end()
        return claimed, given

    async def log_reclaimed(self, config: Config, claimed: Iterable[Claimed]) -> None:
        """Log each other job that these claims rescued, ended or put aside."""
        found = [(each.share.queue, each.claim.reclaimed) for each in claimed if each.claim.reclaimed]
        if found:
            await reclaimed.log_reclaimed(self._broker, self._connection, config, found)

    def _request(self, shares: Iterable[Share], once: Collection[bytes]) -> _Request:
        owed, claims = self._owed, []
        if self._asks_lost:
            self._outcomes.offer_kept()
            claims, self._lost, self._asks_lost = self._lost, [], False
        settles = self._outcomes.take()
        claims += [self._ask(share) for share in shares if share.queue not in owed]
        calls: list[Call[Any]] = [self._settle(queue, batch) for queue, batch in settles]
        calls += [self._claim(asked, once) for asked in claims]
        questions = self._reservations.questions()
        calls += [self._broker.given(each.queue, each.tokens, take_back=each.take_back) for each in questions]
        return _Request(settles, claims, questions, self._reports(settles), calls)

    def _again(self, request: _Request) -> _Request:
        """The same request, whose claims say that they are repeats."""
        first, past = len(request.settles), len(request.settles) + len(request.claims)
        claims = [asked._replace(again=True) for asked in request.claims]
        calls = [self._claim(asked) for asked in claims]
        return request._replace(claims=claims, calls=request.calls[:first] + calls + request.calls[past:])

    def _ask(self, share: Share) -> _Asked:
        reservation = self._reservations.reserve(share.queue) if share.want else ""
        return _Asked(share, new_token(self._mark), reservation)

    async def _send(self, request: _Request) -> list[Any]:
        """The replies. Raises BrokerUnavailable."""
        self.is_under_way, self.asked = True, [asked.share for asked in request.claims]
        self.sent, self.sent_boot = time.monotonic_ns(), boot_ns()
        try:
            replies: list[Any] = await self._connection.run_many(request.reports + request.calls)
            return replies[len(request.reports) :]
        finally:
            self.is_under_way, self.asked = False, []

    def _reports(self, settles: list[Settle]) -> list[Call[Any]]:
        """They go before the outcomes: only the attempt that holds the job may report."""
        calls: list[Call[Any]] = []
        for queue, batch in settles:
            reports = [
                ProgressReport(attempt.id, attempt.token, attempt.report.share, attempt.report.message)
                for attempt, _ in batch
                if attempt.report
            ]
            if reports:
                calls.append(self._broker.report(queue, reports))
        return calls

    def _settle(self, queue: str, batch: list[Ended]) -> Call[list[int]]:
        outcomes, measured = [outcome for _, outcome in batch], self._outcomes.measured(batch)
        return self._broker.settle(queue, outcomes, measured, self._outcomes.events)

    def _claim(self, asked: _Asked, once: Collection[bytes] = ()) -> Call[Claim]:
        share, nonce, reservation, again = asked
        return self._broker.claim(
            share.queue, share.want, dispatcher=self._name, nonce=nonce, lease_ms=LEASE_MS, max_rescues=MAX_RESCUES,
            reservation=reservation, few=(share.free, once if share.want > share.free else ()),
            # A claim of no jobs is for the queue's chores, which a repeat leaves out.
            again=again and share.want > 0, has=self._held_tasks.words(share.queue),
        )  # fmt: skip

    def _settled(self, queue: str, batch: list[Ended], reply: list[int] | BrokerError) -> None:
        if isinstance(reply, BrokerError):
            self._refusals.log(f"queue '{queue}': outcomes are kept and tried again: {reply}")
            self._outcomes.keep(queue, batch, unanswered=isinstance(reply, BrokerUnavailable))
            self.refused = True
        else:
            self._outcomes.note_settled(queue, batch, reply)

    def _is_claim(self, claim: _Asked, reply: Claim | BrokerError) -> bool:
        if not isinstance(reply, BrokerError):
            return True
        self._refusals.log(f"queue '{claim.share.queue}': no jobs can be claimed: {reply}")
        if isinstance(reply, BrokerUnavailable):
            self._lost.append(claim._replace(again=True))
            self.refused = True
        return False

    def _given(self, question: Question, reply: list[GivenJob | None] | BrokerError) -> list[Attempt]:
        if isinstance(reply, BrokerError):
            self._refusals.log(f"queue '{question.queue}': what was given to this worker is asked again: {reply}")
            self._reservations.ask_again(question)
            self.refused = True
            return []
        return self._reservations.answered(question, reply)

    def _claimed(self, asked: _Asked, claim: Claim) -> Claimed:
        """The claim with an attempt for each job."""
        share, nonce, reservation, _ = asked
        if reservation and len(claim.jobs) >= share.free:
            self._reservations.note_none_left(share.queue, reservation)
        if claim.held_tasks is not None:
            self._held_tasks.note(share.queue, claim.held_tasks)
        boot, now = self.sent_boot, time.monotonic_ns()
        lease = trusted_until(boot)
        attempts = [
            Attempt(share.queue, id_, nonce, task, args, header, number, crashes, rescues, lease, now, waited)
            for id_, task, args, number, crashes, rescues, header, waited in claim.jobs
        ]
        for n, ms in claim.expiring.items():
            attempts[n].expires = boot + ms * 1_000_000
        return Claimed(share, claim, attempts)
