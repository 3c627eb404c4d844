"""
A dispatcher's round trips to Redis: what has ended is settled, what there is room for is claimed, in one pipeline.

A round trip without a reply may have been done or not. Then the very same is asked again, and nothing else, until there
is an answer: settle knows its token and claim its nonce, so neither happens twice. Where a node of a Cluster was lost,
what it was asked waits for `ask_lost`, and the others' round trips go on meanwhile.

Knows Redis. What a claimed job is for, and when there is room, is its dispatcher's to say.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from fusiond.broker import chores
from fusiond.broker.call import decoded
from fusiond.errors import BrokerError, BrokerUnavailable
from fusiond.job import mark_of, new_token
from fusiond.worker.dispatcher.leases import LEASE_MS, renew
from fusiond.worker.runtime.wire import boot_ns

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from fusiond.broker.call import Call
    from fusiond.broker.records import Claim, Kind, Outcome
    from fusiond.broker.redis.connection import AsyncConnection
    from fusiond.broker.verbs import Verbs
    from fusiond.config.model import Config
    from fusiond.worker.pool.attempt import Attempt

log = logging.getLogger(__name__)

#: leases that may expire on one job before it fails
MAX_RESCUES = 25
#: s; between two round trips, while children have work, and jobs wait for them here
PACE = 0.005
#: outcomes in one call
_SETTLE = 500
#: outcomes after which a job goes on; what becomes of it instead, as settle.lua answers
_GOES_ON = frozenset({"retry", "released", "unknown", "unloaded"})
_INSTEAD: dict[int, Kind] = {3: "failed", 4: "canceled"}
#: s; a refusal that lasts is said again only then
_SAY_AGAIN = 60.0


class Claimed(NamedTuple):
    """What one queue gave."""

    queue: str
    #: how many jobs were asked for, and their token
    want: int
    nonce: str
    claim: Claim


class _Request(NamedTuple):
    """One round trip."""

    settles: list[tuple[str, list[Outcome]]]
    #: queue, want, nonce
    claims: list[tuple[str, int, str]]
    #: the settles, then the claims
    calls: list[Call[Any]]


class Exchange:
    """Round trips of one dispatcher, one at a time."""

    def __init__(self, name: str, broker: Verbs, connection: AsyncConnection) -> None:
        """`name`: of the dispatcher, `host.pid`; `connection`: for nothing else."""
        self._name, self._broker, self._connection = name, broker, connection
        self._mark = mark_of(name)
        #: outcomes that Redis has taken, by kind
        self.counts = {"finished": 0, "failed": 0, "retry": 0, "released": 0, "canceled": 0}
        #: monotonic ns of the last request; the same in boot ns
        self.sent, self.sent_boot = 0, 0
        #: tasks whose jobs may begin once only; queue → how many of them its next claim may bring
        self.once: Collection[bytes] = ()
        self.limits: dict[str, int] = {}
        #: Redis answered, and refused: outcomes are kept; what it will do later is to be asked again
        self.refused = False
        self._outcomes: dict[str, list[Outcome]] = {}
        #: id and token → attempt, of outcomes after which their jobs go on, unless Redis ends them
        self._going_on: dict[tuple[bytes | str, str], Attempt] = {}
        #: those that it has ended, each with how
        self._ended: list[tuple[Attempt, Outcome]] = []
        self._unanswered: _Request | None = None
        #: claims and outcomes to which a node of a Cluster gave no reply
        self._lost: list[tuple[str, int, str]] = []
        self._kept: dict[str, list[Outcome]] = {}
        self._asks_lost = False
        #: what is refused, as it was said → monotonic s
        self._said: dict[str, float] = {}

    def add_outcome(self, queue: str, outcome: Outcome, attempt: Attempt | None = None) -> None:
        """Take the outcome along on the next round trip; `attempt`: for `take_ended`."""
        if attempt is not None and outcome.kind in _GOES_ON:
            self._going_on[outcome.id, outcome.token] = attempt
        self._outcomes.setdefault(queue, []).append(outcome)

    def take_ended(self) -> list[tuple[Attempt, Outcome]]:
        """The attempts after which their jobs were to go on and have failed or were canceled instead, once each."""
        ended, self._ended = self._ended, []
        return ended

    async def tell(self, config: Config, claimed: Iterable[Claimed]) -> None:
        """Write a line of each other job that these claims rescued or ended."""
        found = [(each.queue, each.claim.chores) for each in claimed if each.claim.chores]
        if found:
            await chores.tell(self._broker, self._connection, config, found)

    async def permit(self, attempts: Iterable[Attempt]) -> None:
        """
        Have Redis store that these attempts may begin, and no other one of their jobs; each is marked with the answer.

        It may be asked again: the permit is the attempt's token. Raises BrokerUnavailable: there was no reply.
        """
        _, failed = await renew(self._broker, self._connection, attempts, "permit")
        if failed:
            self._complain(f"jobs that may begin once only wait for their permit: {failed}")
            self.refused = True

    async def renew(self, attempts: Iterable[Attempt]) -> bool:
        """Renew leases before anything is claimed; whether any is lost or canceled. Raises BrokerUnavailable."""
        changed, _ = await renew(self._broker, self._connection, attempts)
        return changed

    def done(self) -> bool:
        """Whether nothing is left to be said."""
        return not (self._outcomes or self._unanswered or self._kept)

    def unsettled(self) -> Iterator[tuple[str, Outcome]]:
        """Queue and outcome of each attempt that Redis has not confirmed to be settled."""
        for outcomes in (self._outcomes, self._kept):
            for queue, batch in outcomes.items():
                yield from ((queue, outcome) for outcome in batch)
        for queue, batch in self._unanswered.settles if self._unanswered else ():
            yield from ((queue, outcome) for outcome in batch)

    def ask_lost(self) -> None:
        """Ask a lost node again with the next round trip. By each of them, all others would wait for that node."""
        self._asks_lost = True

    def rest(self) -> float:
        """Seconds until the next round trip is worth its price, where children have work meanwhile."""
        return PACE - (time.monotonic_ns() - self.sent) / 1e9

    def asks_again(self) -> bool:
        """Whether the next round trip repeats one that had no reply, so takes no new claims."""
        return self._unanswered is not None

    async def run(self, shares: Iterable[tuple[str, int]]) -> list[Claimed]:
        """
        One round trip, or none where there is nothing to say.

        Args:
            shares: queue and how many jobs to ask of it.

        Raises:
            BrokerUnavailable: there was no reply.
        """
        request = self._unanswered or self._request(shares)
        if not request.calls:
            return []
        self._unanswered, self.refused = request, False
        self.sent, self.sent_boot = time.monotonic_ns(), boot_ns()
        replies = await self._connection.run_many(request.calls)
        self._unanswered = None
        for (queue, batch), reply in zip(request.settles, replies, strict=False):
            self._settled(queue, batch, reply)
        answers = list(zip(request.claims, replies[len(request.settles) :], strict=True))
        self._lost += [claim for claim, reply in answers if isinstance(reply, BrokerUnavailable)]
        claimed = [Claimed(*claim, reply) for claim, reply in answers if self._is_claim(claim[0], reply)]
        if self._said and not (self._lost or self._kept or any(isinstance(reply, BrokerError) for reply in replies)):
            self._said.clear()
            log.info("Redis takes commands again")
        return claimed

    def _request(self, shares: Iterable[tuple[str, int]]) -> _Request:
        again = {queue for queue, _, _ in self._lost}
        claims = self._found_again() if self._asks_lost else []
        taken, self._outcomes = self._outcomes, {}
        settles = [
            (queue, batch[at : at + _SETTLE]) for queue, batch in taken.items() for at in range(0, len(batch), _SETTLE)
        ]
        claims += [(queue, want, new_token(self._mark)) for queue, want in shares if queue not in again]
        calls: list[Call[Any]] = [self._broker.settle(queue, batch) for queue, batch in settles]
        calls += [self._claim(queue, want, nonce) for queue, want, nonce in claims]
        return _Request(settles, claims, calls)

    def _found_again(self) -> list[tuple[str, int, str]]:
        """The lost claims, to be made; the outcomes are put before those that came since."""
        for queue, batch in self._kept.items():
            self._outcomes.setdefault(queue, [])[:0] = batch
        claims, self._lost, self._kept, self._asks_lost = self._lost, [], {}, False
        return claims

    def _claim(self, queue: str, want: int, nonce: str) -> Call[Claim]:
        limit = self.limits.get(queue, 0)
        few = (limit, self.once if want > limit else ())
        return self._broker.claim(
            queue, want, dispatcher=self._name, nonce=nonce, lease_ms=LEASE_MS, max_rescues=MAX_RESCUES, few=few
        )

    def _settled(self, queue: str, batch: list[Outcome], reply: list[int] | BrokerError) -> None:
        if isinstance(reply, BrokerError):
            self._complain(f"queue '{queue}': outcomes are kept and tried again: {reply}")
            kept = self._kept if isinstance(reply, BrokerUnavailable) else self._outcomes
            kept.setdefault(queue, [])[:0] = batch
            self.refused = True
            return
        for outcome, flag in zip(batch, reply, strict=True):
            attempt = self._going_on.pop((outcome.id, outcome.token), None) if outcome.kind in _GOES_ON else None
            if flag:
                kind: Kind = _INSTEAD.get(flag, outcome.kind)
                self.counts["released" if kind in ("unknown", "unloaded") else kind] += 1
                if attempt is not None and flag in _INSTEAD:
                    self._ended.append((attempt, outcome._replace(kind=kind)))
            else:
                fields = {"job": outcome.id if isinstance(outcome.id, str) else decoded(outcome.id), "queue": queue}
                log.warning("an outcome came too late: the lease was lost", extra=fields)

    def _is_claim(self, queue: str, reply: Claim | BrokerError) -> bool:
        if isinstance(reply, BrokerError):
            self._complain(f"queue '{queue}': no jobs can be claimed: {reply}")
            self.refused |= isinstance(reply, BrokerUnavailable)
            return False
        return True

    def _complain(self, sentence: str) -> None:
        """Not at each of the many times that it is refused."""
        now = time.monotonic()
        if now - self._said.get(sentence, -_SAY_AGAIN) >= _SAY_AGAIN:
            self._said[sentence] = now
            log.error("%s", sentence)
