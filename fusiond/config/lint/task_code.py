"""
What loading the task code told, as problems at their places.

The loading itself is the business of `worker.pool.import_probes`, which hands in one Probed for each kind of child that
the groups have; this room knows where each path, argument and exception was written.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any, Final

from fusiond.config.layers import node_of
from fusiond.config.lint.suggest import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fusiond.config.model import Config, CronEntry
    from fusiond.config.problems import Problem
    from fusiond.config.yaml.nodes import Node, Place


#: by their numbers, which are the same in every interpreter
_KINDS: Final = (
    Parameter.POSITIONAL_ONLY,
    Parameter.POSITIONAL_OR_KEYWORD,
    Parameter.VAR_POSITIONAL,
    Parameter.KEYWORD_ONLY,
    Parameter.VAR_KEYWORD,
)


@dataclass(frozen=True, slots=True)
class ImportFailure:
    """Why a path leads to nothing that can be used."""

    #: the code of its rule
    reason: str
    message: str
    #: the user's traceback, or what was printed last; may be empty
    detail: str = ""
    #: paths that may have been meant
    near: tuple[str, ...] = ()


@dataclass(slots=True)
class Probed:
    """What one group's interpreter said; groups of the same interpreter, user and environment are asked once."""

    group: str
    #: the tasks that it serves
    tasks: frozenset[str]
    #: dotted path → its signature, None where it tells none; or why it cannot be called
    functions: dict[str, Signature | ImportFailure | None] = field(default_factory=dict)
    #: name → why it is no exception; None: it is one
    exceptions: dict[str, ImportFailure | None] = field(default_factory=dict)
    #: why the interpreter could not be asked; empty: it was
    failed: str = ""

    def function(self, task: str, path: str) -> Signature | ImportFailure | None:
        """What a task's path led to; None where it is not this group's, or tells no signature."""
        return self.functions.get(path) if task in self.tasks else None


def signature(parameters: list[list[Any]]) -> Signature:
    """A signature out of [name, kind, whether it has a default]; the defaults themselves stay where they are."""
    default: Mapping[bool, Any] = {True: ..., False: Parameter.empty}
    return Signature([Parameter(name, _KINDS[kind], default=default[has]) for name, kind, has in parameters])


def check(root: Node, config: Config, probes: list[Probed]) -> Iterator[Problem]:
    """Each path that leads nowhere, each argument that no parameter takes, each exception that is none."""
    for probed in probes:
        if probed.failed:
            node = node_of(root, "workers", probed.group, "python")
            place = node.place if node is not None else root.nearest("workers", probed.group)
            message = f"the tasks of group {probed.group!r} could not be loaded: {probed.failed}"
            yield place.error("imports-unchecked", message, "mend `python`, `directory`, `user` or the environment")
        yield from _functions(root, config, probed)
        yield from _arguments(root, config, probed)
        yield from _exceptions(root, config, probed)


def _functions(root: Node, config: Config, probed: Probed) -> Iterator[Problem]:
    told: set[str] = set()
    for name, task in config.tasks.items():
        found, node = probed.function(name, task.run), root.get("tasks", name, "run")
        if isinstance(found, ImportFailure) and node is not None:
            remedy = did_you_mean(task.run, found.near) or _remedy(config, probed.group, found.reason)
            # A module that fails does so for each of its tasks; one traceback is enough.
            detail = "" if found.message in told else found.detail
            told.add(found.message)
            yield node.place.error(found.reason, f"{found.message} (group {probed.group!r})", remedy, detail)


def _remedy(config: Config, group: str, reason: str) -> str:
    directory = config.workers[group].directory
    return {
        "missing-module": f"mend the path, or `directory`, which is {directory}",
        "missing-attribute": "mend the path, or write the function",
        "not-callable": "write the path of a function",
        "broken-module": "mend the module",
        "import-timeout": "let the module do its work in its functions, or give it more time with --import-timeout",
        "import-crash": "mend the module",
    }.get(reason, "")


def _arguments(root: Node, config: Config, probed: Probed) -> Iterator[Problem]:
    """What is known of the arguments: those of cron entries, and the keyword of `pass_job`."""
    for name, task in config.tasks.items():
        found, node = probed.function(name, task.run), node_of(root, "tasks", name, "pass_job")
        if isinstance(found, Signature) and task.pass_job and node is not None and not _takes(found, task.pass_job):
            message = f"tasks.{name}: the function has no keyword {node.raw!r}; it is {_shown(task.run, found)}"
            remedy = did_you_mean(task.pass_job, found.parameters) or "add the parameter, or remove pass_job"
            yield node.place.error("bad-arguments", message, remedy)
    for name, entry in config.cron.items():
        task = config.tasks[entry.task]
        found, node = probed.function(task.name, task.run), root.get("cron", name)
        if isinstance(found, Signature) and node is not None:
            yield from _call(node, entry, found, task.run, task.pass_job)


def _call(node: Node, entry: CronEntry, found: Signature, run: str, pass_job: str | None) -> Iterator[Problem]:
    """One cron entry against the function's signature."""
    job: dict[str, Any] = {pass_job: {}} if pass_job and _takes(found, pass_job) else {}
    try:
        found.bind(*entry.args, **entry.kwargs, **job)
    except TypeError as error:
        strange = next((key for key in entry.kwargs if not _takes(found, key)), None)
        message = f"cron.{entry.name}: {error}; the function is {_shown(run, found)}"
        remedy = did_you_mean(strange, found.parameters) if strange else ""
        yield _argument(node, entry, found, strange).error("bad-arguments", message, remedy or "mend args or kwargs")


def _argument(node: Node, entry: CronEntry, found: Signature, strange: str | None) -> Place:
    """The argument that is too much; where one is missing, the entry's arguments."""
    kwargs, args = node.get("kwargs"), node.get("args")
    if strange is not None and kwargs is not None:
        return kwargs.keys[strange]
    takes = sum(each.kind <= Parameter.POSITIONAL_OR_KEYWORD for each in found.parameters.values())
    if args is not None and len(entry.args) > takes:
        return args.items()[takes].place
    key = next((key for key in ("kwargs", "args", "task") if key in node.keys), "task")
    return node.keys[key]


def _takes(found: Signature, keyword: str) -> bool:
    parameter = found.parameters.get(keyword)
    by_name = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    return (parameter is not None and parameter.kind in by_name) or any(
        each.kind is Parameter.VAR_KEYWORD for each in found.parameters.values()
    )


def _shown(run: str, found: Signature) -> str:
    return f"{run.rpartition('.')[2]}{found}".replace("=Ellipsis", "=…")


def _exceptions(root: Node, config: Config, probed: Probed) -> Iterator[Problem]:
    for name in config.retry_policies:
        policy = root.get("retry_policies", name)
        for key in ("retry_on", "give_up_on"):
            listed = policy.get(key) if policy is not None else None
            for item in listed.items() if listed is not None else ():
                found = probed.exceptions.get(str(item.value))
                if found is not None:
                    yield _exception(item, found, probed.group)


def _exception(item: Node, found: ImportFailure, group: str) -> Problem:
    remedy = did_you_mean(str(item.value), found.near)
    if found.reason in ("missing-attribute", "not-callable", "not-an-exception"):
        return item.place.error("not-an-exception", f"{found.message} (group {group!r})", remedy or "mend the name")
    message = f"{item.raw} can never be raised in group {group!r}: {found.message}"
    return item.place.warning("unknown-exception", message, remedy or "mend the name, or install what it is of")
