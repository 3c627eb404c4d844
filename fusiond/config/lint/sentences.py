"""
Turn errors of jsonschema into sentences: code, message, remedy.

One function for each keyword of the schema. The noun of a sentence is the `x-kind` of the subschema (`duration`), or
its title if it has none; the remedy is the message that an editor shows, or the examples. Traps of YAML are explained
where they have an effect: `yes` for a boolean, 90 for a duration, 022 for a umask.
"""

import json
import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias

from fusiond.config.lint.suggest import did_you_mean
from fusiond.config.yaml.nodes import Node
from fusiond.config.yaml.scalars import DATE, GROUPED, OLD_BOOLEANS, SEXAGESIMAL

#: a ValidationError of jsonschema, whose type stubs allow each attribute to be unset
Error: TypeAlias = Any


class Sentence(NamedTuple):
    """The words of a Problem."""

    code: str
    message: str
    remedy: str


_NOUNS: Final = {
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "a map",
}
#: characters of a value that a message shows
_LONGEST: Final = 60


def sentence(path: str, node: Node, error: Error, *, of_key: bool) -> Sentence:
    """What is wrong with the value at `path`, or with a key of this map, and what to write."""
    say = _bad_key if of_key else _KEYWORDS[str(error.validator)]
    found = say(node, error)
    return found._replace(message=f"{path}: {found.message}" if path else found.message)


def _type(node: Node, error: Error) -> Sentence:
    schema, value, raw = error.schema, node.value, node.raw
    types, noun, kind = _types(schema), _noun(schema), _kind(schema)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if value is None:
        message = f"a value is missing; it must be {noun}"
        return Sentence("wrong-type", message, _remedy(schema) or "write one, or remove the key")
    if raw in OLD_BOOLEANS and "boolean" in types:
        return Sentence("yaml-boolean", f"{raw} is a plain text in YAML 1.2", f"write {OLD_BOOLEANS[raw]}")
    if is_number and ("duration" in kind or kind == "size"):
        return _without_unit(node, schema)
    if "string" in types and raw and re.search(schema.get("pattern", ""), raw):
        message = f"{raw} is read as {'a number' if is_number else 'a boolean'}, not {noun}"
        remedy = f'put it in quotes: "{raw}"'
        # who writes `pass_job: true` means to switch it on
        if isinstance(value, bool) and (example := _remedy(schema)):
            remedy = f'{example}; "{raw}" in quotes is the word itself'
        return Sentence("yaml-quote", message, remedy)
    if types[:1] == ["integer"] and GROUPED.fullmatch(raw):
        message = f"{raw} is a text in YAML 1.2, not a number"
        return Sentence("yaml-underscore", message, f"write {raw.replace('_', '')}")
    if types == ["array"] and isinstance(value, str):
        return Sentence("wrong-type", f"{show(node)} is not a list", schema.get("errorMessage", f"write [{raw}]"))
    if isinstance(value, dict) and "standard" in schema.get("examples", ()):
        remedy = "declare it under `retry_policies` and write its name here, such as retry: standard"
        return Sentence("wrong-type", "a retry policy is written by its name, not as a map", remedy)
    remedy = _remedy(schema, nested=not {"string", "integer", "boolean"} & set(types))
    return Sentence("wrong-type", f"{show(node)} is not {noun}", remedy or f"write {noun}")


def _pattern(node: Node, error: Error) -> Sentence:
    schema, kind, shown = error.schema, _kind(error.schema), show(node)
    if "duration" in kind and SEXAGESIMAL.fullmatch(node.raw):
        return _clock(node.raw)
    if "duration" in kind and DATE.fullmatch(node.raw):
        return Sentence("yaml-date", f"{node.raw} is a text in YAML 1.2, and no duration", _remedy(schema))
    if "duration" in kind and node.raw.isdigit():
        return _without_unit(node, schema)
    if ("duration" in kind or kind == "size") and re.search(schema["pattern"], node.raw[1:]) and node.raw[0] in "+-":
        return Sentence("bad-value", f"{shown} has a sign, which {_noun(schema)} cannot have", f"write {node.raw[1:]}")
    if "\0" in str(node.value):
        return Sentence("bad-value", f"{shown} holds a NUL character", "remove it")
    if kind == "path" and str(node.value).startswith("~"):
        remedy = f"write ${{HOME}}{node.raw[1:]}" if node.raw.startswith("~/") else "write the whole path"
        return Sentence("tilde", f"~ is not expanded in {shown}", remedy)
    code = "bad-path" if kind == "dotted path" else "bad-value"
    return Sentence(code, f"{shown} is not {_noun(schema)}", _remedy(schema))


def _bad_key(_node: Node, error: Error) -> Sentence:
    message = f"{error.instance[:_LONGEST]!r} cannot be a {_kind(error.schema)}"
    return Sentence("bad-name", message, _remedy(error.schema))


def _without_unit(node: Node, schema: dict[str, Any]) -> Sentence:
    remedy = (
        _remedy(schema) if _kind(schema) == "size" else f"write {node.raw.lstrip('+-')}s for seconds; also ms, m, h, d"
    )
    return Sentence("missing-unit", f"{show(node)} has no unit", remedy)


def _clock(raw: str) -> Sentence:
    """22:30 in place of a duration: YAML 1.1 reads it as 1350."""
    parts = raw.split(":")
    units = "hms" if len(parts) == 3 else "ms"
    minutes = "".join(f"{int(part)}{unit}" for part, unit in zip(parts, units, strict=True))
    hours = "".join(f"{int(part)}{unit}" for part, unit in zip(parts, "hms", strict=False))
    remedy = f"write {minutes}" if minutes == hours else f"write {hours} or {minutes}"
    return Sentence("yaml-time", f"{raw} is a text in YAML 1.2 and a number in 1.1, never a duration", remedy)


def _enum(node: Node, error: Error) -> Sentence:
    choices = [str(choice) for choice in error.validator_value]
    remedy = did_you_mean(str(node.value), choices) if isinstance(node.value, str) else ""
    remedy = remedy or error.schema.get("errorMessage") or f"write {choices[0]}"
    return Sentence("bad-value", f"{show(node)} is not one of {', '.join(choices)}", remedy)


def _const(node: Node, error: Error) -> Sentence:
    return Sentence("bad-value", f"{show(node)} is not supported", f"write {error.validator_value}")


def _bound(node: Node, error: Error) -> Sentence:
    limit = error.validator_value
    beyond, rest = ("below", "more") if error.validator == "minimum" else ("above", "less")
    return Sentence("out-of-range", f"{show(node)} is {beyond} {limit}", f"write {limit} or {rest}")


def _empty(_node: Node, error: Error) -> Sentence:
    what = {"minItems": "the list", "minProperties": "the map"}.get(str(error.validator), "the text")
    is_ = "is empty" if not error.instance else f"has only {', '.join(error.instance)}"
    return Sentence("empty", f"{what} {is_}", _examples(error.schema, nested=True) or "remove the key")


def _too_long(_node: Node, error: Error) -> Sentence:
    return Sentence("too-long", f"the text is longer than {error.validator_value} characters", "shorten it")


def _required(_node: Node, error: Error) -> Sentence:
    key = next(key for key in error.validator_value if key not in error.instance)
    example = error.schema["properties"][key]["examples"][0]
    return Sentence("missing-key", f"{key!r} is missing", f"add {key}: {example}")


def _one_of(_node: Node, error: Error) -> Sentence:
    keys = [branch["required"][0] for branch in error.validator_value if "required" in branch]
    there = [key for key in keys if key in error.instance]
    if there:
        return Sentence("exclusive-keys", f"{' and '.join(there)} exclude each other", "remove one")
    example = show_example(error.schema["properties"][keys[0]]["examples"][0])
    return Sentence("missing-key", f"neither {' nor '.join(keys)} is there", f"add one, such as {keys[0]}: {example}")


_KEYWORDS: Final[dict[str, Callable[[Node, Error], Sentence]]] = {
    "type": _type,
    "pattern": _pattern,
    "enum": _enum,
    "const": _const,
    "minimum": _bound,
    "maximum": _bound,
    "minItems": _empty,
    "minProperties": _empty,
    "minLength": _empty,
    "maxLength": _too_long,
    "required": _required,
    "oneOf": _one_of,
}


def show(node: Node) -> str:
    """A value as it is written; never what a `${VAR}` holds, which may be a secret."""
    if isinstance(node.value, dict | list):
        return "a map" if isinstance(node.value, dict) else "a list"
    text = node.raw if len(node.raw) <= _LONGEST else node.raw[:_LONGEST] + "…"
    return repr(text) if isinstance(node.value, str) else text or "null"


def show_example(text: str) -> str:
    """A scalar as it is written in the file."""
    return f'"{text}"' if text[0] in "*@" or "*" in text else text


def _types(schema: dict[str, Any]) -> list[str]:
    """The types that a subschema takes, without null."""
    types = schema.get("type", [])
    return [kind for kind in ([types] if isinstance(types, str) else types) if kind != "null"]


def _kind(schema: dict[str, Any]) -> str:
    """The kind of value that a subschema takes, such as `duration`; empty if its types are enough."""
    title: str = schema.get("x-kind") or schema.get("title", "")
    return title if title[:1].islower() else ""


def _noun(schema: dict[str, Any]) -> str:
    """What a subschema takes: `a duration`, `a whole number or 'auto'`."""
    if kind := _kind(schema):
        return f"{'an' if kind[0] in 'aeio' else 'a'} {kind}"
    word = schema.get("pattern", "").removeprefix("^").removesuffix("\\Z").replace("\\", "")
    # A pattern of one word is that word, such as `auto`; any other pattern means nothing to a person.
    is_word = word == "*" or word.isalpha()
    return " or ".join(repr(word) if kind == "string" and is_word else _NOUNS[kind] for kind in _types(schema))


def _remedy(schema: dict[str, Any], *, nested: bool = False) -> str:
    """The message that an editor shows for a wrong value, otherwise the examples."""
    return schema.get("patternErrorMessage") or _examples(schema, nested=nested)


def _examples(schema: dict[str, Any], *, nested: bool) -> str:
    """The first scalars among the examples; nested: the first list or map."""
    examples = schema.get("examples", ())
    if nested:
        found = [json.dumps(example) for example in examples if isinstance(example, dict | list)][:1]
    else:
        scalars = [str(example) for example in examples if not isinstance(example, dict | list)][:3]
        found = list(map(show_example, scalars))
    return f"write for example {' or '.join(found)}" if found else ""
