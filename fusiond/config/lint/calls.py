"""The calls of tasks that a file has, in cron entries and steps of flows, and the arguments that these must have."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from fusiond.argument_values import values_of
from fusiond.config.model import Config, Task
from fusiond.config.problems import Problem
from fusiond.config.yaml.nodes import Node, Place

_REMEDY: Final = "write a text, boolean or integer under kwargs; if it is in args, `by` must name its place: args.0"


class DeclaredCall(NamedTuple):
    """A call of a task that the file has."""

    #: `cron.nightly`, `flows.etl.steps.load`
    name: str
    node: Node
    #: of its keyword arguments; where it has none, of the call
    place: Place
    task: Task
    args: Sequence[Any]
    #: keyword → its value; "": a tick, or a run of the flow, gives it
    kwargs: Mapping[str, Any]
    #: keyword → the key of the node that gives it
    keys: Mapping[str, str]

    def argument(self, keyword: str) -> Place:
        """Where a keyword is written."""
        key = self.keys[keyword]
        return self.node.names(key)[keyword] if key in ("kwargs", "inputs") else self.node.keys[key]


def calls(root: Node, config: Config) -> Iterator[DeclaredCall]:
    """The calls of all cron entries, and of all steps of flows."""
    for name, node in root.entries("cron"):
        entry, place = config.cron[name], root.nearest("cron", name, "kwargs")
        if entry.task:
            keys = dict.fromkeys(entry.kwargs, "kwargs") | dict.fromkeys(entry.inputs, "inputs")
            kwargs = {**dict.fromkeys(entry.inputs, ""), **entry.kwargs}
            yield DeclaredCall(f"cron.{name}", node, place, config.tasks[entry.task], entry.args, kwargs, keys)
    for flow, its in root.entries("flows"):
        for name, node in its.entries("steps"):
            step, place = config.flows[flow].steps[name], its.nearest("steps", name, "kwargs")
            keys = dict.fromkeys(step.kwargs, "kwargs") | dict.fromkeys(step.inputs, "inputs")
            keys |= {step.as_: "as" if "as" in node.keys else "for_each"} if step.for_each else {}
            if step.task:
                task, kwargs = config.tasks[step.task], {**dict.fromkeys(keys, ""), **step.kwargs}
                yield DeclaredCall(f"flows.{flow}.steps.{name}", node, place, task, step.args, kwargs, keys)


def check(root: Node, config: Config) -> Iterator[Problem]:
    """Each call that gives what `pass_job` fills, or lacks an argument by which its jobs are unique or limited."""
    for call in calls(root, config):
        unique, keyword = call.task.unique, "" if call.task.command else call.task.pass_job or ""
        if keyword in call.keys:
            message = f"the keyword {keyword!r} comes from two places: pass_job of {call.task.name!r} fills it"
            yield call.node.nearest(call.keys[keyword], keyword).error("keyword-taken", message, "rename one")
        for code, by in (("unique-argument", unique and unique.by), ("limit-argument", call.task.limit_by)):
            try:
                values_of(by or (), call.args, call.kwargs)
            except ValueError as error:
                key, why = code.removesuffix("-argument"), str(error).partition(";")[0]
                message = f"{call.name}: `{key}` of task {call.task.name!r} needs {', '.join(by or ())}, but here {why}"
                yield call.place.error(code, message, _REMEDY)
