"""
Turn the results of loading the task code into problems with places.

`worker/import_probes.py` loads the code, and returns one Probed for each kind of child that the groups have. This
file knows where each path, argument and exception is written.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from inspect import Parameter, Signature
from typing import Any

from fusiond.config.layers import node_of, place_of
from fusiond.config.lint.calls import DeclaredCall, calls
from fusiond.config.lint.suggest import did_you_mean
from fusiond.config.model import Config, Task, serves
from fusiond.config.problems import Problem
from fusiond.config.yaml.nodes import Node, Place


@dataclass(frozen=True, slots=True)
class ImportFailure:
    """Why the object at a dotted path cannot be used."""

    #: the code of its rule
    reason: str
    message: str
    #: the user's traceback, or what was printed last; may be empty
    detail: str = ""
    #: paths that may have been meant
    near: tuple[str, ...] = ()


@dataclass(slots=True)
class Probed:
    """What one group's interpreter found; groups of the same interpreter, user and environment share one."""

    #: whose interpreter it was
    group: str
    #: the tasks that it serves
    tasks: frozenset[str]
    #: the groups
    groups: frozenset[str]
    #: dotted path → its signature, None if it has none that can be read; or why it cannot be called
    functions: dict[str, Signature | ImportFailure | None] = field(default_factory=dict)
    #: name → why it is not an exception; None: it is one
    exceptions: dict[str, ImportFailure | None] = field(default_factory=dict)
    #: why the interpreter could not be started; empty: it was
    failed: str = ""

    def function(self, task: str, path: str) -> Signature | ImportFailure | None:
        """What a task's path leads to; None if the task is not this group's, or its signature cannot be read."""
        return self.functions.get(path) if task in self.tasks else None


def signature(parameters: list[list[Any]]) -> Signature:
    """A signature from [name, kind, whether it has a default]; the defaults themselves stay in the interpreter."""
    kind_of: Any = type(Parameter.KEYWORD_ONLY)  # its numbers are the same in every interpreter
    return Signature(
        [
            Parameter(name, kind_of(kind), default=... if optional else Parameter.empty)
            for name, kind, optional in parameters
        ]
    )


def check(root: Node, config: Config, probes: list[Probed]) -> Iterator[Problem]:
    """Each path that leads nowhere, each argument that no parameter takes, each name that is not an exception."""
    for probed in probes:
        if probed.failed:
            place = place_of(root, "workers", probed.group, "python")
            message = f"the tasks of group {probed.group!r} could not be loaded: {probed.failed}"
            yield place.error("imports-unchecked", message, "correct `python`, `directory`, `user` or the environment")
        yield from _tasks(root, config, probed)
        yield from _starts(root, config, probed)
        for call in calls(root, config):
            found = probed.function(call.task.name, call.task.run)
            if isinstance(found, Signature):
                yield from _call(call, found)
        for name in root.names("retry_policies"):
            policy = ("retry_policies", name)
            group = _group_of(config, probed, [task for task in config.tasks.values() if task.retry == name])
            for key in ("retry_on", "give_up_on", "snooze_on"):
                for item in root.items(*policy, key):
                    failure = probed.exceptions.get(str(item.value))
                    if failure is not None:
                        yield _exception(item, failure, group)


def _group_of(config: Config, probed: Probed, tasks: Sequence[Task]) -> str:
    """The first of the groups, in the file's order, that serves one of these tasks."""
    groups = (group for name, group in config.workers.items() if name in probed.groups)
    served = (group.name for group in groups if any(serves(group.queues, task.queue) for task in tasks))
    return next(served, probed.group)


def _tasks(root: Node, config: Config, probed: Probed) -> Iterator[Problem]:
    """Each `run` that leads nowhere, and each `pass_job` that the function does not take."""
    told: set[str] = set()
    for name, task in config.tasks.items():
        found, node = probed.function(name, task.run), root.get("tasks", name, "run")
        keyword = node_of(root, "tasks", name, "pass_job")
        if isinstance(found, ImportFailure) and node is not None:
            group = _group_of(config, probed, [task])
            remedy = did_you_mean(task.run, found.near) or _remedy(config, group, found.reason)
            # A module that fails does so for each of its tasks; one traceback is enough.
            detail = "" if found.message in told else found.detail
            told.add(found.message)
            yield node.place.error(found.reason, f"{found.message} (group {group!r})", remedy, detail)
        elif isinstance(found, Signature) and task.pass_job and keyword and not _takes(found, task.pass_job):
            message = f"tasks.{name}: the function has no keyword {keyword.raw!r}; it is {_shown(task.run, found)}"
            remedy = did_you_mean(task.pass_job, found.parameters) or "add the parameter, or remove pass_job"
            yield keyword.place.error("bad-arguments", message, remedy)


def _starts(root: Node, config: Config, probed: Probed) -> Iterator[Problem]:
    """Each `on_start` that leads nowhere, or that needs arguments."""
    for name in sorted(probed.groups):
        path, node = config.workers[name].on_start, node_of(root, "workers", name, "on_start")
        found = probed.functions.get(path) if path else None
        if path is None or node is None or found is None:
            continue
        if isinstance(found, ImportFailure):
            remedy = did_you_mean(path, found.near) or _remedy(config, name, found.reason)
            yield node.place.error(found.reason, f"{found.message} (group {name!r})", remedy, found.detail)
            continue
        try:
            found.bind()
        except TypeError as error:
            message = f"workers.{name}.on_start: {error}; the function is {_shown(path, found)}"
            yield node.place.error("bad-arguments", message, "write a function without parameters")


def _remedy(config: Config, group: str, reason: str) -> str:
    directory, python = config.workers[group].directory, config.workers[group].python or sys.executable
    return {
        "missing-module": f"correct the path, or `directory`, which is {directory}, or `python`, which is {python}",
        "missing-attribute": "correct the path, or write the function",
        "not-callable": "write the path of a function",
        "broken-module": "correct the module",
        "import-timeout": "let the module do its work in its functions, or give it more time with --import-timeout",
        "import-crash": "correct the module",
    }.get(reason, "")


def _call(call: DeclaredCall, found: Signature) -> Iterator[Problem]:
    """One call against the function's signature."""
    task = call.task
    job: dict[str, Any] = {task.pass_job: {}} if task.pass_job and _takes(found, task.pass_job) else {}
    try:
        found.bind(*call.args, **call.kwargs, **job)
    except TypeError as error:
        strange = next((key for key in call.keys if not _takes(found, key)), None)
        message = f"{call.name}: {error}; the function is {_shown(task.run, found)}"
        remedy = did_you_mean(strange, found.parameters) if strange else ""
        keys = "args, kwargs or inputs" if "inputs" in call.node.keys else "args or kwargs"
        yield _argument(call, found, strange).error("bad-arguments", message, remedy or f"correct {keys}")


def _argument(call: DeclaredCall, found: Signature, strange: str | None) -> Place:
    """The place of the surplus argument; if one is missing, the place of the call's arguments."""
    node = call.node
    if strange is not None:
        return call.argument(strange)
    takes = sum(each.kind <= Parameter.POSITIONAL_OR_KEYWORD for each in found.parameters.values())
    if len(call.args) > takes:
        return node.items("args")[takes].place
    return node.keys[next(key for key in ("kwargs", "inputs", "args", "task") if key in node.keys)]


def _takes(found: Signature, keyword: str) -> bool:
    parameter = found.parameters.get(keyword)
    by_name = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    return (parameter is not None and parameter.kind in by_name) or any(
        each.kind is Parameter.VAR_KEYWORD for each in found.parameters.values()
    )


def _shown(run: str, found: Signature) -> str:
    return f"{run.rpartition('.')[2]}{found}".replace("=Ellipsis", "=…")


def _exception(item: Node, found: ImportFailure, group: str) -> Problem:
    if found.reason == "namesake":
        remedy = f"add {' and '.join(found.near)} if it is meant, too"
        return item.place.warning("namesake-exception", f"{found.message} (group {group!r})", remedy)
    remedy = did_you_mean(str(item.value), found.near)
    if found.reason in ("missing-attribute", "not-callable", "not-an-exception"):
        return item.place.error("not-an-exception", f"{found.message} (group {group!r})", remedy or "correct the name")
    message = f"{item.raw} can never be raised in group {group!r}: {found.message}"
    return item.place.warning("unknown-exception", message, remedy or "correct the name, or install its package")
