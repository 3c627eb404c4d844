"""What the workers of all hosts say of themselves now."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Final

from fusiond.broker.call import Plan
from fusiond.broker.hosts.host_records import Worker, whole
from fusiond.broker.records import Counts
from fusiond.broker.verbs import Verbs

#: seconds between two looks at the answers
PAUSE: Final = 0.02


def ask_workers(verbs: Verbs, patience: float) -> Plan[list[tuple[Worker, bool]]]:
    """
    The workers that were heard within the last minute, and whether each has answered; until all have, or time is over.

    `patience`: seconds.
    """
    number: int = yield from verbs.ask_workers()
    deadline = time.monotonic() + patience
    while True:
        found: list[Worker] = yield from verbs.workers()
        answered = [whole(worker.fields.get("answers")) >= number for worker in found]
        if all(answered) or time.monotonic() >= deadline:
            return list(zip(found, answered, strict=True))
        yield PAUSE


def suspended_queues(queues: Mapping[str, Counts]) -> set[str]:
    """Those that an operator or the file has suspended."""
    return {name for name, one in queues.items() if one.is_suspended}


def state_of(worker: Worker, suspended: set[str], *, answered: bool = True) -> str:
    """`started`, `idle`, `busy`, `suspended` (idle, and so are all its queues), `draining`, `silent` or `gone`."""
    state = worker.fields.get("state", "started")
    if worker.is_gone and not answered:
        return "gone"
    if not answered:
        return "silent"
    return "suspended" if state == "idle" and worker.queues and suspended.issuperset(worker.queues) else state


def drained_queues(workers: Iterable[Worker]) -> dict[str, tuple[str, ...]]:
    """The queues from which living groups would claim if an operator did not drain them, each with their hosts."""
    hosts: dict[str, set[str]] = {}
    for worker in workers:
        # the phase of one that is replaced, or ends, is another
        if not worker.is_gone and (worker.fields.get("state"), worker.fields.get("phase")) == ("draining", "serving"):
            for queue in worker.queues:
                hosts.setdefault(queue, set()).add(worker.name.rpartition(".")[0])
    return {queue: tuple(sorted(names)) for queue, names in hosts.items()}


def unkilled(workers: Iterable[Worker]) -> list[tuple[str, str]]:
    """(worker, `queue/id`) of jobs whose process was killed and has not ended."""
    return [(worker.name, job) for worker in workers for job in worker.fields.get("unkilled", "").split()]
