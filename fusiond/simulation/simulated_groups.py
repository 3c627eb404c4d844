"""
A worker group on one host: which jobs it claims, how their attempts end, how many children it has.

What the dispatcher decides, its own functions decide here: the order of the queues, the verdict on an attempt, the next
number of children. An attempt begins the moment it is claimed, and its lease is renewed as long as its host is there.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable
from random import Random

from fusiond.broker.records import ClaimedJob, Counts, Outcome
from fusiond.config.model import Config, WorkerGroup
from fusiond.simulation.loads import AttemptCourse
from fusiond.worker.dispatcher import scaling
from fusiond.worker.dispatcher.claims.held_tasks import UNLIMITED, HeldTasks
from fusiond.worker.dispatcher.claims.queue_order import queues_of
from fusiond.worker.dispatcher.ends import verdicts
from fusiond.worker.pool.attempt import Attempt, KillReason
from fusiond.worker.pool.group_config import GroupConfig
from fusiond.worker.runtime import wire

#: ns in a ms
_MS = 1_000_000
_FOLLOWS = {"finished": wire.GIVE_UP, "failed": wire.GIVE_UP, "retry": wire.RETRY, "snoozed": wire.SNOOZE}


class SimulatedGroup:
    """One of them."""

    def __init__(self, config: Config, group: WorkerGroup, host: str, end: int) -> None:
        """`end`: epoch ms; slots and runs are counted until then."""
        self._end = end
        self.conf, self.group, self.host = GroupConfig(config, group), group, host
        self.queues = queues_of(config, group)
        self.held_tasks = HeldTasks(lambda task: UNLIMITED * (task in config.tasks))
        self.processes = group.scaling.min if group.scaling else group.processes
        #: its host is there
        self.is_up = True
        self._slots = self.processes * group.concurrency
        #: the attempts that run, each with the moment of its claim, epoch ms
        self.running: dict[bytes, Attempt] = {}
        self._ended = 0
        self._looks: deque[scaling.Look] = deque()
        self._changed_at = 0.0
        #: the most children at once; ms of slots and of runs until `_counted_to`, epoch ms
        self.peak = self.processes
        self.slot_ms = self.busy_ms = self._counted_to = 0

    @property
    def free(self) -> int:
        """Slots without a job."""
        return max(0, self._slots - len(self.running)) if self.is_up else 0

    def count_to(self, now: int) -> None:
        """Count slots and runs up to this moment; called before either changes."""
        now = min(now, self._end)
        passed = now - self._counted_to if self._counted_to else 0
        self._counted_to = now
        self.slot_ms += passed * self._slots
        self.busy_ms += passed * len(self.running)

    def begin(self, queue: str, job: ClaimedJob, token: str, now: int) -> Attempt:
        """The attempt of a job that it has claimed."""
        id_, task, args, number, crashes, rescues, header, waited = job
        self.count_to(now)
        never = now * _MS + (1 << 62)
        attempt = Attempt(queue, id_, token, task, args, header, number, crashes, rescues, never, 0, waited)
        self.running[id_] = attempt
        return attempt

    def limited(self, attempt: Attempt, run: AttemptCourse) -> AttemptCourse:
        """The run as far as the task's timeouts let it go: at the soft one the task gets an exception."""
        timeout = self.conf.task(attempt.task)[0].timeout
        attempt.hard_timeout = timeout.hard
        return AttemptCourse(timeout.soft, "retry") if run.takes > timeout.soft and run.outcome != "timeout" else run

    def end(self, attempt: Attempt, run: AttemptCourse, now: int, rand: Random) -> Outcome | None:
        """How the attempt ends; None: its lease is lost."""
        self.count_to(now)
        self._ended += 1
        del self.running[attempt.id]
        (task, _), policy = self.conf.task(attempt.task), self.conf.policy(attempt)
        attempt.ran = run.takes
        if run.outcome == "canceled":
            return verdicts.canceled(attempt, task)
        if run.outcome in ("timeout", "crashed"):
            reason = KillReason.TIMEOUT if run.outcome == "timeout" else None
            found = verdicts.killed(attempt, reason, -9, task, policy, rand=rand)
        else:
            kind = wire.FINISHED if run.outcome == "finished" else wire.FAILED
            message = wire.OutcomeMessage(0, kind, _FOLLOWS[run.outcome], run.takes, _payload(run))
            found = verdicts.outcome_of_run(attempt, message, task, policy, rand)
        return found and verdicts.in_time(attempt, found, task, now * _MS)

    def look(self, now: int, counts: Iterable[Counts]) -> bool:
        """Have as many children as the load needs, by what its queues have; whether the number has changed."""
        if not self.group.scaling or not self.is_up:
            return False
        at = now / 1000
        waiting, oldest = scaling.waiting_share(counts, len(self.running)) if not self.free else (0.0, 0.0)
        self._looks.append(scaling.Look(at, len(self.running), self._ended, not self.free, waiting, oldest))
        found = scaling.next_size(
            self.processes, self.group.concurrency, self.group.scaling, self._looks, since=self._changed_at
        )
        while len(self._looks) > 1 and self._looks[1].at <= at - scaling.QUIET:
            self._looks.popleft()
        if found is None:
            return False
        self.count_to(now)
        self.processes, self._slots, self._changed_at = found.processes, found.processes * self.group.concurrency, at
        self.peak = max(self.peak, self.processes)
        return True

    def lose(self, now: int) -> list[Attempt]:
        """Its host is gone: the attempts that nobody renews any more."""
        self.count_to(now)
        self.is_up = False
        lost = [*self.running.values()]
        for attempt in lost:
            attempt.lost = True
        self.running.clear()
        return lost


def _payload(run: AttemptCourse) -> bytes:
    if run.outcome == "finished":
        return b"null"
    error = json.loads(verdicts.failure("EXCEPTION", "simulated"))
    return json.dumps(error | ({"retry_after": run.delay} if run.outcome == "snoozed" else {})).encode()
