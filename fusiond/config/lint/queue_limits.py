"""Limits that would let nothing run, or that limit nothing."""

import re
from collections.abc import Iterator
from typing import Final

from fusiond.config.model import Config
from fusiond.config.model.limits import RATE, jobs_and_seconds
from fusiond.config.problems import Problem
from fusiond.config.yaml.nodes import Node

#: jobs in a second; Redis' clock counts in µs
_MOST: Final = 1_000_000


def check(root: Node) -> Iterator[Problem]:
    """Each limit of a queue or task that cannot be meant. It skips what the schema refuses."""
    for _, queue in root.entries("queues"):
        yield from _rate(queue.get("rate_limit"))
    limits = [("max_running", task.nearest("limit"), task.get("limit")) for _, task in root.entries("tasks")]
    limits += [("slots", root.nearest("pools", name), pool) for name, pool in root.entries("pools")]
    for key, place, limit in limits:
        if limit is not None and (isinstance(limit.value, dict) or (key == "slots" and limit.value is None)):
            yield from _rate(limit.get("rate_limit"))
            said = [limit.get(each) for each in (key, "rate_limit")]
            if not any(node is not None and node.value is not None for node in said):
                remedy = f"add {key} or rate_limit, or remove it"
                yield place.error("limit-of-nothing", "this limit limits nothing", remedy)


def check_pairs(root: Node, config: Config) -> Iterator[Problem]:
    """Each limit of a task that is above the limit of its queue."""
    for name, task in config.tasks.items():
        queue = config.queues.get(task.queue)
        most = queue.max_running if queue else None
        own = task.limit.max_running if task.limit else None
        if own is not None and most is not None and own > most:
            message = f"max_running: {own} has no effect: queue {task.queue!r} lets {most} run"
            remedy = f"write {most} or less, or raise that of the queue"
            yield root.nearest("tasks", name, "limit", "max_running").warning("ignored-key", message, remedy)


def check_needs(root: Node, config: Config) -> Iterator[Problem]:
    """Each task whose jobs need more of a pool than there ever is."""
    needs = [(task, pool, need) for task in config.tasks.values() for pool, need in task.pools.items()]
    for task, name, need in needs:
        place, pool = root.nearest("tasks", task.name, "pools", name), config.pools.get(name)
        if pool is not None and pool.slots is not None and need > pool.slots:
            message = f"task {task.name!r} needs {need} slots of pool {name!r}, which has {pool.slots}"
            yield place.error("needs-too-much", message, "write less, or raise `slots` of the pool")


def _rate(limit: Node | None) -> Iterator[Problem]:
    rate = limit and (limit.get("rate") or limit)
    if rate is None or not isinstance(rate.value, str) or not re.fullmatch(RATE, rate.value):
        return
    jobs, over = jobs_and_seconds(rate.value)
    if over == 0:
        yield rate.place.error(
            "out-of-range", f"the rate {rate.raw} is over no time", f"write a time, such as {jobs}/s"
        )
    elif jobs / over > _MOST:
        message = f"the rate {rate.raw} is above {_MOST:,} jobs a second"
        yield rate.place.error("out-of-range", message, f"write {_MOST}/s or less, or null for no limit")
