"""Names that are used must be declared: queues, tasks, priorities, retry policies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fusiond.config.lint.suggest import did_you_mean, listed
from fusiond.config.lint.walk import named, names, task_policies
from fusiond.config.model import DEFAULT_QUEUE, PRIORITIES, RETRY_POLICIES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from fusiond.config.problems import Problem
    from fusiond.config.yaml.nodes import Node, Place


def check(root: Node) -> Iterator[Problem]:
    """Each reference to a name that is not there, or is there twice."""
    queues = {DEFAULT_QUEUE, *names(root, "queues")}
    yield from _queues_of_tasks(root, queues)
    yield from _queues_of_groups(root, queues)
    yield from _priorities(root)
    yield from _retry_policies(root)
    yield from _tasks_of_cron(root)


def _queues_of_tasks(root: Node, queues: Collection[str]) -> Iterator[Problem]:
    for _, task in named(root, "tasks"):
        yield from _reference(task.get("queue"), "queue", queues)


def _queues_of_groups(root: Node, queues: Collection[str]) -> Iterator[Problem]:
    for _, group in named(root, "workers"):
        served = group.get("queues")
        if served is None:
            continue
        seen: set[object] = set()
        for item in served.items():
            if not isinstance(item.value, str):
                continue  # the schema says so
            if item.value in seen:
                yield item.place.error("duplicate-item", f"{item.raw!r} is in the list twice", "remove one")
            seen.add(item.value)
            if item.value == "*" and len(served.items()) > 1:
                yield item.place.error("bad-value", "'*' stands for all queues", "remove the others, or the '*'")
            elif item.value != "*":
                yield from _reference(item, "queue", queues)
        for name, place in served.keys.items():
            yield from _unless_known(name, place, "queue", queues)
        if isinstance(served.value, dict) and "order" in group.keys:
            place = group.keys["order"]
            yield place.error(
                "exclusive-keys", "queues with weights have no other order", "remove order, or write a list"
            )


def _priorities(root: Node) -> Iterator[Problem]:
    known = names(root, "priorities") or PRIORITIES
    for _, policies in task_policies(root):
        yield from _reference(policies.get("priority"), "priority", known)


def _retry_policies(root: Node) -> Iterator[Problem]:
    known = {*RETRY_POLICIES, *names(root, "retry_policies")}
    for _, policies in task_policies(root):
        yield from _reference(policies.get("retry"), "retry policy", known)


def _tasks_of_cron(root: Node) -> Iterator[Problem]:
    tasks = names(root, "tasks")
    for _, entry in named(root, "cron"):
        yield from _reference(entry.get("task"), "task", tasks)


def _reference(node: Node | None, kind: str, known: Collection[str]) -> Iterator[Problem]:
    if node is not None and isinstance(node.value, str):
        yield from _unless_known(node.value, node.place, kind, known, written=node.raw)


def _unless_known(
    name: str, place: Place, kind: str, known: Collection[str], written: str | None = None
) -> Iterator[Problem]:
    if name not in known:
        remedy = did_you_mean(name, known) or (f"declared are {listed(known)}" if known else f"declare the {kind}")
        yield place.error(f"unknown-{kind.replace(' ', '-')}", f"{kind} {(written or name)!r} is not declared", remedy)
