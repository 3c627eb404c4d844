"""
Which maps of the file the values of an entry can come from, nearest first.

    a task      its own, its queue's `defaults`, `defaults.tasks`
    a group     its own, `defaults.workers`
    any other   its own

If none of them has a key, the model's default applies.
"""

from collections.abc import Iterator
from typing import TypeAlias

from fusiond.config.model import DEFAULT_QUEUE
from fusiond.config.yaml.nodes import Node, Place

#: keys from the root to a node
Keys: TypeAlias = tuple[str, ...]


def layers(root: Node, section: str, name: str) -> tuple[Keys, ...]:
    """The paths of the maps that one entry takes its values from."""
    own = (section, name)
    if section == "tasks":
        return own, ("queues", root.text(*own, "queue") or DEFAULT_QUEUE, "defaults"), ("defaults", "tasks")
    return (own, ("defaults", "workers")) if section == "workers" else (own,)


def path_of(root: Node, section: str, name: str, key: str) -> Keys | None:
    """The path of an entry's key in the nearest map that has it; None if no map has it."""
    return next(((*path, key) for path in layers(root, section, name) if root.get(*path, key) is not None), None)


def node_of(root: Node, section: str, name: str, key: str) -> Node | None:
    """The value of an entry's key in the nearest map that has it; None if no map has it."""
    path = path_of(root, section, name, key)
    return root.get(*path) if path else None


def place_of(root: Node, section: str, name: str, key: str) -> Place:
    """Where an entry's key is written, in the nearest map that has it; the entry itself if no map has it."""
    return root.nearest(*(path_of(root, section, name, key) or (section, name)))


def cron_arguments(root: Node) -> Iterator[tuple[str, Node]]:
    """The values in `args` and `kwargs` of all cron entries, each with the key that it is under."""
    for _, entry in root.entries("cron"):
        for key in ("args", "kwargs"):
            if (arguments := entry.get(key)) is not None:
                yield from arguments.walk()


def all_maps(root: Node, section: str) -> Iterator[Node]:
    """Each map of the file with keys of `tasks`, or of `workers`: the entries themselves, and those of defaults."""
    paths: list[Keys] = [("defaults", section), *((section, name) for name in root.names(section))]
    if section == "tasks":
        paths += [("queues", name, "defaults") for name in root.names("queues")]
    return (node for path in paths if (node := root.get(*path)) is not None)
