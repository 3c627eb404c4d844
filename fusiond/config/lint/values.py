"""Values that exclude or outdo one another once every default is resolved."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fusiond.config.lint.walk import said, task_policies
from fusiond.config.units import seconds, written

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fusiond.config.model import Config, Task
    from fusiond.config.problems import Problem
    from fusiond.config.yaml.nodes import Node


def check(root: Node, config: Config) -> Iterator[Problem]:
    """Each pair of values that do not go together."""
    yield from _timeouts(root)
    yield from _drains(root, config)
    yield from _priorities(root, config)
    yield from _keywords(root, config)
    yield from _expiries(root)


def _timeouts(root: Node) -> Iterator[Problem]:
    for _, policies in task_policies(root):
        timeout = policies.get("timeout")
        if timeout is None:
            continue
        soft, hard = timeout.get("soft") or timeout, timeout.get("hard")
        limit = seconds(str(soft.value))
        if limit == 0:
            yield soft.place.error("out-of-range", "a timeout of 0s lets nothing run", "write 1s or more")
        elif hard is not None and isinstance(hard.value, str) and seconds(hard.value) <= limit:
            message = f"the hard timeout {hard.raw} is not above the soft one, {soft.raw}"
            yield hard.place.error(
                "timeout-order", message, f"write more than {soft.raw}, such as {written(limit + 10)}"
            )


def _drains(root: Node, config: Config) -> Iterator[Problem]:
    """A shutdown that kills jobs which their timeout would let run. Silent where the file chose neither of the two."""
    longest_of: dict[str, Task] = {}
    for task in sorted(config.tasks.values(), key=lambda task: task.timeout.hard):
        longest_of[task.queue] = longest_of["*"] = task
    for name, group in config.workers.items():
        served = [longest_of[queue] for queue in group.queues if queue in longest_of]
        longest = max(served, key=lambda task: task.timeout.hard, default=None)
        if longest is None or group.drain_timeout >= longest.timeout.hard:
            continue
        if not (said(root, "workers", name, "drain_timeout") or said(root, "tasks", longest.name, "timeout")):
            continue
        hard = written(longest.timeout.hard)
        cost = "fail" if config.retry_policies[longest.retry].at_most_once else "run again"
        yield root.nearest("workers", name, "drain_timeout").warning(
            "short-drain",
            f"workers.{name}: a shutdown kills jobs after {written(group.drain_timeout)}, "
            f"and {longest.name!r} may run for {hard}",
            f"write drain_timeout: {hard}, or accept that such jobs {cost}",
        )


def _priorities(root: Node, config: Config) -> Iterator[Problem]:
    """Declared priorities replace the built-in ones; a task without a priority then needs a `moderate`."""
    for name in () if "moderate" in config.priorities else config.tasks:
        if not said(root, "tasks", name, "priority"):
            place = root.nearest("tasks", name)
            message = f"tasks.{name} has no priority, and `priorities` declares no 'moderate' to fall back on"
            yield place.error("no-default-priority", message, "add defaults: {tasks: {priority: …}}")
            return


def _keywords(root: Node, config: Config) -> Iterator[Problem]:
    for name, entry in config.cron.items():
        keyword = config.tasks[entry.task].pass_job
        if keyword is not None and keyword in entry.kwargs:
            place = root.nearest("cron", name, "kwargs", keyword)
            message = f"the keyword {keyword!r} is what pass_job of {entry.task!r} fills"
            yield place.error("keyword-taken", message, "rename one of the two")


def _expiries(root: Node) -> Iterator[Problem]:
    for _, policies in task_policies(root):
        node = policies.get("expires")
        if node is not None and isinstance(node.value, str) and seconds(node.value) == 0:
            yield node.place.error("out-of-range", "with expires: 0s no job ever begins", "write 1s or more, or null")
