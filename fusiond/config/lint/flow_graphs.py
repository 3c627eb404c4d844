"""
Flows: their graphs, and what their steps refer to.

1. check          the names of steps, cycles, references, and flows that run themselves
2. check_values   what only the resolved values show: a result that is needed and ignored, keywords that are taken
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from fusiond.config.lint.suggest import did_you_mean, listed
from fusiond.config.model import Config, Flow
from fusiond.config.model.flow_steps import INPUT, FlowStep
from fusiond.config.problems import Problem
from fusiond.config.yaml.nodes import Node


def check(root: Node) -> Iterator[Problem]:
    """What is wrong with the graph of a flow; skips what the schema refuses."""
    for name, flow in root.entries("flows"):
        steps = dict(flow.entries("steps"))
        yield from _steps_before(steps)
        after = {step: [word for word in _words(node, "after") if word in steps] for step, node in steps.items()}
        if circle := _circle(after):
            last = steps[circle[-1]]
            message = f"flows.{name}: each of these steps waits for the one before it: {' → '.join(circle)}"
            yield last.nearest("after").error("flow-cycle", message, "remove one of them from `after`")
            continue
        for step, node in steps.items():
            before = _ancestors(step, after)
            for reference in _references(node):
                yield from _reference(reference, steps, before)
    yield from _recursion(root)
    for _, entry in root.entries("cron"):
        yield from _arguments(entry)


def check_values(root: Node, config: Config) -> Iterator[Problem]:
    """What is wrong with the values of a flow."""
    for name, written in root.entries("flows"):
        for step_name, node in written.entries("steps"):
            flow, step = config.flows[name], config.flows[name].steps[step_name]
            yield from _needed_results(node, flow, config)
            yield from _keywords(node, step)
            yield from _without_effect(node, step)
            if step.flow:
                given = {*step.inputs, *step.kwargs, *([step.as_] if step.for_each else [])}
                yield from _inputs_of_flow(node, step.flow, given, config)
    for name, node in root.entries("cron"):
        entry = config.cron[name]
        if entry.flow:
            yield from _inputs_of_flow(node, entry.flow, {*entry.inputs, *entry.kwargs}, config)
        yield from _twice(node, entry.inputs, entry.kwargs)


def inputs_of(flow: Flow) -> set[str]:
    """The names of the inputs of a flow."""
    pairs = (each.split(".") for step in flow.steps.values() for each in (*step.inputs.values(), step.for_each or ""))
    return {words[1] for words in pairs if words[0] == INPUT and len(words) > 1}


# -- the graph --------------------------------------------------------------------------------------------------------


def _steps_before(steps: Mapping[str, Node]) -> Iterator[Problem]:
    for name, node in steps.items():
        for item in node.items("after"):
            word = str(item.value)
            if word == name:
                yield item.place.error("flow-cycle", f"step {name!r} waits for itself", "remove it")
            elif word not in steps:
                remedy = did_you_mean(word, steps) or f"the steps are {listed(steps)}"
                yield item.place.error("unknown-step", f"there is no step {item.raw!r} in this flow", remedy)
        join, count = node.get("join"), len(node.items("after"))
        if join is not None and isinstance(join.value, int) and not isinstance(join.value, bool) and join.value > count:
            message = f"join: {join.raw} is more than the {count} steps in `after`"
            yield join.place.error("out-of-range", message, f"write {count or 'all'} or less" if count else "remove it")


def _words(node: Node, key: str) -> list[str]:
    return [item.value for item in node.items(key) if isinstance(item.value, str)]


def _circle(after: Mapping[str, Sequence[str]]) -> list[str]:
    """Steps of which each waits for the one before it, and the first for the last; empty: there are none."""
    done: set[str] = set()
    for start in after:
        path, ways = [start], [iter(after[start])]
        while ways:
            found = next(ways[-1], None)
            if found is None:
                done.add(path.pop())
                ways.pop()
            elif found in path:
                around = path[path.index(found) :]
                return [*reversed(around), around[-1]]
            elif found not in done:
                path.append(found)
                ways.append(iter(after[found]))
    return []


def _ancestors(name: str, after: Mapping[str, Sequence[str]]) -> set[str]:
    found: set[str] = set()
    wanted = [*after[name]]
    while wanted:
        step = wanted.pop()
        if step not in found:
            found.add(step)
            wanted += after[step]
    return found


def _recursion(root: Node) -> Iterator[Problem]:
    """Flows that run themselves, over however many others."""
    flows = dict(root.entries("flows"))
    below = {
        name: [found for _, step in flow.entries("steps") if (found := step.text("flow") or "") in flows]
        for name, flow in flows.items()
    }
    if circle := _circle(below):
        name = circle[0]
        step = next(step for step, node in flows[name].entries("steps") if node.text("flow") in circle)
        place = flows[name].nearest("steps", step, "flow")
        message = f"flow {name!r} would run itself: {' in '.join(circle)}"
        yield place.error("flow-cycle", message, "run another flow in this step")


# -- references -------------------------------------------------------------------------------------------------------


def _references(node: Node) -> Iterator[Node]:
    for _, item in node.entries("inputs"):
        yield item
    each = node.get("for_each")
    if each is not None:
        yield each


def _reference(node: Node, steps: Collection[str], before: Collection[str]) -> Iterator[Problem]:
    if not isinstance(node.value, str):
        return
    head, dot, _ = node.value.partition(".")
    if head == INPUT:
        if not dot:
            yield node.place.error("bad-reference", "'input' is not a value", "write input.NAME")
    elif head not in steps:
        known = [*steps, f"{INPUT}.{head}"]
        remedy = (
            did_you_mean(head, steps)
            or f"write {INPUT}.{head} for an input of the flow, or one of {listed(known[:-1])}"
        )
        yield node.place.error("bad-reference", f"there is no step {head!r} in this flow", remedy)
    elif head not in before:
        message = f"step {head!r} does not come before this one"
        yield node.place.error("bad-reference", message, f"add {head} to `after`")


# -- values -----------------------------------------------------------------------------------------------------------


def _needed_results(node: Node, flow: Flow, config: Config) -> Iterator[Problem]:
    for item in _references(node):
        other = flow.steps.get(str(item.value).partition(".")[0])
        task = config.tasks.get((other and other.task) or "")
        if task and task.result in ("ignore", "keep" if task.command else ""):
            message = f"{item.raw} needs the result of task {task.name!r}, which has result: {task.result}"
            kept = "stdout_json" if task.command else "keep"
            yield item.place.error("ignored-result", message, f"write result: {kept} in task {task.name!r}")


def _keywords(node: Node, step: FlowStep) -> Iterator[Problem]:
    """Keywords that come from two places."""
    yield from _twice(node, step.inputs, step.kwargs)
    places = {**node.names("kwargs"), **node.names("inputs")}
    if step.for_each and step.as_ in places:
        message = f"the keyword {step.as_!r} comes from two places: `as` gives it the item of for_each"
        yield places[step.as_].error("keyword-taken", message, "rename one")


def _twice(node: Node, inputs: Collection[str], kwargs: Collection[str]) -> Iterator[Problem]:
    for name in inputs:
        if name in kwargs:
            message = f"the keyword {name!r} comes from two places: kwargs has it, too"
            yield node.names("inputs")[name].error("keyword-taken", message, "rename one")


def _arguments(entry: Node) -> Iterator[Problem]:
    """What a cron entry can give to a task alone."""
    there = [key for key in ("task", "flow") if key in entry.keys]
    if there == ["flow"] and entry.items("args"):
        yield entry.keys["args"].error("bad-arguments", "a flow has no positional arguments", "write kwargs or inputs")


def _without_effect(node: Node, step: FlowStep) -> Iterator[Problem]:
    keys = {"join": not step.after, "when": not step.after, "as": not step.for_each}
    for key, is_idle in keys.items():
        if is_idle and key in node.keys:
            needed = "for_each" if key == "as" else "after"
            yield node.keys[key].warning("ignored-key", f"{key} has no effect without {needed}", "remove it")
    if step.flow and step.args:
        yield node.keys["args"].error("bad-arguments", "a flow has no positional arguments", "write kwargs or inputs")


def _inputs_of_flow(node: Node, flow: str, given: set[str], config: Config) -> Iterator[Problem]:
    wanted = inputs_of(config.flows[flow])
    for name in sorted(wanted - given):
        message = f"flow {flow!r} needs the input {name!r}"
        yield node.keys["flow"].error("flow-input", message, f"add inputs: {{{name}: …}}")
    places = {**node.names("kwargs"), **node.names("inputs")}
    for name in sorted(given - wanted):
        remedy = did_you_mean(name, wanted) or "remove it"
        place = places.get(name) or node.nearest("as")
        yield place.error("flow-input", f"flow {flow!r} has no input {name!r}", remedy)
