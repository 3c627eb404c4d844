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

from fusiond.broker.records import Chore
from fusiond.broker.redis.connection import AsyncConnection
from fusiond.broker.verbs import Verbs
from fusiond.config.model import Config
from fusiond.errors import BrokerError
from fusiond.job import mark_of

log = logging.getLogger(__name__)

#: what a job's line says as its outcome, by the code of the chore; of all other codes it has failed
_OUTCOMES = {"RESCUED": "rescued", "NOT_CONFIRMED": "released", "CANCELED": "canceled"}


async def tell(
    broker: Verbs, connection: AsyncConnection, config: Config, found: Sequence[tuple[str, Sequence[Chore]]]
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
    if any(chore.token for _, chores in found for chore in chores):
        holders = await _holders(broker, connection)
    host = socket.gethostname()
    for queue, chores in found:
        for chore in chores:
            if chore.code == "BROKEN":
                fields = {"queue": queue, "host": host}
                log.error("a body that cannot be read is kept under `broken`: %s", chore.message, extra=fields)
            elif chore.code != "CANCELED" or config.logging.jobs:
                holder = holders.get(chore.token[: len(mark_of(""))])
                _write(chore, holder, {"queue": queue, "host": host, "log_tag": _tag(chore, config)})


async def _holders(broker: Verbs, connection: AsyncConnection) -> dict[str, str]:
    """The mark of each worker → its name. None where Redis does not answer: the lines matter more."""
    try:
        return {mark_of(name): name for name in await connection.run(broker.worker_names())}
    except BrokerError:
        return {}


def _write(chore: Chore, holder: str | None, about: Mapping[str, Any]) -> None:
    outcome = _OUTCOMES.get(chore.code, "failed")
    fields = {
        "job": chore.id,
        "task": chore.task,
        "attempt": chore.attempts,
        "outcome": outcome,
        "wait": round(chore.waited_ms / 1000, 3),
        "duration": None,
        **about,
    }
    if chore.token:
        fields |= {"held_by": holder, "rescues": chore.rescues}
    whose = f"the lease that {holder or 'an unknown worker'} had on it expired"
    if outcome == "rescued":
        log.warning("%s: it is queued again (rescue %d)", whose, chore.rescues, extra=fields)
    elif outcome == "released":
        message = "%s may have begun it and did not confirm that in time: it is queued again, and may run twice"
        log.warning(message, holder or "an unknown worker", extra=fields)
    elif outcome == "canceled":
        log.info("canceled: %s", whose, extra=fields)
    else:
        last = f"; {whose}" if chore.token else ""
        log.error("%s: %s%s (failed)", chore.code, chore.message, last, extra=fields)


def _tag(chore: Chore, config: Config) -> str | None:
    """The producer's, else that of the task."""
    task = config.tasks.get(chore.task)
    return chore.log_tag or (task and task.log_tag) or None
