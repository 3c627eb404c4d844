"""What was done in the last two hours, minute by minute, over all queues; from the counters that Redis keeps."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Final

from fusiond.broker.counters import MINUTE, MINUTES, QueueCounters, Tally, series
from fusiond.web.backend import Backend

#: seconds for which the counters are believed
_BELIEVED: Final = 5.0
#: minutes over which a rate and the times of jobs are told
_LATELY: Final = 10


@dataclass(frozen=True, slots=True)
class Minute:
    """One minute."""

    #: epoch ms of its begin
    at: int
    finished: int
    failed: int


@dataclass(frozen=True, slots=True)
class Throughput:
    """The last two hours, and what was counted lately."""

    #: oldest first; the last one has not ended
    minutes: list[Minute]
    #: jobs that ended in a second, over the last minutes
    per_second: float
    finished: int
    failed: int
    #: jobs that ended in the busiest minute
    busiest: int
    #: seconds within which half and 95 of 100 attempts ran, and waited, over the last minutes; None: there were none
    run_median: float | None
    run_95: float | None
    wait_median: float | None
    wait_95: float | None


async def throughput(backend: Backend) -> Throughput:
    """All queues together. Raises BrokerError."""

    async def find() -> list[QueueCounters]:
        reading = backend.verbs.counters(await backend.queues(), minutes=MINUTES)
        return [*reading.read(await backend.run_many(reading.calls)).values()]

    found = await backend.kept("counters", find, _BELIEVED)
    return _of(series(found, now=time.time(), count=MINUTES, step=MINUTE), time.time())


def _of(minutes: Sequence[tuple[int, Tally]], now: float) -> Throughput:
    lately = reduce(add, (tally for _, tally in minutes[-_LATELY:]), Tally())
    seconds = (_LATELY - 1) * MINUTE + now % MINUTE
    return Throughput(
        minutes=[Minute(at * 1000, tally.finished, tally.failed) for at, tally in minutes],
        per_second=lately.ended / seconds,
        finished=sum(tally.finished for _, tally in minutes),
        failed=sum(tally.failed for _, tally in minutes),
        busiest=max((tally.finished + tally.failed for _, tally in minutes), default=0),
        run_median=lately.run.quantile(0.5),
        run_95=lately.run.quantile(0.95),
        wait_median=lately.wait.quantile(0.5),
        wait_95=lately.wait.quantile(0.95),
    )
