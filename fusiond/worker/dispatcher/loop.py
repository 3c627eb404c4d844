"""
Have the jobs of one group run.

1. claim   as many jobs as there is room for (claim_planner.py says of which queues, lanes.py when, lane.py asks)
2. slots   take those of pools that a job needs (pool_slots.py), beside the other steps
3. permit  have Redis store that a job may begin, if it may begin once only (waiting.py)
4. hand    them to the children (pool/pool.py)
5. renew   the leases of jobs still held (leases.py)
6. settle  what has ended (attempt_settler.py), many in the round trip of the next claim
7. wait    for outcomes, a wake-up, the next due job, or the poll

It serves until it is told to drain, which has no deadline, or to stop cold.

Knows Redis and sockets. Never loads task code.
"""

from __future__ import annotations

import asyncio
import enum
import logging
import time
from collections.abc import Callable, Iterable, Iterator

from fusiond.broker.jobs import given_job
from fusiond.broker.redis.connection import AsyncConnection
from fusiond.broker.redis.outage import Outage, retrying
from fusiond.broker.verbs import Verbs
from fusiond.config.model import Config, WorkerGroup
from fusiond.errors import BrokerUnavailable, FusionError
from fusiond.job import mark_of
from fusiond.worker.dispatcher.claims.claim_planner import ClaimPlanner
from fusiond.worker.dispatcher.claims.lane import Lane
from fusiond.worker.dispatcher.claims.lanes import Lanes
from fusiond.worker.dispatcher.claims.leases import FIRST_LEASE, FIRST_RENEWAL, FIRST_TRUST, LATEST_BEGIN, Leases
from fusiond.worker.dispatcher.claims.pool_slots import PoolSlots
from fusiond.worker.dispatcher.claims.reservations import Reservations
from fusiond.worker.dispatcher.ends.attempt_settler import AttemptSettler
from fusiond.worker.dispatcher.ends.effect_courier import EffectCourier
from fusiond.worker.dispatcher.ends.job_log import JobLog
from fusiond.worker.dispatcher.ends.outcomes import Outcomes
from fusiond.worker.dispatcher.timers import Timers
from fusiond.worker.dispatcher.waiting import Waiting
from fusiond.worker.pool import pool_reports as reports
from fusiond.worker.pool.attempt import Attempt
from fusiond.worker.pool.group_config import GroupConfig
from fusiond.worker.pool.pool import Pool
from fusiond.worker.pool.pool_reports import Problems
from fusiond.worker.runtime.wire import boot_ns

log = logging.getLogger(__name__)

#: s; until Redis is asked again for what it has refused
REFUSED = 1.0
#: s; from when a wake-up has brought a job until the next token is left, unless the job has ended by then. On a busy
#: machine its child cannot begin while this process has something to do
_RESERVE_AGAIN = 0.001
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
        conf: GroupConfig,
        broker: Verbs,
        connect: Callable[[], AsyncConnection],
        *,
        courier: EffectCourier,
        outage: Outage,
        on_problems: Callable[[], None],
    ) -> None:
        """
        A dispatcher that claims nothing yet.

        `name`: `host.pid`; `connect`: makes a connection, of which each part that speaks to Redis has its own;
        `courier`: delivers effects; `on_problems`: called when other tasks load than did before.
        """
        self.conf, self.phase = conf, Phase.HELD
        #: an operator drains this host: it claims nothing, until that is undone
        self.paused = False
        self._courier, self._outage, self._on_problems = courier, outage, on_problems
        self._wake, self._wake_second, self._ending = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._is_second_busy = False
        #: monotonic s; from then on nothing waits for the last outcomes
        self._give_up: float | None = None
        #: the tasks that do not load, once the others are loaded
        self.ready: asyncio.Future[Problems] = asyncio.get_running_loop().create_future()
        # How jobs end, who runs them, how they come: each part is given those above it.
        self.job_log = JobLog(conf)
        outcomes = Outcomes(conf, self.job_log.ended, courier.note)
        #: attempts that were settled, by kind
        self.counts = outcomes.counts
        self._settler = AttemptSettler(conf, outcomes, self.job_log, self._on_not_loaded)
        self.pool = Pool(conf, self._on_report, self._settler.on_outcome, self.job_log.fields)
        self._waiting = Waiting(self.pool, self._settler, conf, self._wake.set)
        self._timers, self._reservations = Timers(self._wake.set), Reservations(mark_of(name))
        self.planner = ClaimPlanner(conf, self.pool, self._waiting, self._timers, self._reservations)
        self.pool_slots = PoolSlots(
            name, conf, broker, connect(), outage,
            pool=self.pool, waiting=self._waiting, planner=self.planner,
            claims=lambda: self.claims, on_change=self._on_slots,
        )  # fmt: skip
        self._held_tasks, lanes = self.pool_slots.held_tasks, (connect(), connect())
        self._lanes = Lanes(name, broker, lanes, outcomes, held_tasks=self._held_tasks, reservations=self._reservations)
        self.leases = Leases(broker, connect(), outage, self.held, self.on_leases_changed)

    # -- from outside -------------------------------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """Whether a job that it claimed is not settled yet, or one may still come that it has asked for."""
        return next(self.held(), None) is not None or self._reservations.is_taking_back or not self._lanes.is_done

    @property
    def claims(self) -> bool:
        """Whether it claims jobs, or would if there were any."""
        return self.phase == Phase.SERVING and not self.paused

    def held(self) -> Iterator[Attempt]:
        """All attempts whose leases must be kept."""
        yield from self._waiting
        yield from self.pool.attempts()
        # Redis may be slow to take an outcome, and must not have the job run again meanwhile.
        yield from self._lanes.unsettled()

    def go(self) -> None:
        """Begin to claim."""
        if self.phase == Phase.HELD:
            self.phase = Phase.SERVING
            self.pool.begin()
            self._wake.set()

    def set_claims(self, *, on: bool) -> None:
        """Claim, or claim nothing from now on; what it has claimed runs."""
        self.paused = not on
        if on:
            self.planner.queues.mark_open()
        else:
            self._reservations.take_back(self.planner.queues.names)
        self._wake.set()

    def leave(self, slots: int) -> None:
        """Leave so many slots to jobs of the group's former generation. If they are fewer now, claim at once."""
        self.pool.capacity.leave(slots)
        self._wake.set()

    def scale(self, processes: int) -> None:
        """Have so many children."""
        self.pool.capacity.scale(processes)
        self._wake.set()

    def on_listening(self) -> None:
        """Wake-ups are heard from now on. Look for what was enqueued, given or canceled before: nobody heard of it."""
        self._reservations.ask_all()
        self.planner.claim_from()
        self.leases.renew_soon()

    def hear(self, queue: str, message: bytes) -> None:
        """
        Do what a message about a queue says, which Redis sends to all dispatchers of that queue.

        - there may be jobs          it asks the queue
        - there are effects          it delivers them
        - a job, with our token      it is claimed for this dispatcher: a child begins it at once, or it is given back
        - a job, with another token  it is another dispatcher's, which may be gone: the queue is asked when that shows
        """
        if message == b"effects":
            self._courier.note(queue)
            return
        job = given_job(message)
        if job is None:
            self.planner.claim_from(queue)
        elif attempt := self._reservations.take(queue, job):
            self._begin_given(attempt)
        else:
            self.planner.claim_when_due(queue, int(FIRST_LEASE * 1000))

    def set_config(self, config: Config, group: WorkerGroup) -> None:
        """Follow a change in place."""
        former_queues, former_once = self.planner.queues.names, self.conf.once
        self.conf.replace(config, group)
        self.pool_slots.follow()
        self.planner.follow()
        self._reservations.take_back(set(former_queues) - set(self.planner.queues.names))
        self.pool.follow()
        self._waiting.follow(former_once)
        self._on_tasks_changed()

    def drain(self) -> None:
        """Claim no more, give back what was not begun, end when the last job ends."""
        if self.phase < Phase.DRAINING:
            self.phase = Phase.DRAINING
            self._ending.set()
            self._reservations.take_back(self.planner.queues.names)
            self._waiting.drain()

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
        self.pool.watchdog.look()

    # -- the loop -----------------------------------------------------------------------------------------------------

    async def serve(self) -> None:
        """Until it has drained, or gives up."""
        self.planner.poll()
        while not self._is_over():
            await self._wake.wait()
            self._wake.clear()
            self._hand()
            await self._try(self._lanes.first)
        if not self._is_drained() and next(self._lanes.unsettled(), None):
            log.error("outcomes could not be settled; their leases will expire and they will run again")

    async def serve_second(self) -> None:
        """The second lane, until cancelled."""
        while True:
            await self._wake_second.wait()
            self._wake_second.clear()
            self._is_second_busy = True
            await self._try(self._lanes.second)
            self._is_second_busy = False
            if self._lanes.second.failures:
                self._wake_second.set()
            # The first lane may have waited for it.
            self._wake.set()

    async def _try(self, lane: Lane) -> None:
        """A round trip of the lane, if it is worth one; where there is no answer, a pause behind it."""
        try:
            if lane is self._lanes.first:
                await self._get_permits()
                jobs_wait, limited = bool(self._waiting.for_child), self.planner.limited
                if (delay := self._lanes.delay_before_next(jobs_wait=jobs_wait, limited=limited)) > 0:
                    # A timer that began while the second lane was under way may run for too long.
                    self._timers.advance("rest", delay)
                    return
            await self._round_trip(lane)
        except BrokerUnavailable as error:
            await self._on_no_answer(lane, error)
        else:
            if lane.failures:
                lane.failures = 0
                if not self._lanes.failures:
                    log.info("Redis is back")
                # A repeated claim does not look at the queue, and wake-ups of other queues may have been lost, too.
                self.planner.claim_from()

    async def _on_no_answer(self, lane: Lane, error: BrokerUnavailable) -> None:
        lane.failures += 1
        if self._lanes.failures == 1:
            log.error("%s", retrying(error))
        if not self._is_over():
            await self._outage.wait(lane.failures, self._ending)
            if self._ending.is_set():
                await asyncio.sleep(_AT_THE_END)
        self._wake.set()

    def _is_over(self) -> bool:
        return self.phase >= Phase.DRAINING and (self._is_drained() or self._gives_up())

    def _is_drained(self) -> bool:
        # What the last claims of the second lane rescued must be in the log before it is cancelled.
        # A token that stayed in Redis would have the next job begin for a process that is gone.
        busy = self.pool.capacity.running or self._waiting or self._is_second_busy or self._reservations.is_taking_back
        return not busy and self._lanes.is_done

    def _gives_up(self) -> bool:
        """
        Whether it ends without an answer of Redis, which is away or refuses.

        For outcomes it waits as long as jobs may take to end, since what has run would run again. A claim whose reply
        was lost costs its jobs no more than the time of a lease.
        """
        if not (self._lanes.failures or self._lanes.refused):
            return False
        waits = self.phase < Phase.COLD and next(self._lanes.unsettled(), None)
        if self.pool.capacity.running or waits:
            return False
        now = time.monotonic()
        self._give_up = self._give_up or now + _LAST_SETTLE
        return now > self._give_up

    async def _get_permits(self) -> None:
        """Have Redis store that jobs may begin, as many as children are free. Raises BrokerUnavailable."""
        asked = [] if "permit" in self._timers else self._waiting.ask_permits()
        if not asked:
            return
        try:
            await self._lanes.first.permit(asked)
        finally:
            self._waiting.note_permits()
        if self._waiting.for_permit and self._lanes.first.refused:
            self._timers.start("permit", REFUSED)
        self._hand()

    async def _round_trip(self, lane: Lane) -> None:
        """Settle what has ended and claim what there is room for. Raises BrokerUnavailable."""
        self.pool.children.reader.poll()
        if self._lanes.is_late and await lane.renew_expired(self.held()):
            self.on_leases_changed()
        # A lane that repeats its last request asks nothing new, and must leave what is open to the other one.
        asks = self.claims and lane.is_done
        shares = self.planner.shares(self._lanes.beside(lane), self.pool_slots.most()) if asks else []
        found, given = await lane.settle_and_claim(shares, self.conf.few)
        self.planner.note(found)
        # Fewer jobs may be claimed now of tasks that need slots.
        self._held_tasks.look_again()
        for attempt in given:
            self._begin_given(attempt)
        if shares or found:
            # Others may be open still that had no share: there was less room than queues, or strict order asked the
            # first alone, whatever it answered. Those that were asked are dry, so this comes to an end.
            self._wake.set()
        if lane.refused:
            self._timers.start("refused", REFUSED, self._ask_lost)
        self._hand()
        self.planner.claim_full()
        # The jobs of other queues may have left no child for what tokens would bring.
        self._reservations.take_back_excess(min(self._waiting.free(), self.pool_slots.most()))
        if self._reservations.is_taking_back:
            self._wake.set()
        await lane.log_reclaimed(self.conf.config, found)

    def _begin_given(self, attempt: Attempt) -> None:
        """Have a child begin a job that was given to us; give it back if it came late, or no child is free."""
        self._waiting.begin(attempt, in_time=attempt.lease - boot_ns() >= (FIRST_TRUST - LATEST_BEGIN) * 1e9)
        self._timers.start("first lease", FIRST_RENEWAL, self.leases.renew_first)
        # The round trip that settles it leaves the next token, too.
        self.planner.queues.mark_open(attempt.queue)
        self._timers.start("reserve", _RESERVE_AGAIN)

    def _ask_lost(self) -> None:
        self._lanes.ask_lost()
        self.planner.claim_from()
        if self._lanes.second.has_lost:
            self._wake_second.set()

    # -- what the pool reports ----------------------------------------------------------------------------------------

    def _on_report(self, report: reports.PoolReport) -> None:
        match report:
            case reports.Room():
                # At once what is here, which must not wait until Redis has answered.
                self._hand()
                self.planner.claim_full()
                if self._lanes.is_second_due(self.planner.queues.deep):
                    self._wake_second.set()
                if self._rests:
                    return
            case reports.NotBegun(attempts):
                self._waiting.put_back(attempts)
            case reports.Killed(attempt, reason, status):
                self._settler.on_cut_off(attempt, reason, status, "its child was killed")
            case reports.Unheard(attempt):
                self._settler.on_unheard(attempt)
            case reports.TasksLoaded(problems):
                self._on_loaded(problems)
            case reports.StartFailed(why) if not self.ready.done():
                self.ready.set_exception(FusionError(why))
            case reports.Late():
                self.leases.renew_soon()
        # Outcomes are not reports: after those that a child has sent there is room, which is one.
        self._wake.set()

    @property
    def _rests(self) -> bool:
        """Whether the first lane makes no round trip before its timer ends, whichever child is free."""
        return "rest" in self._timers and self._has_next and not self._lanes.second.is_under_way

    @property
    def _has_next(self) -> bool:
        """Whether a job waits here for the next child that is free, and needs nothing else."""
        jobs = self._waiting
        return bool(jobs.for_child) and not jobs.for_permit and self.phase == Phase.SERVING

    def _hand(self) -> None:
        """Hand out what is here. While more is, an outcome need not be heard before the next round trip settles it."""
        self._waiting.hand()
        self.pool_slots.look_soon()
        self.pool.children.reader.read_at_once(on=not self._has_next or bool(self._lanes.failures))

    def _on_loaded(self, problems: Problems) -> None:
        if not self.ready.done():
            self.ready.set_result(problems)
        # Those that wait here were claimed for a fork server that has died, and may not load in this one.
        self._waiting.look_again()
        self._on_tasks_changed()
        self._on_problems()

    def _on_not_loaded(self, task: str, code: str, message: str) -> None:
        """A child could not load what its fork server was not told to load."""
        self.pool.servers.note_problem(task, code, message)
        self._on_tasks_changed()
        self._on_problems()

    def _on_slots(self, queues: Iterable[str]) -> None:
        """Attempts have got their slots, or did not; other numbers of jobs can be claimed now."""
        self._held_tasks.look_again()
        for queue in queues:
            self.planner.claim_from(queue)
        self._hand()
        self._wake.set()

    def _on_tasks_changed(self) -> None:
        """Claim by the tasks that can run here now: jobs of others may be held for them."""
        self._held_tasks.look_again()
        self.planner.claim_from()
