"""
What can still be checked in a file with errors, so that one mistake does not hide the next.

1. find   the entry (a task, a queue, a group …) that each error is in
2. drop   these entries: with a default in place of a wrong value, an entry would say what nobody wrote
3. drop   the entries that refer to them, too, until none is left that does
4. stop   where the error is in what many entries share: `defaults`, `priorities`, or a section that is no map

What is left is true of the file. What is missing must not be reported, such as a queue that no task uses any more.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from fusiond.config.fields import keys_of
from fusiond.config.model import Config

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from fusiond.config.problems import Problem, Spot
    from fusiond.config.yaml.nodes import Node, Place

_SECTIONS: Final = frozenset(field.name for field in keys_of(Config) if field.entries)
#: what entries share or refer to: where it is wrong as a whole, nothing can be said of any entry
_SHARED: Final = frozenset({"defaults", *(field.name for field in keys_of(Config) if field.by_name)})


def error_free_part(root: Node, problems: Iterable[Problem], check: Callable[[Node], Iterable[Problem]]) -> Node | None:
    """
    The part of a file that has no errors.

    Args:
        root: the whole file.
        problems: all of its errors.
        check: the errors of a part that refers to what was dropped.

    Returns:
        None where nothing can be said about any part.
    """
    errors = {problem.spot for problem in problems}
    left: Node | None = _part(root, [field.name for field in keys_of(Config)])
    while errors and left is not None:
        left = _without(left, errors)
        errors = {found.spot for found in check(left)} if left is not None else set()
    return left


def _part(node: Node, names: Collection[str]) -> Node:
    """A map with only these of its keys."""
    values = {name: entry for name, entry in node.entries() if name in names}
    return dataclasses.replace(node, value=values, keys={name: node.keys[name] for name in values})


def _without(root: Node, errors: set[Spot]) -> Node | None:
    sections: dict[str, Node] = {}
    for key, node in root.entries():
        if key in _SECTIONS and errors.isdisjoint((root.keys[key].spot, node.place.spot)):
            sound = {name for name, entry in node.entries() if errors.isdisjoint(_spots(node.keys[name], entry))}
            sections[key] = _part(node, sound)
        elif errors.isdisjoint(_spots(root.keys[key], node)):
            sections[key] = node
        elif key in _SHARED:
            return None
    return dataclasses.replace(root, value=sections, keys={key: root.keys[key] for key in sections})


def _spots(key: Place, node: Node) -> Iterator[Spot]:
    """The places of a key and of all that is beneath it."""
    yield key.spot
    for _, each in node.walk():
        yield each.place.spot
        yield from (place.spot for place in each.keys.values())
