"""
Have the jobs of one group run.

1. claim   as many jobs as there is room for (queue_order.py says of which queues, exchange.py asks)
2. permit  have Redis store that a job may begin, if it may begin once only (waiting.py)
3. hand    them to the children (pool/pool.py)
4. renew   the leases of jobs still held (leases.py)
5. settle  what has ended (endings.py), many in the round trip of the next claim
6. wait    for outcomes, a wake-up, the next due job, or the poll

It serves until it is told to drain, which has no deadline, or to stop cold.

Knows Redis and sockets. Never loads task code.
"""

from __future__ import annotations

import asyncio
import enum
import logging
import random
import time
from functools import partial
from typing import TYPE_CHECKING

from fusiond.broker.outage import pause
from fusiond.errors import BrokerUnavailable, FusionError
from fusiond.worker.dispatcher.endings import Endings
from fusiond.worker.dispatcher.exchange import Exchange
from fusiond.worker.dispatcher.job_log import JobLog
from fusiond.worker.dispatcher.leases import Leases
from fusiond.worker.dispatcher.queue_order import queues_of
from fusiond.worker.dispatcher.waiting import Waiting
from fusiond.worker.pool import pool_reports as reports
from fusiond.worker.pool.pool import Pool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fusiond.broker.outage import Outage
    from fusiond.broker.redis.connection import AsyncConnection
    from fusiond.broker.verbs import Verbs
    from fusiond.config.model import Config, WorkerGroup
    from fusiond.worker.pool.attempt import Attempt
    from fusiond.worker.pool.pool_reports import Problems

log = logging.getLogger(__name__)

#: s; a claim of all queues in case a wake-up was lost
POLL = 5.0
#: s; until Redis is asked again for what it has refused
REFUSED = 1.0
#: s; for the last outcomes to reach Redis, once nothing runs any more and it is to end at once; between two tries
_LAST_SETTLE, _AT_THE_END = 5.0, 0.5


class Phase(enum.IntEnum):
    """How far it is on its way to the end."""

    HELD = 0
    SERVING = 1
    DRAINING = 2
    COLD = 3


class Dispatcher:
    """One group's dispatcher."""

    def __init__(
        self,
        name: str,
        config: Config,
        group: WorkerGroup,
        broker: Verbs,
        connections: tuple[AsyncConnection, AsyncConnection],
        *,
        outage: Outage,
        on_problems: Callable[[], None],
    ) -> None:
        """
        A dispatcher that claims nothing yet.

        `name`: `host.pid`; `connections`: one for claims and settles alone, one for leases alone; `on_problems`: called
        when other tasks load than did before.
        """
        self.config, self.group = config, group
        self.phase = Phase.HELD
        self._outage, self._on_problems = outage, on_problems
        self._wake, self._ending = asyncio.Event(), asyncio.Event()
        self.queues = queues_of(config, group)
        self.job_log = JobLog(config)
        self._exchange = Exchange(name, broker, connections[0], self.job_log.ended)
        #: attempts that were settled, by kind
        self.counts = self._exchange.counts
        self.leases = Leases(broker, connections[1], outage, self.held, self.on_leases_changed)
        self._endings = Endings(config, self._exchange, self.job_log, self._on_not_loaded)
        self.pool = Pool(config, group, self._on_report, self._endings.on_outcome, self.job_log.fields)
        self._waiting = Waiting(self.pool, self._endings, _once(config), self._wake.set)
        #: the tasks that do not load, once the others are loaded
        self.ready: asyncio.Future[Problems] = asyncio.get_running_loop().create_future()
        self._rand = random.Random()  # noqa: S311 - guards no secret
        self._timers: dict[str, asyncio.TimerHandle] = {}
        #: monotonic s; from then on nothing waits for the last outcomes
        self._give_up: float | None = None

    # -- from outside -------------------------------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """Whether a job that it claimed is not settled yet."""
        return next(self.held(), None) is not None or not self._exchange.done()

    def held(self) -> Iterator[Attempt]:
        """All attempts whose leases must be kept."""
        yield from self._waiting
        yield from self.pool.attempts()
        # Redis may be slow to take an outcome, and must not have the job run again meanwhile.
        yield from self._exchange.unsettled()

    def go(self) -> None:
        """Begin to claim."""
        if self.phase == Phase.HELD:
            self.phase = Phase.SERVING
            self._wake.set()

    def claim_from(self, queue: str | None = None) -> None:
        """Claim from the queue, or from all: there may be jobs."""
        self.queues.mark_open(queue)
        self._wake.set()

    def set_config(self, config: Config, group: WorkerGroup) -> None:
        """Follow a change in place."""
        self.config, self.group = config, group
        self.queues = queues_of(config, group)
        self.job_log.set_config(config)
        self._endings.set_config(config)
        self.pool.set_config(config, group)
        former, self._waiting.once = self._waiting.once, _once(config)
        if turned := self._waiting.once - former:
            # What waits in a child has no permit: it comes back for one, unless it has begun under the former policy.
            self.pool.take_back(turned)
        # A job whose task this reload removed must not be handed to a child.
        self._waiting.look_again()

    def drain(self) -> None:
        """Claim no more, give back what was not begun, end when the last job ends."""
        if self.phase < Phase.DRAINING:
            self.phase, self._waiting.draining = Phase.DRAINING, True
            self._ending.set()
            self._waiting.look_again()
            self.pool.take_back()

    def stop_cold(self) -> None:
        """Kill what runs, give it back, and end."""
        self.drain()
        if self.phase < Phase.COLD:
            self.phase = Phase.COLD
            if not self.ready.done():
                self.ready.set_result({})
            self.pool.kill_all()
            self._wake.set()

    def close(self) -> None:
        """End the children."""
        self.job_log.count()
        self.pool.close()

    def on_leases_changed(self) -> None:
        """Some attempts turned out lost or canceled."""
        self._waiting.look_again(lambda attempt: attempt.lost or attempt.canceled)
        self.pool.look()

    # -- the loop -----------------------------------------------------------------------------------------------------

    async def serve(self) -> None:
        """Until it has drained."""
        self._poll()
        failures = 0
        while not (self.phase >= Phase.DRAINING and self._drained()):
            await self._wake.wait()
            self._wake.clear()
            self._waiting.hand()
            try:
                await self._get_permits()
                if self._waiting.for_child and (rest := self._exchange.rest()) > 0:
                    # Children have work: outcomes gather before the next round trip.
                    self._later("rest", rest)
                    continue
                await self._round_trip()
                if failures:
                    log.info("Redis is back")
                    # The answer to a repeated claim tells nothing of what else is there.
                    self.claim_from()
                failures = 0
                if self._exchange.refused and self._gives_up():
                    return
            except BrokerUnavailable as error:
                failures += 1
                if failures == 1:
                    log.error("%s Trying again for as long as it takes.", f"{error}.".replace("?.", "?"))  # noqa: TRY400
                if self._gives_up():
                    return
                await self._outage.wait(pause(failures), self._ending)
                if self._ending.is_set():
                    await asyncio.sleep(_AT_THE_END)
                self._wake.set()

    def _drained(self) -> bool:
        return not (self.pool.running or self._waiting) and self._exchange.done()

    def _gives_up(self) -> bool:
        """
        Whether it ends without an answer of Redis, which is away or refuses.

        For outcomes it waits as long as jobs may take to end, since what has run would run again. A claim whose reply
        was lost costs its jobs no more than the time of a lease.
        """
        if self.phase < Phase.DRAINING or self.pool.running:
            return False
        if self.phase < Phase.COLD and next(self._exchange.unsettled(), None):
            return False
        now = time.monotonic()
        self._give_up = self._give_up or now + _LAST_SETTLE
        if now > self._give_up:
            log.error("outcomes could not be settled; their leases will expire and they will run again")
        return now > self._give_up

    def _later(self, name: str, seconds: float, then: Callable[[], None] | None = None) -> None:
        """Go round again in so many seconds, and call `then` before; nothing if a timer of that name runs."""
        if name not in self._timers:
            self._timers[name] = asyncio.get_running_loop().call_later(seconds, self._on_timer, name, then)

    def _cancel(self, name: str) -> None:
        if timer := self._timers.pop(name, None):
            timer.cancel()

    def _on_timer(self, name: str, then: Callable[[], None] | None) -> None:
        del self._timers[name]
        if then:
            then()
        self._wake.set()

    def _poll(self) -> None:
        """Look at all queues: a wake-up may have been lost, and nobody else may rescue what is in them."""
        self.queues.poll()
        self._later("poll", POLL, self._poll)

    async def _get_permits(self) -> None:
        """Have Redis store that jobs may begin, as many as children are free. Raises BrokerUnavailable."""
        asked = [] if "permit" in self._timers else self._waiting.ask_permits()
        if not asked:
            return
        try:
            await self._exchange.permit(asked)
        finally:
            self._waiting.note_permits()
        if self._waiting.for_permit and self._exchange.refused:
            self._later("permit", REFUSED)
        self._waiting.hand()

    async def _round_trip(self) -> None:
        """Settle what has ended and claim what there is room for. Raises BrokerUnavailable."""
        if await self._exchange.renew_late(self.held()):
            self.on_leases_changed()
        shares = []
        if self.phase == Phase.SERVING:
            free = self._free() if self._waiting.once else 0
            shares = self.queues.shares(self.pool.room() - len(self._waiting), free, self._rand)
        found = await self._exchange.settle_and_claim(shares, self._waiting.once)
        for share, claim, attempts in found:
            due_ms = None if self.queues.note(share, claim) else claim.next_due_ms
            self._claim_when_due(share.queue, due_ms)
            self._waiting.add(attempts)
        if shares or found:
            # Others may be open still that had no share: there was less room than queues, or strict order asked the
            # first alone, whatever it answered. Those that were asked are dry, so this comes to an end.
            self._wake.set()
        if self._exchange.refused:
            self._later("refused", REFUSED, self._ask_lost)
        self._waiting.hand()
        self._claim_full()
        await self._exchange.log_chores(self.config, found)

    def _claim_when_due(self, queue: str, due_ms: int | None) -> None:
        self._cancel(f"due {queue}")
        if due_ms is not None and due_ms < POLL * 1000:
            self._later(f"due {queue}", due_ms / 1000 + 0.001, partial(self.claim_from, queue))

    def _ask_lost(self) -> None:
        self._exchange.ask_lost()
        self.claim_from()

    def _free(self) -> int:
        """Children that could begin a job that is yet to be claimed."""
        return max(0, self.pool.free() - len(self._waiting))

    def _claim_full(self) -> None:
        """Ask again for jobs that may begin once only, if a child is free."""
        if self.queues.full and self._free():
            self.queues.open_full()
            self._wake.set()

    # -- what the pool reports ----------------------------------------------------------------------------------------

    def _on_report(self, report: reports.PoolReport) -> None:
        match report:
            case reports.Room():
                # At once what is here, which must not wait until Redis has answered.
                self._waiting.hand()
                self._claim_full()
            case reports.NotBegun(attempts):
                self._waiting.put_back(attempts)
            case reports.Killed(attempt, reason, status):
                self._endings.on_killed(attempt, reason, status)
            case reports.Unheard(attempt):
                self._endings.on_unheard(attempt)
            case reports.TasksLoaded(problems):
                self._on_loaded(problems)
            case reports.StartFailed(why) if not self.ready.done():
                self.ready.set_exception(FusionError(why))
            case reports.Late():
                self.leases.renew_soon()
        # Outcomes are no reports: after those that a child has sent there is room, which is one.
        self._wake.set()

    def _on_loaded(self, problems: Problems) -> None:
        if not self.ready.done():
            self.ready.set_result(problems)
        # Those that wait here were claimed for a fork server that has died, and may not load in this one.
        self._waiting.look_again()
        self._on_problems()

    def _on_not_loaded(self, task: str, code: str, message: str) -> None:
        """A child could not load what its fork server was not told to load."""
        self.pool.note_problem(task, code, message)
        self._on_problems()


def _once(config: Config) -> frozenset[bytes]:
    """The tasks whose jobs may begin once only."""
    tasks = config.tasks.items()
    return frozenset(name.encode() for name, task in tasks if config.retry_policies[task.retry].at_most_once)
