"""
Where each effective value of a task, queue, group, flow or cron entry comes from.

1. resolve   the value, as the Config has it
2. find      the nearest map that has it, in the order of `config/layers.py`; without one it is built in
3. show      it as people write it, with the file and line; what may be a secret is `***`

Expects nodes from which the Config was built without an error. Pure.
"""

import dataclasses
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, get_origin

from fusiond.config import kinds
from fusiond.config.fields import Field, Form, fields_of
from fusiond.config.layers import Keys, path_of
from fusiond.config.model import Config, RetryPolicy, Task, serves
from fusiond.config.model.commands import OF_COMMANDS, OF_FUNCTIONS, Parameter
from fusiond.config.model.flow_steps import FlowStep
from fusiond.config.secrets import HIDDEN, hidden
from fusiond.config.yaml.nodes import Node

#: values that can only be a number, a duration or a switch: from a `${VAR}`, they are not a secret
_HARMLESS: Final = (bool, int, float)
#: kind of backoff → fields of a retry policy that it does not use
_UNUSED: Final = {
    "list": ("backoff", "delay", "max_delay"),
    "fixed": ("delays", "max_delay"),
    "linear": ("delays",),
    "exponential": ("delays",),
}


@dataclass(frozen=True, slots=True)
class Value:
    """One effective value and its place."""

    #: such as `timeout.soft` or `environment.APP_ENV`
    key: str
    #: plain data, seconds and bytes as numbers; `***` for what may be a secret, `${VAR}` for a text from one
    value: Any
    #: the same for people
    shown: str
    #: the key that sets it, such as `defaults.tasks.timeout`; None: it is built in
    set_by: str | None = None
    #: the file with this key, as the user named it; None: it is built in
    file: str | None = None
    line: int | None = None
    column: int | None = None

    @property
    def where(self) -> str:
        """`fusion.yaml:12`, or `built in`."""
        return f"{self.file}:{self.line}" if self.file else "built in"


def task(root: Node, config: Config, name: str) -> list[Value]:
    """Every value of a task and of its retry policy, and the groups that serve it."""
    found = config.tasks[name]
    values = _entry(root, found, "tasks", name)
    return [
        *(_named_priority(root, config, value) if value.key == "priority" else _quoted(value) for value in values),
        *_policy(root, config.retry_policies[found.retry], found.retry),
        *_served_by(root, config, found.queue),
    ]


def queue(root: Node, config: Config, name: str) -> list[Value]:
    """Every value of a queue, its defaults for tasks, its tasks and the groups that serve it."""
    defaults = ("queues", name, "defaults")
    return [
        *_entry(root, config.queues[name], "queues", name),
        *(_placed(root, f"defaults.{key}", node.data(), (*defaults, key)) for key, node in root.entries(*defaults)),
        *_tasks(root, config, lambda each: each.queue == name),
        *_served_by(root, config, name),
    ]


def group(root: Node, config: Config, name: str) -> list[Value]:
    """Every value of a worker group, and the tasks that it runs."""
    found = config.workers[name]
    values = [*_entry(root, found, "workers", name)]
    if found.weights:
        order = _placed(root, "order", found.order, path_of(root, "workers", name, "queues"))
        values = [order if value.key == "order" else value for value in values]
    if found.scaling:
        # `processes.max` says the same.
        values = [value for value in values if value.key != "processes"]
    return [*values, *_tasks(root, config, lambda each: serves(found.queues, each.queue))]


def flow(root: Node, config: Config, name: str) -> list[Value]:
    """Every value of a flow, what the file says of its steps, and the queue of each step's task."""
    found = config.flows[name]
    values = [each for each in _entry(root, found, "flows", name) if each.key != "steps"]
    for step_name, step in found.steps.items():
        path = ("flows", name, "steps", step_name)
        for field in fields_of(FlowStep):
            where = (*path, field.written)
            if root.get(*where) is not None:
                value = getattr(step, field.name)
                values.append(_placed(root, f"{step_name}.{field.written}", value, where, _show(field.form)))
        if step.task:
            queue = config.tasks[step.task].queue
            values.append(_placed(root, f"{step_name}.queue", queue, path_of(root, "tasks", step.task, "queue")))
    return values


def cron(root: Node, config: Config, name: str) -> list[Value]:
    """Every value of a cron entry, and the queue of its task."""
    found = config.cron[name]
    queue_of_task = config.work_of(found).queue
    place = path_of(root, "flows" if found.flow else "tasks", found.work, "queue")
    return [*_entry(root, found, "cron", name), _placed(root, "queue", queue_of_task, place)]


# -- one value --------------------------------------------------------------------------------------------------------


def _entry(root: Node, entry: Any, section: str, name: str) -> Iterator[Value]:
    """Every value of an entry of the Config."""
    cls: type = type(entry)
    idle = (OF_FUNCTIONS if entry.command else OF_COMMANDS) if isinstance(entry, Task) else ()
    for field in (each for each in fields_of(cls) if each.name not in idle):
        value = None if field.of_file else getattr(entry, field.name)
        # An entry has either `schedule` or `every`; the weights of queues are shown if there are some.
        if value or not (field.of_file or field.key.either or field.written != field.name):
            yield from _said(root, field, value, path_of(root, section, name, field.written))


def _said(root: Node, field: Field, value: Any, path: Keys | None) -> Iterator[Value]:
    """A field's value; each variable of an environment, and each of two timeouts, by itself."""
    parts: list[tuple[str, Any, Callable[[Any], str]]] = []
    if dataclasses.is_dataclass(value):
        parts = [*_parts(field.form.type, value)]
    elif value and isinstance(value, Mapping) and field.form.items.kind is kinds.AS_WRITTEN:
        parts = [(name, each, str) for name, each in value.items()]
    elif isinstance(value, Mapping) and field.form.items.type is Parameter:
        parts = [part for name, rule in value.items() for part in _parts(Parameter, rule, f"{name}.") if part[1]]
    for name, each, show in parts:
        own = next((way for way in _ways(path, name) if root.get(*way) is not None), path)
        yield _placed(root, f"{field.written}.{name}", each, own, show)
    if not parts:
        yield _placed(root, field.name, value, path, _show(field.form))


def _parts(cls: type, value: Any, head: str = "") -> Iterator[tuple[str, Any, Callable[[Any], str]]]:
    """Dotted name, value and form of each field of a dataclass, and of those in it."""
    for each in fields_of(cls):
        inner = getattr(value, each.name)
        if dataclasses.is_dataclass(inner):
            yield from _parts(each.form.type, inner, f"{head}{each.written}.")
        else:
            yield head + each.written, inner, _show(each.form)


def _ways(path: Keys | None, name: str) -> Iterator[Keys]:
    """Where a part of a value may be written: by itself, or as the text of the map that it is in, and so on."""
    words = name.split(".")
    return ((*path, *words[:count]) for count in range(len(words), 0, -1)) if path else iter(())


def _placed(root: Node, key: str, value: Any, path: Keys | None, show: Callable[[Any], str] = str) -> Value:
    """The value with the place of the path that sets it; None: it is built in."""
    node = root.get(*path) if path else None
    value = _without_secrets(key, value, node)
    shown = _shown(value, show)
    if path is None or node is None:
        return Value(key, value, shown)
    return Value(key, value, shown, ".".join(path), *root.nearest(*path).spot)


def _without_secrets(key: str, value: Any, node: Node | None) -> Any:
    """The value with `***` for secrets, as `config/secrets.py` knows them, and each `${VAR}` as it is written."""
    if isinstance(value, _HARMLESS) or key == "weights":
        return value
    are_numbers = isinstance(value, tuple) and all(isinstance(item, _HARMLESS) for item in value)
    if key == "secret" or (are_numbers and key.rpartition(".")[2] != "args"):
        return list(value)
    value = hidden(key.removeprefix("environment.") if key.startswith("environment.") else "", value)
    return value if node is None else _as_referred(value, node)


def _as_referred(value: Any, node: Node) -> Any:
    """The value, with what comes from a `${VAR}` as it is written."""
    if isinstance(value, dict):
        below = dict(node.entries())
        return {key: _as_referred(item, below[key]) if key in below else item for key, item in value.items()}
    if isinstance(value, list):
        return [_as_referred(*pair) for pair in zip(value, node.items() or [node] * len(value), strict=False)]
    # A mask has replaced the raw text of secrets that were found when the file was read.
    return node.raw if node.raw not in (node.expanded, "") and value != HIDDEN else value


def _show(form: Form) -> Callable[[Any], str]:
    """How a number is shown; of a list, each of its items."""
    return _show(form.items) if get_origin(form.type) is tuple else form.kind.show


def _shown(value: Any, show: Callable[[Any], str] = str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ", ".join(_shown(item, show) for item in value) or "none"
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_shown(item)}" for name, item in value.items()) or "none"
    return "none" if value is None else show(value) if isinstance(value, int | float) else str(value)


# -- values of other places -------------------------------------------------------------------------------------------


def _named_priority(root: Node, config: Config, value: Value) -> Value:
    """The priority with its name; if no map says it, it comes from the file's own `moderate`."""
    names = [name for name, number in config.priorities.items() if number == value.value]
    shown = f"{value.value} ({', '.join(names)})" if names else value.shown
    path = ("priorities", "moderate")
    if value.file is None and root.get(*path) is not None:
        value = _placed(root, "priority", value.value, path)
    return dataclasses.replace(value, shown=shown)


def _quoted(value: Value) -> Value:
    """The words of a command as a shell would take them."""
    return dataclasses.replace(value, shown=shlex.join(value.value)) if value.key == "command" else value


def _policy(root: Node, policy: RetryPolicy, name: str) -> Iterator[Value]:
    """The values of a retry policy that its kind of backoff uses."""
    cls: type = type(policy)
    unused = (*_UNUSED[policy.backoff], "jitter_share" if policy.jitter else "jitter")
    for field in fields_of(cls):
        if field.name not in unused:
            path = path_of(root, "retry_policies", name, field.written)
            (found,) = _said(root, field, getattr(policy, field.name), path)
            shown = "every exception" if field.name == "retry_on" and not policy.retry_on else found.shown
            yield dataclasses.replace(found, key=f"retry.{field.written}", shown=shown)


def _tasks(root: Node, config: Config, wanted: Callable[[Task], bool]) -> Iterator[Value]:
    return (_placed(root, "task", each.name, ("tasks", each.name)) for each in config.tasks.values() if wanted(each))


def _served_by(root: Node, config: Config, name: str) -> list[Value]:
    groups = [each.name for each in config.workers.values() if serves(each.queues, name)]
    found = [_placed(root, "served by", each, ("workers", each)) for each in groups]
    return found or [Value("served by", None, "no group: its jobs wait")]
