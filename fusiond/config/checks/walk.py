"""Ways through the sections that several rules take."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fusiond.config.nodes import Node


def named(root: Node, section: str) -> Iterator[tuple[str, Node]]:
    """The names of a section and what they say."""
    node = root.get(section)
    if node is not None:
        yield from node.entries()


def names(root: Node, section: str) -> list[str]:
    """The names that a section declares."""
    return [name for name, _ in named(root, section)]


def task_policies(root: Node) -> Iterator[tuple[tuple[str, ...], Node]]:
    """Each map that may hold `priority`, `timeout`, `retry` …, with its keys: defaults, queues' defaults, tasks."""
    yield from _existing(root, ("defaults", "tasks"))
    for name in names(root, "queues"):
        yield from _existing(root, ("queues", name, "defaults"))
    for name in names(root, "tasks"):
        yield from _existing(root, ("tasks", name))


def group_settings(root: Node) -> Iterator[tuple[tuple[str, ...], Node]]:
    """Each map that may hold `user`, `directory` …, with its keys: the defaults and the groups."""
    yield from _existing(root, ("defaults", "workers"))
    for name in names(root, "workers"):
        yield from _existing(root, ("workers", name))


def _existing(root: Node, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Node]]:
    node = root.get(*path)
    if node is not None:
        yield path, node


def policy_of(root: Node, task: str, queue: str, key: str) -> Node | None:
    """Where a task's value comes from: the task, its queue's defaults, `defaults.tasks`; None: from the model."""
    paths = (("tasks", task), ("queues", queue, "defaults"), ("defaults", "tasks"))
    return next((node for path in paths if (node := root.get(*path, key)) is not None), None)


def setting_of(root: Node, group: str, key: str) -> Node | None:
    """Where a group's value comes from: the group, `defaults.workers`; None: from the model."""
    return root.get("workers", group, key) or root.get("defaults", "workers", key)
