"""What is declared and never used, or waits for nobody."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fusiond.config.lint.walk import names, task_policies
from fusiond.config.model import DEFAULT_QUEUE, serves

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fusiond.config.model import Config
    from fusiond.config.problems import Problem
    from fusiond.config.yaml.nodes import Node, Place


def check(root: Node, config: Config) -> Iterator[Problem]:
    """Names that lead nowhere. All are warnings: a producer on another host may use them."""
    yield from _policies(root)
    if config.tasks and not config.workers:
        message = "there are tasks and no worker group"
        yield root.keys["tasks"].warning("no-workers", message, "add workers: {main: {queues: [default]}}")
        return
    yield from _queues(root, config)
    yield from _idle(root, config)


def _policies(root: Node) -> Iterator[Problem]:
    used = {policies.text("retry") for _, policies in task_policies(root)} | {"standard"}
    for name in names(root, "retry_policies"):
        if name not in used:
            place = root.nearest("retry_policies", name)
            yield place.warning(
                "unused-policy", f"retry policy {name!r} is never used", "name it in a task, or remove it"
            )


def _queues(root: Node, config: Config) -> Iterator[Problem]:
    filled = {task.queue for task in config.tasks.values()}
    declared = set(names(root, "queues"))
    served = {queue for group in config.workers.values() for queue in group.queues}
    for name in sorted(declared | filled):
        if config.workers and not serves(served, name):
            place = root.nearest("queues", name) if name in declared else _first_task(root, config, name)
            message = f"no worker group serves queue {name!r}: its jobs wait for ever"
            yield place.warning("unserved-queue", message, "add it to the queues of a group")
        if name not in filled and name != DEFAULT_QUEUE:
            place = root.nearest("queues", name)
            yield place.warning("unused-queue", f"no task uses queue {name!r}", "name it in a task, or remove it")


def _first_task(root: Node, config: Config, queue: str) -> Place:
    name = next(task.name for task in config.tasks.values() if task.queue == queue)
    return root.nearest("tasks", name)


def _idle(root: Node, config: Config) -> Iterator[Problem]:
    """A group that no task's job reaches. Where a queue of its own has no task, `unused-queue` has said so."""
    filled = {task.queue for task in config.tasks.values()}
    if not filled or DEFAULT_QUEUE in filled:
        return
    for name, group in config.workers.items():
        if set(group.queues) == {DEFAULT_QUEUE}:
            message = f"workers.{name} has nothing to do: no task is in queue {DEFAULT_QUEUE!r}"
            yield root.nearest("workers", name, "queues").warning(
                "idle-group", message, "serve other queues, or remove it"
            )
