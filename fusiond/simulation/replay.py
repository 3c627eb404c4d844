"""
Simulate a file under a load.

1. prepare  the queues and limits of the file in a Redis of the simulation
2. replay   arrivals, ends of attempts and ticks, in the order of their moments: each is told to Redis, and each group
            that has a free slot claims
3. drain    after the load has ended, let what waits run, for as long as the load lasted at most: each job's wait counts

Time does not pass between two moments, so a simulated day takes as long as its jobs need in Redis.
"""

from __future__ import annotations

import heapq
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from random import Random
from typing import Any, NamedTuple

from fusiond.argument_values import unique_key
from fusiond.broker.records import Claim, ClaimedJob, Counts, Existing, NewJob, Renewal, Stored
from fusiond.broker.verbs import Verbs
from fusiond.config.model import Config, Task
from fusiond.schedule.publishing import queue_settings
from fusiond.simulation.figures import SimulatedFigures
from fusiond.simulation.loads import Arrival, AttemptCourse, Load
from fusiond.simulation.simulated_groups import SimulatedGroup
from fusiond.simulation.simulated_ticks import SimulatedTicks
from fusiond.simulation.virtual_redis import VirtualRedis
from fusiond.worker.dispatcher.claims.claim_planner import POLL
from fusiond.worker.dispatcher.claims.lane import MAX_RESCUES
from fusiond.worker.dispatcher.claims.leases import LEASE_MS
from fusiond.worker.dispatcher.claims.queue_order import Share
from fusiond.worker.dispatcher.scaler import LOOK

#: ms; a lease that a dispatcher renews all the time
_RENEWED = 10**12
#: looks at the queues during a load
_LOOKS = 1000
#: ms from the end of an attempt, in whole ms, until its slot can begin the next one, as was measured at 95 % load: the
#: rest of the ms, the outcome's way to the dispatcher, the claim, the next job's way to a child
_BETWEEN = 3
#: of a load that does not say when it begins: a Monday
BEGIN = datetime(2026, 1, 5, tzinfo=UTC)


class Fault(NamedTuple):
    """A host is gone for a time; seconds."""

    host: str
    at: float
    length: float


class Conditions(NamedTuple):
    """What holds for a simulation beside the file and the load."""

    #: s that the load lasts
    length: float
    begin: datetime = BEGIN
    #: so many times as many arrivals
    scale: float = 1.0
    #: name → how many; a host NAME of several is NAME-1, NAME-2 …. Empty: one host, on which every group runs
    hosts: Mapping[str, int] = {}
    faults: Sequence[Fault] = ()
    seed: int = 1

    def host_names(self) -> list[str]:
        """The names of all hosts; "" is the one on which every group runs."""
        names = [[name] if n == 1 else [f"{name}-{i}" for i in range(1, n + 1)] for name, n in self.hosts.items()]
        return [name for several in names for name in several] or [""]


class Simulation:
    """One file under one load."""

    def __init__(self, config: Config, load: Load, redis: VirtualRedis, conditions: Conditions) -> None:
        self.config, self._load, self._redis, self.conditions = simulated(config), load, redis, conditions
        self._verbs, self._rand = Verbs("sim"), Random(conditions.seed)  # noqa: S311 - guards no secret
        self.figures = SimulatedFigures()
        self._begin = round(conditions.begin.timestamp() * 1000)
        self._end = self._begin + round(conditions.length * 1000)
        #: moment, number, what is done then
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._number = 0
        self.groups = [
            SimulatedGroup(self.config, group, host, self._end)
            for host in conditions.host_names()
            for group in self.config.workers.values()
            if not host or group.runs_on(host)
        ]
        self._serving = {name: [g for g in self.groups if name in g.queues.names] for name in self.config.queues}
        self._tasks = {n: task for task in self.config.tasks.values() for n in (task.name, *task.aliases)}
        self._changed_by_ends = {
            name
            for name, queue in self.config.queues.items()
            if queue.max_running or any(t.limit for t in self.config.tasks.values() if t.queue == name)
        }
        #: groups for which there may be jobs
        self._asking: dict[SimulatedGroup, None] = {}
        self._counts: dict[str, Counts] = {}
        #: job → its snoozed attempts
        self._snoozes: Counter[bytes] = Counter()
        self._wakes: dict[str, int] = {}
        redis.now = self._begin
        redis.has_expiries = any(task.unique and task.unique.for_ for task in self.config.tasks.values())
        self._ticks = SimulatedTicks(self.config, self._verbs, redis)
        #: the moment at which it was interrupted, s from the begin; None: it was not
        self.interrupted: float | None = None

    def run(self, on_progress: Callable[[int], None] = lambda _: None) -> dict[str, Any]:
        """Simulate, and give the result. `on_progress`: is told how many jobs have arrived."""
        self._prepare()
        try:
            self._replay(on_progress)
        except KeyboardInterrupt:
            self.interrupted = (self._redis.now - self._begin) / 1000
        return self._result()

    # -- moments ------------------------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        run, verbs = self._redis.run, self._verbs
        run(verbs.declare(self.config.queues))
        for call in queue_settings(verbs, self.config):
            run(call)
        suspended = [name for name, task in self.config.tasks.items() if task.suspended]
        for queue in self.config.queues if suspended else ():
            run(verbs.suspend_tasks(queue, suspended, by="file", on=None))
        for fault in self.conditions.faults:
            self._at(self._begin + round(fault.at * 1000), partial(self._lose, fault))
        for each in (self._look, self._scale, self._poll, self._tick):
            self._at(self._begin, each)

    def _at(self, moment: int, what: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._events, (moment, self._number, what))

    def _replay(self, on_progress: Callable[[int], None]) -> None:
        arrivals = self._load.arrivals(self.conditions.length, self.conditions.scale)
        coming, events, arrived = next(arrivals, None), self._events, 0
        while events:
            now = min(events[0][0], coming.at_ms + self._begin) if coming else events[0][0]
            if now > self._end + (self._end - self._begin):
                return
            self._redis.now = now
            while coming and coming.at_ms + self._begin <= now:
                self._arrive(coming)
                coming, arrived = next(arrivals, None), arrived + 1
                on_progress(arrived)
            while events and events[0][0] <= now:
                heapq.heappop(events)[2]()
            self._claim()

    def _again(self, seconds: float, what: Callable[[], None]) -> None:
        """Do it again after so many seconds, as long as there is something to do."""
        if self._redis.now < self._end or any(_is_busy(counts) for counts in self._counts.values()):
            self._at(self._redis.now + round(seconds * 1000), what)

    def _look(self) -> None:
        """Note what is in the queues."""
        for queue in self.config.queues:
            self._redis.add(self._verbs.counts(queue), partial(self._note_counts, queue, self._redis.now - self._begin))
        self._redis.flush()
        self._again(max(0.25, self.conditions.length / _LOOKS), self._look)

    def _note_counts(self, queue: str, at_ms: int, counts: Counts) -> None:
        self._counts[queue] = counts
        self.figures.look(queue, counts, at_ms)

    def _scale(self) -> None:
        """Have as many children as the load needs."""
        scaled = [group for group in self.groups if group.group.scaling]
        for group in scaled:
            counts: dict[str, Counts] = {}
            if not group.free and (may_have_jobs := group.queues.may_have_jobs):
                for queue in may_have_jobs:
                    self._redis.add(self._verbs.counts(queue), partial(counts.__setitem__, queue))
                self._redis.flush()
            for queue in [name for name, each in counts.items() if not each.queued]:
                group.queues.mark_dry(queue)  # nobody needs to look again until a job comes
            if group.look(self._redis.now, counts.values()):
                self._ask_again(group)
        if scaled:
            self._again(LOOK, self._scale)

    def _poll(self) -> None:
        """Ask the queues that are not empty: their jobs may have expired."""
        for group in self.groups:
            if any(_is_busy(self._counts[name]) for name in group.queues.names if name in self._counts):
                group.queues.poll()
                self._asking[group] = None
        self._again(POLL, self._poll)

    def _tick(self) -> None:
        if self.config.cron and self._redis.now < self._end:
            following = self._ticks.tick()
            for queue in self._ticks.queues:
                self._wake(queue)
            self._at(following, self._tick)

    def _lose(self, fault: Fault) -> None:
        """The host is gone: nobody renews the leases of its jobs."""
        for group in self._of_host(fault.host):
            for attempt in group.lose(self._redis.now):
                renewal = Renewal(attempt.id, attempt.token)
                self._redis.add(self._verbs.renew(attempt.queue, [renewal], LEASE_MS))
                self._wake_later(attempt.queue, LEASE_MS + 1)
        self._at(self._redis.now + round(fault.length * 1000), partial(self._bring_back, fault))

    def _bring_back(self, fault: Fault) -> None:
        for group in self._of_host(fault.host):
            group.count_to(self._redis.now)
            group.is_up = True
            group.queues.mark_open()
            self._asking[group] = None

    def _of_host(self, name: str) -> list[SimulatedGroup]:
        return [group for group in self.groups if name in (group.host, group.host.rpartition("-")[0])]

    # -- jobs ---------------------------------------------------------------------------------------------------------

    def _arrive(self, arrival: Arrival) -> None:
        task = self._tasks.get(arrival.task)
        if task is None:
            self.figures.count(arrival.task, "refused")
            return
        call = self._verbs.enqueue(task.queue, [new_job(arrival, task, self.config.queues[task.queue].fair_by)])
        self._redis.add(call, partial(self._note_stored, task.name))
        if arrival.delay_ms:
            self._wake_later(task.queue, arrival.delay_ms)
        else:
            self._wake(task.queue)

    def _note_stored(self, task: str, stored: Sequence[Stored]) -> None:
        what = stored[0]
        is_refused = what == "full" or (isinstance(what, Existing) and what.refused)
        self.figures.count(task, "arrived" if what == "stored" else "refused" if is_refused else "same")

    def _wake(self, queue: str) -> None:
        for group in self._serving[queue]:
            group.queues.mark_open(queue)
            self._asking[group] = None

    def _ask_again(self, group: SimulatedGroup) -> None:
        """A slot of the group is free."""
        group.queues.open_full()
        self._asking[group] = None

    def _wake_later(self, queue: str, ms: int) -> None:
        moment = self._redis.now + ms
        if self._wakes.get(queue, 0) <= self._redis.now or moment < self._wakes[queue]:
            self._wakes[queue] = moment
            self._at(moment, partial(self._wake, queue))

    def _claim(self) -> None:
        """Have each group that has a free slot claim, in a random order, until there is nothing for it."""
        while self._asking:
            groups = list(self._asking)
            if len(groups) > 1:
                self._rand.shuffle(groups)
            self._asking.clear()
            for group in groups:
                while group.is_up and (shares := group.queues.shares(group.free, group.free, self._rand)):
                    for share in shares:
                        self._ask(group, share)
                    self._redis.flush()

    def _ask(self, group: SimulatedGroup, share: Share) -> None:
        self._number += 1
        token = f"{self._number:022x}"
        call = self._verbs.claim(
            share.queue, share.want, dispatcher=f"{group.host}.{group.group.name}", nonce=token, lease_ms=_RENEWED,
            max_rescues=MAX_RESCUES, few=(share.free, ()), has=group.held_tasks.words(share.queue),
        )  # fmt: skip
        self._redis.add(call, partial(self._claimed, group, share, token))

    def _claimed(self, group: SimulatedGroup, share: Share, token: str, claim: Claim) -> None:
        if claim.held_tasks is not None:
            group.held_tasks.note(share.queue, claim.held_tasks)
        for job in claim.jobs:
            self._run(group, share.queue, job, token)
        for lost in claim.reclaimed:
            if lost.code in ("EXPIRED", "RESCUED"):
                self.figures.count(lost.task, lost.code.lower())
        if not group.queues.note(share, claim) and not claim.few:
            if claim.next_due_ms is not None and claim.next_due_ms < _RENEWED // 2:
                self._wake_later(share.queue, claim.next_due_ms + 1)
            if share.want:
                # The others would find no more.
                for other in self._serving[share.queue]:
                    other.queues.mark_dry(share.queue)

    def _run(self, group: SimulatedGroup, queue: str, job: ClaimedJob, token: str) -> None:
        now, task = self._redis.now, job.task.decode()
        attempt = group.begin(queue, job, token, now)
        self.figures.began(task, job.waited_ms, now - self._begin)
        if job.id.startswith(b"cron:") and job.attempts == 1:
            self.figures.count(task, "arrived")
        known, begun = _courses_in(job), job.attempts + self._snoozes[job.id]
        found = known[begun - 1] if begun <= len(known) else None
        run = group.limited(attempt, found or self._load.run(task, job.id.decode(), begun))
        self._at(now + int(run.takes * 1000) + _BETWEEN, partial(self._end_attempt, group, attempt, run))

    def _end_attempt(self, group: SimulatedGroup, attempt: Any, run: AttemptCourse) -> None:
        if attempt.lost:
            return
        outcome = group.end(attempt, run, self._redis.now, self._rand)
        if outcome:
            self._redis.add(self._verbs.settle(attempt.queue, [outcome]))
            goes_on = outcome.kind in ("retry", "snoozed")
            if outcome.kind == "snoozed":  # Redis does not count such an attempt
                self._snoozes[attempt.id] += 1
            self.figures.count(attempt.task.decode(), "retries" if goes_on else outcome.kind)
            if goes_on:
                self._wake_later(attempt.queue, outcome.ms + 1)
        if attempt.queue in self._changed_by_ends:
            self._wake(attempt.queue)
        self._ask_again(group)

    # -- the result ---------------------------------------------------------------------------------------------------

    def _result(self) -> dict[str, Any]:
        left = defaultdict(int, {name: counts.queued + counts.held for name, counts in self._counts.items()})
        return {
            "begin": self.conditions.begin.isoformat(),
            "length": self.conditions.length,
            "seed": self.conditions.seed,
            "scale": self.conditions.scale,
            "hosts": dict(self.conditions.hosts),
            "interrupted": self.interrupted,
            "tasks": self.figures.tasks(),
            "queues": self.figures.queues(left),
            "groups": self._groups(),
            "cron": {} if self.interrupted else self._ticks.figures(),
        }

    def _groups(self) -> dict[str, dict[str, Any]]:
        """Group → its figures on all hosts together."""
        found: dict[str, dict[str, Any]] = {}
        for group in self.groups:
            group.count_to(self._end)
            said = found.setdefault(group.group.name, {"hosts": 0, "slots": 0, "slot_ms": 0, "busy_ms": 0})
            said["hosts"] += 1
            said["slots"] += group.peak * group.group.concurrency
            said["slot_ms"] += group.slot_ms
            said["busy_ms"] += group.busy_ms
        return {
            name: {"hosts": said["hosts"], "slots": said["slots"], "busy": said["busy_ms"] / max(1, said["slot_ms"])}
            for name, said in found.items()
        }


def simulated(config: Config) -> Config:
    """The file without what a simulation does not have: what is counted and told, callbacks, flows, kept results."""
    tasks = {
        name: replace(task, result_ttl=0.0, failure_ttl=0.0, on_success=None, on_failure=None)
        for name, task in config.tasks.items()
    }
    cron = {name: entry for name, entry in config.cron.items() if not entry.flow}
    return replace(config, tasks=tasks, cron=cron, metrics=False, web=None, events=None, outboxes={})


def new_job(arrival: Arrival, task: Task, fair_by: Sequence[str]) -> NewJob:
    """The job, with arguments that have the values by which limits count, queues take turns and jobs are unique."""
    by, unique = task.limit_by or (), task.unique.by if task.unique else ()
    own = arrival.by or arrival.id
    values = dict.fromkeys((*unique, *by), own) | dict.fromkeys(fair_by, arrival.fair_by or own)
    if not set(fair_by) <= {*by}:
        values |= dict.fromkeys(by, own)
    kwargs = {name.removeprefix("kwargs."): value for name, value in values.items() if name.startswith("kwargs.")}
    places = {int(name[5:]): value for name, value in values.items() if name.startswith("args.")}
    args = [places.get(n, "") for n in range(max(places, default=-1) + 1)]
    given: dict[str, Any] = kwargs | {"": arrival.runs} if arrival.runs else kwargs
    return NewJob(
        arrival.id,
        task.name,
        json.dumps([args, given], separators=(",", ":")).encode(),
        task.priority,
        arrival.delay_ms or None,
        None,
        None if task.expires is None else round(task.expires * 1000),
        unique=unique_key(task.unique.to_text(), args, kwargs) if task.unique else None,
    )


def _courses_in(job: ClaimedJob) -> list[AttemptCourse]:
    """The attempts that `new_job` has put into the arguments."""
    if not job.id.startswith(b"load:"):
        return []
    return [AttemptCourse(*each) for each in json.loads(job.args)[1].get("", ())]


def _is_busy(counts: Counts) -> bool:
    """Whether jobs of the queue may still end."""
    return bool(counts.queued + counts.held + counts.started + counts.scheduled)
