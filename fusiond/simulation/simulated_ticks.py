"""
The cron entries of a simulation: the scheduler's own Ticker, by the virtual clock.

Entries that start runs of flows are left out: what a step's result brings about cannot be known.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, cast

from fusiond.broker.call import Call
from fusiond.broker.redis.connection import AsyncConnection
from fusiond.broker.verbs import Verbs
from fusiond.config.model import Config
from fusiond.schedule.ticking import Ticker
from fusiond.simulation.virtual_redis import VirtualRedis

_LOG = logging.getLogger("fusiond.schedule")
#: notes of the ticks of one entry that Redis keeps
_KEPT = 10_000
#: what becomes of a tick whose job was enqueued
_RAN = ("finished", "failed", "canceled", "enqueued")


class _AtOnce:
    """What the Ticker awaits, without waiting."""

    def __init__(self, redis: VirtualRedis) -> None:
        self._redis = redis

    async def run(self, what: Any) -> Any:
        return self._redis.run(what)

    async def run_many(self, calls: Sequence[Call[Any]]) -> list[Any]:
        return self._redis.run_many(calls)


class SimulatedTicks:
    """Ticks the entries of one file."""

    def __init__(self, config: Config, verbs: Verbs, redis: VirtualRedis) -> None:
        self._config, self._verbs, self._redis = config, verbs, redis
        connection = cast("AsyncConnection", _AtOnce(redis))
        self._ticker = Ticker(verbs, connection, "simulation", clock=lambda: redis.now)
        self._ticker.set_config(config)
        #: the queues that a tick may have given a job
        self.queues = {config.work_of(entry).queue for entry in config.cron.values()}

    def tick(self) -> int:
        """Do what is due. Returns the epoch ms of the next time."""
        steps, level = self._ticker.run_once(), _LOG.level
        # Each tick that is passed over is a line; the result has their numbers.
        _LOG.setLevel(logging.CRITICAL)
        try:
            steps.send(None)
        except StopIteration:
            return self._redis.now + int(self._ticker.until_next() * 1000)
        finally:
            _LOG.setLevel(level)
        raise AssertionError("the Ticker waits for something else than Redis")

    def figures(self) -> dict[str, dict[str, Any]]:
        """Entry → how many of its ticks had a job, how many had none, and why, by their history: of the last 10,000."""
        found = {}
        for name, entry in self._config.cron.items():
            notes = self._redis.run(self._verbs.tick_notes(self._config.work_of(entry).queue, name, 0, 2 * _KEPT))
            skipped = [note.outcome for note in notes if note.outcome not in _RAN]
            ran = len(notes) - len(skipped)
            found[name] = {"ran": ran, "skipped": len(skipped), "why": ", ".join(sorted({*skipped}))}
        return found
