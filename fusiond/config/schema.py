"""
Nodes × the JSON Schema → problems, in sentences.

1. check    the plain data with `jsonschema`
2. find     the node that each of its errors is about
3. say      what is wrong and what to write (lint/sentences.py)

The schema of the file is `schemas/fusion.schema.json`, which is made from `config/model/`; that of its tests is
`schemas/fusion-tests.schema.json`, written by hand. Both ship with the package.
"""

from __future__ import annotations

import functools
import json
import re
from typing import TYPE_CHECKING, Any, Final

from fusiond.config.lint.sentences import Error, sentence
from fusiond.config.lint.suggest import did_you_mean
from fusiond.installed import shipped

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from jsonschema import Draft202012Validator

    from fusiond.config.problems import Problem
    from fusiond.config.yaml.nodes import Node


#: behind each pattern: the reference to a variable that may stand there, too
REFERENCE: Final = r"|\$\{[A-Za-z_]"


def schema_text(name: str = "fusion") -> str:
    """The JSON Schema of the file, or that of its tests, `fusion-tests`, as it ships."""
    return shipped(f"schemas/{name}.schema.json").read_text(encoding="utf-8")


def check(root: Node, *, included: bool = False, schema: str = "fusion") -> Iterator[Problem]:
    """What is wrong with one file by the schema of this name. An included file need not repeat `version`."""
    for error in _validator(schema).iter_errors(root.data()):
        if not (included and error.validator == "required" and not error.absolute_path):
            yield from _problems(root, error)


@functools.cache
def _validator(schema: str) -> Draft202012Validator:
    # Imported here, since it takes longer than all the rest of `fusiond --help`.
    from jsonschema import Draft202012Validator

    return Draft202012Validator(json.loads(schema_text(schema), object_hook=_for_python))


def _for_python(schema: dict[str, Any]) -> dict[str, Any]:
    r"""
    The schema as jsonschema needs it.

    Here each `${VAR}` was replaced, which validators of other programs do not know: the alternative for them goes.
    In Python, `$` also matches before a last line break; `\Z` does not. And for `uniqueItems` jsonschema compares each
    item with each other one; lint/names.py finds duplicates in one pass.
    """
    schema.pop("uniqueItems", None)
    if str(schema.get("pattern")).endswith(REFERENCE[1:]):
        schema["pattern"] = schema["pattern"].removesuffix(REFERENCE[1:]).removesuffix("|")
        if not schema["pattern"]:
            del schema["pattern"], schema["patternErrorMessage"]
            schema["type"].remove("string")
    if isinstance(schema.get("pattern"), str):
        schema["pattern"] = re.sub(r"(?<!\\)\$", r"\\Z", schema["pattern"])
    return schema


#: a key that is gone, or that another file has → what to write
_ELSEWHERE = {
    "web.hide": "write it as `secret: [kwargs.password]` at the task, or in defaults.tasks for all",
    "tests": "tests stand in a file beside this one, fusion.tests.yml, which `fusiond test` reads",
}


def _problems(root: Node, error: Error) -> Iterator[Problem]:
    """The problems that one error of jsonschema stands for."""
    node, place = root.find(*error.absolute_path)
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
                remedy = _ELSEWHERE.get(f"{path}.{key}".strip(".")) or _remedy_of_key(key, known)
                message = f"{path}: unknown key {key!r}" if path else f"unknown key {key!r}"
                yield place_of_key.error("unknown-key", message, remedy)
    elif error.validator != "oneOf" or isinstance(error.instance, dict):  # else its type is a problem already
        of_key = "propertyNames" in error.absolute_schema_path
        yield (node.keys[error.instance] if of_key else place).error(*sentence(path, node, error, of_key=of_key))


def _remedy_of_key(key: str, known: Mapping[str, Any]) -> str:
    """What to write in place of an unknown key: first what it means, if it is a word of another job runner."""
    from fusiond.config.lint.other_runners import remedy_of

    return remedy_of(key) or did_you_mean(key, known) or f"known are {', '.join(known)}"
