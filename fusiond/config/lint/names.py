"""
Names: each one that is used is declared, each one that is declared is used, and no two are easily confused.

Names that are not used give warnings only: a producer on another host may use them.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from fusiond.callbacks import CALLBACKS, WEBHOOK_TASK
from fusiond.config.layers import all_maps
from fusiond.config.lint.suggest import did_you_mean, listed
from fusiond.config.model import DEFAULT_QUEUE, PRIORITIES, RETRY_POLICIES, Config, serves
from fusiond.config.problems import Problem
from fusiond.config.yaml.nodes import Node, Place

_ON_END: Final = ("on_success", "on_failure")
#: sections whose names should not be confused
_NAMED: Final = (
    "queues", "tasks", "workers", "retry_policies", "flows", "cron", "calendars", "priorities", "pools",
)  # fmt: skip


def check_declared(root: Node) -> Iterator[Problem]:
    """Each use of a name that is not declared."""
    queues = {DEFAULT_QUEUE: None, CALLBACKS: None, **root.names("queues")}
    priorities, policies = root.names("priorities") or PRIORITIES, {**RETRY_POLICIES, **root.names("retry_policies")}
    for _, task in root.entries("tasks"):
        yield from _unless_declared(task.get("queue"), "queue", queues)
    for settings in all_maps(root, "tasks"):
        yield from _unless_declared(settings.get("priority"), "priority", priorities)
        yield from _unless_declared(settings.get("retry"), "retry policy", policies)
        yield from _pools_of(settings, root.names("pools"))
        for key in _ON_END:
            yield from _unless_declared(settings.get(key, "task"), "task", root.names("tasks"))
    for _, flow in root.entries("flows"):
        yield from _unless_declared(flow.get("queue"), "queue", queues)
        for key in _ON_END:
            yield from _unless_declared(flow.get(key, "task"), "task", root.names("tasks"))
        for _, step in flow.entries("steps"):
            yield from _unless_declared(step.get("task"), "task", root.names("tasks"))
            yield from _unless_declared(step.get("flow"), "flow", root.names("flows"))
    for _, entry in root.entries("cron"):
        yield from _unless_declared(entry.get("task"), "task", root.names("tasks"))
        yield from _unless_declared(entry.get("flow"), "flow", root.names("flows"))
        for item in entry.items("not_on"):
            yield from _unless_declared(item, "calendar", root.names("calendars"))
    for _, group in root.entries("workers"):
        yield from _queues_of(group, queues)


def check_aliases(root: Node) -> Iterator[Problem]:
    """Each alias that its section declares, too, or that is given twice in it."""
    for section, built_in in (("tasks", ()), ("queues", (DEFAULT_QUEUE, CALLBACKS)), ("cron", ())):
        declared, heirs = {*root.names(section), *built_in}, dict[str, str]()
        for name, entry in root.entries(section):
            for item in entry.items("aliases"):
                if item.value in declared:
                    message = f"{item.raw!r} is an alias, and {section} declares it, too"
                    yield item.place.error("bad-alias", message, "remove one of them")
                elif heirs.setdefault(str(item.value), heir := f"{section}.{name} {item.place.spot}") != heir:
                    message = f"{item.raw!r} is an alias of {heirs[str(item.value)].split()[0]}, too"
                    yield item.place.error("bad-alias", message, "remove one of them")


def check_twice(root: Node) -> Iterator[Problem]:
    """Each word that a list has twice."""
    lists = [queue.items("fair_by") for _, queue in root.entries("queues")]
    lists += [task.items("limit", "by") for _, task in root.entries("tasks")]
    lists += [entry.items("not_on") for _, entry in root.entries("cron")]
    lists += [group.items("queues") for _, group in root.entries("workers")]
    lists += [step.items("after") for _, flow in root.entries("flows") for _, step in flow.entries("steps")]
    for items in lists:
        seen = set[str]()
        for item in items:
            if item.raw in seen:
                yield item.place.error("duplicate-item", f"{item.raw!r} is in the list twice", "remove one")
            seen.add(item.raw)


def check_similar(root: Node) -> Iterator[Problem]:
    """Names of one section that differ only in case or punctuation, and priorities with the same number."""
    for section in _NAMED:
        first: dict[str, str] = {}
        for name, place in root.names(section).items():
            other = first.setdefault(name.casefold().replace("-", "_").replace(".", "_"), name)
            if other != name:
                message = f"{section}: {name!r} and {other!r} are easily confused"
                yield place.warning("similar-names", message, "rename one")
    numbers: dict[int, str] = {}
    for name, node in root.entries("priorities"):
        if isinstance(node.value, int) and (other := numbers.setdefault(node.value, name)) != name:
            message = f"the priorities {other!r} and {name!r} are both {node.raw}"
            yield node.place.warning("same-priority", message, "give each a number of its own")


def check_used(root: Node, config: Config) -> Iterator[Problem]:
    """Each policy and queue that nothing uses, each queue that no group serves, each group without a task."""
    used = {settings.text("retry") for settings in all_maps(root, "tasks")} | {"standard"}
    for name, place in root.names("retry_policies").items():
        if name not in used:
            remedy = "name it in a task, or remove it"
            yield place.warning("unused-policy", f"retry policy {name!r} is never used", remedy)
    if config.tasks and not config.workers:
        message = "there are tasks and no worker group"
        yield root.nearest("tasks").warning("no-workers", message, "add workers: {main: {queues: [default]}}")
        return
    served = {queue for group in config.workers.values() for queue in group.queues}
    filled = {task.queue: _place_of(root, task.name) for task in reversed(list(config.tasks.values()))}
    # A queue may have nothing but the records of flows.
    flows = {flow.queue for flow in config.flows.values()} - filled.keys()
    used_by_jobs = {name: place for name, place in {**filled, **root.names("queues")}.items() if name not in flows}
    for name, place in sorted(used_by_jobs.items()):
        if config.workers and not serves(served, name):
            message = f"no worker group serves queue {name!r}: its jobs wait for ever"
            yield place.warning("unserved-queue", message, "add it to the queues of a group")
        if name not in filled and name not in (DEFAULT_QUEUE, CALLBACKS):
            yield place.warning("unused-queue", f"no task uses queue {name!r}", "name it in a task, or remove it")
    for name, group in config.workers.items():
        # `unused-queue` reports any other queue without a task.
        if filled and DEFAULT_QUEUE not in filled and set(group.queues) == {DEFAULT_QUEUE}:
            message = f"workers.{name} has nothing to do: no task uses queue {DEFAULT_QUEUE!r}"
            place = root.nearest("workers", name, "queues")
            yield place.warning("idle-group", message, "serve other queues, or remove it")


def _place_of(root: Node, task: str) -> Place:
    """Where a task is declared; of the one that calls URLs, where the file first says that it does so."""
    if task != WEBHOOK_TASK:
        return root.nearest("tasks", task)
    maps = [*all_maps(root, "tasks"), *(flow for _, flow in root.entries("flows"))]
    said = (settings.get(key, "webhook") for settings in maps for key in _ON_END)
    urls = [url.place for url in said if url is not None]
    return min(urls, key=lambda place: place.spot, default=root.nearest("webhooks"))


def _queues_of(group: Node, queues: Mapping[str, Any]) -> Iterator[Problem]:
    """A group's list of queues, or its map of queues and weights."""
    items, weights = group.items("queues"), group.names("queues")
    for item in items:
        if not isinstance(item.value, str):
            continue  # the schema reports it
        if item.value == "*" and len(items) > 1:
            yield item.place.error("bad-value", "'*' stands for all queues", "remove the others, or the '*'")
        elif item.value != "*":
            yield from _unless_declared(item, "queue", queues)
    for name, place in weights.items():
        if name not in queues:
            yield _undeclared(name, name, place, "queue", queues)
    if weights and "order" in group.keys:
        message = "order does not go with a map of weights"
        yield group.keys["order"].error("exclusive-keys", message, "remove order, or write the queues as a list")


def _pools_of(task: Node, pools: Mapping[str, Any]) -> Iterator[Problem]:
    for name, _ in task.entries("pools"):
        if name not in pools:
            yield _undeclared(name, name, task.nearest("pools", name), "pool", pools)


def _unless_declared(node: Node | None, kind: str, known: Mapping[str, Any]) -> Iterator[Problem]:
    if node is not None and isinstance(node.value, str) and node.value not in known:
        yield _undeclared(node.value, node.raw, node.place, kind, known)


def _undeclared(name: str, written: str, place: Place, kind: str, known: Mapping[str, Any]) -> Problem:
    # The queue of callbacks is always there: it is listed only if the file has a place where it declares it.
    declared = [each for each in known if each != CALLBACKS or known[each]]
    remedy = did_you_mean(name, known) or (f"declared are {listed(declared)}" if declared else f"declare the {kind}")
    return place.error(f"unknown-{kind.replace(' ', '-')}", f"{kind} {written!r} is not declared", remedy)
