"""The counts of all queues; of a queue the limits in words, and the bodies that could not be read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count as counting
from typing import Final

from fusiond.broker.call import Plan, read_each
from fusiond.broker.queries import BrokenBody
from fusiond.broker.records import Counts
from fusiond.broker.verbs import Verbs
from fusiond.errors import BrokerError

#: bodies that are read at once; one may have some megabytes
BODIES: Final = 10


def count_each(verbs: Verbs) -> Plan[tuple[dict[str, Counts], list[BrokerError]]]:
    """The counts of each queue that can be read, and the errors of the others. Raises BrokerError."""
    names: list[str] = yield verbs.queues()
    return (yield from read_each({name: verbs.counts(name) for name in names}))


def limits_in_words(counts: Counts) -> Iterator[str]:
    """`at most 5 run`, `fair by kwargs.account`."""
    if counts.max_length is not None:
        yield f"at most {counts.max_length:,} wait"
    if counts.max_running is not None:
        yield f"at most {counts.max_running:,} run"
    if counts.rate is not None:
        yield f"at most {per_time(counts.rate)}{_at_once(counts.burst)}"
    if counts.fair_by:
        yield f"fair by {', '.join(counts.fair_by)}{' (jobs are being placed)' if counts.placing else ''}"
    for task, limit in counts.limits.items():
        most = [f"{limit.max_running:,} run"] if limit.max_running is not None else []
        most += [per_time(1000 / limit.rate[0]) + _at_once(limit.rate[1])] if limit.rate else []
        by = f" by {', '.join(limit.by)}" if limit.by else ""
        yield f"{task}: at most {' and '.join(most)}{by}"


def _at_once(burst: int | None) -> str:
    """The burst of a rate, where it is more than one job after the other."""
    return f" ({burst:,} at once)" if burst and burst > 1 else ""


def per_time(rate: float) -> str:
    """Jobs in a second as a person would write them: 0.5 is `30/m`."""
    of, unit = next(((of, unit) for of, unit in ((1, "s"), (60, "m"), (3600, "h")) if rate * of >= 0.995), (86400, "d"))
    return f"{rate * of:,.4g}/{unit}"


def newest_bodies(
    verbs: Verbs, queue: str, fits: Callable[[BrokenBody], bool] = lambda _: True, *, most: int | None = None
) -> Plan[list[BrokenBody]]:
    """Those of a queue that fit; none twice, though others may be put aside meanwhile."""
    found: dict[str, BrokenBody] = {}
    for start in counting(0, BODIES):
        page: list[BrokenBody] = yield verbs.broken(queue, start, count=BODIES)
        found |= {body.digest: body for body in filter(fits, page)}
        if not page or (most is not None and len(found) >= most):
            break
    return [*found.values()][:most]
