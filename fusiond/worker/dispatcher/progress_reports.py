"""
Store in Redis how far running jobs say that they are, twice a second.

1. read   what the jobs have written to the pages of their children: a job waits for nothing here
2. store  what has changed, in one call for each queue. While Redis is away nothing is stored; then the newest

What a job has said last comes with its outcome, and is stored in front of it (claims/lane.py).

No job depends on it. A group without commands and tasks with `pass_job` does nothing here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from fusiond.broker.call import Call
from fusiond.broker.records import ProgressReport
from fusiond.broker.redis.connection import AsyncConnection
from fusiond.broker.verbs import Verbs
from fusiond.errors import BrokerError
from fusiond.worker.pool.attempt import Attempt
from fusiond.worker.pool.group_config import GroupConfig
from fusiond.worker.pool.pool import Pool
from fusiond.worker.runtime.wire import JobReport

log = logging.getLogger(__name__)

#: s; between two looks
_EVERY = 0.5
#: reports in one call
_BATCH = 100


class ProgressReports:
    """The reports of one group's jobs."""

    def __init__(self, conf: GroupConfig, pool: Pool, broker: Verbs, connection: AsyncConnection) -> None:
        self._conf, self._pool, self._broker, self._connection = conf, pool, broker, connection
        #: any task can report
        self._are_used = asyncio.Event()
        #: what Redis has
        self._stored: Mapping[Attempt, JobReport] = {}
        self.follow()

    def follow(self) -> None:
        """Other tasks may be able to report now."""
        if any(task.job_keyword for task in self._conf.config.tasks.values()):
            self._are_used.set()
        else:
            self._are_used.clear()

    async def keep(self) -> None:
        """Look and store, again and again, until cancelled."""
        while True:
            await self._are_used.wait()
            await asyncio.sleep(_EVERY)
            if self._pool.capacity.running:
                await self._store(self._pool.reports())

    async def _store(self, reports: Mapping[Attempt, JobReport]) -> None:
        by_queue: dict[str, list[ProgressReport]] = {}
        for attempt, said in reports.items():
            if self._stored.get(attempt) != said:
                report = ProgressReport(attempt.id, attempt.token, said.share, said.message)
                by_queue.setdefault(attempt.queue, []).append(report)
        calls: list[Call[list[int]]] = [
            self._broker.report(queue, some[at : at + _BATCH])
            for queue, some in by_queue.items()
            for at in range(0, len(some), _BATCH)
        ]
        try:
            if calls:
                await self._connection.run_many(calls)
        except BrokerError as error:
            log.debug("how far jobs are did not reach Redis: %s", error)
        else:
            self._stored = reports
