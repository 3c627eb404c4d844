"""
What a reference stands for: `input.day`, `extract`, `extract.files`. Pure.

Of a step that did not finish the value is null: only `when` and `join` let another step begin nevertheless.
"""

from collections.abc import Mapping
from typing import Any

from fusiond.config.model.flow_steps import INPUT


class NoValueError(ValueError):
    """A sentence: what a reference names is not there."""


def value_of(reference: str, inputs: Mapping[str, Any], results: Mapping[str, Any]) -> Any:
    """
    The value of a reference.

    Args:
        reference: as the file has it.
        inputs: of the flow.
        results: of the steps that finished.

    Raises:
        NoValueError: the field that it names is not there.
    """
    head, *fields = reference.split(".")
    if head == INPUT:
        return _field(reference, inputs, fields)
    return _field(reference, results[head], fields) if head in results else None


def _field(reference: str, value: Any, fields: list[str]) -> Any:
    for name in fields:
        if isinstance(value, Mapping) and name in value:
            value = value[name]
        elif isinstance(value, list) and name.isdigit() and int(name) < len(value):
            value = value[int(name)]
        else:
            kind = "object" if isinstance(value, Mapping) else _KINDS.get(type(value), "value")
            raise NoValueError(f"{reference}: there is no {name!r} in the {kind}")
    return value


_KINDS = {list: "list", str: "text", int: "number", float: "number", bool: "boolean", type(None): "null"}
