"""
Look after the tasks of which jobs are held, since not every worker group of their queue can run them.

1. look    every PERIOD seconds, at each queue of the file: one small question where there is no such task
2. judge   by who is alive: some group can run the task, all can, or none
3. do      where all can, the jobs go on; where none can for `unknown_tasks.fail_after`, they fail
4. tell    the log and the supervisor, for `fusiond health`, while nobody can run them

Each daemon does so: what another one has done is not found any more.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from random import Random

from fusiond.broker.hosts.host_records import NO_CATALOGUE, Catalogue
from fusiond.broker.records import Counts, HeldTask
from fusiond.broker.redis.connection import AsyncConnection
from fusiond.broker.verbs import Verbs
from fusiond.config.model import Config
from fusiond.config.units import written

log = logging.getLogger(__name__)

#: seconds between two looks, ± a quarter
PERIOD = 10.0
#: steps of one task in one look; the rest follows at once, behind what else is due
_STEPS = 20
#: seconds after which the same is logged again
_LOG_AGAIN = 3600.0


class HeldTaskKeeper:
    """What one daemon does about them."""

    def __init__(
        self, broker: Verbs, connection: AsyncConnection, config: Config, rand: Random, tell: Callable[[str], None]
    ) -> None:
        """`tell`: called with the sentences about jobs that nobody can run, when they change; "" for none."""
        self._broker, self._connection, self.config, self._rand, self._tell = broker, connection, config, rand, tell
        self._next = 0.0
        self._catalogue = NO_CATALOGUE
        #: (queue, task) → rank at which the look at its jobs goes on
        self._ranks: dict[tuple[str, str], int] = {}
        #: (queue, task) of which nobody can run the jobs → when that was logged last, monotonic s
        self._logged: dict[tuple[str, str], float] = {}
        self._told = ""

    def until_next(self) -> float:
        """Seconds to the next look."""
        return max(0.0, self._next - time.monotonic())

    async def run_once(self) -> None:
        """Look, if it is time. Raises BrokerError."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + PERIOD * self._rand.uniform(0.75, 1.25)
        queues = [*self.config.queues]
        named = await self._connection.run_many([self._broker.has_held_tasks(queue) for queue in queues])
        stuck: dict[tuple[str, str], str] = {}
        for queue in [queue for queue, is_named in zip(queues, named, strict=True) if is_named == 1]:
            stuck |= await self._look(queue)
        self._log(stuck)

    async def _look(self, queue: str) -> dict[tuple[str, str], str]:
        """Do what is due in one queue; about the tasks of which nobody can run the jobs a sentence each."""
        self._catalogue = await self._connection.run(self._broker.catalogue(self._catalogue))
        fail_after = self.config.unknown_tasks.fail_after
        # a daemon whose file suspends a task may have ended
        suspend = self._broker.suspend_tasks(queue, self._catalogue.suspended, by="file", on=None)
        await self._connection.run(suspend)
        look = self._broker.look_at_held_tasks(queue, self._catalogue, round(fail_after * 1000))
        found = await self._connection.run(look)
        for held in found:
            task = self.config.tasks.get(held.task)
            # what a pool has refused goes on as its dispatchers find room for it
            if held.what == "go" and task and task.pools:
                continue
            if held.what or (queue, held.task) in self._ranks:
                await self._step(queue, held, round(fail_after * 1000))
        is_served = queue in self._catalogue.serving
        stuck = [held for held in found if held.jobs and held.ms >= 0 and is_served]
        return {(queue, held.task): sentence(queue, held, fail_after) for held in stuck}

    async def _step(self, queue: str, held: HeldTask, fail_after_ms: int) -> None:
        """The next jobs of a task go on, or fail."""
        rank, ended = self._ranks.pop((queue, held.task), 0), 0
        held = held._replace(what=held.what or "fail")
        for _ in range(_STEPS):
            number, rank = await self._connection.run(self._broker.end_held(queue, held, rank, fail_after_ms))
            ended += number
            if rank < 0:
                break
        else:
            self._ranks[queue, held.task] = rank
            self._next = 0.0
        if ended and held.what == "fail":
            message = "queue '%s': jobs of task '%s' that failed, since for %s no worker group could run them: %d"
            log.error(message, queue, held.task, written(fail_after_ms / 1000), ended)

    def _log(self, stuck: dict[tuple[str, str], str]) -> None:
        now = time.monotonic()
        for key, text in stuck.items():
            if now - self._logged.get(key, -_LOG_AGAIN) >= _LOG_AGAIN:
                log.warning("%s", text)
                self._logged[key] = now
        for queue, task in self._logged.keys() - stuck.keys():
            del self._logged[queue, task]
            log.info("queue '%s': no job of task '%s' is held any more for want of a worker group", queue, task)
        if (told := "; ".join(stuck.values())) != self._told:
            self._told = told
            self._tell(told)


def stuck_tasks(catalogue: Catalogue, queues: Mapping[str, Counts]) -> list[tuple[str, HeldTask]]:
    """Queue and task of held jobs that no living worker group can run, in queues that one serves."""
    return [
        (queue, held)
        for queue, counts in queues.items()
        for held in counts.held_tasks
        if held.jobs and not held.what and queue in catalogue.serving and not catalogue.serves(held.task, queue)
    ]


def suspended_tasks(queues: Mapping[str, Counts]) -> dict[str, HeldTask]:
    """Each suspended task with the number of its held jobs in all queues, and who has suspended it."""
    found: dict[str, HeldTask] = {}
    for each in (held for counts in queues.values() for held in counts.held_tasks if held.what):
        before = found.get(each.task, each._replace(jobs=0))
        by = "operator" if "operator" in (before.what, each.what) else each.what
        found[each.task] = before._replace(jobs=before.jobs + each.jobs, what=by)
    return found


def suspension(held: HeldTask) -> str:
    """What is to be said of a suspended task."""
    jobs = "1 job is" if held.jobs == 1 else f"{held.jobs:,} jobs are"
    remedy = f"; fusiond task resume {held.task}" if held.what == "operator" else ""
    return f"task '{held.task}' is suspended by the {held.what}; {jobs} held{remedy}"


def sentence(queue: str, held: HeldTask, fail_after: float | None = None) -> str:
    """
    What is to be said of jobs that nobody can run.

    `fail_after`: seconds, where it is known.
    """
    jobs = "1 job is" if held.jobs == 1 else f"{held.jobs} jobs are"
    if held.error:
        why, remedy = f"it loads nowhere: {held.error}", "correct that"
    else:
        why = "no living worker group of the queue has the task"
        remedy = "declare the task, name it in the `aliases` of the task that has taken its place, or undo a drain"
    end = f"; they fail after {written(fail_after)}" if fail_after else ""
    return f"queue '{queue}': {jobs} held of task '{held.task}': {why}. To have them run, {remedy}{end}"
