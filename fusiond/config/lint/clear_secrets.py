"""
Secrets written in clear: found by their key, or by their form, as `fusiond/config/secrets.py` knows them.

1. find   them, in `environment` and in the arguments of cron entries; the broker's URL has a rule of its own
2. hide   each in the lines that problems quote, so that a report that goes to a log does not carry it there
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from fusiond.config.lint.walk import group_settings, named
from fusiond.config.secrets import HIDDEN, looks_secret, names_secret

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fusiond.config.problems import Problem
    from fusiond.config.yaml.nodes import Node, Place


def check(root: Node) -> Iterator[Problem]:
    """Each secret of one file; hides it. Runs before anything else quotes the file."""
    found = [(key, node) for key, node in _candidates(root) if _is_secret(key, node)]
    _hide([node for _, node in found])
    for key, node in found:
        message = f"a secret is in the file in clear{f', as {key}' if key else ''}"
        yield node.place.warning("secret-in-clear", message, _remedy(key))


def _remedy(key: str) -> str:
    variable = re.sub(r"[^A-Za-z0-9_]", "_", key).upper() or "SECRET"
    return f'use environment_file, or "${{{variable}}}"'


def _is_secret(key: str, node: Node) -> bool:
    """Whether the scalar holds a secret itself, and not a reference or the place of one."""
    text = node.raw
    if "${" in text or not text or isinstance(node.value, bool) or node.value is None:
        return False
    return looks_secret(text) or (names_secret(key) and not text.startswith(("/", "~", ".")))


def _candidates(root: Node) -> Iterator[tuple[str, Node]]:
    """Each scalar that could be one, with the key that it is under."""
    for _, settings in group_settings(root):
        environment = settings.get("environment")
        yield from environment.entries() if environment is not None else ()
    for _, entry in named(root, "cron"):
        for key in ("args", "kwargs"):
            node = entry.get(key)
            if node is not None:
                yield from _scalars("", node)


def _scalars(key: str, node: Node) -> Iterator[tuple[str, Node]]:
    waiting = [(key, node)]
    while waiting:
        key, node = waiting.pop()
        if isinstance(node.value, dict):
            waiting += node.value.items()
        elif isinstance(node.value, list):
            waiting += [(key, item) for item in node.value]
        else:
            yield key, node


def _hide(nodes: list[Node]) -> None:
    """In the excerpts as many stars as characters, so that carets stay where they are; in sentences three."""
    for number, places in _by_line(nodes).items():
        lines = places[0].source.lines
        line = list(lines[number - 1])  # once for each line: a hostile one may hold a thousand secrets
        for place in places:
            start, end = place.column - 1, place.column - 1 + place.width
            line[start:end] = "*" * len(line[start:end])
        lines[number - 1] = "".join(line)
    for node in nodes:
        node.raw = HIDDEN


def _by_line(nodes: list[Node]) -> dict[int, list[Place]]:
    lines: dict[int, list[Place]] = {}
    for node in nodes:
        lines.setdefault(node.place.line, []).append(node.place)
    return lines
