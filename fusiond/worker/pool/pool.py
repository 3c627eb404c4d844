"""
The children of one worker group, as its dispatcher sees them: how many jobs to claim, and which child gets which.

1. follow   what the file says: how many children, their tasks, their timeouts (children.py, fork_servers.py)
2. count    how many jobs may be claimed
3. hand     attempts to children: as many to one as fit into about 5 ms of work by recent run times, and one where jobs
            are long or each has a child of its own
4. watch    what runs, and end what must not go on (watchdog.py)
5. report   how each attempt ended, and what a death means for each that its child held (pool_reports.py)

What has waited for PENDING seconds since its claim is handed to an idle child alone, where it begins at once: behind
another job it might wait for as long again, while a child of another host is idle.

Knows processes and sockets. No Redis: whether an attempt is settled, retried or released is its dispatcher's to say.
"""

from __future__ import annotations

import json
import math
import time
from typing import TYPE_CHECKING, Any

from fusiond.worker.pool.attempt import KillReason
from fusiond.worker.pool.children import Children
from fusiond.worker.pool.fork_servers import ForkServers
from fusiond.worker.pool.launch import launch, table
from fusiond.worker.pool.run_times import BATCH, BATCH_BYTES, PENDING
from fusiond.worker.pool.watchdog import Watchdog
from fusiond.worker.runtime import wire

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable, Collection, Iterator

    from fusiond.config.model import Config, WorkerGroup
    from fusiond.worker.pool.attempt import Attempt
    from fusiond.worker.pool.launch import Launched
    from fusiond.worker.pool.pool_reports import PoolReport, Problems
    from fusiond.worker.pool.slots import ChildHandle

#: quick jobs that wait for the next child of isolation `fork`, for each process: with one of each the dispatcher claims
#: 1.6 at a time, and half of what Redis does for a job is the call around it
WAITING = 3
#: children of isolation `fork` that stand ready beyond the group's processes, at most
AHEAD = 4


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
        #: each child runs one job
        self._one_job = group.isolation == "fork"
        #: slots that the group's former generation still uses
        self._left = 0
        self._children = Children(group.name, report, on_outcome, log_fields, one_job=self._one_job)
        self._servers = ForkServers(group.name, lambda: launch(self._config, self._group), self._children)
        self._watchdog = Watchdog(self._children)
        self.set_config(config, group)

    def set_config(self, config: Config, group: WorkerGroup) -> None:
        """Follow what may change in place: policies, timeouts, the number of processes."""
        self._config, self._group = config, group
        self._hard = {name.encode(): task.timeout.hard for name, task in config.tasks.items()}
        self._servers.keep(config.tasks)
        body = json.dumps(table(config, group)).encode()
        frame = wire.frame(wire.TABLE, body)
        if frame != self._children.table:
            # A child that has an older table gets it with its next jobs.
            self._children.table = frame
            self._servers.set_table(body)
        ahead = min(group.processes, AHEAD) if self._one_job else 0
        self._children.resize(group.processes + ahead)

    def start(self, launched: Launched | None = None) -> None:
        """Start the fork server, or take over the one that was launched; its children follow when it is ready."""
        self._servers.start(launched)

    def close(self) -> None:
        """End the fork servers and all that is under them."""
        self._servers.close()
        self._children.close()

    # -- what the dispatcher asks -------------------------------------------------------------------------------------

    @property
    def running(self) -> int:
        """Children that have a job."""
        return sum(1 for child in self._children.living.values() if child.outstanding)

    def free(self) -> int:
        """How many children could begin a job now."""
        return self._free(self._takers())

    def _free(self, takers: list[ChildHandle]) -> int:
        idle = sum(1 for child in takers if not child.outstanding)
        return max(0, min(idle, self._group.processes - self._left - self.running))

    def room(self) -> int:
        """How many jobs may be claimed: as many as begin at once, and more where the children are soon free again."""
        takers, ahead = self._takers(), self._children.ahead.most(time.monotonic())
        begin = self._free(takers)
        if self._one_job:
            quick = ahead and self._children.times.quick
            return begin + (min(ahead, WAITING * self._soon_free()) if quick else 0)
        depth = self._depth(ahead)
        if depth == 1:
            return begin
        busy = sum(max(0, 2 * depth - len(child.outstanding)) for child in takers if child.outstanding)
        return min(begin * 2 * depth + busy, begin + ahead)

    def _depth(self, ahead: int) -> int:
        """How many jobs one child may be handed at once; it may have twice as many."""
        places = max(1, self._group.processes - self._left)
        return max(1, min(self._children.times.depth(), math.ceil(ahead / (2 * places))))

    def _soon_free(self) -> int:
        """Children of isolation `fork` whose job has not turned out to be long."""
        now = time.monotonic_ns()
        soon = sum(1 for child in self._children.living.values() if child.serves and child.ran(now) < BATCH)
        return min(self._group.processes - self._left, soon)

    def _takers(self) -> list[ChildHandle]:
        """Children that may take a job, or more beside quick ones, the emptiest first."""
        if self._children.silent:
            return []
        living = self._children.living.values()
        if self._one_job:
            return [child for child in living if not child.handed and child.serves]
        now = time.monotonic_ns()
        takers = (
            child
            for child in living
            if child.serves and (child.ran(now) < BATCH if child.outstanding else not child.owes)
        )
        return sorted(takers, key=lambda child: len(child.outstanding))

    def attempts(self) -> Iterator[Attempt]:
        """What the children have, each marked with whether it has begun."""
        for child in self._children.living.values():
            yield from child.attempts()

    def running_attempts(self, now_ns: int) -> Iterator[tuple[Attempt, float]]:
        """What runs, and for how many seconds."""
        for child in self._children.living.values():
            if attempt := child.running:
                yield attempt, child.ran(now_ns)

    def unkilled(self) -> list[Attempt]:
        """What children run that were killed and have not ended."""
        children = self._children.living.values()
        return [found for child in children if child.kill and child.kill.is_named and (found := child.running)]

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
    def environment(self) -> str:
        """Digest of the environment files that the fork server got; empty: there was none yet."""
        return self._servers.environment

    # -- what the dispatcher tells ------------------------------------------------------------------------------------

    def hand_out(self, pending: deque[Attempt], reserved: int) -> None:
        """Hand out what is pending, as far as there is room beside so many reserved children; the rest stays."""
        if pending:
            for child, batch in self._batches(pending, reserved):
                child.send_jobs(batch, self._children.table)
            self._watchdog.keep_on()

    def _batches(self, pending: deque[Attempt], reserved: int) -> Iterator[tuple[ChildHandle, list[Attempt]]]:
        """
        Which children are handed what of the pending attempts, as far as there is room; the rest stays pending.

        Args:
            pending: what was claimed.
            reserved: idle children that are kept free.
        """
        takers = self._takers()
        free = self._group.processes - self._left - self.running - reserved
        depth = 1 if self._one_job else self._depth(self._children.ahead.most(time.monotonic()))
        most = 1 if depth == 1 else 2 * depth
        for at, child in enumerate(takers):
            if not pending:
                return
            if not child.outstanding:
                if free <= 0:
                    continue
                free -= 1
            share = math.ceil(len(pending) / (len(takers) - at))
            batch = self._batch(child, pending, min(share, most - len(child.outstanding)))
            if batch:
                yield child, batch

    def _batch(self, child: ChildHandle, pending: deque[Attempt], most: int) -> list[Attempt]:
        """The next attempts for this child: one where jobs are long or unknown, many where they are short."""
        batch: list[Attempt] = []
        work, size = sum(attempt.cost for attempt in child.outstanding.values()), 0
        now = time.monotonic_ns()
        old = now - int(PENDING * 1e9)
        while pending and len(batch) < most:
            attempt = pending[0]
            if attempt.once:
                # What has a permit and has not begun fails if this process dies: it waits behind no other job.
                if batch or child.outstanding:
                    break
                most = 1
            cost = self._children.times.expected(attempt.task)
            size += len(attempt.args) + len(attempt.header)
            behind = batch or child.outstanding
            if (behind and (work + cost > BATCH or attempt.claimed <= old)) or (batch and size > BATCH_BYTES):
                break
            work += cost
            attempt.cost, attempt.hard, attempt.handed_at = cost, self._hard_timeout(attempt), now
            batch.append(pending.popleft())
        return batch

    def _hard_timeout(self, attempt: Attempt) -> float:
        """Seconds; the job's own, else its task's. Of a header that cannot be read the child says what is wrong."""
        hard = self._hard[attempt.task]
        if b'"timeout"' in attempt.header:
            try:
                own = float(json.loads(attempt.header)["timeout"]["hard"])
            except (ValueError, TypeError, LookupError, RecursionError):
                return hard
            return own if own > 0 else hard
        return hard

    def leave(self, slots: int) -> None:
        """Use so many slots less: the group's former generation still uses them."""
        self._left = slots

    def claim_less(self, now: float) -> None:
        """A claimed job found no free child: claim none ahead for a while; `now` in monotonic seconds."""
        self._children.ahead.stop(now)

    def note_problem(self, task: str, code: str, message: str) -> None:
        """A child could not load a task that its fork server was not told of."""
        self._servers.note_problem(task, code, message)

    def look(self) -> None:
        """Look at the running jobs at once: a cancel or a lost lease was heard of."""
        self._watchdog.look()

    def take_back(self, tasks: Collection[bytes] | None = None) -> None:
        """Take back every job of these tasks that has not begun; None: of all tasks."""
        self._children.take_back_all(tasks)

    def kill_all(self) -> None:
        """Kill each child that runs a job."""
        for child in self._children.living.values():
            if child.outstanding:
                child.kill_for(KillReason.SHUTDOWN, child.begun())
