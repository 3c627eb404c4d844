"""
Nodes → Config, every default resolved.

What wins, nearest first: the task, its queue's `defaults`, `defaults.tasks`, the model's own default; for a group, the
group and `defaults.workers`. A map or list is taken whole, never merged. `null` means "none", and wins like any value.

Expects nodes in which neither the schema nor the checks of references found an error.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from fusiond.config.endpoints import split_namespace
from fusiond.config.kinds import HARD_AFTER_SOFT
from fusiond.config.model import (
    DEFAULT_QUEUE,
    PRIORITIES,
    RETRY_POLICIES,
    Broker,
    Config,
    Control,
    CronEntry,
    Logging,
    Queue,
    RetryPolicy,
    Task,
    Timeout,
    Tls,
    WorkerGroup,
)
from fusiond.config.nodes import Node
from fusiond.config.quota import cpu_quota
from fusiond.config.units import seconds, share, size_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

#: how the values of some keys are read
_Readers: TypeAlias = Mapping[str, Callable[[Node], Any]]


def build(root: Node) -> Config:
    """The Config that the tree describes."""
    priorities = declared_priorities(root)
    return Config(
        broker=_broker(root.get("broker")),
        priorities=priorities,
        retry_policies=dict(RETRY_POLICIES) | {name: _policy(node) for name, node in _named(root, "retry_policies")},
        queues=_queues(root),
        tasks={name: _task(root, name, node, priorities) for name, node in _named(root, "tasks")},
        cron={name: CronEntry(name=name, **_read(_CRON, node)) for name, node in _named(root, "cron")},
        workers={name: _group(root, name, node) for name, node in _named(root, "workers")},
        control=Control(**_read({"group": _plain}, root.get("control"))),
        logging=Logging(**_read(_LOGGING, root.get("logging"))),
        **_read(_TOP, root),
    )


@dataclass(frozen=True, slots=True)
class Directories:
    """Where a file puts the daemon."""

    state_directory: str | None = None
    runtime_directory: str | None = None


def directories(root: Node) -> Directories:
    """The two directories of a tree that may be wrong elsewhere; one that is wrong itself counts as not said."""
    readers: _Readers = {key: _path for key in _DIRECTORIES if root.text(key) is not None}
    return Directories(**_read(readers, root))


def declared_priorities(root: Node) -> dict[str, int]:
    """The file's own names for priorities, else the built-in ones; declared, they replace those."""
    declared = {name: node.value for name, node in _named(root, "priorities")}
    numbers = {name: int(value) for name, value in declared.items() if isinstance(value, int | float)}
    return numbers or dict(PRIORITIES)


def _named(root: Node, section: str) -> Iterator[tuple[str, Node]]:
    node = root.get(section)
    return node.entries() if node is not None else iter(())


def _read(readers: _Readers, *layers: Node | None) -> dict[str, Any]:
    """Each key's value from the nearest layer that has it; a key that none has is left to the model."""
    found = {}
    for key, read in readers.items():
        node = next((node for layer in layers if layer is not None and (node := layer.get(key)) is not None), None)
        if node is not None:
            found[key] = read(node)
    return found


# -- values -----------------------------------------------------------------------------------------------------------


def _plain(node: Node) -> Any:
    return node.value


def _int(node: Node) -> int | None:
    """A whole number; `1e3` is one, too."""
    return int(node.value) if isinstance(node.value, int | float) else None


def _text(node: Node) -> str:
    if not isinstance(node.value, str):
        raise TypeError(f"line {node.place.line}: a text was expected")
    return node.value


def _duration(node: Node) -> float | None:
    return None if node.value is None else seconds(_text(node))


def _size(node: Node) -> int | None:
    return None if node.value is None else size_bytes(_text(node))


def _path(node: Node) -> str | None:
    """Absolute; a relative path starts at the file that holds it."""
    return None if node.value is None else os.path.normpath(node.place.source.directory / _text(node))


def _texts(node: Node) -> tuple[str, ...]:
    return tuple(_text(item) for item in node.items())


def _paths(node: Node) -> tuple[str, ...]:
    return tuple(path for item in node.items() if (path := _path(item)) is not None)


def _environment(node: Node) -> dict[str, str]:
    """Numbers and booleans as they are written: 1.10 stays 1.10."""
    return {name: item.expanded for name, item in node.entries()}


def _umask(node: Node) -> int | None:
    return None if node.value is None else int(_text(node), 8)


def _processes(node: Node) -> int:
    return cpu_quota() if node.value == "auto" else (_int(node) or 1)


def _timeout(node: Node) -> Timeout:
    """A scalar is the soft one; the hard one follows."""
    soft = node.get("soft") or node
    hard = node.get("hard")
    limit = seconds(_text(soft))
    return Timeout(limit, seconds(_text(hard)) if hard and hard.value is not None else limit + HARD_AFTER_SOFT)


# -- sections ---------------------------------------------------------------------------------------------------------

_DIRECTORIES: Final[_Readers] = {"state_directory": _path, "runtime_directory": _path}
_TOP: Final[_Readers] = {**_DIRECTORIES, "watch": _plain}
_LOGGING: Final[_Readers] = {"level": _plain, "format": _plain, "file": _path, "jobs": _plain}
_CRON: Final[_Readers] = {
    **dict.fromkeys(("task", "schedule", "timezone", "overlap", "missed", "suspended"), _plain),
    **dict.fromkeys(("every", "starting_deadline", "jitter"), _duration),
    "args": lambda node: tuple(node.data() or ()),
    "kwargs": lambda node: node.data() or {},
}
_POLICY: Final[_Readers] = {
    **dict.fromkeys(("max_attempts", "max_crashes"), _int),
    **dict.fromkeys(("delay", "max_delay"), _duration),
    **dict.fromkeys(("retry_on", "give_up_on"), _texts),
}
_TASK_POLICIES: Final[_Readers] = {
    "timeout": _timeout,
    **dict.fromkeys(("result_ttl", "failure_ttl", "expires"), _duration),
    **dict.fromkeys(("retry", "log_tag", "pass_job", "result"), _plain),
}
_GROUP: Final[_Readers] = {
    **dict.fromkeys(("isolation", "order", "user"), _plain),
    "processes": _processes,
    "directory": _path,
    "environment": _environment,
    "environment_file": _paths,
    "pass_environment": _texts,
    "umask": _umask,
    "drain_timeout": _duration,
    "max_jobs": _int,
    "max_memory": _size,
}


def _broker(node: Node | None) -> Broker:
    files: _Readers = dict.fromkeys(("ca_file", "cert_file", "key_file"), _path)
    readers: _Readers = {
        **dict.fromkeys(("url", "namespace", "socket_group"), _plain),
        "password_file": _path,
        "server": _path,
        "tls": lambda tls: Tls(**_read(files, tls)),
    }
    values = _read(readers, node)
    if "url" in values:
        values["url"], namespace = split_namespace(values["url"])
        values |= {"namespace": namespace} if namespace else {}
    return Broker(**values)


def _policy(node: Node) -> RetryPolicy:
    values = _read(_POLICY, node)
    backoff, jitter = node.get("backoff"), node.text("jitter")
    if backoff is not None:
        delays = tuple(seconds(_text(item)) for item in backoff.items())
        values |= {"backoff": "list", "delays": delays} if delays else {"backoff": backoff.value}
    if jitter is not None and jitter.endswith("%"):
        values |= {"jitter_share": share(jitter)}
    elif jitter is not None:
        values |= {"jitter_share": 0.0, "jitter": seconds(jitter)}
    return RetryPolicy(**values)


def _queues(root: Node) -> dict[str, Queue]:
    readers: _Readers = {"max_length": _int, "on_full": _plain, "suspended": _plain}
    declared = {name: Queue(name=name, **_read(readers, node)) for name, node in _named(root, "queues")}
    return {DEFAULT_QUEUE: Queue(DEFAULT_QUEUE), **declared}


def _task(root: Node, name: str, node: Node, priorities: Mapping[str, int]) -> Task:
    def priority(value: Node) -> int | None:
        return priorities[value.value] if isinstance(value.value, str) else _int(value)

    queue = node.text("queue") or DEFAULT_QUEUE
    layers = (node, root.get("queues", queue, "defaults"), root.get("defaults", "tasks"))
    values = _read({"priority": priority, **_TASK_POLICIES}, *layers)
    if "moderate" in priorities:
        values.setdefault("priority", priorities["moderate"])
    return Task(name=name, run=node.text("run") or "", queue=queue, description=node.text("description"), **values)


def _group(root: Node, name: str, node: Node) -> WorkerGroup:
    layers = (node, root.get("defaults", "workers"))
    values = _read(_GROUP, *layers)
    python = _read({"python": _plain}, *layers).get("python")
    if python is not None:
        values["python"] = os.path.normpath(os.path.join(values.get("directory", "/"), python))  # noqa: PTH118
    return WorkerGroup(name=name, **values | _served(node.get("queues")))


def _served(queues: Node | None) -> dict[str, Any]:
    """The queues of a group: a list, a map of weights, or `*`."""
    if queues is None or queues.value == "*":
        return {}
    if isinstance(queues.value, dict):
        weights = {name: _int(weight) or 1 for name, weight in queues.entries()}
        return {"queues": tuple(weights), "weights": weights, "order": "weighted"}
    return {"queues": _texts(queues)}
