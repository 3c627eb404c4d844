"""What is valid and hardly meant: YAML's own traps where the schema takes any value, and `~/` in a path."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, get_origin

from fusiond.config import kinds
from fusiond.config.lint.walk import keyed, named
from fusiond.config.model import Config
from fusiond.config.yaml.scalars import DATE, GROUPED, OLD_BOOLEANS, SEXAGESIMAL, has_exponent, has_leading_zero

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fusiond.config.problems import Problem
    from fusiond.config.yaml.nodes import Node

#: y and n are initials as often as booleans
_WORDS: Final = {word: meaning for word, meaning in OLD_BOOLEANS.items() if len(word) > 1}
#: above it not every whole number is a float
_EXACT: Final = 2**53
#: what stays as it is written, and what the schema takes in quotes only
_AS_WRITTEN: Final = frozenset({"environment", "umask"})


def check(root: Node) -> Iterator[Problem]:
    """Arguments that YAML 1.1 would read in another way, and paths that a shell would."""
    yield from _numbers(root)
    for _, entry in named(root, "cron"):
        for key in ("args", "kwargs"):
            node = entry.get(key)
            if node is not None:
                yield from _old_types(node)
    for node in _paths(root):
        if isinstance(node.value, str) and node.value.startswith("~"):
            remedy = f"write ${{HOME}}{node.raw[1:]}" if node.raw.startswith("~/") else "write the directory out"
            yield node.place.error("tilde", f"~ is not expanded in {node.raw!r}", remedy)


def _numbers(root: Node) -> Iterator[Problem]:
    for node in _scalars(root):
        if node.plain and isinstance(node.value, float) and has_exponent(node.raw) and node.raw == node.expanded:
            plain = int(node.value) if node.value.is_integer() and abs(node.value) < _EXACT else node.value
            message = f"{node.raw} is the number {plain} here, and a text to a reader of YAML 1.1"
            yield node.place.warning("yaml-exponent", message, f'write {plain}, or "{node.raw}" for the text')
        if node.plain and isinstance(node.value, int) and has_leading_zero(node.raw):
            message = f"{node.raw} is the number {node.value}; its zeros are lost"
            yield node.place.warning("leading-zero", message, f'put it in quotes to keep them: "{node.raw}"')


def _old_types(arguments: Node) -> Iterator[Problem]:
    """Arguments that are texts, and were something else to YAML 1.1."""
    for node in _scalars(arguments):
        if not node.plain or not isinstance(node.value, str):
            continue
        quoted = f'put it in quotes to say so: "{node.raw}"'
        if SEXAGESIMAL.fullmatch(node.raw):
            message = f"{node.raw} is a text in YAML 1.2, and was a number in YAML 1.1"
            yield node.place.warning("yaml-time", message, quoted)
        elif DATE.fullmatch(node.raw):
            yield node.place.warning("yaml-date", f"{node.raw} is passed as a text, JSON has no dates", quoted)
        elif GROUPED.fullmatch(node.raw):
            message = f"{node.raw} is a text in YAML 1.2, and was a number in YAML 1.1"
            remedy = f'write {node.raw.replace("_", "")}, or "{node.raw}" in quotes'
            yield node.place.warning("yaml-underscore", message, remedy)
        elif node.raw in _WORDS:
            message = f"{node.raw} is a text in YAML 1.2, not a boolean"
            yield node.place.warning("yaml-boolean", message, f'write {_WORDS[node.raw]}, or "{node.raw}" in quotes')


def _scalars(node: Node) -> Iterator[Node]:
    """Every scalar beneath whose type the text decides."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        if isinstance(node.value, dict):
            waiting += [child for key, child in node.value.items() if key not in _AS_WRITTEN]
        elif isinstance(node.value, list):
            waiting += node.value
        else:
            yield node


def _paths(root: Node) -> Iterator[Node]:
    """Each node that is a path."""
    for form, node in keyed(Config, root):
        is_list = get_origin(form.type) is tuple
        if (form.items if is_list else form).kind in (kinds.PATH, kinds.PATH_ELSEWHERE):
            yield from node.items() if is_list else [node]
