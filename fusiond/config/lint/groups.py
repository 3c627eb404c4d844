"""Worker groups: keys that have no effect, and variables that do not do what they seem to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fusiond.config.layers import all_maps

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fusiond.config.model import Config
    from fusiond.config.problems import Problem
    from fusiond.config.yaml.nodes import Node

#: variables that the daemon and its children set themselves
_RESERVED: Final = frozenset({"FUSION_JOB_ID", "FUSION_LOADING", "FUSIOND_LINK", "NOTIFY_SOCKET"})
#: variables that are lists of directories
_SEARCHED: Final = frozenset({"PATH", "PYTHONPATH", "LD_LIBRARY_PATH"})


def check(root: Node, config: Config) -> Iterator[Problem]:
    """Each such key of a group, and each such variable of a group or of the groups' defaults."""
    for name, group in config.workers.items():
        keys = root.names("workers", name)
        for key in ("max_jobs", "max_memory"):
            if key in keys and group.isolation == "fork" and getattr(group, key) is not None:
                message = f"{key} has no effect with isolation: fork, where each job has a child of its own"
                yield keys[key].warning("ignored-key", message, "remove it, or write isolation: process")
        if "order" in keys and len(group.queues) == 1 and group.queues != ("*",):
            yield keys["order"].warning("ignored-key", "order has no effect on a single queue", "remove it")
    for settings in all_maps(root, "workers"):
        yield from _variables(settings)


def _variables(settings: Node) -> Iterator[Problem]:
    places = settings.names("environment")
    for name, node in settings.entries("environment"):
        if name in _RESERVED:
            yield places[name].warning("reserved-variable", f"{name} is set by fusiond itself", "remove or rename it")
        elif name in _SEARCHED and isinstance(node.value, str):
            relative = [part for part in node.value.split(":") if not part.startswith("/")]
            if relative and "$" not in node.raw:
                message = f"{name} has the relative path {relative[0]!r}, which moves with a job's working directory"
                yield node.place.warning("relative-path", message, "write an absolute path")
