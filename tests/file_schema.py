"""schemas/fusion.schema.json as the model gives it; `python -m tests.file_reference` writes it."""

import ast
import dataclasses
import functools
import inspect
import json
import re
from collections.abc import Mapping
from itertools import takewhile
from typing import Any, Literal, get_args, get_origin

from fusiond.config import kinds, model
from fusiond.config.fields import form_of, keys_of

_TYPES = {str: "string", int: "integer", bool: "boolean", tuple: "array", Mapping: "object"}


def schema():
    """The JSON Schema of the whole file."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **_map(model.Config),
        "title": "fusion.yaml",
        "description": "What fusiond runs: queues, tasks, schedules and workers. Relations between keys are checked by "
        "`fusiond validate`.",
    }


def text():
    """The same as the file that is checked in."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def _map(cls, *, partial=False):
    """The map of a class's keys; a partial one leaves out what `defaults` cannot say."""
    keys = [each for each in keys_of(cls) if not (partial and each.key.own)]
    required = [each.name for each in keys if _default(each) is ...]
    either = [each.name for each in keys if each.key.either]
    return {
        "title": re.sub(r"(?<=[a-z])[A-Z]", lambda found: f" {found[0].lower()}", cls.__name__),
        "type": "object" if required else ["object", "null"],
        "additionalProperties": False,
        **({"required": required} if required else {}),
        **({"oneOf": [{"required": [name]} for name in either]} if either else {}),
        "properties": {each.name: _key(cls, each) for each in keys},
    }


def _key(cls, field):
    value, default = _value(field.form, nullable=not field.key.either), _default(field)
    # the noun of error messages; the title is the key's own
    noun = {"x-kind": value["title"]} if value.get("title", "")[:1].islower() else {}
    said = {"title": field.key.title, "description": descriptions()[cls.__name__, field.name]}
    optional = {} if default is ... or field.key.either else {"default": default}
    return {
        **said,
        **{key: value[key] for key in value if key not in said},
        **noun,
        **optional,
        "examples": field.key.examples,
    }


def _value(form, *, nullable=True):
    """The schema of one value, whatever key it is under."""
    if dataclasses.is_dataclass(form.type):
        return {**_map(form.type, partial=form.kind is kinds.PARTIAL), **form.kind.schema}
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
    elif form.nullable and nullable:
        found["type"] = ["null", found["type"]]
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
    return {"propertyNames": _value(names), "additionalProperties": _value(form.items)}


def _default(field):
    """As the file would say it; ... where it must say something."""
    if field.key.default is not ...:
        return field.key.default
    if dataclasses.is_dataclass(field.form.type) or field.entries:
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
    lines = inspect.getsource(model).splitlines()
    found = {}
    for cls in ast.walk(ast.parse("\n".join(lines))):
        for each in cls.body if isinstance(cls, ast.ClassDef) else ():
            if isinstance(each, ast.AnnAssign):
                above = takewhile(lambda line: line.lstrip().startswith("#: "), reversed(lines[: each.lineno - 1]))
                words = [line.lstrip().removeprefix("#: ") for line in above]
                found[cls.name, each.target.id] = " ".join(reversed(words))
    return found
