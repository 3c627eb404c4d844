"""Ways through the sections that several rules take."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from fusiond.config.build import said_by
from fusiond.config.fields import keys_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fusiond.config.fields import Form
    from fusiond.config.yaml.nodes import Node


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


def said(root: Node, section: str, name: str, key: str) -> Node | None:
    """Where an entry's value comes from, the entry itself or its defaults; None: from the model."""
    path = said_by(root, section, name, key)
    return root.get(*path) if path else None


def keyed(cls: type, map_: Node) -> Iterator[tuple[Form, Node]]:
    """The value of each key of a map, and of the maps and entries in it, with what the model says of it."""
    for field in keys_of(cls):
        node, below = map_.get(field.name), field.form.type
        if node is not None and field.entries is not None:
            for _, entry in node.entries():
                yield from keyed(field.entries, entry)
        elif node is not None and dataclasses.is_dataclass(field.form.type):
            yield from keyed(below, node)
        elif node is not None:
            yield field.form, node
