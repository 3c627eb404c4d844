"""Worker groups: keys without effect, groups without work, variables and directories that surprise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fusiond.config.lint.walk import group_settings, names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fusiond.config.model import Config
    from fusiond.config.problems import Problem
    from fusiond.config.yaml.nodes import Node

#: what the daemon and its children set themselves
_RESERVED: Final = frozenset({"FUSION_JOB_ID", "FUSION_LOADING", "FUSIOND_LINK", "NOTIFY_SOCKET"})
_SEARCHED: Final = frozenset({"PATH", "PYTHONPATH", "LD_LIBRARY_PATH"})


def check(root: Node, config: Config) -> Iterator[Problem]:
    """Each group, and the defaults of groups, that does not do what it says."""
    yield from _of_children(root, config)
    yield from _orders(root, config)
    for _, settings in group_settings(root):
        yield from _variables(settings)


def _of_children(root: Node, config: Config) -> Iterator[Problem]:
    """`fork` makes a child for each job, which nothing can replace between two of them."""
    for name, group in config.workers.items():
        for key in ("max_jobs", "max_memory"):
            node = root.get("workers", name)
            if node is not None and key in node.keys and group.isolation == "fork" and getattr(group, key) is not None:
                message = f"{key} has no effect with isolation: fork, where each job has a child of its own"
                yield node.keys[key].warning("ignored-key", message, "remove it, or write isolation: process")


def _orders(root: Node, config: Config) -> Iterator[Problem]:
    for name, group in config.workers.items():
        node = root.get("workers", name)
        if node is not None and "order" in node.keys and len(group.queues) == 1 and group.queues != ("*",):
            message = "order has no effect on a single queue"
            yield node.keys["order"].warning("ignored-key", message, "remove it")


def _variables(settings: Node) -> Iterator[Problem]:
    environment = settings.get("environment")
    for name, node in environment.entries() if environment is not None else ():
        place = environment.keys[name] if environment is not None else node.place
        if name in _RESERVED:
            yield place.warning("reserved-variable", f"{name} is set by fusiond itself", "remove it, or rename it")
        elif name in _SEARCHED and isinstance(node.value, str):
            relative = [part for part in node.value.split(":") if not part.startswith("/")]
            if relative and "$" not in node.raw:
                message = f"{name} has the relative path {relative[0]!r}, which moves with a job's working directory"
                yield node.place.warning("relative-path", message, "write an absolute path")


def check_names(root: Node) -> Iterator[Problem]:
    """Names of one section that only case or punctuation tells apart, and priorities that are one number."""
    for section in ("queues", "tasks", "workers", "retry_policies", "cron", "priorities"):
        first: dict[str, str] = {}
        node = root.get(section)
        for name in names(root, section):
            folded = name.casefold().replace("-", "_").replace(".", "_")
            other = first.setdefault(folded, name)
            if other != name and node is not None:
                message = f"{section}: {name!r} and {other!r} are easily taken for one another"
                yield node.keys[name].warning("similar-names", message, "rename one")
    yield from _same_priorities(root)


def _same_priorities(root: Node) -> Iterator[Problem]:
    first: dict[int, str] = {}
    priorities = root.get("priorities")
    for name, node in priorities.entries() if priorities is not None else ():
        if isinstance(node.value, int) and (other := first.setdefault(node.value, name)) != name:
            message = f"the priorities {other!r} and {name!r} are both {node.raw}"
            yield node.place.warning("same-priority", message, "give each a number of its own")
