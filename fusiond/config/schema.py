"""
Nodes × the JSON Schema → problems, in sentences.

1. check    the plain data with `jsonschema`
2. find     the node that each of its errors is about
3. say      what is wrong and what to write, from the schema's own titles, patterns and examples

The schema is `schemas/fusion.schema.json`; it is made from `config/model.py`, and ships with the package.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fusiond.config.lint.sentences import Failure, sentence
from fusiond.config.lint.suggest import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import ValidationError

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
    """What the schema says against one file. An included file need not repeat `version`."""
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
    What differs from a JSON Schema for jsonschema.

    `$` also matches before a last line break in Python; `\Z` does not. And jsonschema compares each item of a list with
    each other one; lint/references.py finds those that are there twice in one pass.
    """
    schema.pop("uniqueItems", None)
    if isinstance(schema.get("pattern"), str):
        schema["pattern"] = re.sub(r"(?<!\\)\$", r"\\Z", schema["pattern"])
    return schema


def _problems(root: Node, error: ValidationError) -> Iterator[Problem]:
    """One error of jsonschema as ours: one for each unknown key, the likelier branch of an anyOf."""
    if error.validator == "anyOf":
        yield from (problem for inner in _likely_branch(error) for problem in _problems(root, inner))
        return
    if error.validator == "oneOf" and not isinstance(error.instance, dict):
        return  # that it is no map is a problem of its own
    node, place = _find(root, error)
    path = ".".join(str(part) for part in error.absolute_path)
    failure = _failure(error)
    if failure.keyword == "additionalProperties":
        yield from _unknown_keys(path, node, failure.schema["properties"])
        return
    if failure.of_key:
        place = node.keys[failure.value]
    yield place.error(*sentence(path, node, failure))


def _failure(error: ValidationError) -> Failure:
    return Failure(
        keyword=str(error.validator),
        limit=error.validator_value,
        schema=dict(error.schema) if isinstance(error.schema, Mapping) else {},
        value=error.instance,
        of_key="propertyNames" in error.absolute_schema_path,
    )


def _unknown_keys(path: str, node: Node, known: dict[str, Any]) -> Iterator[Problem]:
    for key, place in node.keys.items():
        if key not in known:
            remedy = did_you_mean(key, known) or f"known are {', '.join(known)}"
            yield place.error("unknown-key", f"{path}: unknown key {key!r}" if path else f"unknown key {key!r}", remedy)


def _likely_branch(error: ValidationError) -> list[ValidationError]:
    """
    Of an anyOf, the errors of the branch that the value was meant for.

    A branch that fails on the value itself is less likely than one that fails deeper, and least likely where it is for
    values of another type.
    """
    branches: dict[Any, list[ValidationError]] = {}
    for inner in error.context or ():
        branches.setdefault(inner.schema_path[0], []).append(inner)

    def likelihood(errors: list[ValidationError]) -> tuple[int, bool]:
        return min(len(inner.path) for inner in errors), all(
            inner.validator not in ("type", "enum") for inner in errors
        )

    return max(branches.values(), key=likelihood)


def _find(root: Node, error: ValidationError) -> tuple[Node, Place]:
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
