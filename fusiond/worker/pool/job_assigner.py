"""
Which child is handed which jobs.

So many to one child as fit into about 5 ms of work by recent run times; one if jobs are long, or if each has a child of
its own; in between, one that runs and one that waits for it. A job whose next crash would be its last runs alone.

A job that has waited for PENDING seconds since its claim is handed to an idle child only, where it begins at once.
Behind another job it might wait for as long again while a child of another host is idle.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress

from fusiond.worker.pool.attempt import Attempt
from fusiond.worker.pool.capacity import Capacity
from fusiond.worker.pool.children import Children
from fusiond.worker.pool.group_config import GroupConfig
from fusiond.worker.pool.run_times import BATCH, BATCH_BYTES, PENDING
from fusiond.worker.pool.slots import ChildHandle
from fusiond.worker.pool.watchdog import Watchdog


class JobAssigner:
    """Hands jobs to the children of one group."""

    def __init__(self, conf: GroupConfig, children: Children, capacity: Capacity, watchdog: Watchdog) -> None:
        self._conf, self._children, self._capacity, self._watchdog = conf, children, capacity, watchdog
        self._one_job, self._is_concurrent = conf.group.isolation == "fork", conf.group.concurrency > 1

    def hand_out(self, pending: deque[Attempt], reserved: int) -> None:
        """Hand out what is pending, as far as there is room beside so many reserved children; the rest stays."""
        if not pending:
            return
        if self._is_concurrent:
            self._hand_alone(pending, reserved)
        free = self._capacity.unused() - reserved
        # This is called for each child that is forked. With isolation `fork`, a busy child is handed no job.
        if free > 0 or not self._one_job:
            for child, batch in self._batches(pending, free):
                self._send(child, batch)

    def hand_one(self, attempt: Attempt) -> bool:
        """Hand a job that waits for no other to a child that begins it at once; False: there is none."""
        child = None if self._is_concurrent and self._runs_alone(attempt) else self._capacity.taker()
        if child is None or attempt.task not in self._conf.tasks:
            return False
        attempt.expected_seconds = self._children.times.expected(attempt.task)
        self._send(child, [attempt])
        return True

    def _send(self, child: ChildHandle, batch: list[Attempt]) -> None:
        now = time.monotonic_ns()
        for attempt in batch:
            attempt.hard_timeout, attempt.handed_at = self._hard_timeout(attempt), now
            attempt.generation, attempt.release = self._conf.generation, child.server.origin.name
        child.send_jobs(batch, self._children.table)
        self._watchdog.keep_on()

    def _hand_alone(self, pending: deque[Attempt], reserved: int) -> None:
        """
        Hand out the jobs that run alone, each to an idle child; where there is none, fork one.

        If a child dies that runs many jobs, each of them counts a crash. So a job whose next crash would be its last
        has a child of its own: it never fails because of another job, and a job that ends its process does.
        """
        alone = [each for each in pending if self._runs_alone(each)]
        running = sum(child.is_alone for child in self._children.living.values())
        if self._capacity.set_extra(len(alone) + running):
            # Not now: a child that is forked is reported, and then this is called again.
            asyncio.get_running_loop().call_soon(self._capacity.resize)
        if not alone:
            return
        free = self._capacity.unused() - reserved
        idle = [child for child in self._capacity.takers() if not child.outstanding]
        for attempt, child in zip(alone[: max(0, free)], idle, strict=False):
            pending.remove(attempt)
            attempt.alone, attempt.expected_seconds = True, math.inf
            self._send(child, [attempt])
        # The rest waits for a child, behind those that may run with others.
        for attempt in alone[min(max(0, free), len(idle)) :]:
            pending.remove(attempt)
            pending.append(attempt)

    def _runs_alone(self, attempt: Attempt) -> bool:
        """Whether its next crash would be its last one. What may begin once only has no other."""
        policy = self._conf.policy(attempt)
        return not policy.at_most_once and attempt.crashes >= policy.max_crashes

    def _batches(self, pending: deque[Attempt], free: int) -> Iterator[tuple[ChildHandle, list[Attempt]]]:
        """
        The children, each with the pending attempts that it is handed; what finds no room stays pending.

        Args:
            pending: what was claimed.
            free: jobs that may begin now.
        """
        takers = self._capacity.takers()
        beyond = 0 if self._one_job else self._capacity.beyond(self._children.ahead.limit(time.monotonic()))
        for at, child in enumerate(takers):
            if not pending:
                return
            most = self._capacity.concurrency + beyond - len(child.outstanding)
            begins = self._capacity.concurrency - len(child.outstanding)
            if begins > 0:
                if free <= 0:
                    continue
                if free < begins:
                    begins = most = free
            share = math.ceil(len(pending) / (len(takers) - at))
            batch = self._batch(child, pending, min(share, most))
            if batch:
                if begins > 0:
                    free -= min(begins, len(batch))
                yield child, batch

    def _batch(self, child: ChildHandle, pending: deque[Attempt], most: int) -> list[Attempt]:
        """
        The next attempts for this child: one where jobs are long or unknown, many where they are short.

        Args:
            child: it gets them.
            pending: what was claimed.
            most: attempts, at most.
        """
        batch: list[Attempt] = []
        work, size, mates = child.work_ahead(), 0, self._capacity.concurrency - 1
        old = time.monotonic_ns() - int(PENDING * 1e9)
        while pending and len(batch) < most:
            attempt = pending[0]
            if self._is_concurrent and self._runs_alone(attempt):
                break
            before = len(batch) + len(child.outstanding)
            behind = before > mates
            if attempt.once:
                # A job with a permit that has not begun fails if this process dies, so it waits behind no other job.
                if behind:
                    break
                if not mates:
                    most = 1
            cost = self._children.times.expected(attempt.task)
            size += len(attempt.args) + len(attempt.header)
            late = behind and (work + cost > BATCH * self._capacity.concurrency or attempt.claimed <= old)
            if late or (batch and size > BATCH_BYTES):
                break
            if before >= mates:
                work += cost
            attempt.expected_seconds = cost
            batch.append(pending.popleft())
        return batch

    def _hard_timeout(self, attempt: Attempt) -> float:
        """Seconds; the job's own, else its task's. If the header cannot be read, the child reports what is wrong."""
        own = 0.0
        if b'"timeout"' in attempt.header:
            with suppress(ValueError, TypeError, LookupError, RecursionError):
                own = float(json.loads(attempt.header)["timeout"]["hard"])
        return own if own > 0 else self._conf.task(attempt.task)[0].timeout.hard
