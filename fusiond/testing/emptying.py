"""
Have a broker forget all jobs, while daemons use it. For tests only: whatever is stored is lost.

1. cancel  runs of flows, then what waits and what runs, until nothing is left that could enqueue more
2. delete  the keys of each queue but those that its daemons have written: settings, what each dispatcher claimed last,
           and the numbers by which messages between queues are told apart
"""

from __future__ import annotations

from typing import Any, Final

from fusiond.broker.call import Plan, as_is, plain
from fusiond.broker.records import Counts
from fusiond.broker.verbs import Verbs
from fusiond.errors import JobNotFound
from fusiond.flows.run_control import RunControl, RunRef
from fusiond.job import JobStatus

#: what stays of a queue: the part of a key behind its root
_KEPT: Final = (b"conf", b"seq", b"wake", b"claim", b"effects", b"taken")
#: seconds between two looks at what runs
_PAUSE: Final = 0.01
#: jobs or keys of one round trip
_PAGE: Final = 500


def is_idle(broker: Verbs) -> Plan[bool]:
    """Whether no job is ready, runs, or waits for others, and no run of a flow goes on."""
    queues: list[str] = yield broker.queues()
    counts: list[Counts] = yield [broker.counts(name) for name in queues]
    return not any(each.queued + each.started + each.deferred + each.inbox for each in counts)


def empty(broker: Verbs) -> Plan[None]:
    """Forget all jobs."""
    queues: list[str] = yield broker.queues()
    while True:
        for queue in queues:
            yield from _cancel_runs(broker, queue)
            yield from broker.purge(queue)
            yield from broker.deliver(queue)
        if not (yield from _cancel_running(broker, queues)):
            break
        yield _PAUSE
    for queue in queues:
        yield from _delete(broker, queue)


def _cancel_runs(broker: Verbs, queue: str) -> Plan[None]:
    control = RunControl(broker)
    for id_ in (yield broker.runs(queue, _PAGE)):
        try:
            yield from control.cancel(RunRef(queue, id_))
        except JobNotFound:
            continue  # a step of another run, which is canceled with it


def _cancel_running(broker: Verbs, queues: list[str]) -> Plan[int]:
    """Cancel what runs; how many jobs run or wait still."""
    left = 0
    for queue in queues:
        jobs = yield broker.jobs(queue, JobStatus.STARTED, count=_PAGE)
        yield [broker.cancel(queue, job.id) for job in jobs]
        counts: Counts = yield broker.counts(queue)
        left += counts.started + counts.queued + counts.scheduled + counts.deferred + counts.inbox
    return left


def _delete(broker: Verbs, queue: str) -> Plan[None]:
    root = broker.keys.root(queue) + b":"
    cursor: Any = 0
    while True:
        cursor, keys = yield plain(as_is, "SCAN", cursor, "MATCH", root + b"*", "COUNT", _PAGE)
        gone = [key for key in keys if key.removeprefix(root).split(b":")[0] not in _KEPT]
        if gone:
            yield plain(as_is, "UNLINK", *gone)
        if int(cursor) == 0:
            return
