"""
The children of one worker group, as its dispatcher sees them: how many jobs to claim, and which child gets which.

1. follow   what the file says: how many children, their tasks, their timeouts (children.py, fork_servers.py)
2. count    how many jobs may be claimed (capacity.py)
3. hand     attempts to children (handing.py)
4. watch    running jobs, and end those that must not go on (watchdog.py)
5. report   how each attempt ended, and what a child's death means for each of its attempts (pool_reports.py)

Knows processes and sockets. No Redis: the dispatcher decides whether an attempt is settled, retried or released.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator
from typing import Any

from fusiond.config.model import Config, WorkerGroup
from fusiond.worker.pool.attempt import Attempt, KillReason
from fusiond.worker.pool.capacity import Capacity
from fusiond.worker.pool.children import Children
from fusiond.worker.pool.fork_server.launch import Launched, LaunchedFrom, launch, table
from fusiond.worker.pool.fork_servers import ForkServers
from fusiond.worker.pool.handing import Handing
from fusiond.worker.pool.pool_reports import PoolReport, Problems
from fusiond.worker.pool.slots import ChildKind
from fusiond.worker.pool.watchdog import Watchdog
from fusiond.worker.runtime import wire

#: s; between two looks at the age of the children
AGE_LOOK = 1.0


class Pool:
    """The children of one group."""

    def __init__(
        self,
        config: Config,
        group: WorkerGroup,
        report: Callable[[PoolReport], None],
        on_outcome: Callable[[Attempt, wire.OutcomeMessage], None],
        log_fields: Callable[[Attempt], dict[str, Any]],
    ) -> None:
        """
        A pool without a fork server.

        Args:
            config: the accepted configuration.
            group: one of its worker groups.
            report: called with what happens here.
            on_outcome: called with each attempt that ran to its end, and what its child said.
            log_fields: gives the fields of the log lines about an attempt.
        """
        self._children = Children(group.name, report, on_outcome, log_fields, ChildKind.of(group))
        self._servers = ForkServers(group.name, self._launch, self._children)
        self._watchdog = Watchdog(self._children)
        self._look_at_age: asyncio.TimerHandle | None = None
        self._capacity = Capacity(group, self._children)
        self._handing = Handing(group, self._children, self._capacity)
        self.set_config(config, group)

    def _launch(self, like: LaunchedFrom | None) -> Launched:
        return launch(self._config, self._group, like)

    def set_config(self, config: Config, group: WorkerGroup) -> None:
        """Follow what may change in place: policies, timeouts, the number of processes."""
        self._config, self._group = config, group
        self._servers.keep(config.tasks)
        body = json.dumps(table(config, group)).encode()
        frame = wire.frame(wire.TABLE, body)
        if frame != self._children.table:
            # A child that has an older table gets it with its next jobs.
            self._children.table = frame
            self._servers.set_table(body)
        self._handing.set_config(config, group)
        self._capacity.set_group(group)
        if group.max_age is not None and group.isolation != "fork" and self._look_at_age is None:
            self._renew_old()

    def _renew_old(self) -> None:
        """Look at the age of the children, again and again while it is limited."""
        self._look_at_age = None
        if self._group.max_age is not None:
            self._children.renew_older_than(self._group.max_age)
            self._look_at_age = asyncio.get_running_loop().call_later(AGE_LOOK, self._renew_old)

    def start(self, launched: Launched | None = None, *, on_trial: bool = False) -> None:
        """
        Start the fork server, or take over the one that was launched; its children follow when it is ready.

        `on_trial`: until `begin`, what does not load is reported and not logged.
        """
        self._servers.on_trial = on_trial
        self._servers.start(launched)

    def close(self) -> None:
        """End the fork servers and all that is under them."""
        if self._look_at_age:
            self._look_at_age.cancel()
        self._servers.close()
        self._children.close()

    # -- what the dispatcher asks -------------------------------------------------------------------------------------

    @property
    def processes(self) -> int:
        """How many children there should be."""
        return self._capacity.processes

    @property
    def running(self) -> int:
        """Jobs that run, at most so many of each child as it runs at once."""
        return self._capacity.running

    def free(self) -> int:
        """How many jobs children could begin now."""
        return self._capacity.free()

    def room(self) -> tuple[int, int]:
        """How many jobs children could begin now, and how many more may be claimed as children are soon free again."""
        return self._capacity.room()

    @property
    def is_full(self) -> bool:
        """Whether every slot is in use."""
        return self._capacity.unused() <= 0

    @property
    def has_started(self) -> bool:
        """Whether as many children serve as there should be."""
        return self._capacity.has_started

    def used(self) -> int:
        """Slots that a next generation must leave to this one."""
        return self._capacity.used()

    def attempts(self) -> Iterator[Attempt]:
        """What the children have."""
        for child in self._children.living.values():
            yield from child.attempts()

    def running_attempts(self, now_ns: int) -> Iterator[tuple[Attempt, float]]:
        """The running attempts, and for how many seconds each has run."""
        for child in self._children.living.values():
            for _, attempt, ran in child.all_running(now_ns):
                yield attempt, ran

    def reports(self) -> dict[Attempt, wire.JobReport]:
        """How far each running job is that has said so."""
        for child in self._children.living.values():
            child.read_reports()
        return {attempt: attempt.report for attempt in self.attempts() if attempt.report}

    def unkilled(self) -> list[Attempt]:
        """The attempts of children that were killed and have not ended."""
        killed = (child for child in self._children.living.values() if child.kill and child.kill.is_named)
        return [each.attempt for child in killed for each in child.all_running(time.monotonic_ns())]

    @property
    def trouble(self) -> str:
        """Why no child can be handed a job just now; "" where one can."""
        return self._servers.trouble

    @property
    def start_failure(self) -> str:
        """Why one of the first children does not serve; "" where they do."""
        return self._servers.start_failure

    @property
    def problems(self) -> Problems:
        """The tasks that do not load."""
        return self._servers.problems

    @property
    def nothing_loads(self) -> str:
        """Why no task of the group can run; "" where one can."""
        return self._servers.nothing_loads

    @property
    def unloaded(self) -> str:
        """Which tasks cannot run, and why; "" where all can."""
        return self._servers.unloaded

    @property
    def origin(self) -> LaunchedFrom | None:
        """What the fork server was started from; None: none has been started yet."""
        return self._servers.origin

    # -- what the dispatcher tells ------------------------------------------------------------------------------------

    def hand_out(self, pending: deque[Attempt], reserved: int) -> None:
        """Hand out what is pending, as far as there is room beside so many reserved children; the rest stays."""
        if pending:
            self._handing.hand_out(pending, reserved)
            self._watchdog.keep_on()

    def hand_one(self, attempt: Attempt) -> bool:
        """Hand a job that waits for no other to a child that begins it at once; False: there is none."""
        if not self._handing.hand_one(attempt):
            return False
        self._watchdog.keep_on()
        return True

    def listen(self, *, on: bool) -> None:
        """Hear outcomes when they come; off: of children with one job each, when they have died, or a little later."""
        self._children.hearing.listen(on=on)

    def hear(self) -> None:
        """Hear the outcomes that have come so far."""
        self._children.hearing.hear()

    def begin(self) -> None:
        """Jobs are claimed from now on: a group that follows its load has one child until then."""
        self._servers.on_trial = False
        self._capacity.begin()

    def leave(self, slots: int) -> None:
        """Leave so many slots unused, since the group's former generation still uses them."""
        self._capacity.leave(slots)

    def scale(self, processes: int) -> None:
        """Have so many children; those that are too many end after their jobs."""
        self._capacity.scale(processes)

    def drain(self) -> None:
        """No job is handed out any more: take back what has not begun. Idle children end if a next generation waits."""
        self.take_back()
        if self._group.scaling:
            self._children.resize(0)

    def claim_less(self, now: float) -> None:
        """A claimed job found no free child: claim none ahead for a while; `now` in monotonic seconds."""
        self._children.ahead.stop(now)

    def note_problem(self, task: str, code: str, message: str) -> None:
        """A child could not load a task that its fork server was not told of."""
        self._servers.note_problem(task, code, message)

    def look(self) -> None:
        """Look at the running jobs at once: a job was canceled, or a lease was lost."""
        self._watchdog.look()

    def take_back(self, tasks: Collection[bytes] | None = None) -> None:
        """Take back every job of these tasks that has not begun; None: of all tasks."""
        self._children.take_back_all(tasks)

    def kill_all(self) -> None:
        """Kill each child that runs a job."""
        for child in self._children.living.values():
            if child.outstanding:
                child.kill_for(KillReason.SHUTDOWN, child.begun())
