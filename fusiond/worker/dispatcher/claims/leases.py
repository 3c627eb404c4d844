"""
Renew the leases of the jobs that a dispatcher holds, on a connection and in a task of their own: nothing delays them.

A lease is trusted for its time less a margin, counted from the moment before it was asked for. A job whose lease could
not be renewed by then is given up here before Redis gives it to another dispatcher. CLOCK_BOOTTIME measures it, which
goes on while this host is suspended.

An enqueue that claims a job for a dispatcher gives it a first lease, which is short in case that dispatcher is gone.
The job begins only if it is not older than LATEST_BEGIN, and its lease is renewed within FIRST_RENEWAL. So Redis, or
any process here, may stand still for 4 s at that moment, and the job still runs once.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from typing import Literal

from fusiond.broker.records import Renewal
from fusiond.broker.redis.connection import AsyncConnection
from fusiond.broker.redis.outage import Outage
from fusiond.broker.verbs import Verbs
from fusiond.errors import BrokerError
from fusiond.worker.pool.attempt import Attempt
from fusiond.worker.runtime.wire import boot_ns

log = logging.getLogger(__name__)

#: s
LEASE, RENEW, MARGIN = 15.0, 5.0, 2.0
LEASE_MS = int(LEASE * 1000)
#: s; the first lease of a job that an enqueue has claimed, as claim_on_enqueue.lua has it, and how long it is trusted
FIRST_LEASE, FIRST_TRUST = 6.0, 5.0
#: s; the greatest age at which such a job is handed to a child; from then to the first renewal
LATEST_BEGIN, FIRST_RENEWAL = 0.5, 0.1
#: attempts in one call
_BATCH = 500
#: longest pause between two attempts while leases are held, in seconds
SHORT_PAUSE = 1.0
_LOST, _CANCEL = 0, 2


def trusted_until(sent_ns: int) -> int:
    """Boot ns until when a lease is trusted that was asked for at `sent_ns`."""
    return sent_ns + int((LEASE - MARGIN) * 1e9)


class Leases:
    """Renews what `held` gives, each RENEW seconds, or at once when asked."""

    def __init__(
        self,
        broker: Verbs,
        connection: AsyncConnection,
        outage: Outage,
        held: Callable[[], Iterable[Attempt]],
        on_change: Callable[[], None],
    ) -> None:
        """`on_change`: called when an attempt turned out lost or canceled, which is marked on it."""
        self._broker, self._connection, self._outage = broker, connection, outage
        self._held, self._on_change = held, on_change
        self._wake = asyncio.Event()
        #: monotonic s; when all leases are renewed next
        self._all_due = 0.0

    def renew_soon(self) -> None:
        """Ask Redis now: something was canceled."""
        self._all_due = 0.0
        self._wake.set()

    def renew_first(self) -> None:
        """Renew first leases now."""
        self._wake.set()

    async def keep(self) -> None:
        """Renew, again and again, until cancelled."""
        await self._outage.repeat(
            self._renew_due,
            self._wake,
            lambda: max(0.0, self._all_due - time.monotonic()),
            lambda error: log.debug("leases are not renewed: %s", error),
            longest=SHORT_PAUSE,
        )

    async def _renew_due(self) -> None:
        """Renew first leases, or all that is held if that is due. Raises BrokerError."""
        now = time.monotonic()
        if now >= self._all_due:
            await self._renew(self._held())
            self._all_due = now + RENEW
            return
        first = boot_ns() + int(FIRST_TRUST * 1e9)
        await self._renew(attempt for attempt in self._held() if attempt.lease <= first)

    async def _renew(self, attempts: Iterable[Attempt]) -> None:
        changed, failed = await renew(self._broker, self._connection, attempts)
        if changed:
            self._on_change()
        if failed:
            raise failed


async def renew(
    broker: Verbs, connection: AsyncConnection, attempts: Iterable[Attempt], note: Literal["", "permit"] = ""
) -> tuple[bool, BrokerError | None]:
    """
    Renew the leases of these attempts, and mark on each what Redis says of it.

    Args:
        broker: gives the verb.
        connection: on which nothing else is under way.
        attempts: those that are lost already are left out.
        note: what Redis is to store of each beside its lease; "": nothing.

    Returns:
        whether any turned out lost or canceled, and what one of the queues has refused.

    Raises:
        BrokerUnavailable: there was no reply.
    """
    by_queue: dict[str, list[Attempt]] = {}
    for attempt in attempts:
        if not attempt.lost:
            by_queue.setdefault(attempt.queue, []).append(attempt)
    parts = [(queue, some[at : at + _BATCH]) for queue, some in by_queue.items() for at in range(0, len(some), _BATCH)]
    if not parts:
        return False, None
    until = trusted_until(boot_ns())
    calls = [broker.renew(queue, [Renewal(a.id, a.token, note) for a in part], LEASE_MS) for queue, part in parts]
    changed, failed = False, None
    for (_, part), flags in zip(parts, await connection.run_many(calls), strict=True):
        # One queue that is corrupt must not cost the others their leases.
        if isinstance(flags, BrokerError):
            failed = flags
            continue
        for attempt, flag in zip(part, flags, strict=True):
            changed |= mark(attempt, flag, until)
            attempt.permitted |= note == "permit" and not attempt.lost
    return changed, failed


def mark(attempt: Attempt, flag: int, until: int) -> bool:
    """Mark on the attempt what Redis said of it; whether something must be done about it."""
    if flag == _LOST:
        attempt.lost = True
        return True
    # no longer than it holds its slots: whoever has them next must not run beside it
    attempt.lease = min(until, attempt.slots_until or until)
    newly = flag == _CANCEL and not attempt.canceled
    attempt.canceled |= newly
    return newly
