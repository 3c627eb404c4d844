"""
What can still be checked of a file with errors, so that one mistake does not hide the next.

1. map    each error to the entry (a task, a queue, a group …) that it is in
2. drop   these entries whole: with a default in place of a wrong value, an entry would say what nobody wrote
3. drop   what refers to them, too, until nothing does
4. stop   where the error is in what many entries share: `defaults`, `priorities`, or a section that is no map

What is left is true of the file; what is missing (a queue that no task uses any more) is not to be complained about.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from fusiond.config.fields import keys_of
from fusiond.config.model import Config

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from fusiond.config.problems import Problem
    from fusiond.config.yaml.nodes import Node, Place

_SECTIONS: Final = frozenset(field.name for field in keys_of(Config) if field.entries)
#: what entries share or refer to: where one is wrong as a whole, nothing can be said of them
_SHARED: Final = frozenset({"defaults", *(field.name for field in keys_of(Config) if field.by_name)})

_Spot = tuple[str, int, int]


def error_free_part(root: Node, problems: Iterable[Problem], check: Callable[[Node], Iterable[Problem]]) -> Node | None:
    """
    The part of a file that has no errors.

    Args:
        root: all of it.
        problems: its errors, all of them.
        check: the errors that a part has, where it refers to what is gone.

    Returns:
        None where nothing can be said about any part.
    """
    errors = {(problem.file, problem.line, problem.column) for problem in problems}
    left: Node | None = _part(root, {field.name for field in keys_of(Config)})
    while errors and left is not None:
        left = _without(left, errors)
        errors = {(found.file, found.line, found.column) for found in check(left)} if left is not None else set()
    return left


def _part(root: Node, keys: set[str]) -> Node:
    values = {key: node for key, node in root.entries() if key in keys}
    return dataclasses.replace(root, value=values, keys={key: root.keys[key] for key in values})


def _without(root: Node, errors: set[_Spot]) -> Node | None:
    sections: dict[str, Node] = {}
    for key, node in root.entries():
        own = {_spot(root.keys[key]), _spot(node.place)}
        if key in _SECTIONS and not own & errors:
            sections[key] = _part(
                node, {name for name, entry in node.entries() if not _is_hit(node, name, entry, errors)}
            )
        elif not own & errors and not any(_spot(place) in errors for place in _places(node)):
            sections[key] = node
        elif key in _SHARED:
            return None
    return dataclasses.replace(root, value=sections, keys={key: root.keys[key] for key in sections})


def _is_hit(section: Node, name: str, entry: Node, errors: set[_Spot]) -> bool:
    return _spot(section.keys[name]) in errors or any(_spot(place) in errors for place in _places(entry))


def _places(node: Node) -> Iterator[Place]:
    """Every place of a node and beneath it."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        yield node.place
        yield from node.keys.values()
        waiting += node.value.values() if isinstance(node.value, dict) else node.items()


def _spot(place: Place) -> _Spot:
    return place.source.name, place.line, place.column
