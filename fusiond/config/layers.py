"""
Which maps of the file say what an entry is, nearest first.

    a task      its own, its queue's `defaults`, `defaults.tasks`
    a group     its own, `defaults.workers`
    any other   its own

Where none of them has a key, the model's own default applies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from fusiond.config.model import DEFAULT_QUEUE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fusiond.config.yaml.nodes import Node

#: keys from the root to a node
Keys: TypeAlias = tuple[str, ...]


def layers(root: Node, section: str, name: str) -> tuple[Keys, ...]:
    """The ways to the maps of one entry."""
    own = (section, name)
    if section == "tasks":
        return own, ("queues", root.text(*own, "queue") or DEFAULT_QUEUE, "defaults"), ("defaults", "tasks")
    return (own, ("defaults", "workers")) if section == "workers" else (own,)


def path_of(root: Node, section: str, name: str, key: str) -> Keys | None:
    """The way to the value of an entry's key, in the nearest map that has it; None: no map has it."""
    return next(((*path, key) for path in layers(root, section, name) if root.get(*path, key) is not None), None)


def node_of(root: Node, section: str, name: str, key: str) -> Node | None:
    """The value of an entry's key as the nearest map that has it says it; None: no map has it."""
    path = path_of(root, section, name, key)
    return root.get(*path) if path else None


def all_maps(root: Node, section: str) -> Iterator[Node]:
    """Each map of the file that may say what `tasks` are, or `workers`: the entries' own and those of defaults."""
    paths: list[Keys] = [("defaults", section), *((section, name) for name in root.names(section))]
    if section == "tasks":
        paths += [("queues", name, "defaults") for name in root.names("queues")]
    return (node for path in paths if (node := root.get(*path)) is not None)
