"""
Where each effective value of a task, queue, group or cron entry comes from.

1. resolve   the value, as the Config has it
2. find      the nearest layer that says it, in the order of `build`: the entry itself, its queue's `defaults`,
             `defaults.tasks` or `defaults.workers`; none: it is built in
3. show      it as people write it, with the file and line; what may be a secret is `***`

Expects nodes from which the Config was built without an error. Pure.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from fusiond.config.diff import serves
from fusiond.config.secrets import hidden
from fusiond.config.units import written

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fusiond.config.model import Config, RetryPolicy, Task
    from fusiond.config.nodes import Node, Place

#: keys from the root to a node
_Path: TypeAlias = tuple[str, ...]

#: values in seconds, in bytes, in the digits of chmod
# fmt: off
_SECONDS: Final = frozenset({
    "soft", "hard", "result_ttl", "failure_ttl", "expires", "every", "starting_deadline", "jitter", "delay",
    "max_delay", "delays", "drain_timeout",
})
# fmt: on
_BYTES: Final = frozenset({"max_memory"})
_OCTAL: Final = frozenset({"umask"})
#: what the file calls a field of the model
_WRITTEN_AS: Final = {"delays": "backoff", "jitter_share": "jitter", "weights": "queues"}
#: values that can only be a number, a duration or a switch: what a `${VAR}` gave them is no secret
_HARMLESS: Final = (bool, int, float)


@dataclass(frozen=True, slots=True)
class Value:
    """One effective value and its place."""

    #: such as `timeout.soft` or `environment.APP_ENV`
    key: str
    #: plain data, seconds and bytes as numbers; `***` for what may be a secret, `${VAR}` for a text that one gave
    value: Any
    #: the same for people
    shown: str
    #: the key that says it, such as `defaults.tasks.timeout`; empty: it is built in
    said_by: str = ""
    #: of the file that says it, as the user named it; None: it is built in
    file: str | None = None
    line: int | None = None
    column: int | None = None

    @property
    def where(self) -> str:
        """`fusion.yaml:12`, or `built in`."""
        return f"{self.file}:{self.line}" if self.file else "built in"


def task(root: Node, config: Config, name: str) -> list[Value]:
    """Every value of a task, its retry policy's among them, and the groups that serve it."""
    found = config.tasks[name]
    layers = (("tasks", name), ("queues", found.queue, "defaults"), ("defaults", "tasks"))
    plain = {field.name: getattr(found, field.name) for field in dataclasses.fields(found)}
    values = [_value(root, layers, key, value) for key, value in plain.items() if key not in ("name", "timeout")]
    values += _timeouts(root, layers, found)
    values[:] = [_named_priority(root, config, value) if value.key == "priority" else value for value in values]
    values += _policy(root, config.retry_policies[found.retry], found.retry)
    return [*values, *_served_by(root, config, found.queue)]


def queue(root: Node, config: Config, name: str) -> list[Value]:
    """Every value of a queue, what it gives to its tasks, those tasks and the groups that serve it."""
    found = config.queues[name]
    layers = (("queues", name),)
    plain = {field.name: getattr(found, field.name) for field in dataclasses.fields(found) if field.name != "name"}
    values = [_value(root, layers, key, value) for key, value in plain.items()]
    given = root.get("queues", name, "defaults")
    for key, node in given.entries() if given is not None else ():
        values.append(_placed(root, f"defaults.{key}", node.data(), ("queues", name, "defaults", key)))
    own = [each.name for each in config.tasks.values() if each.queue == name]
    values += [_placed(root, "task", each, ("tasks", each)) for each in own]
    return [*values, *_served_by(root, config, name)]


def group(root: Node, config: Config, name: str) -> list[Value]:
    """Every value of a worker group, and the tasks that it runs."""
    found = config.workers[name]
    layers = (("workers", name), ("defaults", "workers"))
    values: list[Value] = []
    for field in dataclasses.fields(found):
        value = getattr(found, field.name)
        if field.name == "environment" and value:
            values += _environment(root, layers, value)
        elif field.name == "order" and found.weights:
            values.append(_value(root, layers, "order", value, written_as="queues"))
        elif field.name != "name" and not (field.name == "weights" and not found.weights):
            values.append(_value(root, layers, field.name, value))
    run = [each for each in config.tasks.values() if serves(found, each.queue)]
    return values + [_placed(root, "task", each.name, ("tasks", each.name)) for each in run]


def cron(root: Node, config: Config, name: str) -> list[Value]:
    """Every value of a cron entry, and where its task is."""
    found = config.cron[name]
    left_out = {"name", "schedule" if found.every is not None else "every"}
    plain = {f.name: getattr(found, f.name) for f in dataclasses.fields(found) if f.name not in left_out}
    values = [_value(root, (("cron", name),), key, value) for key, value in plain.items()]
    run = config.tasks[found.task]
    return [*values, _value(root, (("tasks", run.name),), "queue", run.queue)]


# -- one value --------------------------------------------------------------------------------------------------------


def _value(root: Node, layers: tuple[_Path, ...], key: str, value: Any, *, written_as: str = "") -> Value:
    """A field's value with the place of the nearest layer that has its key."""
    name = written_as or _WRITTEN_AS.get(key, key)
    path = next(((*layer, name) for layer in layers if root.get(*layer, name) is not None), None)
    return _placed(root, key, value, path)


def _placed(root: Node, key: str, value: Any, path: _Path | None, *, shown: str = "") -> Value:
    """The value, said by what is at the path."""
    node = root.get(*path) if path else None
    value = _without_secrets(key, value, node)
    shown = shown or _shown(key.rpartition(".")[2], value)
    if path is None or node is None:
        return Value(key, value, shown)
    place: Place = root.nearest(*path)
    return Value(key, value, shown, ".".join(path), place.source.name, place.line, place.column)


def _without_secrets(key: str, value: Any, node: Node | None) -> Any:
    """As `config.secrets` says."""
    if isinstance(value, _HARMLESS):
        return value
    if isinstance(value, tuple) and all(isinstance(item, _HARMLESS) for item in value):
        return list(value)
    value = hidden(key.removeprefix("environment.") if key.startswith("environment.") else "", value)
    return value if node is None else _as_referred(value, node)


def _as_referred(value: Any, node: Node) -> Any:
    """The value, each text that a `${VAR}` gave as it was written."""
    if isinstance(value, dict):
        below = dict(node.entries())
        return {key: _as_referred(item, below[key]) if key in below else item for key, item in value.items()}
    if isinstance(value, list):
        return [_as_referred(*pair) for pair in zip(value, node.items() or [node] * len(value), strict=False)]
    # Secrets that were found as the file was read have lost their raw text to a mask.
    return node.raw if isinstance(value, str) and node.raw not in (node.expanded, "") and value != "***" else value


def _shown(key: str, value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ", ".join(_shown(key, item) for item in value) or "none"
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_shown('', item)}" for name, item in value.items()) or "none"
    if isinstance(value, int | float):
        return _number(key, value)
    return str(value)


def _number(key: str, value: float) -> str:
    if key in _SECONDS:
        return written(value)
    if key in _BYTES:
        return _size(int(value))
    if key in _OCTAL:
        return f"{int(value):03o}"
    return f"{value:.0%}" if key == "jitter_share" else str(value)


def _size(size: int) -> str:
    """Bytes as a person would write them, where that is exact."""
    units = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3))
    return next((f"{size // unit}{name}" for name, unit in units if size and size % unit == 0), f"{size}B")


# -- values with a way of their own -----------------------------------------------------------------------------------


def _timeouts(root: Node, layers: tuple[_Path, ...], found: Task) -> Iterator[Value]:
    """A scalar is the soft one; the hard one follows it, and is said by the same key."""
    path = next(((*layer, "timeout") for layer in layers if root.get(*layer, "timeout") is not None), None)
    for key, value in (("soft", found.timeout.soft), ("hard", found.timeout.hard)):
        own = (*path, key) if path and root.get(*path, key) is not None else path
        yield _placed(root, f"timeout.{key}", value, own)


def _named_priority(root: Node, config: Config, value: Value) -> Value:
    """With its name; and where nothing says it, the file's own `moderate` does."""
    names = [name for name, number in config.priorities.items() if number == value.value]
    shown = f"{value.value} ({', '.join(names)})" if names else value.shown
    path = ("priorities", "moderate")
    if value.file is None and root.get(*path) is not None:
        return _placed(root, "priority", value.value, path, shown=shown)
    return dataclasses.replace(value, shown=shown)


def _policy(root: Node, policy: RetryPolicy, name: str) -> Iterator[Value]:
    """The retry policy, without what its kind of backoff does not use."""
    unused = {"list": {"backoff", "delay", "max_delay"}, "fixed": {"delays", "max_delay"}}.get(
        policy.backoff, {"delays"}
    )
    unused = unused | {"jitter_share" if policy.jitter else "jitter"}
    for field in dataclasses.fields(policy):
        if field.name not in unused:
            found = _value(root, (("retry_policies", name),), field.name, getattr(policy, field.name))
            shown = "every exception" if field.name == "retry_on" and not policy.retry_on else found.shown
            yield dataclasses.replace(found, key=f"retry.{_WRITTEN_AS.get(field.name, field.name)}", shown=shown)


def _environment(root: Node, layers: tuple[_Path, ...], values: Mapping[str, str]) -> Iterator[Value]:
    """Each variable; a map is taken whole, so that all are of one layer."""
    path = next((*layer, "environment") for layer in layers if root.get(*layer, "environment") is not None)
    for name, value in values.items():
        yield _placed(root, f"environment.{name}", value, (*path, name))


def _served_by(root: Node, config: Config, name: str) -> list[Value]:
    groups = [each for each in config.workers.values() if serves(each, name)]
    if not groups:
        return [Value("served by", None, "no group: its jobs wait")]
    return [_placed(root, "served by", each.name, ("workers", each.name)) for each in groups]
