"""
Hand a group's jobs to its children.

1. claim   as many jobs as there is room for
2. hand    them to the children (pool.py)
3. renew   the leases of jobs still held (leases.py)
4. settle  outcomes, many in the round trip of the next claim
5. wait    for outcomes, a wake-up, the next due job, or the poll

It serves until it is told to drain, which has no deadline, or to stop cold.

Knows Redis and sockets. Never loads task code.
"""

from __future__ import annotations

import asyncio
import enum
import logging
import random
import time
from collections import deque
from typing import TYPE_CHECKING

from fusiond.errors import BrokerUnavailable, FusionError
from fusiond.worker import outcomes
from fusiond.worker.exchange import Exchange
from fusiond.worker.leases import pause, trusted_until
from fusiond.worker.pool import Pool
from fusiond.worker.queues import Queues
from fusiond.worker.slots import Attempt, Doom

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fusiond.broker.broker import Broker
    from fusiond.broker.connection import AsyncConnection
    from fusiond.broker.outage import Outage
    from fusiond.broker.records import Outcome
    from fusiond.config.model import Config, RetryPolicy, Task, WorkerGroup
    from fusiond.worker.exchange import Claimed
    from fusiond.worker.wire import OutcomeMessage

log = logging.getLogger(__name__)

#: s; a claim of all queues in case a wake-up was lost
POLL = 5.0
#: s; how long a claimed job may wait for a child before it goes back
PENDING = 0.2
#: s; for so long a job goes back whose task this file does not have: another host's newer one may, during a roll-out
UNKNOWN_DELAY = 5.0
#: s; until Redis is asked again for what it has refused
REFUSED = 1.0
#: jobs asked for in one call
_CLAIM = 512
#: s; for the last outcomes to reach Redis, once nothing runs any more
_LAST_SETTLE = 5.0


class Phase(enum.IntEnum):
    """How far it is on its way to the end."""

    HELD = 0
    SERVING = 1
    DRAINING = 2
    COLD = 3


class Dispatcher:
    """One group's dispatcher. It is the host of its pool."""

    def __init__(
        self,
        name: str,
        config: Config,
        group: WorkerGroup,
        broker: Broker,
        connection: AsyncConnection,
        *,
        outage: Outage,
    ) -> None:
        """`name`: of this dispatcher, `host.pid`; `connection`: for claims and settles alone."""
        self.name, self.config, self.group = name, config, group
        self._outage = outage
        self.phase = Phase.HELD
        self.pool = Pool(config, group, self)
        self.queues = _queues(config, group)
        self.ready: asyncio.Future[dict[str, list[str]]] = asyncio.get_running_loop().create_future()
        self._exchange = Exchange(name, broker, connection)
        self._pending: deque[Attempt] = deque()
        self._stale: asyncio.TimerHandle | None = None
        self._ask_again: asyncio.TimerHandle | None = None
        self._deferred: asyncio.TimerHandle | None = None
        self._wake = asyncio.Event()
        self._ending = asyncio.Event()
        #: monotonic s; from then on nothing waits for the last outcomes
        self._give_up: float | None = None
        self._due: dict[str, asyncio.TimerHandle] = {}
        self._rand = random.Random()  # noqa: S311 - jitter

    @property
    def counts(self) -> dict[str, int]:
        """Attempts that were settled, by kind."""
        return self._exchange.counts

    # -- from outside -------------------------------------------------------------------------------------------------

    def go(self) -> None:
        """Begin to claim."""
        if self.phase == Phase.HELD:
            self.phase = Phase.SERVING
            self._wake.set()

    def leave(self, slots: int) -> None:
        """Claim for so many slots less: the group's former generation still uses them."""
        self.pool.handout.left = slots
        self._wake.set()

    def open(self, queue: str | None = None) -> None:
        """Claim from the queue, or from all: there may be jobs."""
        if queue is None:
            self.queues.open_all()
        else:
            self.queues.open(queue)
        self._wake.set()

    def set_config(self, config: Config, group: WorkerGroup) -> None:
        """Follow a change in place."""
        self.config, self.group = config, group
        self.queues = _queues(config, group)
        self.pool.set_config(config, group)
        # Whose task has gone with the old file must not reach a child.
        pending, self._pending = list(self._pending), deque()
        self.on_back(pending)

    def drain(self) -> None:
        """Claim no more, give back what was not begun, end when the last job ends."""
        if self.phase < Phase.DRAINING:
            self.phase = Phase.DRAINING
            self._ending.set()
            self.on_back(list(self._pending))
            self._pending.clear()
            self.pool.watch.take_all_back()
            self._wake.set()

    def stop_cold(self) -> None:
        """Kill what runs, give it back, and end."""
        self.drain()
        if self.phase < Phase.COLD:
            self.phase = Phase.COLD
            if not self.ready.done():
                self.ready.set_result({})
            self.pool.kill_all()
            self._wake.set()

    def held(self) -> Iterator[Attempt]:
        """All attempts whose leases must be kept."""
        yield from self._pending
        for slot in self.pool.slots.values():
            yield from slot.outstanding.values()

    def on_leases_changed(self) -> None:
        """Some attempts turned out lost or canceled."""
        gone = [attempt for attempt in self._pending if attempt.lost or attempt.canceled]
        for attempt in gone:
            self._pending.remove(attempt)
        self.on_back(gone)
        self.pool.watch.look()

    # -- the loop -----------------------------------------------------------------------------------------------------

    async def serve(self) -> None:
        """Until it has drained."""
        failures = 0
        while not (self.phase >= Phase.DRAINING and self._drained()):
            await self._wake.wait()
            self._wake.clear()
            self.pool.hand(self._pending)
            if self._pending and self._defer():
                continue
            try:
                await self._round_trip()
                if failures:
                    log.info("Redis is back")
                    # The answer to a repeated claim tells nothing of what else is there.
                    self.open()
                failures = 0
                if self._exchange.refused and self._gives_up():
                    return
            except BrokerUnavailable as error:
                failures += 1
                if failures == 1:
                    log.error("%s Trying again for as long as it takes.", f"{error}.".replace("?.", "?"))  # noqa: TRY400
                if self._gives_up():
                    return
                await self._sleep(pause(failures))
                self._wake.set()

    def _defer(self) -> bool:
        """Children have work: let outcomes gather for PACE before the next round trip."""
        left = self._exchange.rest()
        if left > 0 and self._deferred is None:
            self._deferred = asyncio.get_running_loop().call_later(left, self._go_on)
        return left > 0

    def _go_on(self) -> None:
        self._deferred = None
        self._wake.set()

    async def _sleep(self, seconds: float) -> None:
        """Wait until Redis is back; not for long on the way to the end, however far away it seems."""
        await self._outage.wait(seconds, self._ending)
        if self._ending.is_set():
            await asyncio.sleep(min(seconds, 0.5))

    def _drained(self) -> bool:
        return not (self.pool.handout.running or self._pending) and self._exchange.done()

    def _gives_up(self) -> bool:
        """Whether Redis, which is away or refuses, has had the last outcomes put before it for long enough."""
        if self.phase < Phase.DRAINING or self.pool.handout.running:
            return False
        now = time.monotonic()
        self._give_up = self._give_up or now + _LAST_SETTLE
        if now > self._give_up:
            log.error("outcomes could not be settled; their leases will expire and they will run again")
        return now > self._give_up

    async def _round_trip(self) -> None:
        """Settle what has ended and claim what there is room for. Raises BrokerUnavailable."""
        shares = [] if self._exchange.asks_again() else self.queues.shares(self._want())
        for queue, _ in shares:
            # Not when the reply has come: a wake-up may overtake it, on another connection, and opens the queue again.
            self.queues.dry(queue)
        found = await self._exchange.run(shares)
        for claimed in found:
            self._claimed(claimed)
        if shares or found:
            # Others may be open still that had no share: there was less room than queues, or strict order asked the
            # first alone, whatever it answered. Those that were asked are dry, so this comes to an end.
            self._wake.set()
        if self._exchange.refused and self._ask_again is None:
            self._ask_again = asyncio.get_running_loop().call_later(REFUSED, self._after_refusal)
        self.pool.hand(self._pending)
        self._release_later()

    def _after_refusal(self) -> None:
        self._ask_again = None
        self._exchange.ask_lost()
        self.open()

    def _want(self) -> int:
        if self.phase != Phase.SERVING:
            return 0
        return min(_CLAIM, self.pool.handout.room() - len(self._pending))

    def _claimed(self, claimed: Claimed) -> None:
        queue, want, nonce, claim = claimed
        if len(claim.jobs) < want and not claim.more:
            self._note_due(queue, claim.next_due_ms)
        else:
            self.queues.open(queue)
        sent = self._exchange.sent
        lease = trusted_until(sent)
        for job in claim.jobs:
            self._take(Attempt(queue, job.id, nonce, *job[1:3], job.header, *job[3:6], lease, sent))

    def _take(self, attempt: Attempt) -> None:
        if self.phase >= Phase.DRAINING:
            self._settle(attempt, outcomes.released(attempt, "not begun"))
        elif self._knows(attempt):
            self._pending.append(attempt)
        else:
            self._settle(attempt, outcomes.unknown(attempt, UNKNOWN_DELAY))

    def _knows(self, attempt: Attempt) -> bool:
        return attempt.task.decode(errors="replace") in self.config.tasks

    def _note_due(self, queue: str, due_ms: int | None) -> None:
        """Claim again when the queue's next job comes due."""
        timer = self._due.pop(queue, None)
        if timer:
            timer.cancel()
        if due_ms is not None and due_ms < POLL * 1000:
            self._due[queue] = asyncio.get_running_loop().call_later(due_ms / 1000 + 0.001, self.open, queue)

    def _release_later(self) -> None:
        """Look again at what waits here for a child."""
        if self._pending and self._stale is None:
            self._stale = asyncio.get_running_loop().call_later(PENDING, self._release_stale)

    def _release_stale(self) -> None:
        """Give back what no child has taken in time: another host may have one."""
        self._stale = None
        oldest = time.monotonic_ns() - int(PENDING * 1e9)
        stale = [attempt for attempt in self._pending if attempt.waits <= oldest]
        for attempt in stale:
            self._pending.remove(attempt)
            self._settle(attempt, outcomes.released(attempt, "no child was free"))
        self._release_later()

    # -- what the pool tells ------------------------------------------------------------------------------------------

    def on_room(self) -> None:
        """A child may take more."""
        self._wake.set()

    def on_ready(self, problems: dict[str, list[str]]) -> None:
        """The tasks are loaded."""
        if not self.ready.done():
            self.ready.set_result(problems)

    def on_start_failed(self, reason: str) -> None:
        """The fork server did not come up."""
        if not self.ready.done():
            self.ready.set_exception(FusionError(reason))

    def on_outcome(self, attempt: Attempt, outcome: OutcomeMessage) -> None:
        """It ran to its end."""
        if attempt.lost:
            return
        task, policy = self._policy(attempt)
        settled = outcomes.ran(attempt, outcome, task, policy, self._rand)
        if settled.kind != "finished":
            _log_failure(attempt, settled)
        self._settle(attempt, settled)

    def on_back(self, attempts: list[Attempt]) -> None:
        """They were never begun."""
        now = time.monotonic_ns()
        for attempt in reversed(attempts):
            if attempt.lost:
                continue
            if attempt.canceled:
                self._settle(attempt, outcomes.canceled(attempt, self._policy(attempt)[0]))
            elif self.phase >= Phase.DRAINING or attempt.lease <= now:
                self._settle(attempt, outcomes.released(attempt, "not begun"))
            elif self._knows(attempt):
                attempt.waits = now
                self._pending.appendleft(attempt)
            else:
                self._settle(attempt, outcomes.unknown(attempt, UNKNOWN_DELAY))
        self._release_later()
        self._wake.set()

    def on_killed(self, attempt: Attempt, doom: Doom | None, status: int) -> None:
        """Its child died in the middle of it."""
        task, policy = self._policy(attempt)
        settled = outcomes.killed(attempt, doom, status, task, policy)
        if settled is not None:
            if settled.crash:
                _log_failure(attempt, settled)
            elif settled.kind == "released":
                log.warning("interrupted by the shutdown, it runs again", extra=_fields(attempt))
            self._settle(attempt, settled)
        else:
            log.warning("its lease was lost, its child was killed", extra=_fields(attempt))

    def on_unheard(self, attempt: Attempt) -> None:
        """It ran, and its outcome died with its child."""
        log.warning("interrupted by the death of its child with another job, it runs again", extra=_fields(attempt))
        self._settle(attempt, outcomes.released(attempt, "its child died with another job", begun=True))

    def _settle(self, attempt: Attempt, outcome: Outcome) -> None:
        self._exchange.settle(attempt.queue, outcome)
        self._wake.set()

    def _policy(self, attempt: Attempt) -> tuple[Task, RetryPolicy]:
        """As of now: a reload applies to jobs that run."""
        task = self.config.tasks.get(attempt.task.decode(errors="replace")) or self._gone(attempt)
        return task, self.config.retry_policies[task.retry]

    def _gone(self, attempt: Attempt) -> Task:
        """A task that a reload took out of the file while its job ran: the built-in policies hold."""
        from fusiond.config.model import Task

        return Task(attempt.task.decode(errors="replace"), "")


def _queues(config: Config, group: WorkerGroup) -> Queues:
    """The group's queues; `*` stands for each that the file has."""
    names = dict.fromkeys(name for entry in group.queues for name in (config.queues if entry == "*" else (entry,)))
    return Queues(names, group.order, group.weights)


def _log_failure(attempt: Attempt, outcome: Outcome) -> None:
    level = logging.WARNING if outcome.kind == "retry" else logging.ERROR
    if log.isEnabledFor(level):
        import json

        error = json.loads(outcome.payload)
        what = error["type"] or error["code"]
        then = f"tried again in {outcome.ms / 1000:g} s" if outcome.kind == "retry" else outcome.kind
        log.log(level, "%s: %s (%s)", what, error["message"], then, extra=_fields(attempt))


def _fields(attempt: Attempt) -> dict[str, str]:
    fields = {"job": attempt.name, "task": attempt.task.decode(errors="replace"), "queue": attempt.queue}
    return fields | {"attempt": str(attempt.attempts)}
