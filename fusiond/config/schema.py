"""
Nodes × the JSON Schema → problems, in sentences.

1. check    the plain data with `jsonschema`
2. find     the node that each of its errors is about
3. say      what is wrong and what to write (lint/sentences.py)

The schema is `schemas/fusion.schema.json`. It is made from `config/model.py`, and ships with the package.
"""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fusiond.config.lint.sentences import Error, sentence
from fusiond.config.lint.suggest import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jsonschema import Draft202012Validator

    from fusiond.config.problems import Problem
    from fusiond.config.yaml.nodes import Node, Place

_NAME: Final = "fusion.schema.json"
_PACKAGE: Final = Path(__file__).resolve().parent.parent


def schema_text() -> str:
    """The JSON Schema of the file, as it ships: beside the package in a checkout, inside it in a wheel."""
    for directory in (_PACKAGE / "schemas", _PACKAGE.parent / "schemas"):
        path = directory / _NAME
        if path.is_file():
            return path.read_text(encoding="utf-8")
    raise FileNotFoundError(f"{_NAME} is missing from the installation of fusiond; install it again")


def check(root: Node, *, included: bool = False) -> Iterator[Problem]:
    """What is wrong with one file by the schema. An included file need not repeat `version`."""
    for error in _validator().iter_errors(root.data()):
        if not (included and error.validator == "required" and not error.absolute_path):
            yield from _problems(root, error)


@functools.cache
def _validator() -> Draft202012Validator:
    # Imported here, since it takes longer than all the rest of `fusiond --help`.
    from jsonschema import Draft202012Validator

    return Draft202012Validator(json.loads(schema_text(), object_hook=_for_python))


def _for_python(schema: dict[str, Any]) -> dict[str, Any]:
    r"""
    The schema as jsonschema needs it.

    In Python, `$` also matches before a last line break; `\Z` does not. And for `uniqueItems` jsonschema compares each
    item with each other one; lint/names.py finds duplicates in one pass.
    """
    schema.pop("uniqueItems", None)
    if isinstance(schema.get("pattern"), str):
        schema["pattern"] = re.sub(r"(?<!\\)\$", r"\\Z", schema["pattern"])
    return schema


def _problems(root: Node, error: Error) -> Iterator[Problem]:
    """The problems that one error of jsonschema stands for."""
    node, place = _find(root, error)
    path = ".".join(str(part) for part in error.absolute_path)
    if error.validator == "anyOf":
        # The branch that fits the value's type, and fails deeper; the first one where none fits.
        branches = error.context or []
        likely = [inner for inner in branches if inner.path or inner.validator not in ("type", "enum")]
        for inner in likely or branches[:1]:
            yield from _problems(root, inner)
    elif error.validator == "additionalProperties":
        known = error.schema["properties"]
        for key, place_of_key in node.keys.items():
            if key not in known:
                remedy = did_you_mean(key, known) or f"known are {', '.join(known)}"
                message = f"{path}: unknown key {key!r}" if path else f"unknown key {key!r}"
                yield place_of_key.error("unknown-key", message, remedy)
    elif error.validator != "oneOf" or isinstance(error.instance, dict):  # else its type is a problem already
        of_key = "propertyNames" in error.absolute_schema_path
        yield (node.keys[error.instance] if of_key else place).error(*sentence(path, node, error, of_key=of_key))


def _find(root: Node, error: Error) -> tuple[Node, Place]:
    """The node of an error, and where to point: at the key of a map or list, at a scalar itself."""
    node, place = root, root.place
    for part in error.absolute_path:
        parent = node
        if isinstance(parent.value, dict):
            node = parent.value[str(part)]
            place = parent.keys[str(part)] if isinstance(node.value, dict | list) else node.place
        else:
            node = parent.items()[int(part)]
            place = node.place
    return node, place
