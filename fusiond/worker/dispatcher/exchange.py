"""
A dispatcher's round trips to Redis: what has ended is settled, what there is room for is claimed, in one pipeline.

A round trip without a reply may have been done or not. Then the very same is asked again, and nothing else, until there
is an answer: settle knows its token and claim its nonce, so neither happens twice. Where a node of a Cluster was lost,
what it was asked waits for `ask_lost`, and the round trips to the other nodes go on meanwhile.

Knows Redis. Which jobs are claimed, and where they go, the dispatcher decides.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from fusiond.broker import chores
from fusiond.errors import BrokerError, BrokerUnavailable
from fusiond.job import mark_of, new_token
from fusiond.worker.dispatcher.leases import LEASE_MS, renew, trusted_until
from fusiond.worker.pool.attempt import Attempt
from fusiond.worker.runtime.wire import boot_ns

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from fusiond.broker.call import Call
    from fusiond.broker.records import Claim, Kind, Outcome
    from fusiond.broker.redis.connection import AsyncConnection
    from fusiond.broker.verbs import Verbs
    from fusiond.config.model import Config
    from fusiond.worker.dispatcher.queue_order import Share

    #: an attempt, and how it ended
    Ended = tuple[Attempt, Outcome]

log = logging.getLogger(__name__)

#: leases that may expire on one job before it fails
MAX_RESCUES = 25
#: s; between two round trips, while children have work, and jobs wait for them here
PACE = 0.005
#: outcomes in one call
_SETTLE = 500
#: outcomes of attempts that ran
_RAN = frozenset({"finished", "failed", "retry"})
#: what becomes of a job that was to go on, as settle.lua answers
_INSTEAD: dict[int, Kind] = {3: "failed", 4: "canceled"}
#: s; a refusal that lasts is logged again only then
_LOG_AGAIN = 60.0


class Claimed(NamedTuple):
    """What one queue gave."""

    share: Share
    claim: Claim
    attempts: list[Attempt]


class _Request(NamedTuple):
    """One round trip."""

    settles: list[tuple[str, list[Ended]]]
    #: each with its nonce
    claims: list[tuple[Share, str]]
    #: the settles, then the claims
    calls: list[Call[Any]]


class Exchange:
    """Round trips of one dispatcher, one at a time."""

    def __init__(
        self,
        name: str,
        broker: Verbs,
        connection: AsyncConnection,
        on_ended: Callable[[Attempt, Outcome], None],
    ) -> None:
        """
        Nothing is asked yet.

        Args:
            name: of the dispatcher, `host.pid`.
            broker: gives the verbs.
            connection: for nothing else.
            on_ended: called with an attempt after which its job was to go on, and which failed or was canceled instead.
        """
        self._name, self._broker, self._connection, self._on_ended = name, broker, connection, on_ended
        self._mark = mark_of(name)
        #: outcomes that Redis has taken, by kind
        self.counts = {"finished": 0, "failed": 0, "retry": 0, "released": 0, "canceled": 0}
        #: monotonic ns of the last request; the same in boot ns
        self._sent = self._sent_boot = 0
        #: Redis answered, and refused: outcomes are kept; what it will do later is to be asked again
        self.refused = False
        #: queue → what the next round trip settles
        self._ended: dict[str, list[Ended]] = {}
        self._unanswered: _Request | None = None
        #: claims and outcomes to which a node of a Cluster gave no reply
        self._lost: list[tuple[Share, str]] = []
        self._kept: dict[str, list[Ended]] = {}
        self._asks_lost = False
        #: what is refused, as it was logged → monotonic s
        self._logged: dict[str, float] = {}

    def add_outcome(self, attempt: Attempt, outcome: Outcome) -> None:
        """Settle the attempt with the next round trip."""
        self._ended.setdefault(attempt.queue, []).append((attempt, outcome))

    async def permit(self, attempts: Iterable[Attempt]) -> None:
        """
        Have Redis store that these attempts may begin, and no other one of their jobs; each is marked with the answer.

        It may be asked again: the permit is the attempt's token. Raises BrokerUnavailable: there was no reply.
        """
        _, failed = await renew(self._broker, self._connection, attempts, "permit")
        if failed:
            self._log_refusal(f"jobs that may begin once only wait for their permit: {failed}")
            self.refused = True

    async def renew_late(self, attempts: Iterable[Attempt]) -> bool:
        """
        Renew leases before anything is claimed, where the last round trip is so long ago that they may have expired.

        Otherwise the claim would rescue our own jobs, which nobody else may have taken yet.

        Returns:
            whether any lease is lost, or any job canceled.

        Raises:
            BrokerUnavailable: there was no reply.
        """
        if not self._sent_boot or trusted_until(self._sent_boot) >= boot_ns():
            return False
        changed, _ = await renew(self._broker, self._connection, attempts)
        return changed

    def done(self) -> bool:
        """Whether nothing is left to be said."""
        return not (self._ended or self._unanswered or self._kept)

    def unsettled(self) -> Iterator[Attempt]:
        """The attempts that have ended, and of which Redis has not confirmed that they are settled."""
        batches = [*self._ended.values(), *self._kept.values()]
        if self._unanswered:
            batches += [batch for _, batch in self._unanswered.settles]
        for batch in batches:
            for attempt, outcome in batch:
                attempt.begun |= outcome.kind in _RAN
                yield attempt

    def ask_lost(self) -> None:
        """Ask a lost node again with the next round trip. By each of them, all others would wait for that node."""
        self._asks_lost = True

    def rest(self) -> float:
        """Seconds until the next round trip is worth its price, where children have work meanwhile."""
        return PACE - (time.monotonic_ns() - self._sent) / 1e9

    async def settle_and_claim(self, shares: Iterable[Share], once: Collection[bytes] = ()) -> list[Claimed]:
        """
        One round trip, or none where there is nothing to say.

        Args:
            shares: what to ask of which queue.
            once: the tasks whose jobs may begin once only.

        Raises:
            BrokerUnavailable: there was no reply.
        """
        request = self._unanswered or self._request(shares, once)
        if not request.calls:
            return []
        self._unanswered, self.refused = request, False
        self._sent, self._sent_boot = time.monotonic_ns(), boot_ns()
        replies = await self._connection.run_many(request.calls)
        self._unanswered = None
        for (queue, batch), reply in zip(request.settles, replies, strict=False):
            self._settled(queue, batch, reply)
        answers = zip(request.claims, replies[len(request.settles) :], strict=True)
        claimed = [self._claimed(*claim, reply) for claim, reply in answers if self._is_claim(claim, reply)]
        if self._logged and not (self._lost or self._kept or any(isinstance(reply, BrokerError) for reply in replies)):
            self._logged.clear()
            log.info("Redis takes commands again")
        return claimed

    async def log_chores(self, config: Config, claimed: Iterable[Claimed]) -> None:
        """Log each other job that these claims rescued, ended or put aside."""
        found = [(each.share.queue, each.claim.chores) for each in claimed if each.claim.chores]
        if found:
            await chores.tell(self._broker, self._connection, config, found)

    def _request(self, shares: Iterable[Share], once: Collection[bytes]) -> _Request:
        lost, claims = {share.queue for share, _ in self._lost}, []
        if self._asks_lost:
            for queue, batch in self._kept.items():
                self._ended.setdefault(queue, [])[:0] = batch
            claims, self._lost, self._kept, self._asks_lost = self._lost, [], {}, False
        ended, self._ended = self._ended, {}
        settles = [
            (queue, batch[at : at + _SETTLE]) for queue, batch in ended.items() for at in range(0, len(batch), _SETTLE)
        ]
        claims += [(share, new_token(self._mark)) for share in shares if share.queue not in lost]
        calls: list[Call[Any]] = [self._broker.settle(queue, [out for _, out in batch]) for queue, batch in settles]
        calls += [self._claim(share, nonce, once) for share, nonce in claims]
        return _Request(settles, claims, calls)

    def _claim(self, share: Share, nonce: str, once: Collection[bytes]) -> Call[Claim]:
        return self._broker.claim(
            share.queue, share.want, dispatcher=self._name, nonce=nonce, lease_ms=LEASE_MS, max_rescues=MAX_RESCUES,
            few=(share.once, once if share.want > share.once else ()),
        )  # fmt: skip

    def _settled(self, queue: str, batch: list[Ended], reply: list[int] | BrokerError) -> None:
        if isinstance(reply, BrokerError):
            self._log_refusal(f"queue '{queue}': outcomes are kept and tried again: {reply}")
            kept = self._kept if isinstance(reply, BrokerUnavailable) else self._ended
            kept.setdefault(queue, [])[:0] = batch
            self.refused = True
            return
        for (attempt, outcome), flag in zip(batch, reply, strict=True):
            if not flag:
                fields = {"job": attempt.name, "queue": queue}
                log.warning("an outcome came too late: the lease was lost", extra=fields)
                continue
            kind = _INSTEAD.get(flag, outcome.kind)
            self.counts["released" if kind in ("unknown", "unloaded") else kind] += 1
            if flag in _INSTEAD:
                self._on_ended(attempt, outcome._replace(kind=kind))

    def _is_claim(self, claim: tuple[Share, str], reply: Claim | BrokerError) -> bool:
        if not isinstance(reply, BrokerError):
            return True
        self._log_refusal(f"queue '{claim[0].queue}': no jobs can be claimed: {reply}")
        if isinstance(reply, BrokerUnavailable):
            self._lost.append(claim)
            self.refused = True
        return False

    def _claimed(self, share: Share, nonce: str, claim: Claim) -> Claimed:
        """The claim with an attempt for each job."""
        boot, now = self._sent_boot, time.monotonic_ns()
        lease = trusted_until(boot)
        attempts = [
            Attempt(share.queue, id_, nonce, task, args, header, number, crashes, rescues, lease, now, 0, waited)
            for id_, task, args, number, crashes, rescues, header, waited in claim.jobs
        ]
        for n, ms in claim.expiring.items():
            attempts[n].expires = boot + ms * 1_000_000
        return Claimed(share, claim, attempts)

    def _log_refusal(self, sentence: str) -> None:
        """Not at each of the many times that it is refused."""
        now = time.monotonic()
        if now - self._logged.get(sentence, -_LOG_AGAIN) >= _LOG_AGAIN:
            self._logged[sentence] = now
            log.error("%s", sentence)
