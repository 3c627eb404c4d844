"""
The file's own `policies`.

1. read    a policy: the key that it is about, and what it compares with. One that can judge nothing is an error itself
2. judge   the effective value of each entry that the file names, and of the queue `default` if a task uses it

Expects a file without errors: an entry that is left out could be the worker group that a queue needs.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, get_origin

from fusiond.config.fields import Field, Form, keys_of
from fusiond.config.kinds import Fields, Kind
from fusiond.config.lint.suggest import nearest
from fusiond.config.model import DEFAULT_QUEUE, Config, serves
from fusiond.config.model.file_policies import SECTIONS
from fusiond.config.problems import Problem
from fusiond.config.yaml.nodes import Node

#: each is asked of each entry, and a file may have 50,000 values
_MOST: Final = 200
_CONDITIONS: Final = ("required", "at_most", "at_least", "one_of")
#: section → the class of its entries
_CLASSES: Final = {field.name: field.entries for field in keys_of(Config)}
_SCALARS: Final = (int, float, str, bool)
#: what a fault is, and the remedy
_Faults = Iterator[tuple[str, str]]


class _UselessError(Exception):
    """A policy can judge nothing: key of the policy, message, remedy."""


def check(root: Node, config: Config) -> Iterator[Problem]:
    """Each entry that breaks a policy, and each policy that can judge nothing."""
    policies = root.items("policies")
    for policy in policies[_MOST:][:1]:
        yield policy.place.error("useless-policy", f"more than {_MOST} policies", "remove some")
    for policy in policies[:_MOST]:
        every, reason = policy.text("every") or "", policy.text("message")
        try:
            judge = _Judge(policy, SECTIONS[every], config.priorities)
        except _UselessError as error:
            key, *said = error.args
            yield policy.nearest(key).error("useless-policy", *said)
            continue
        where = f"the policy at {policy.place.source.name}:{policy.place.line}"
        for name in _names(root, config, SECTIONS[every]):
            place = root.nearest(SECTIONS[every], name, *judge.key.split("."))
            for what, remedy in judge.faults(config, name):
                message = f"{f'{reason}: ' if reason else ''}{every} {name!r} {what} ({where})"
                yield place.error("broken-policy", message, remedy)


def _names(root: Node, config: Config, section: str) -> list[str]:
    used = (config.tasks[name].queue for name in root.names("tasks"))
    implied = [DEFAULT_QUEUE] if section == "queues" and DEFAULT_QUEUE in used else []
    return [*dict.fromkeys([*root.names(section), *implied])]


class _Judge:
    """One policy."""

    def __init__(self, policy: Node, section: str, priorities: Mapping[str, int]) -> None:
        """Raises _UselessError."""
        said = policy.data()
        self._section, self._policy, self.key = section, policy, said.get("key") or ""
        self._conditions = [name for name in _CONDITIONS if said.get(name)]
        #: groups that must serve a queue
        self._groups: int = said.get("served_by_groups") or 0
        if self._groups and section != "queues":
            raise _UselessError("served_by_groups", "worker groups serve queues only", "write every: queue")
        if self._conditions and not self.key:
            raise _UselessError(self._conditions[0], f"{self._conditions[0]} needs a key", "add key")
        if not self._conditions and (self.key or not self._groups):
            raise _UselessError("key", "this policy demands nothing", f"add {' or '.join(_CONDITIONS)}")
        self._names, self._form = _found(_CLASSES[section], self.key)
        if self._conditions not in ([], ["required"]) and not self._is_scalar:
            below = next(iter(_keys(self._form)), None)
            remedy = f"name one of its keys, such as {self.key}.{below}" if below else "use required"
            raise _UselessError("key", f"{self.key} has no single value to compare", remedy)
        self._priorities = priorities if self.key == "priority" else {}
        limits = {name: node for name in ("at_most", "at_least") if (node := policy.get(name)) and name in said}
        self._limits = {name: (self._limit(name, node), node.raw) for name, node in limits.items()}
        self._allowed = [(self._read("one_of", item), item.raw) for item in policy.items("one_of")]

    @property
    def _is_scalar(self) -> bool:
        return self._form.type in _SCALARS or get_origin(self._form.type) is Literal

    def faults(self, config: Config, name: str) -> _Faults:
        """What is wrong with an entry."""
        serving = [group.name for group in config.workers.values() if self._groups and serves(group.queues, name)]
        if len(serving) < self._groups:
            yield f"is served by {', '.join(serving) or 'no worker group'}", f"have {self._groups} groups serve it"
        if self.key:
            yield from self._faults_of(self._value(getattr(config, self._section)[name]))

    def _faults_of(self, value: Any) -> _Faults:
        shown = self._form.kind.show(value) if isinstance(value, int | float) else "none"
        for condition, (limit, raw) in self._limits.items():
            if value is None or (value > limit if condition == "at_most" else value < limit):
                yield f"has {self.key}: {shown}", f"write {raw} or {'less' if condition == 'at_most' else 'more'}"
        if "required" in self._conditions and value in (None, "", (), {}):
            yield f"has no {self.key}", f"add {self.key}"
        if self._allowed and value not in [allowed for allowed, _ in self._allowed]:
            yield f"has another {self.key} than is allowed", f"write {' or '.join(raw for _, raw in self._allowed)}"

    def _value(self, entry: Any) -> Any:
        for name in self._names:
            entry = entry.get(name) if isinstance(entry, Mapping) else getattr(entry, name, None)
        return entry

    def _limit(self, condition: str, node: Node) -> float:
        limit = self._read(condition, node)
        if self._form.type not in (int, float) or not isinstance(limit, int | float):
            raise _UselessError(condition, f"{self.key} is no number", "use one_of or required")
        return limit

    def _read(self, condition: str, node: Node) -> Any:
        """A value of the policy as a Config has it."""
        value, read = node.data(), self._form.kind.read
        try:
            found = read(value) if read and value is not None else value
        except (ValueError, TypeError, AttributeError, OverflowError):  # read expects what the schema lets through
            examples = self._form.key.examples if self._form.key else ()
            message = f"{condition}: {node.raw} is no value of {self.key}"
            raise _UselessError(condition, message, f"write one such as {examples[0]}" if examples else "") from None
        found = found.get(self._names[-1]) if isinstance(found, Fields) else found
        return self._priorities.get(found, found) if isinstance(found, str) else found


def _found(cls: type | None, key: str) -> tuple[tuple[str, ...], Form]:
    """
    The attributes, or keys of maps, that lead from an entry to the value of a dotted key, and its form.

    Raises _UselessError.
    """
    names: list[str] = []
    form = Form(cls, Kind(), None, "")
    for word in key.split(".") if key else ():
        if get_origin(form.type) is Mapping:
            names, form = [*names, word], form.items
            continue
        known = _keys(form)
        if word not in known:
            where = f"{'.'.join(names)} has no key" if names else "there is no key"
            raise _UselessError("key", f"{where} {word!r}", nearest(word, known))
        names, form = [*names, known[word].name], known[word].form
    return tuple(names), form


def _keys(form: Form) -> dict[str, Field]:
    """The keys of a map of the file that a Config has, by name; none of what is no map."""
    is_map = isinstance(form.type, type) and dataclasses.is_dataclass(form.type)
    return {field.written: field for field in keys_of(form.type) if not field.of_file} if is_map else {}
