"""
Nodes → Config, every default resolved.

`layers.py` says which maps say what an entry is. The nearest one that has a key wins, then the model's own default. A
map or list is taken whole, never merged. `null` means "none", and wins like any value.

1. read    each key of the model from the nearest map that has it, as its annotation says
2. finish  what depends on other keys: the number of a priority's name, where `python` starts

Expects nodes in which neither the schema nor the checks of names found an error.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_origin

from fusiond.config import kinds
from fusiond.config.endpoints import split_namespace
from fusiond.config.fields import keys_of
from fusiond.config.layers import layers
from fusiond.config.model import PRIORITIES, Broker, Config, Task, WorkerGroup

if TYPE_CHECKING:
    from fusiond.config.fields import Form
    from fusiond.config.yaml.nodes import Node


@dataclass(frozen=True, slots=True)
class Directories:
    """Where a file puts the daemon."""

    state_directory: str | None = None
    runtime_directory: str | None = None


def build(root: Node) -> Config:
    """The Config that the tree describes."""
    values = _values(Config, root)
    values["priorities"] = values.get("priorities") or dict(PRIORITIES)
    for field in keys_of(Config):
        if (cls := field.entries) is not None:
            found = {}
            for name in root.names(field.name):
                said = _values(cls, *(root.get(*path) for path in layers(root, field.name, name)))
                named = {"name": name} if hasattr(cls, "name") else {}
                found[name] = cls(**named, **_finished(cls, said, values["priorities"]))
            values[field.name] = {**field.default, **found}
    return Config(**values)


def directories(root: Node) -> Directories:
    """The two directories of a tree that may be wrong elsewhere; one that is wrong itself counts as not written."""
    names = [field.name for field in dataclasses.fields(Directories) if root.text(field.name) is not None]
    return Directories(**{name: _path(node) for name in names if (node := root.get(name)) is not None})


def _values(cls: type, *maps: Node | None) -> dict[str, Any]:
    """Each key's value from the nearest map that has it; a key that none has is left to the model."""
    found: dict[str, Any] = {}
    for field in keys_of(cls):
        node = next((node for each in maps if each is not None and (node := each.get(field.name)) is not None), None)
        if node is not None and not field.of_file and field.entries is None:
            value = _value(field.form, node)
            found |= value if isinstance(value, kinds.Fields) else {field.name: value}
    return found


def _value(form: Form, node: Node) -> Any:
    """What a node says, read as its key's annotation has it."""
    cls, origin, read = form.type, get_origin(form.type), form.kind.read
    if isinstance(cls, type) and dataclasses.is_dataclass(cls):
        return cls(**(_finished(cls, _values(cls, node), {}) if read is None else read(node.data())))
    if form.kind is kinds.AS_WRITTEN:
        return node.expanded
    if read is not None:
        return None if node.value is None else read(node.data())
    if origin is tuple:
        return tuple(_value(form.items, item) for item in node.items())
    if origin is Mapping:
        return {name: _value(form.items, item) for name, item in node.entries()}
    return _path(node) if form.kind is kinds.PATH else node.data()


def _path(node: Node) -> str | None:
    """Absolute; a relative path starts at the file that holds it."""
    return None if node.value is None else os.path.normpath(node.place.source.directory / str(node.value))


def _finished(cls: type, values: dict[str, Any], priorities: Mapping[str, int]) -> dict[str, Any]:
    """The values of an entry, with what depends on other keys."""
    if cls is Broker and "url" in values:
        # A URL may have the namespace, too.
        url, namespace = split_namespace(values["url"])
        return {**values, "url": url} | ({"namespace": namespace} if namespace else {})
    if cls is Task:
        # A name, or a number; where nothing says it, the file's own `moderate`.
        priority = values.pop("priority", "moderate")
        number = priorities.get(priority) if isinstance(priority, str) else priority
        return values if number is None else {**values, "priority": number}
    if cls is WorkerGroup and values.get("python"):
        path = os.path.join(values.get("directory", "/"), values["python"])  # noqa: PTH118
        return {**values, "python": os.path.normpath(path)}
    return values
