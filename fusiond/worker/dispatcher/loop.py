"""
Hand a group's jobs to its children.

1. claim   as many jobs as there is room for
2. permit  have Redis store that a job may begin, if it may begin once only (permits.py)
3. hand    them to the children (pool/pool.py)
4. renew   the leases of jobs still held (leases.py)
5. settle  outcomes, many in the round trip of the next claim
6. wait    for outcomes, a wake-up, the next due job, or the poll

It serves until it is told to drain, which has no deadline, or to stop cold.

Knows Redis and sockets. Never loads task code.
"""

from __future__ import annotations

import asyncio
import enum
import json
import logging
import random
import time
from collections import deque
from typing import TYPE_CHECKING

from fusiond.broker.outage import pause
from fusiond.config.model import RETRY_POLICIES
from fusiond.errors import BrokerUnavailable, FusionError
from fusiond.worker.dispatcher import verdicts
from fusiond.worker.dispatcher.exchange import Exchange
from fusiond.worker.dispatcher.job_log import JobLog
from fusiond.worker.dispatcher.leases import trusted_until
from fusiond.worker.dispatcher.permits import Permits
from fusiond.worker.dispatcher.queue_order import Queues
from fusiond.worker.pool.attempt import Attempt, KillReason
from fusiond.worker.pool.pool import Pool
from fusiond.worker.pool.pool_reports import Killed, Late, NotBegun, Room, StartFailed, TasksLoaded, Unheard
from fusiond.worker.pool.run_times import PENDING
from fusiond.worker.runtime.wire import UNLOADED, boot_ns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fusiond.broker.outage import Outage
    from fusiond.broker.records import Outcome
    from fusiond.broker.redis.connection import AsyncConnection
    from fusiond.broker.verbs import Verbs
    from fusiond.config.model import Config, RetryPolicy, Task, WorkerGroup
    from fusiond.worker.dispatcher.exchange import Claimed
    from fusiond.worker.pool.pool_reports import PoolReport, Problems
    from fusiond.worker.runtime.wire import OutcomeMessage

log = logging.getLogger(__name__)

#: s; a claim of all queues in case a wake-up was lost
POLL = 5.0
#: s; for so long a job goes back whose task this file does not have: another host's newer one may, during a roll-out
UNKNOWN_DELAY = 5.0
#: s; for so long a job goes back at first whose task does not load; later for longer, as settle.lua has it
UNLOADED_DELAY = 5.0
#: s; until Redis is asked again for what it has refused
REFUSED = 1.0
#: jobs asked for in one call
_CLAIM = 512
#: s; for the last outcomes to reach Redis, once nothing runs any more and it is to end at once
_LAST_SETTLE = 5.0


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
        connection: AsyncConnection,
        *,
        outage: Outage,
    ) -> None:
        """`name`: of this dispatcher, `host.pid`; `connection`: for claims and settles alone."""
        self.name, self.config, self.group = name, config, group
        self._outage = outage
        self.phase = Phase.HELD
        self.job_log = JobLog(config)
        self._permits = Permits()
        self.pool = Pool(config, group, self._on_report, self.on_outcome, self.job_log.fields)
        self.queues = _queues(config, group)
        self.ready: asyncio.Future[Problems] = asyncio.get_running_loop().create_future()
        self._exchange = Exchange(name, broker, connection)
        #: has the leases renewed at once
        self.renew_soon: Callable[[], None] = lambda: None
        self._once = _once(config)
        self._pending: deque[Attempt] = deque()
        #: queues whose next job may begin once only, and no child is free for it
        self._full: set[str] = set()
        self._ask_permits: asyncio.TimerHandle | None = None
        self._stale: asyncio.TimerHandle | None = None
        self._ask_again: asyncio.TimerHandle | None = None
        self._deferred: asyncio.TimerHandle | None = None
        #: called when other tasks load than did before
        self.tell_problems: Callable[[], None] = lambda: None
        self._wake = asyncio.Event()
        self._ending = asyncio.Event()
        #: monotonic s; from then on nothing waits for the last outcomes
        self._give_up: float | None = None
        self._due: dict[str, asyncio.TimerHandle] = {}
        #: queues of which a full group has asked nothing for a whole POLL
        self._unasked: list[str] = []
        self._rand = random.Random()  # noqa: S311 - jitter

    @property
    def counts(self) -> dict[str, int]:
        """Attempts that were settled, by kind."""
        return self._exchange.counts

    @property
    def busy(self) -> bool:
        """Whether a job that it claimed is not settled yet."""
        return next(self.held(), None) is not None or not self._exchange.done()

    # -- from outside -------------------------------------------------------------------------------------------------

    def go(self) -> None:
        """Begin to claim."""
        if self.phase == Phase.HELD:
            self.phase = Phase.SERVING
            self._wake.set()

    def leave(self, slots: int) -> None:
        """Claim for so many slots less: the group's former generation still uses them."""
        self.pool.leave(slots)
        self._wake.set()

    def claim_from(self, queue: str | None = None) -> None:
        """Claim from the queue, or from all: there may be jobs."""
        if queue is None:
            self.queues.mark_all_open()
        else:
            self.queues.mark_open(queue)
        self._wake.set()

    def poll(self) -> None:
        """Look at all queues: a wake-up may have been lost, and nobody else may rescue what is in them."""
        self._unasked = self.queues.poll()
        self._wake.set()

    def set_config(self, config: Config, group: WorkerGroup) -> None:
        """Follow a change in place."""
        self.config, self.group = config, group
        self.queues = _queues(config, group)
        self.job_log.set_config(config)
        self.pool.set_config(config, group)
        former, self._once = self._once, _once(config)
        if turned := self._once - former:
            # What waits in a child has no permit: it comes back for one, unless it has begun under the former policy.
            self.pool.take_back(turned)
        # Whose task has gone with the old file must not reach a child.
        self.on_back(self._take_pending())

    def drain(self) -> None:
        """Claim no more, give back what was not begun, end when the last job ends."""
        if self.phase < Phase.DRAINING:
            self.phase = Phase.DRAINING
            self._ending.set()
            self.on_back(self._take_pending())
            self.pool.take_back()
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

    def close(self) -> None:
        """End the children."""
        self.job_log.count()
        self.pool.close()

    def held(self) -> Iterator[Attempt]:
        """All attempts whose leases must be kept."""
        yield from self._pending
        yield from self._permits
        yield from self.pool.attempts()
        # Redis may be slow to take an outcome, and must not have the job run again meanwhile.
        for queue, outcome in self._exchange.unsettled():
            yield verdicts.unsettled(queue, outcome)

    def _take_pending(self) -> list[Attempt]:
        """What waits for a child, or for a permit that nobody has asked for yet; none of it waits any more."""
        taken = [*self._pending, *self._permits.take_waiting()]
        self._pending.clear()
        return taken

    def on_leases_changed(self) -> None:
        """Some attempts turned out lost or canceled."""
        gone = []
        for line in (self._pending, self._permits.waiting):
            out = [attempt for attempt in line if attempt.lost or attempt.canceled]
            for attempt in out:
                line.remove(attempt)
            gone += out
        self.on_back(gone)
        self.pool.look()

    # -- the loop -----------------------------------------------------------------------------------------------------

    async def serve(self) -> None:
        """Until it has drained."""
        failures = 0
        while not (self.phase >= Phase.DRAINING and self._drained()):
            await self._wake.wait()
            self._wake.clear()
            self._hand_out()
            try:
                await self._permit()
                if self._pending and self._defer():
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
        return not (self.pool.running or self._pending or self._permits) and self._exchange.done()

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

    async def _permit(self) -> None:
        """Have Redis store that jobs may begin, as many as children are free. Raises BrokerUnavailable."""
        asked = self._permits.ask(self.pool.free()) if self._ask_permits is None else []
        if not asked:
            return
        try:
            await self._exchange.permit(asked)
        finally:
            self.on_back(self._permits.answered())
        if self._permits.waiting and self._exchange.refused:
            self._ask_permits = asyncio.get_running_loop().call_later(REFUSED, self._permit_again)
        self._hand_out()

    def _permit_again(self) -> None:
        self._ask_permits = None
        self._wake.set()

    async def _round_trip(self) -> None:
        """Settle what has ended and claim what there is room for. Raises BrokerUnavailable."""
        late = self._exchange.sent_boot and trusted_until(self._exchange.sent_boot) < boot_ns()
        # Redis was away, or we were: the claim would rescue our own jobs, which nobody else may have taken yet.
        if late and await self._exchange.renew(self.held()):
            self.on_leases_changed()
        shares = [] if self._exchange.asks_again() else self._shares()
        for queue, _ in shares:
            # Not when the reply has come: a wake-up may overtake it, on another connection, and opens the queue again.
            self.queues.mark_dry(queue)
        self._exchange.once, self._exchange.limits = self._once, self._limits(shares)
        found = await self._exchange.run(shares)
        for claimed in found:
            self._claimed(claimed)
        if shares or found:
            # Others may be open still that had no share: there was less room than queues, or strict order asked the
            # first alone, whatever it answered. Those that were asked are dry, so this comes to an end.
            self._wake.set()
        if self._exchange.refused and self._ask_again is None:
            self._ask_again = asyncio.get_running_loop().call_later(REFUSED, self._after_refusal)
        self._hand_out()
        self._open_full()
        for attempt, outcome in self._exchange.take_ended():
            self._say_end(attempt, outcome)
        await self._exchange.tell(self.config, found)

    def _shares(self) -> list[tuple[str, int]]:
        """
        Queue and how many jobs to ask of it; none of those that were not asked for long.

        A claim rescues expired leases, ends what was canceled and takes in the inbox even if it brings no job. Nobody
        would do so where each group is full, or never comes to the last queue of a strict order.
        """
        shares = self.queues.shares(self._want())
        if self._unasked and self.phase == Phase.SERVING:
            asked = {queue for queue, _ in shares}
            shares += [(queue, 0) for queue in self._unasked if queue not in asked]
            self._unasked = []
        return shares

    def _free(self) -> int:
        """Children that could begin a job that is yet to be claimed."""
        return max(0, self.pool.free() - len(self._permits) - len(self._pending))

    def _open_full(self) -> None:
        """Ask again for jobs that may begin once only, since a child is free."""
        if self._full and self._free():
            for queue in self._full:
                self.queues.mark_open(queue)
            self._full.clear()
            self._wake.set()

    def _limits(self, shares: list[tuple[str, int]]) -> dict[str, int]:
        """Queue → how many jobs that may begin once only its claim may bring: all as many as children are free."""
        if not self._once:
            return {}
        free, limits = self._free(), {}
        for queue, want in self._rand.sample(shares, len(shares)):
            limits[queue] = min(want, free)
            free -= limits[queue]
        return limits

    def _after_refusal(self) -> None:
        self._ask_again = None
        self._exchange.ask_lost()
        self.claim_from()

    def _want(self) -> int:
        if self.phase != Phase.SERVING:
            return 0
        return min(_CLAIM, self.pool.room() - len(self._pending) - len(self._permits))

    def _claimed(self, claimed: Claimed) -> None:
        queue, want, nonce, claim = claimed
        if claim.few:
            self._full.add(queue)
        if claim.few or (len(claim.jobs) < want and not claim.more):
            self._note_due(queue, claim.next_due_ms)
        else:
            self.queues.mark_open(queue)
        boot, now = self._exchange.sent_boot, time.monotonic_ns()
        lease = trusted_until(boot)
        attempts = [
            Attempt(queue, id_, nonce, task, args, header, number, crashes, rescues, lease, now, 0, waited)
            for id_, task, args, number, crashes, rescues, header, waited in claim.jobs
        ]
        for n, ms in claim.expiring.items():
            attempts[n].expires = boot + ms * 1_000_000
        # Whether a job may run here depends on its task alone: a claim of hundreds of jobs asks once for each task.
        plain: set[bytes] = set()
        for attempt in attempts:
            self._take(attempt, plain)

    def _take(self, attempt: Attempt, plain: set[bytes]) -> None:
        """Have a claimed job wait for a child or a permit, or give it back; `plain`: tasks that only need a child."""
        if attempt.task in plain:
            line = self._pending
        elif self.phase >= Phase.DRAINING:
            self._settle(attempt, verdicts.released(attempt, "not begun"))
            return
        elif refused := self._refused(attempt):
            self._settle(attempt, refused)
            return
        else:
            line = self._line(attempt)
            if not attempt.once:
                plain.add(attempt.task)
        line.append(attempt)

    def _line(self, attempt: Attempt) -> deque[Attempt]:
        """Where it waits: for a child, or for a permit before that."""
        attempt.once = attempt.permitted or attempt.task in self._once
        return self._permits.waiting if attempt.once and not attempt.permitted else self._pending

    def _refused(self, attempt: Attempt) -> Outcome | None:
        """How a job goes back that cannot run here: its task is not in the file, or does not load."""
        task = attempt.task.decode(errors="replace")
        if task not in self.config.tasks:
            return verdicts.unknown(attempt, UNKNOWN_DELAY)
        problem = self.pool.problems.get(task)
        return verdicts.unloaded(attempt, UNLOADED_DELAY, verdicts.failure(*problem)) if problem else None

    def _note_due(self, queue: str, due_ms: int | None) -> None:
        """Claim again when the queue's next job comes due."""
        timer = self._due.pop(queue, None)
        if timer:
            timer.cancel()
        if due_ms is not None and due_ms < POLL * 1000:
            self._due[queue] = asyncio.get_running_loop().call_later(due_ms / 1000 + 0.001, self.claim_from, queue)

    def _hand_out(self) -> None:
        """Hand out what is pending, and give back what no child has taken in time: another host may have one."""
        self.pool.hand_out(self._pending, len(self._permits))
        if not (self._pending or self._permits.waiting):
            return
        now = time.monotonic()
        oldest = int((now - PENDING) * 1e9)
        for line in (self._pending, self._permits.waiting):
            for attempt in [attempt for attempt in line if attempt.claimed <= oldest]:
                line.remove(attempt)
                self._settle(attempt, verdicts.released(attempt, "no child was free"))
                self.pool.claim_less(now)
        if self._stale is None and (left := [*self._pending, *self._permits.waiting]):
            first = min(attempt.claimed for attempt in left)
            self._stale = asyncio.get_running_loop().call_later((first - oldest) / 1e9 + 0.001, self._look_again)

    def _look_again(self) -> None:
        """At what waits here for a child."""
        self._stale = None
        self._wake.set()

    # -- what the pool reports ----------------------------------------------------------------------------------------

    def _on_report(self, report: PoolReport) -> None:
        match report:
            case Room():
                self.on_room()
            case NotBegun(attempts):
                self.on_back(attempts)
            case Killed(attempt, reason, status):
                self.on_killed(attempt, reason, status)
            case Unheard(attempt):
                self.on_unheard(attempt)
            case TasksLoaded(problems):
                self.on_ready(problems)
            case StartFailed(why):
                self.on_start_failed(why)
            case Late():
                self.renew_soon()

    def on_room(self) -> None:
        """A child may take more: at once what is here, which must not wait until Redis has answered."""
        if self._pending:
            self._hand_out()
        self._open_full()
        self._wake.set()

    def on_ready(self, problems: Problems) -> None:
        """The tasks are loaded, but for these."""
        if not self.ready.done():
            self.ready.set_result(problems)
        # Those that wait here were claimed for a fork server that has died, and may not load in this one.
        self.on_back(self._take_pending())
        self.tell_problems()

    def on_unloaded(self, attempt: Attempt, payload: bytes) -> None:
        """A child could not load what its fork server was not told to load."""
        payload = verdicts.error_of(payload)
        error = json.loads(payload)
        self.pool.note_problem(attempt.task.decode(errors="replace"), error["code"], error["message"])
        self._settle(attempt, verdicts.unloaded(attempt, UNLOADED_DELAY, payload))
        self.tell_problems()

    def on_start_failed(self, reason: str) -> None:
        """The fork server did not come up."""
        if not self.ready.done():
            self.ready.set_exception(FusionError(reason))

    def on_outcome(self, attempt: Attempt, outcome: OutcomeMessage) -> None:
        """It ran to its end, or its function could not be loaded."""
        if attempt.lost:
            return
        if outcome.kind == UNLOADED:
            self.on_unloaded(attempt, outcome.payload)
            return
        task, policy = self._policy(attempt)
        settled = verdicts.ran(attempt, outcome, task, policy, self._rand)
        if settled.kind == "finished":
            self.job_log.finished(attempt, outcome.duration)
            self._settle(attempt, settled)
        else:
            attempt.ran = outcome.duration
            self._end(attempt, settled)

    def on_back(self, attempts: list[Attempt]) -> None:
        """They were never begun."""
        boot = boot_ns()
        for attempt in reversed(attempts):
            if attempt.lost:
                continue
            if attempt.canceled:
                self._end(attempt, verdicts.canceled(attempt, self._policy(attempt)[0]))
            elif attempt.expires <= boot:
                self._end(attempt, verdicts.expired(attempt, self._policy(attempt)[0]))
            elif self.phase >= Phase.DRAINING or attempt.lease <= boot:
                self._settle(attempt, verdicts.released(attempt, "not begun"))
            elif refused := self._refused(attempt):
                self._settle(attempt, refused)
            else:
                self._line(attempt).appendleft(attempt)
        self._wake.set()

    def on_killed(self, attempt: Attempt, reason: KillReason | None, status: int) -> None:
        """Its child died in the middle of it."""
        task, policy = self._policy(attempt)
        settled = verdicts.killed(attempt, reason, status, task, policy, rand=self._rand)
        if settled is not None:
            if settled.kind == "released":
                shutdown = reason == KillReason.SHUTDOWN
                by = "the shutdown" if shutdown else "the kill of its fork server, which did not answer"
                log.warning("interrupted by %s, it runs again", by, extra=self.job_log.fields(attempt))
                self._settle(attempt, settled)
            else:
                self._end(attempt, settled)
        else:
            log.warning("its lease was lost, its child was killed", extra=self.job_log.fields(attempt))

    def on_unheard(self, attempt: Attempt) -> None:
        """It ran, and its outcome died with its child."""
        why = "its child died with another job"
        settled = verdicts.interrupted(attempt, *self._policy(attempt), why, f"{why} before its outcome was known")
        if settled.kind == "failed":
            self._end(attempt, settled)
            return
        log.warning(
            "interrupted by the death of its child with another job, it runs again",
            extra=self.job_log.fields(attempt),
        )
        self._settle(attempt, settled)

    def _end(self, attempt: Attempt, outcome: Outcome) -> None:
        """Settle what has failed or was canceled, and say so in the log."""
        self._say_end(attempt, outcome)
        self._settle(attempt, outcome)

    def _say_end(self, attempt: Attempt, outcome: Outcome) -> None:
        if outcome.kind == "canceled":
            self.job_log.canceled(attempt)
        else:
            self.job_log.failed(attempt, outcome)

    def _settle(self, attempt: Attempt, outcome: Outcome) -> None:
        self._exchange.add_outcome(attempt.queue, outcome, attempt)
        self._wake.set()

    def _policy(self, attempt: Attempt) -> tuple[Task, RetryPolicy]:
        """As of now: a reload applies to jobs that run. Only what was begun at most once stays so."""
        task = self.config.tasks.get(attempt.task.decode(errors="replace")) or self._gone(attempt)
        return task, RETRY_POLICIES["none"] if attempt.once else self.config.retry_policies[task.retry]

    def _gone(self, attempt: Attempt) -> Task:
        """A task that a reload took out of the file while its job ran: the built-in policies hold."""
        from fusiond.config.model import Task

        return Task(attempt.task.decode(errors="replace"), "")


def _queues(config: Config, group: WorkerGroup) -> Queues:
    """The group's queues; `*` stands for each that the file has."""
    names = dict.fromkeys(name for entry in group.queues for name in (config.queues if entry == "*" else (entry,)))
    return Queues(names, group.order, group.weights)


def _once(config: Config) -> frozenset[bytes]:
    """The tasks whose jobs may begin once only."""
    tasks = config.tasks.items()
    return frozenset(name.encode() for name, task in tasks if config.retry_policies[task.retry].at_most_once)
