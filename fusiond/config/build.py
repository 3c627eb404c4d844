"""
Nodes → Config, every default resolved.

What wins, nearest first: the task, its queue's `defaults`, `defaults.tasks`, the model's own default; for a group, the
group and `defaults.workers`. A map or list is taken whole, never merged. `null` means "none", and wins like any value.

1. layers   the maps that say what an entry is, nearest first
2. read     each key of the model from the nearest one that has it, as its annotation says
3. finish   what no key says alone: the number of a priority's name, where `python` starts

Expects nodes in which neither the schema nor the checks of references found an error.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, get_origin

from fusiond.config import kinds
from fusiond.config.endpoints import split_namespace
from fusiond.config.fields import keys_of
from fusiond.config.model import DEFAULT_QUEUE, PRIORITIES, Broker, Config, Task, WorkerGroup

if TYPE_CHECKING:
    from collections.abc import Callable

    from fusiond.config.fields import Form
    from fusiond.config.yaml.nodes import Node

#: keys from the root to a node
Keys: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Directories:
    """Where a file puts the daemon."""

    state_directory: str | None = None
    runtime_directory: str | None = None


def build(root: Node) -> Config:
    """The Config that the tree describes."""
    values = _values(Config, root)
    values["priorities"] = values.get("priorities") or dict(PRIORITIES)
    make: dict[type, Callable[..., Any]] = {Task: functools.partial(_task, values["priorities"]), WorkerGroup: _group}
    for field in keys_of(Config):
        if field.entries is not None:
            entries = _entries(root, field.name, field.entries, make.get(field.entries, field.entries))
            values[field.name] = {**field.default, **entries}
    return Config(**values)


def directories(root: Node) -> Directories:
    """The two directories of a tree that may be wrong elsewhere; one that is wrong itself counts as not said."""
    names = [field.name for field in dataclasses.fields(Directories) if root.text(field.name) is not None]
    return Directories(**{name: _path(node) for name in names if (node := root.get(name)) is not None})


def _layers(root: Node, section: str, name: str) -> tuple[Keys, ...]:
    """The ways to the maps that say what an entry is, nearest first."""
    own = (section, name)
    if section == "tasks":
        return own, ("queues", root.text(*own, "queue") or DEFAULT_QUEUE, "defaults"), ("defaults", "tasks")
    return (own, ("defaults", "workers")) if section == "workers" else (own,)


def said_by(root: Node, section: str, name: str, key: str) -> Keys | None:
    """The way to the value of an entry's key, in the nearest map that has it; None: it is the model's own."""
    return next(((*path, key) for path in _layers(root, section, name) if root.get(*path, key) is not None), None)


def _entries(root: Node, section: str, cls: type, make: Callable[..., Any]) -> dict[str, Any]:
    """The entries of a section by their names."""
    declared, found = root.get(section), {}
    for name, _ in declared.entries() if declared is not None else ():
        values = _values(cls, *(root.get(*path) for path in _layers(root, section, name)))
        found[name] = make(name=name, **values) if hasattr(cls, "name") else make(**values)
    return found


def _values(cls: type, *nodes: Node | None) -> dict[str, Any]:
    """Each key's value from the nearest node that has it; a key that none has is left to the model."""
    found: dict[str, Any] = {}
    for field in keys_of(cls):
        node = next((node for map_ in nodes if map_ is not None and (node := map_.get(field.name)) is not None), None)
        if node is not None and not field.of_file and field.entries is None:
            value = _value(field.form, node)
            found |= value if isinstance(value, kinds.Fields) else {field.name: value}
    return found


def _value(form: Form, node: Node) -> Any:
    """What a node says, read as its key's annotation has it."""
    cls, origin, read = form.type, get_origin(form.type), form.kind.read
    if dataclasses.is_dataclass(form.type):
        values = _values(cls, node) if read is None else read(node.data())
        return _broker(**values) if cls is Broker else cls(**values)
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


# -- what no key says alone -------------------------------------------------------------------------------------------


def _broker(**values: Any) -> Broker:
    """A URL carries the namespace, too."""
    if "url" in values:
        values["url"], namespace = split_namespace(values["url"])
        values |= {"namespace": namespace} if namespace else {}
    return Broker(**values)


def _task(priorities: Mapping[str, int], **values: Any) -> Task:
    """A priority is a number or a name; one that nothing says is the file's own `moderate`."""
    said = values.pop("priority", "moderate")
    number = priorities.get(said) if isinstance(said, str) else said
    return Task(**values) if number is None else Task(priority=number, **values)


def _group(*, python: str | None = None, **values: Any) -> WorkerGroup:
    """A relative `python` starts at the directory."""
    directory = values.get("directory", "/")
    return WorkerGroup(python=python and os.path.normpath(os.path.join(directory, python)), **values)  # noqa: PTH118
