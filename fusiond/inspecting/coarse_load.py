"""A load for a simulation, made of what was counted in each hour. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate
from typing import Any, Final

from fusiond.broker.counters import LIMITS, OTHERS, Histogram
from fusiond.broker.event_records import iso
from fusiond.config.units import written
from fusiond.inspecting.statistics import HOUR, Hours, by_hour_and_task, by_task

COARSE: Final = "this load is coarse: jobs arrive at random within an hour; those of cron and flows are among them"
#: percentiles of run times
_SHARES: Final = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


def coarse_load(counted: Hours, now: float) -> Iterator[dict[str, Any]]:
    """
    One line about the load, which begins with the first of these hours, and one for each task and hour.

    Tasks that are counted together, and those of which no attempt has run, are left out. `now`: epoch s.
    """
    if not counted:
        return
    first, all_hours = min(hour for _, hour in counted), by_task(counted)
    yield {"recording": 1, "from": "counters", "coarse": True, "began": f"{iso(first * HOUR * 1000)[:19]}Z"}
    for (hour, task), tally in sorted(by_hour_and_task(counted).items(), key=lambda item: item[0]):
        times = tally.run if tally.run.count else all_hours[task].run
        if not tally.ended or not times.count or task == OTHERS.decode():
            continue
        seconds = max(1, min(HOUR, int(now) - hour * HOUR))
        yield {
            "task": task,
            "rate": f"{max(1, round(tally.ended * HOUR / seconds))}/h",
            "from": written((hour - first) * HOUR),
            "for": written(seconds),
            "takes": {name: written(_within(times, share)) for name, share in _SHARES.items()},
            "fails": round(tally.failed / tally.ended, 4),
        }


def _within(times: Histogram, share: float) -> float:
    """Seconds within which this share of the attempts ran, as if those of a bucket were spread evenly over it."""
    up_to, wanted = list(accumulate(times.buckets)), share * times.count
    n = bisect_left(up_to, wanted)
    low, high = (0.0, *LIMITS)[n], (*LIMITS, LIMITS[-1])[n]
    return max(0.001, low + (high - low) * (1 - (up_to[n] - wanted) / times.buckets[n]))
