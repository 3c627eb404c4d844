"""
The children of one worker group, as its dispatcher sees them: how many jobs to claim, and which child gets which.

1. follow   what the file says: how many children, their tasks, their timeouts (children.py, fork_servers.py)
2. count    how many jobs may be claimed (capacity.py)
3. hand     attempts to children (job_assigner.py)
4. watch    running jobs, and end those that must not go on (watchdog.py)
5. report   how each attempt ended, and what a child's death means for each of its attempts (pool_reports.py)

Knows processes and sockets. No Redis: the dispatcher decides whether an attempt is settled, retried or released.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

from fusiond.paths import job_output
from fusiond.worker.pool.attempt import Attempt, KillReason
from fusiond.worker.pool.capacity import Capacity
from fusiond.worker.pool.children import Children
from fusiond.worker.pool.fork_server.launch import Launched, LaunchedFrom, launch, table
from fusiond.worker.pool.fork_servers import ForkServers
from fusiond.worker.pool.group_config import GroupConfig
from fusiond.worker.pool.job_assigner import JobAssigner
from fusiond.worker.pool.output_keeper import OutputKeeper
from fusiond.worker.pool.pool_reports import PoolReport
from fusiond.worker.pool.slots import ChildKind
from fusiond.worker.pool.watchdog import Watchdog
from fusiond.worker.runtime import wire

#: s; between two looks at the age of the children
AGE_LOOK = 1.0


class Pool:
    """The children of one group."""

    def __init__(
        self,
        conf: GroupConfig,
        report: Callable[[PoolReport], None],
        on_outcome: Callable[[Attempt, wire.OutcomeMessage], None],
        log_fields: Callable[[Attempt], dict[str, Any]],
    ) -> None:
        """
        A pool without a fork server.

        Args:
            conf: what the file says of the group.
            report: called with what happens here.
            on_outcome: called with each attempt that ran to its end, and what its child said.
            log_fields: gives the fields of the log lines about an attempt.
        """
        self._conf, name = conf, conf.group.name
        kind = ChildKind.of(conf.group, conf.state)
        self._output = OutputKeeper(conf, job_output(conf.state))
        self.children = Children(name, report, on_outcome, log_fields, on_printed=self._output.note, kind=kind)
        self.servers = ForkServers(name, self._launch, self.children)
        self.watchdog = Watchdog(self.children)
        self._look_at_age: asyncio.TimerHandle | None = None
        self.capacity = Capacity(conf, self.children)
        self.assigner = JobAssigner(conf, self.children, self.capacity, self.watchdog)
        self.follow()

    def _launch(self, like: LaunchedFrom | None) -> Launched:
        return launch(self._conf.config, self._conf.group, like)

    def follow(self) -> None:
        """What the children are told, and their number, may have changed."""
        group = self._conf.group
        self.servers.keep(self._conf.config.tasks)
        body = json.dumps(table(self._conf.config, group)).encode()
        frame = wire.frame(wire.TABLE, body)
        if frame != self.children.table:
            # A child that has an older table gets it with its next jobs.
            self.children.table = frame
            self.servers.set_table(body)
        self.capacity.follow()
        if group.max_age is not None and group.isolation != "fork" and self._look_at_age is None:
            self._renew_old()

    def _renew_old(self) -> None:
        """Look at the age of the children, again and again while it is limited."""
        self._look_at_age = None
        if self._conf.group.max_age is not None:
            self.children.renew_older_than(self._conf.group.max_age)
            self._look_at_age = asyncio.get_running_loop().call_later(AGE_LOOK, self._renew_old)

    def start(self, launched: Launched | None = None, *, on_trial: bool = False) -> None:
        """
        Start the fork server, or take over the one that was launched; its children follow when it is ready.

        `on_trial`: until `begin`, what does not load is reported and not logged.
        """
        self.servers.on_trial = on_trial
        if on_trial and self._conf.group.slot_variable:
            # The group's former generation may have all numbers.
            self.children.resize(0)
        self.servers.start(launched)

    def close(self) -> None:
        """End the fork servers and all that is under them."""
        if self._look_at_age:
            self._look_at_age.cancel()
        self.servers.close()
        self.children.close()
        self._output.close()

    # -- what the dispatcher asks -------------------------------------------------------------------------------------

    def loads(self, task: str) -> bool:
        """Whether the file has the task, and its function loads here, as far as it is known."""
        return task in self._conf.config.tasks and task not in self.servers.problems

    def attempts(self) -> Iterator[Attempt]:
        """What the children have."""
        for child in self.children.living.values():
            yield from child.outstanding.values()

    def running_attempts(self, now_ns: int) -> Iterator[tuple[Attempt, float]]:
        """The running attempts, and for how many seconds each has run."""
        for child in self.children.living.values():
            for _, attempt, ran in child.all_running(now_ns):
                yield attempt, ran

    def reports(self) -> dict[Attempt, wire.JobReport]:
        """How far each running job is that has said so."""
        for child in self.children.living.values():
            child.read_reports()
        return {attempt: attempt.report for attempt in self.attempts() if attempt.report}

    def unkilled(self) -> list[Attempt]:
        """The attempts of children that were killed and have not ended."""
        killed = (child for child in self.children.living.values() if child.kill and child.kill.is_named)
        return [each.attempt for child in killed for each in child.all_running(time.monotonic_ns())]

    # -- what the dispatcher tells ------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Jobs are claimed from now on: a group that follows its load has one child until then."""
        self.servers.on_trial = False
        self.capacity.begin()

    def drain(self) -> None:
        """No job is handed out any more: take back what has not begun. Idle children end if a next generation waits."""
        self.children.take_back_all()
        if self._conf.group.is_bounded:
            self.children.resize(0)

    def kill_all(self) -> None:
        """Kill each child that runs a job."""
        for child in self.children.living.values():
            if child.outstanding:
                child.kill_for(KillReason.SHUTDOWN, child.begun())
