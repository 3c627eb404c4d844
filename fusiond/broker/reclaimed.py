"""
A line in the log for each job that a claim took back from a worker whose lease had expired, that it ended, or that it
put aside because its body cannot be read.

Of the lost attempt Redis knows the token, and the first characters of a token are made of the worker's name: so the
names of all workers are read, once for a claim that had such a job. Other claims cost nothing.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Mapping, Sequence
from typing import Any

from fusiond.broker.records import ReclaimedJob
from fusiond.broker.redis.connection import AsyncConnection
from fusiond.broker.verbs import Verbs
from fusiond.config.model import Config
from fusiond.errors import BrokerError
from fusiond.job import mark_of

log = logging.getLogger(__name__)

#: what a job's line says as its outcome, by its code; of all other codes it has failed
_OUTCOMES = {"RESCUED": "rescued", "CANCELED": "canceled"}


async def log_reclaimed(
    broker: Verbs, connection: AsyncConnection, config: Config, found: Sequence[tuple[str, Sequence[ReclaimedJob]]]
) -> None:
    """
    Write the lines.

    Args:
        broker: gives the verb.
        connection: on which nothing else is under way.
        config: says which tags tasks have, and whether jobs that were canceled have a line.
        found: queue and jobs of each claim.
    """
    holders: Mapping[str, str] = {}
    if any(job.token for _, jobs in found for job in jobs):
        holders = await _holders(broker, connection)
    host = socket.gethostname()
    for queue, jobs in found:
        for job in jobs:
            if job.code == "BROKEN":
                fields = {"queue": queue, "host": host}
                log.error("a body that cannot be read is kept under `broken`: %s", job.message, extra=fields)
            elif job.code != "CANCELED" or config.logging.jobs:
                holder = holders.get(job.token[: len(mark_of(""))])
                _write(job, holder, {"queue": queue, "host": host, "log_tag": _tag(job, config)})


async def _holders(broker: Verbs, connection: AsyncConnection) -> dict[str, str]:
    """The mark of each worker → its name. None where Redis does not answer: the lines matter more."""
    try:
        return {mark_of(name): name for name in await connection.run(broker.worker_names())}
    except BrokerError:
        return {}


def _write(job: ReclaimedJob, holder: str | None, about: Mapping[str, Any]) -> None:
    outcome = _OUTCOMES.get(job.code, "failed")
    fields = {
        "job": job.id,
        "task": job.task,
        "attempt": job.attempts,
        "outcome": outcome,
        "wait": round(job.waited_ms / 1000, 3),
        "duration": None,
        **about,
    }
    if job.token:
        fields |= {"held_by": holder, "rescues": job.rescues}
    whose = f"the lease that {holder or 'an unknown worker'} had on it expired"
    if outcome == "rescued":
        log.warning("%s: it is queued again (rescue %d)", whose, job.rescues, extra=fields)
    elif outcome == "canceled":
        log.info("canceled: %s", whose, extra=fields)
    else:
        last = f"; {whose}" if job.token else ""
        log.error("%s: %s%s (failed)", job.code, job.message, last, extra=fields)


def _tag(job: ReclaimedJob, config: Config) -> str | None:
    """The producer's, else that of the task."""
    task = config.tasks.get(job.task)
    return job.log_tag or (task and task.log_tag) or None
