"""The keys of a sink, which depend on its kind."""

from collections.abc import Iterator

from fusiond.config.model.event_log import SINK_KEYS
from fusiond.config.problems import Problem
from fusiond.config.yaml.nodes import Node


def check(root: Node) -> Iterator[Problem]:
    """Each sink that lacks what its kind needs, and each key that its kind does not have."""
    sinks = root.get("events", "sinks")
    for name, sink in root.entries("events", "sinks"):
        kind = sink.text("kind") or ""
        if sinks is None or kind not in SINK_KEYS:
            continue
        needed, more = SINK_KEYS[kind]
        if sink.get(needed) is None:
            message = f"events.sinks.{name}: a sink of the kind {kind} needs {needed}"
            yield sinks.keys[name].error("sink-key", message, f"add {needed}")
        for key, _ in sink.entries():
            if any(key in {own, *others} for own, others in SINK_KEYS.values()) and key not in {needed, *more}:
                yield sink.keys[key].error("sink-key", f"a sink of the kind {kind} has no {key}", "remove it")
