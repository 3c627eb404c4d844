"""schemas/fusion.schema.json as the model gives it; `python -m tests.file_reference` writes it."""

import ast
import dataclasses
import functools
import inspect
import json
import re
from collections.abc import Mapping
from itertools import takewhile
from types import NoneType
from typing import Any, ClassVar, Literal, get_args, get_origin, get_type_hints

from fusiond.config import kinds, model
from fusiond.config.fields import fields_of, form_of, keys_of
from fusiond.config.schema import REFERENCE

_NOUNS = {
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "a map",
}
_TYPES = {str: "string", int: "integer", bool: "boolean", tuple: "array", Mapping: "object"}


def schema():
    """The JSON Schema of the whole file."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **_with_references(_map(model.Config)),
        "title": "fusion.yaml",
        "description": "What fusiond runs: queues, tasks, schedules and workers. Relations between keys are checked by "
        "`fusiond validate`.",
    }


def _with_references(described):
    """The same where each number, boolean and text with a pattern may be a `${VAR}`: other programs replace none."""
    if isinstance(described, list):
        return [_with_references(each) for each in described]
    if not isinstance(described, dict):
        return described
    found = {
        key: {name: _with_references(inner) for name, inner in value.items()} if key == "properties" else
        value if key in ("propertyNames", "default", "examples", "defaultSnippets") else _with_references(value)
        for key, value in described.items()
    }  # fmt: skip
    types = found.get("type", ())
    types = [types] if isinstance(types, str) else list(types)
    if "pattern" in found:
        found["pattern"] += "" if re.search(found["pattern"], "${A}") else REFERENCE
    elif "string" not in types and {"integer", "number", "boolean"} & set(types):
        message = f"write {' or '.join(_NOUNS[each] for each in types if each != 'null')}, or ${{VARIABLE}}"
        found |= {"type": [*types, "string"], "pattern": REFERENCE.removeprefix("|"), "patternErrorMessage": message}
    return found


def text():
    """The same as the file that is checked in."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def _map(cls, *, partial=False, entry=False):
    """The map of a class's keys; a partial one leaves out what `defaults` cannot say; an entry has a name."""
    keys = [each for each in keys_of(cls) if not (partial and each.key.own)]
    required = [each.written for each in keys if _default(each) is ...]
    either = [{"required": [each.written]} for each in keys if each.key.either is True]
    others = [each for each in keys if each.key.either not in (True, False)]
    # with the examples that messages quote
    also = {
        "oneOf": [{"required": [each.written]} for each in others],
        "properties": {each.written: {"examples": each.key.examples} for each in others},
    }
    is_map = bool(required or (entry and either))
    if either and not is_map:
        # the whole map may be null
        either = [{"type": "null"}, *({"type": "object", **branch} for branch in either)]
    return {
        "title": re.sub(r"(?<=[a-z])[A-Z]", lambda found: f" {found[0].lower()}", cls.__name__),
        "type": "object" if is_map else ["object", "null"],
        "additionalProperties": False,
        **({"required": required} if required else {}),
        **({"oneOf": either} if either else {}),
        **({"allOf": [also]} if others else {}),
        "properties": {each.written: _key(cls, each) for each in keys},
    }


def _key(cls, field):
    nullable = not field.key.either and (field.key.default is None or _takes_none(get_type_hints(cls)[field.name]))
    value, default = _value(field.form, nullable=nullable) | _parts(cls, field), _default(field)
    # the noun of error messages; the title is the key's own
    noun = {"x-kind": value["title"]} if value.get("title", "")[:1].islower() else {}
    said = {"title": field.key.title, "description": descriptions()[cls.__name__, field.name]}
    optional = {} if default is ... or field.key.either else {"default": default}
    for inner in value.get("properties", {}).values() if dataclasses.is_dataclass(field.form.type) else ():
        # yaml-language-server offers no key of the outer map where a map in it is null by default
        if "object" in inner.get("type", ()) and inner.get("default", ...) is None:
            del inner["default"]
    return {
        **said,
        **{key: value[key] for key in value if key not in said},
        **noun,
        **optional,
        "examples": field.key.examples,
    }


def _parts(cls, field):
    """What a map under the key may say, where its keys are another field of the class."""
    parts = [each.form.type for each in fields_of(cls) if each.form.part_of == field.name]
    maps = [_map(part) for part in parts if dataclasses.is_dataclass(part)]
    return {name: each[name] for each in maps for name in ("additionalProperties", "required", "properties")}


def _takes_none(hint):
    return NoneType in get_args(hint) or (get_origin(hint) is ClassVar and _takes_none(*get_args(hint)))


def _value(form, *, nullable=False, entry=False):
    """The schema of one value, whatever key it is under; an entry is one of a map of names."""
    if dataclasses.is_dataclass(form.type):
        return {**_map(form.type, partial=form.kind is kinds.PARTIAL, entry=entry), **form.kind.schema}
    if "anyOf" in form.kind.schema:
        return form.kind.schema
    if get_origin(form.type) is Literal:
        return _choice(get_args(form.type), form.kind.schema)
    if form.type is Any:
        return {}
    origin = get_origin(form.type) or form.type
    found = {"type": _TYPES.get(origin), **_items(form), **form.kind.schema}
    if origin in (tuple, Mapping) and isinstance(found["type"], str):
        found["type"] = [found["type"], "null"]
    elif nullable:
        found["type"] = ["null", *([found["type"]] if isinstance(found["type"], str) else found["type"])]
    return found


def _choice(words, told):
    if isinstance(words[0], int):
        return {"const": words[0]}
    return {"enum": [*words][: len(told["enumDescriptions"])], **told}


def _items(form):
    """What is said of the items of a list, and of the names and values of a map."""
    if "items" in form.kind.schema or get_origin(form.type) not in (tuple, Mapping) or form.items.type is Any:
        return {}
    if get_origin(form.type) is tuple:
        return {"items": _value(form.items)}
    names = form_of(get_args(form.type)[0])
    return {"propertyNames": _value(names), "additionalProperties": _value(form.items, entry=True)}


def _default(field):
    """As the file would say it; ... where it must say something."""
    if field.key.default is not ...:
        return field.key.default
    if field.entries and field.default is dataclasses.MISSING:
        return ...
    if (dataclasses.is_dataclass(field.form.type) and field.default is not None) or field.entries:
        return {}
    default = field.default
    if default is dataclasses.MISSING:
        return ...
    if isinstance(default, tuple):
        return [*default]
    if field.form.kind is kinds.SECONDS and default is not None:
        return f"{default:g}s" if default < 600 else field.form.kind.show(default)
    return default


@functools.cache
def descriptions():
    """(class, field) → the `#:` comment above the field."""
    found = {}
    names = (
        "commands",
        "cron_entries",
        "event_log",
        "file_policies",
        "flow_steps",
        "limits",
        "on_end",
        "outboxes",
        "tasks",
        "web_face",
        "worker_groups",
    )
    for module in (model, *(getattr(model, name) for name in names)):
        lines = inspect.getsource(module).splitlines()
        classes = [each for each in ast.parse("\n".join(lines)).body if isinstance(each, ast.ClassDef)]
        keys = [(cls, each) for cls in classes for each in cls.body if isinstance(each, ast.AnnAssign)]
        for owner, each in keys:
            above = takewhile(lambda line: line.lstrip().startswith("#: "), reversed(lines[: each.lineno - 1]))
            words = [line.lstrip().removeprefix("#: ") for line in above]
            found[owner.name, each.target.id] = " ".join(reversed(words))
    return found
