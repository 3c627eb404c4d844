"""
Nodes → Config, every default resolved.

`layers.py` lists the maps that the values of an entry can come from. The nearest map that has a key wins; if none has
it, the model's default applies. Maps and lists are never merged. `null` means "none", and overrides like any value.

1. read    each key of the model from the nearest map that has it, as its annotation says
2. finish  the values that depend on other keys: the number of a priority's name, the directory that `python` starts at
3. heirs   a task and a queue stand once more under each of their `aliases`; who serves the queue serves those, too

Expects nodes in which neither the schema nor the checks of names found an error.
"""

import dataclasses
import os
from collections.abc import Mapping
from typing import Any, get_origin

from fusiond.callbacks import CALLBACKS, WEBHOOK_TASK
from fusiond.config import kinds
from fusiond.config.endpoints import split_namespace
from fusiond.config.fields import Form, keys_of
from fusiond.config.layers import layers
from fusiond.config.model import PRIORITIES, Broker, Config, Queue, Task, WorkerGroup
from fusiond.config.model.tasks import CALLS_URLS
from fusiond.config.yaml.nodes import Node


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
    _add_aliases(values)
    for name, entry in values["cron"].items():
        calendars = tuple(values["calendars"][each] for each in entry.not_on)
        values["cron"][name] = dataclasses.replace(entry, calendars=calendars)
    if _calls_urls(root, values):
        values["queues"].setdefault(CALLBACKS, Queue(CALLBACKS))
        values["tasks"].setdefault(WEBHOOK_TASK, _webhook_task(root, values["priorities"]))
    return Config(**values)


def _add_aliases(values: dict[str, Any]) -> None:
    former = {queue.name: queue.aliases for queue in values["queues"].values()}
    for section in ("tasks", "queues"):
        entries = values[section]
        aliases = [(alias, entry) for entry in entries.values() for alias in entry.aliases]
        entries |= {alias: dataclasses.replace(entry, name=alias, aliases=()) for alias, entry in aliases}
    for name, group in values["workers"].items():
        # the former queue first: its jobs are older
        queues = tuple(each for queue in group.queues for each in (*former.get(queue, ()), queue))
        weights = {each: weight for queue, weight in group.weights.items() for each in (*former.get(queue, ()), queue)}
        values["workers"][name] = dataclasses.replace(group, queues=queues, weights=weights)


def _calls_urls(root: Node, values: Mapping[str, Any]) -> bool:
    """Whether the file says anything about callbacks that call URLs; another one needs neither their queue nor task."""
    if CALLBACKS in values["queues"] or root.text("webhooks", "secret_file"):
        return True
    entries = [*values["tasks"].values(), *values["flows"].values()]
    said = [callback for entry in entries for callback in entry.callbacks.values()]
    return any(each.webhook for each in said) or any(CALLBACKS in group.queues for group in values["workers"].values())


def _webhook_task(root: Node, priorities: Mapping[str, int]) -> Task:
    """The task that calls URLs; the `defaults` of its queue may change its policies."""
    said = _values(Task, root.get("queues", CALLBACKS, "defaults"))
    said = {key: value for key, value in _finished(Task, said, priorities).items() if not key.startswith("on_")}
    return dataclasses.replace(CALLS_URLS, **said)


def directory(root: Node | None, key: str) -> str | None:
    """The `state_directory` or `runtime_directory` of a file, even if it has errors elsewhere; None: it has none."""
    node = root.get(key) if root is not None else None
    return _path(node) if node is not None and isinstance(node.value, str) else None


def _values(cls: type, *maps: Node | None) -> dict[str, Any]:
    """The value of each key, from the nearest map that has it; keys that no map has are left out."""
    found: dict[str, Any] = {}
    for field in keys_of(cls):
        node = next((node for each in maps if each is not None and (node := each.get(field.written)) is not None), None)
        if node is not None and not field.of_file and not (cls is Config and field.entries):
            value = None if node.value is None and field.default is None else _value(field.form, node)
            found |= value if isinstance(value, kinds.Fields) else {field.name: value}
    return found


def _value(form: Form, node: Node) -> Any:
    """The value of a node, converted as the annotation of its key says."""
    cls, origin, read = form.type, get_origin(form.type), form.kind.read
    if isinstance(cls, type) and dataclasses.is_dataclass(cls):
        if node.value is None and form.key is not None and form.key.default is None:
            return None
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
    """The values of an entry, with those set that depend on other keys."""
    if cls is Broker and "url" in values:
        # A URL may have the namespace, too.
        url, namespace = split_namespace(values["url"])
        return {**values, "url": url} | ({"namespace": namespace} if namespace else {})
    if cls is Task:
        # A name or a number; without one, the number that the file gives to `moderate`.
        priority = values.pop("priority", "moderate")
        number = priorities.get(priority) if isinstance(priority, str) else priority
        return values if number is None else {**values, "priority": number}
    if cls is WorkerGroup and values.get("python"):
        path = os.path.join(values.get("directory", "/"), values["python"])  # noqa: PTH118
        return {**values, "python": os.path.normpath(path)}
    return values
