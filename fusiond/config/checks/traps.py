"""What is valid and hardly meant: YAML's own traps where the schema takes any value, and `~/` in a path."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fusiond.config.checks.walk import group_settings, named
from fusiond.config.scalars import OLD_BOOLEANS, has_leading_zero

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fusiond.config.nodes import Node
    from fusiond.config.problems import Problem

#: y and n are initials as often as booleans
_WORDS: Final = {word: meaning for word, meaning in OLD_BOOLEANS.items() if len(word) > 1}
#: what stays as it is written, and what the schema takes in quotes only
_AS_WRITTEN: Final = frozenset({"environment", "umask"})


def check(root: Node) -> Iterator[Problem]:
    """Arguments that YAML 1.1 would read in another way, and paths that a shell would."""
    yield from _leading_zeros(root)
    for _, entry in named(root, "cron"):
        for key in ("args", "kwargs"):
            node = entry.get(key)
            if node is not None:
                yield from _old_booleans(node)
    for node in _paths(root):
        if isinstance(node.value, str) and node.value.startswith("~"):
            remedy = f"write ${{HOME}}{node.raw[1:]}" if node.raw.startswith("~/") else "write the directory out"
            yield node.place.error("tilde", f"~ is not expanded in {node.raw!r}", remedy)


def _leading_zeros(root: Node) -> Iterator[Problem]:
    for node in _scalars(root):
        if node.plain and isinstance(node.value, int) and has_leading_zero(node.raw):
            message = f"{node.raw} is the number {node.value}; its zeros are lost"
            yield node.place.warning("leading-zero", message, f'put it in quotes to keep them: "{node.raw}"')


def _old_booleans(arguments: Node) -> Iterator[Problem]:
    for node in _scalars(arguments):
        if node.plain and node.raw in _WORDS:
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
    single = (
        ("broker", "password_file"),
        *(("broker", "tls", key) for key in ("ca_file", "cert_file", "key_file")),
        ("logging", "file"),
        ("state_directory",),
        ("runtime_directory",),
    )
    yield from (node for path in single if (node := root.get(*path)) is not None)
    for _, settings in group_settings(root):
        yield from (node for key in ("directory", "python") if (node := settings.get(key)) is not None)
        files = settings.get("environment_file")
        yield from files.items() if files is not None else ()
    include = root.get("include")
    yield from include.items() if include is not None else ()
