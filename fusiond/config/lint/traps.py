"""Values that are valid but probably a mistake, since YAML 1.1 reads them in another way."""

from collections.abc import Iterator
from typing import Final

from fusiond.config.layers import cron_arguments
from fusiond.config.problems import Problem
from fusiond.config.yaml.nodes import Node
from fusiond.config.yaml.scalars import DATE, EXPONENT, GROUPED, LEADING_ZERO, OLD_BOOLEANS, SEXAGESIMAL

#: above it, not every whole number is a float
_EXACT: Final = 2**53
#: keys whose values stay as they are written, or are checked by the schema
_AS_WRITTEN: Final = frozenset({"environment", "umask"})


def check(root: Node) -> Iterator[Problem]:
    """Each number and argument that YAML 1.1 reads in another way."""
    for _, node in root.walk(without=_AS_WRITTEN):
        if node.plain and isinstance(node.value, int | float):
            yield from _number(node, node.value)
    for _, node in cron_arguments(root):
        if node.plain and isinstance(node.value, str):
            yield from _argument(node)


def _number(node: Node, value: float) -> Iterator[Problem]:
    """A number that is a text in YAML 1.1, or was probably meant as a text."""
    if isinstance(value, int):
        if LEADING_ZERO.fullmatch(node.raw):
            message = f"{node.raw} is the number {value}; its zeros are lost"
            yield node.place.warning("leading-zero", message, f'put it in quotes to keep them: "{node.raw}"')
    elif EXPONENT.fullmatch(node.raw) and node.raw == node.expanded:
        plain = int(value) if value.is_integer() and abs(value) < _EXACT else value
        message = f"{node.raw} is the number {plain} here, and a text in YAML 1.1"
        yield node.place.warning("yaml-exponent", message, f'write {plain}, or "{node.raw}" for the text')


def _argument(node: Node) -> Iterator[Problem]:
    """An argument that is a text, and was something else in YAML 1.1."""
    raw, quoted = node.raw, f'put it in quotes to say so: "{node.raw}"'
    if SEXAGESIMAL.fullmatch(raw):
        yield node.place.warning("yaml-time", f"{raw} is a text in YAML 1.2, and a number in YAML 1.1", quoted)
    elif DATE.fullmatch(raw):
        yield node.place.warning("yaml-date", f"{raw} is passed as a text, since JSON has no dates", quoted)
    elif GROUPED.fullmatch(raw):
        remedy = f'write {raw.replace("_", "")}, or "{raw}" in quotes'
        yield node.place.warning("yaml-underscore", f"{raw} is a text in YAML 1.2, and a number in YAML 1.1", remedy)
    elif raw in OLD_BOOLEANS and len(raw) > 1:  # y and n are initials as often as booleans
        remedy = f'write {OLD_BOOLEANS[raw]}, or "{raw}" in quotes'
        yield node.place.warning("yaml-boolean", f"{raw} is a text in YAML 1.2, not a boolean", remedy)
