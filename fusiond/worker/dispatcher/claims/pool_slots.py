"""
The slots of pools that the attempts of one dispatcher hold.

1. take    slots for claimed jobs whose task needs some, before they are handed out: all that one needs, or none
2. refuse  jobs for which a pool has too little: their task holds them; those that `max_running` refuses go back to the
           queue
3. renew   each RENEW seconds the slots of what is still here, so that they are held for longer than its lease
4. free    the slots of what is not here any more
5. look    while jobs are held that could begin, whether there is room, and claim so many then

One request has all of this. It goes beside the round trips of the lanes, on a connection that is opened when it is
first needed. If this process dies, its slots are free when they are not renewed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterable

from fusiond.broker.call import decoded
from fusiond.broker.pool_verbs import ALL_JOBS, PoolAction, pools_of
from fusiond.broker.records import Counts
from fusiond.broker.redis.connection import AsyncConnection
from fusiond.broker.redis.outage import Outage
from fusiond.broker.verbs import Verbs
from fusiond.errors import BrokerError
from fusiond.worker.dispatcher.claims.claim_planner import ClaimPlanner
from fusiond.worker.dispatcher.claims.held_tasks import UNLIMITED, HeldTasks
from fusiond.worker.dispatcher.claims.leases import LEASE, MARGIN, RENEW, SHORT_PAUSE
from fusiond.worker.dispatcher.ends.outcomes import Refusals
from fusiond.worker.dispatcher.waiting import Waiting
from fusiond.worker.pool.attempt import Attempt
from fusiond.worker.pool.group_config import GroupConfig
from fusiond.worker.pool.pool import Pool
from fusiond.worker.runtime.wire import boot_ns

log = logging.getLogger(__name__)

#: s; until slots that are not renewed are free: longer than a lease, which is renewed on another connection
KEPT = LEASE + 5.0
#: s; between two looks, while jobs wait for room
LOOK = 1.0
#: s; at the end of the program, to free what is held; the longest pause if nothing is held
_LAST, _IDLE = 1.0, 3600.0


class PoolSlots:
    """What one dispatcher holds of pools, and knows of them."""

    def __init__(
        self,
        name: str,
        conf: GroupConfig,
        broker: Verbs,
        connection: AsyncConnection,
        outage: Outage,
        *,
        pool: Pool,
        waiting: Waiting,
        planner: ClaimPlanner,
        claims: Callable[[], bool],
        on_change: Callable[[Iterable[str]], None],
    ) -> None:
        """
        Nothing is held yet.

        Args:
            name: of the dispatcher, under which it waits for `max_running`.
            conf: of the group.
            broker: gives the verb.
            connection: for nothing else.
            outage: how long to wait while Redis is away.
            pool: whose children run jobs.
            waiting: has the jobs that need slots, and gives back those that get none.
            planner: knows which queues may have jobs.
            claims: whether the dispatcher claims jobs just now.
            on_change: called when there is more or less room than before, with the queues to ask.
        """
        self._name, self._conf, self._broker, self._connection, self._outage = name, conf, broker, connection, outage
        self._pool, self._waiting, self._planner = pool, waiting, planner
        self._claims, self._on_change = claims, on_change
        #: which held jobs can begin here
        self.held_tasks = HeldTasks(self.most_to_begin)
        self._wake, self._refusals = asyncio.Event(), Refusals()
        #: attempts that hold slots, or for which some may have been taken → their needs
        self._taken: dict[Attempt, str] = {}
        #: task → how many of its jobs could begin, as Redis has said last; ALL_JOBS: of any task
        self._room: dict[str, int] = {}
        #: the tasks that can run here of which jobs are held that may begin
        self._held: set[str] = set()
        #: monotonic s; when slots are renewed next, and when to look for room at the latest
        self._renew_at = self._look_at = 0.0
        self.follow()

    def follow(self) -> None:
        """The file may have other pools now."""
        former = getattr(self, "_pools", {})
        self._pools, self._room = pools_of(self._conf.config), {}
        for name in former.keys() - self._pools.keys():
            log.info("pool '%s' is not in the file any more: jobs that wait for it go on", name)
        self._wake.set()

    def look_soon(self) -> None:
        """Attempts may have come, or may have left."""
        if self._taken or self._waiting.for_slots:
            self._wake.set()

    def most_to_begin(self, task: str) -> int:
        """How many jobs of the task can begin here; UNLIMITED: nothing is known that refuses them."""
        if not self._pool.loads(task):
            return 0
        if task not in self._room:
            return UNLIMITED
        asked = sum(attempt.task == task.encode() for attempt in self._waiting.for_slots)
        return max(0, self._room[task] - asked)

    def most(self) -> int:
        """How many jobs may be claimed in all."""
        return max(0, self._room.get(ALL_JOBS, UNLIMITED) - len(self._waiting.for_slots))

    async def keep(self) -> None:
        """Until cancelled."""
        await self._outage.repeat(self._run_once, self._wake, self._pause, self._on_failure, longest=SHORT_PAUSE)

    def _on_failure(self, error: BrokerError) -> None:
        self._renew_at = 0.0
        self._refusals.log(f"pools cannot be asked; jobs that need them wait: {error}")
        # as if they were full: nothing waits here meanwhile
        self._note(dict.fromkeys(self._waiting.for_slots, ALL_JOBS if ALL_JOBS in self._pools else "all"), 0)

    async def end(self) -> None:
        """Free what is held, if Redis answers soon."""
        with contextlib.suppress(BrokerError, TimeoutError):
            async with asyncio.timeout(_LAST):
                await self._run_once()

    def _pause(self) -> float:
        due = [self._look_at] if 0 in self._room.values() else []
        due += [self._renew_at] if self._taken else []
        return max(0.0, min(due) - time.monotonic()) if due else _IDLE

    def _look_pause(self) -> float:
        rates = [pool.rate_limit.every_ms / 2000 for pool in self._pools.values() if pool.rate_limit]
        return max(0.025, min([LOOK, *rates]))  # if the rate is high, a look finds room for several jobs

    async def _run_once(self) -> None:
        """One request, if there is anything to ask. Raises BrokerError."""
        here, now, boot = {*self._waiting, *self._pool.attempts()}, time.monotonic(), boot_ns()
        gone = [attempt for attempt in self._taken if attempt not in here]
        renewed = [each for each in self._taken if each in here and each.slots_until > boot and now >= self._renew_at]
        asked, is_look_due = [*self._waiting.for_slots], now >= self._look_at
        if is_look_due and self._pools:
            await self._find_held()
        tasks = self._tasks_to_look_for() if gone or asked or is_look_due else []
        self._renew_at = now + RENEW if now >= self._renew_at else self._renew_at
        self._look_at = now + self._look_pause() if is_look_due else self._look_at
        if not (gone or renewed or asked or tasks):
            return
        self._taken |= {attempt: self._needs(attempt.task.decode(errors="replace")) for attempt in asked}
        actions = [
            PoolAction(what, f"{attempt.token} ".encode() + attempt.id, self._taken[attempt])
            for what, some in (("free", gone), ("renew", renewed), ("take", asked))
            for attempt in some
        ]
        # Only right behind the question: a task that has no job any more must not wait.
        begins = is_look_due and self._claims() and self._waiting.free() > 0
        waits = {task: begins and (task != ALL_JOBS or bool(self._planner.queues.may_have_jobs)) for task in tasks}
        actions += [PoolAction("wait" if waits[task] else "count", b"", self._needs(task)) for task in tasks]
        pools = self._pools
        replies = await self._connection.run(self._broker.pools(pools, round(KEPT * 1000), actions))
        until = boot + int((KEPT - MARGIN) * 1e9)
        first = len(gone) + len(renewed)
        full = {attempt: decoded(pool) for attempt, pool in zip(asked, replies[first:], strict=False)}
        for attempt in [*gone, *(each for each in asked if full[each])]:
            del self._taken[attempt]
        for attempt in renewed:
            attempt.slots_until = until
        self._note(full, until)
        self._note_room(dict(zip(tasks, replies[first + len(asked) :], strict=True)))
        if self._pools is not pools:
            # A reload came meanwhile: what a former file has refused may begin now.
            self._room = {}

    def _needs(self, task: str) -> str:
        """What each job of the task needs, and under which name it waits, as Redis is asked; ALL_JOBS: of any task."""
        found = self._conf.config.tasks.get(task)
        needs = [f"{pool}={slots}={task}" for pool, slots in (found.pools.items() if found else ())]
        return " ".join([*needs, f"{ALL_JOBS}=1={self._name}"] if ALL_JOBS in self._pools else needs)

    def _tasks_to_look_for(self) -> list[str]:
        return sorted(self._held) + ([ALL_JOBS] if ALL_JOBS in self._pools and ALL_JOBS in self._room else [])

    async def _find_held(self) -> None:
        """
        Ask of which tasks jobs are held that may begin here. Raises BrokerUnavailable.

        A task keeps others from its pools while it waits. So one that is suspended, or has no job any more, must not.
        """
        tasks = self._conf.config.tasks
        here = {
            task for task in self.held_tasks.listed() if task in tasks and tasks[task].pools and self._pool.loads(task)
        }
        queues = sorted({queue for task in here for queue in self.held_tasks.queues_of(task)})
        found = await self._connection.run_many([self._broker.counts(queue) for queue in queues])
        open_ = [each for each in found if isinstance(each, Counts) and not each.is_suspended]
        self._held = {held.task for each in open_ for held in each.held_tasks if held.jobs and not held.what} & here
        self._room = {task: room for task, room in self._room.items() if task in self._held or task == ALL_JOBS}

    def _note(self, full: dict[Attempt, str], until: int) -> None:
        """What became of attempts: the pool that has too little for each, or empty."""
        for attempt, pool in full.items():
            if pool:
                name = ALL_JOBS if pool == ALL_JOBS else attempt.task.decode(errors="replace")
                self._room[name] = 0
                if name != ALL_JOBS:
                    self._held.add(name)
            self._waiting.note_slots(attempt, 0 if pool else until, held=pool != ALL_JOBS)
        if full:
            self._on_change({attempt.queue for attempt, pool in full.items() if pool})

    def _note_room(self, room: dict[str, int]) -> None:
        """How many jobs could begin, by task: where more than before, ask the queues that hold some."""
        changed = {task for task, number in room.items() if number != self._room.get(task)}
        more = [task for task in changed if room[task] > self._room.get(task, UNLIMITED)]
        self._room |= room
        if room.get(ALL_JOBS, 0) > 2 * self._conf.group.slots:
            # It bounds nothing here, so it is not looked at until it refuses a job.
            del self._room[ALL_JOBS]
        if changed:
            self._on_change({queue for task in more for queue in self.held_tasks.queues_of(task)})
