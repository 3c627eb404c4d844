"""
Secrets in clear, found by their key or by their form: `fusiond/config/secrets.py` has the words and the forms.

1. find   them in `environment` and in the arguments of cron entries; `broker_url.py` looks at the broker's URL
2. hide   each in the lines that problems quote, so that no log of a report contains it
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from fusiond.config.layers import all_maps
from fusiond.config.secrets import HIDDEN, looks_secret, names_secret

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fusiond.config.problems import Problem
    from fusiond.config.yaml.nodes import Node, Place


def check(root: Node) -> Iterator[Problem]:
    """Each secret of one file; hides it. Must run before anything else quotes the file."""
    found = [(key, node) for key, node in _candidates(root) if _is_secret(key, node)]
    _hide([node for _, node in found])
    for key, node in found:
        message = f"a secret is in the file in clear{f', as {key}' if key else ''}"
        variable = re.sub(r"[^A-Za-z0-9_]", "_", key).upper() or "SECRET"
        yield node.place.warning("secret-in-clear", message, f'use environment_file, or "${{{variable}}}"')


def _candidates(root: Node) -> Iterator[tuple[str, Node]]:
    """Each value that could be a secret, with the key that it is under."""
    for settings in all_maps(root, "workers"):
        yield from settings.entries("environment")
    for _, entry in root.entries("cron"):
        for arguments in (entry.get("args"), entry.get("kwargs")):
            yield from arguments.walk() if arguments is not None else ()


def _is_secret(key: str, node: Node) -> bool:
    """Whether the value is a secret itself, and neither a reference to one nor the path of its file."""
    text = node.raw
    if "${" in text or not text or isinstance(node.value, bool) or node.value is None:
        return False
    return looks_secret(text) or (names_secret(key) and not text.startswith(("/", "~", ".")))


def _hide(nodes: list[Node]) -> None:
    """In lines, a star for each character, so that carets stay where they are; in sentences, three stars."""
    lines: dict[int, list[Place]] = {}
    for node in nodes:
        node.raw = HIDDEN
        lines.setdefault(node.place.line, []).append(node.place)
    for number, places in lines.items():
        quoted = places[0].source.lines
        line = list(quoted[number - 1])  # once for each line: a hostile one may hold a thousand secrets
        for place in places:
            start, end = place.column - 1, place.column - 1 + place.width
            line[start:end] = "*" * len(line[start:end])
        quoted[number - 1] = "".join(line)
