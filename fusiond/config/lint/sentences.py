"""
What jsonschema found, said for a person: code, message, remedy.

One small function for each keyword of the schema. The `x-kind` of a subschema is the noun (`duration`), or its title
where it is no key's; its examples are the remedy. The traps of YAML 1.1 and 1.2 are told where they bite:
`yes` for a boolean, 90 for a duration, 022 for a umask.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fusiond.config.lint.suggest import did_you_mean
from fusiond.config.yaml.scalars import DATE, GROUPED, OLD_BOOLEANS, SEXAGESIMAL

if TYPE_CHECKING:
    from collections.abc import Callable

    from fusiond.config.yaml.nodes import Node


class Failure(NamedTuple):
    """What jsonschema found: one keyword of one subschema that a value does not meet."""

    keyword: str
    #: what the keyword demands, such as the number of a `minimum`
    limit: Any
    schema: dict[str, Any]
    value: Any
    #: the value is the key of a map
    of_key: bool


class Sentence(NamedTuple):
    """What a Problem says."""

    code: str
    message: str
    remedy: str = ""


_NOUNS: Final = {
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "a map",
}
_LONGEST: Final = 60


def sentence(path: str, node: Node, failure: Failure) -> Sentence:
    """What is wrong with the value at `path`, and what to write."""
    say = _KEYWORDS.get(failure.keyword, _other)
    found = say(node, failure)
    return found._replace(message=f"{path}: {found.message}" if path else found.message)


_POLICY_AS_A_MAP: Final = Sentence(
    "wrong-type",
    "a retry policy is written by its name, not as a map",
    "declare it under `retry_policies` and write its name here, such as retry: standard",
)


def _type(node: Node, failure: Failure) -> Sentence:  # noqa: C901 - a row for each mistake
    types = _types(failure.schema)
    noun, kind, raw = _noun(failure.schema), _kind(failure.schema), node.raw
    if node.value is None:
        remedy = _example(failure.schema) or "write one, or remove the key"
        return Sentence("wrong-type", f"a value is missing; it must be {noun}", remedy)
    if raw in OLD_BOOLEANS and "boolean" in types:
        return Sentence("yaml-boolean", f"{raw} is a plain text in YAML 1.2", f"write {OLD_BOOLEANS[raw]}")
    if isinstance(node.value, int | float) and not isinstance(node.value, bool):
        if kind == "umask":
            return Sentence(
                "yaml-quote", f"the number {raw} is not a umask", f'put the octal digits in quotes: "{raw}"'
            )
        if kind in ("duration", "share or duration"):
            return Sentence("missing-unit", f"{raw} has no unit", f"write {raw}s for seconds; also ms, m, h, d")
        if kind == "size":
            return Sentence("missing-unit", f"{raw} has no unit", "write a size such as 512MiB")
    if "string" in types and node.raw and re.search(failure.schema.get("pattern", ""), node.raw):
        read_as = "a boolean" if isinstance(node.value, bool) else "a number"
        return Sentence("yaml-quote", f"{raw} is read as {read_as}, not {noun}", f'put it in quotes: "{raw}"')
    if types[:1] == ["integer"] and GROUPED.fullmatch(raw):
        plain = raw.replace("_", "")
        return Sentence("yaml-underscore", f"{raw} is a text in YAML 1.2, not a number", f"write {plain}")
    if types == ["array"] and isinstance(node.value, str):
        return Sentence("wrong-type", f"{show(node)} is not a list", f"write [{raw}]")
    if isinstance(node.value, dict) and "standard" in failure.schema.get("examples", ()):
        return _POLICY_AS_A_MAP
    example = _example(failure.schema, nested=not {"string", "integer", "boolean"} & set(types))
    return Sentence("wrong-type", f"{show(node)} is not {noun}", example or f"write {noun}")


def _pattern(node: Node, failure: Failure) -> Sentence:
    kind = _kind(failure.schema)
    if failure.of_key:
        message = f"{failure.value[:_LONGEST]!r} cannot be a {kind}"
        allowed = "use letters, digits, _ . and -, at most 100" if kind == "name" else _example(failure.schema)
        return Sentence("bad-name", message, allowed)
    if kind == "dotted path":
        return Sentence("bad-path", f"{show(node)} is not a dotted path", "write package.module.function")
    if kind == "priority":
        return Sentence("bad-value", f"{show(node)} is not a priority", "write a name of `priorities`, or 0 to 255")
    if "duration" in kind and isinstance(node.value, str):
        if SEXAGESIMAL.fullmatch(node.raw):
            return _clock(node.raw)
        if DATE.fullmatch(node.raw):
            return Sentence("yaml-date", f"{node.raw} is a text in YAML 1.2, and no duration", _example(failure.schema))
    if kind == "duration" and isinstance(node.value, str) and node.value.isdigit():
        return Sentence("missing-unit", f"{show(node)} has no unit", f"write {node.raw}s for seconds; also ms, m, h, d")
    if isinstance(node.value, str) and "\0" in node.value:
        return Sentence("bad-value", f"{show(node)} holds a NUL character", "remove it")
    return Sentence("bad-value", f"{show(node)} is not {_noun(failure.schema)}", _example(failure.schema))


def _clock(raw: str) -> Sentence:
    """22:30 where a duration is due: YAML 1.1 read it as 1350."""
    parts = raw.split(":")
    units = "hms" if len(parts) == 3 else "ms"
    minutes = "".join(f"{int(part)}{unit}" for part, unit in zip(parts, units, strict=True))
    hours = "".join(f"{int(part)}{unit}" for part, unit in zip(parts, "hms", strict=False))
    remedy = f"write {minutes}" if minutes == hours else f"write {hours} or {minutes}"
    return Sentence("yaml-time", f"{raw} is a text in YAML 1.2 and a number in 1.1, never a duration", remedy)


def _enum(node: Node, failure: Failure) -> Sentence:
    choices = [str(choice) for choice in failure.limit]
    if len(choices) == 1:
        return Sentence("bad-value", f"{show(node)} is not known here", f"write {choices[0]}")
    remedy = did_you_mean(str(node.value), choices) if isinstance(node.value, str) else ""
    return Sentence("bad-value", f"{show(node)} is not one of {', '.join(choices)}", remedy or f"write {choices[0]}")


def _const(node: Node, failure: Failure) -> Sentence:
    return Sentence("bad-value", f"{show(node)} is not supported", f"write {failure.limit}")


def _minimum(node: Node, failure: Failure) -> Sentence:
    limit = failure.limit
    return Sentence("out-of-range", f"{show(node)} is below {limit}", f"write {limit} or more")


def _maximum(node: Node, failure: Failure) -> Sentence:
    limit = failure.limit
    return Sentence("out-of-range", f"{show(node)} is above {limit}", f"write {limit} or less")


def _empty(_node: Node, failure: Failure) -> Sentence:
    what = {"minItems": "the list", "minProperties": "the map"}.get(failure.keyword, "the text")
    return Sentence("empty", f"{what} is empty", _example(failure.schema, nested=True) or "remove the key")


def _too_long(_node: Node, failure: Failure) -> Sentence:
    return Sentence("too-long", f"the text is longer than {failure.limit} characters", "shorten it")


def _required(_node: Node, failure: Failure) -> Sentence:
    key = next(key for key in failure.limit if key not in failure.value)  # no subschema requires more than one
    example = failure.schema["properties"][key].get("examples", [""])[0]
    return Sentence("missing-key", f"{key!r} is missing", f"add {key}: {example}")


def _one_of(_node: Node, failure: Failure) -> Sentence:
    keys = [branch["required"][0] for branch in failure.limit]
    there = [key for key in keys if key in failure.value]
    if there:
        return Sentence("exclusive-keys", f"{' and '.join(there)} exclude each other", "remove one")
    return Sentence("missing-key", f"neither {' nor '.join(keys)} is there", f'add one, such as {keys[0]}: "0 2 * * *"')


def _other(node: Node, failure: Failure) -> Sentence:
    return Sentence("bad-value", f"{show(node)} does not meet `{failure.keyword}` of the schema", "see docs/file.md")


_KEYWORDS: Final[dict[str, Callable[[Node, Failure], Sentence]]] = {
    "type": _type,
    "pattern": _pattern,
    "enum": _enum,
    "const": _const,
    "minimum": _minimum,
    "maximum": _maximum,
    "minItems": _empty,
    "minProperties": _empty,
    "minLength": _empty,
    "maxLength": _too_long,
    "required": _required,
    "oneOf": _one_of,
}


def show(node: Node) -> str:
    """A value as it was written; never what a `${VAR}` held, which may be a secret."""
    if isinstance(node.value, dict):
        return "a map"
    if isinstance(node.value, list):
        return "a list"
    text = node.raw if len(node.raw) <= _LONGEST else node.raw[:_LONGEST] + "…"
    return repr(text) if isinstance(node.value, str) else text or "null"


def _types(schema: dict[str, Any]) -> list[str]:
    """The types that a subschema takes, null aside."""
    types = schema.get("type", [])
    return [kind for kind in ([types] if isinstance(types, str) else types) if kind != "null"]


def _kind(schema: dict[str, Any]) -> str:
    """What a subschema takes, in a word, such as `duration`; empty where its types say it all."""
    title: str = schema.get("x-kind") or schema.get("title", "")
    return title if title[:1].islower() else ""


def _noun(schema: dict[str, Any]) -> str:
    """What a subschema wants: `a duration`, `a whole number or auto`."""
    if kind := _kind(schema):
        return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"
    pattern = schema.get("pattern", "")
    word = pattern.removeprefix("^").removesuffix("\\Z").replace("\\", "")
    # A pattern of one word is that word, such as `auto`; another one says nothing to a person.
    is_word = word == "*" or word.isalpha()
    nouns = [repr(word) if kind == "string" and is_word else _NOUNS[kind] for kind in _types(schema)]
    return " or ".join(nouns)


def _example(schema: dict[str, Any], *, nested: bool = False) -> str:
    """The remedy that a subschema's examples give: its scalars, or its first list or map."""
    examples = schema.get("examples", ())
    if nested:
        found = [json.dumps(example) for example in examples if isinstance(example, dict | list)][:1]
    else:
        scalars = [str(example) for example in examples if not isinstance(example, dict | list)][:3]
        found = [f'"{scalar}"' if scalar[0] in "*@" else scalar for scalar in scalars]
    return f"write for example {' or '.join(found)}" if found else ""
