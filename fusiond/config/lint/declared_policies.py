"""
The file's own `policies`.

1. read    a policy: the key that it is about, and what it demands. One that can judge nothing is an error itself
2. judge   the effective value of each entry that the file names, and of the queue `default` if a task uses it

Expects a file without errors: an entry that is left out could be the worker group that a queue needs.
"""

import dataclasses
import operator
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, get_origin

from fusiond.config.fields import Field, Form, keys_of
from fusiond.config.kinds import Fields, Kind
from fusiond.config.lint.suggest import nearest
from fusiond.config.model import DEFAULT_QUEUE, Config, serves
from fusiond.config.model.file_policies import SECTIONS
from fusiond.config.problems import Problem
from fusiond.config.yaml.nodes import Node

#: policies; each is asked of each entry, and a file may have 50,000 values
_MOST: Final = 200
#: section → the class of its entries
_CLASSES: Final = {field.name: field.entries for field in keys_of(Config)}
#: condition → whether a value is beyond the limit, and what may be written in its place
_BEYOND: Final = {"at_most": (operator.gt, "less"), "at_least": (operator.lt, "more")}
_NO_KEY: Final = ("this policy needs a key", "add key")


class _UselessError(Exception):
    """A policy can judge nothing: key of the policy, message, remedy."""


def check(root: Node, config: Config) -> Iterator[Problem]:
    """Each entry that breaks a policy, and each policy that can judge nothing."""
    policies = root.items("policies")
    for policy in policies[_MOST:][:1]:
        yield policy.place.error("useless-policy", f"more than {_MOST} policies", "remove some")
    for policy in policies[:_MOST]:
        try:
            yield from _Policy(policy, config).broken(root)
        except _UselessError as error:
            key, *said = error.args
            yield policy.nearest(key).error("useless-policy", *said)


class _Policy:
    """One policy of a file."""

    def __init__(self, node: Node, config: Config) -> None:
        """Raises _UselessError."""
        said = self._said = node.data()
        self._config, self._every, self._key = config, said["every"], said.get("key") or ""
        self._section, self._groups = SECTIONS[said["every"]], said.get("served_by_groups") or 0
        self._where = f"the policy at {node.place.source.name}:{node.place.line}"
        self._names, self._form = _found(_CLASSES[self._section], self._key)
        given = {name: each for name in ("at_most", "at_least") if (each := node.get(name)) and each.value is not None}
        self._limits = [(_BEYOND[name], self._limit(name, each), each.raw) for name, each in given.items()]
        self._allowed = {item.raw: self._read("one_of", item) for item in node.items("one_of")}
        if said.get("required") and not self._key:
            raise _UselessError("required", *_NO_KEY)
        if self._groups and self._section != "queues":
            raise _UselessError("served_by_groups", "worker groups serve queues only", "write every: queue")
        if not (given or self._allowed or said.get("required") or (self._groups and not self._key)):
            raise _UselessError("key", "this policy demands nothing", "add required, at_most, at_least or one_of")

    def broken(self, root: Node) -> Iterator[Problem]:
        """Each entry that breaks it."""
        reason = f"{self._said['message']}: " if self._said.get("message") else ""
        used = self._section == "queues" and (self._config.tasks[name].queue for name in root.names("tasks"))
        implied = [DEFAULT_QUEUE] if used and DEFAULT_QUEUE in used else []
        for name in dict.fromkeys([*root.names(self._section), *implied]):
            place = root.nearest(self._section, name, *self._key.split("."))
            for fault, remedy in self._faults(name):
                message = f"{reason}{self._every} {name!r} {fault} ({self._where})"
                yield place.error("broken-policy", message, remedy)

    def _faults(self, name: str) -> Iterator[tuple[str, str]]:
        serving = [group.name for group in self._config.workers.values() if self._groups and serves(group.queues, name)]
        if len(serving) < self._groups:
            yield f"is served by {', '.join(serving) or 'no worker group'}", f"have {self._groups} groups serve it"
        value = getattr(self._config, self._section)[name]
        for each in self._names:
            value = value.get(each) if isinstance(value, Mapping) else getattr(value, each, None)
        for (is_beyond, word), limit, raw in self._limits:
            if value is None or is_beyond(value, limit):
                shown = "none" if value is None else self._form.kind.show(value)
                yield f"has {self._key}: {shown}", f"write {raw} or {word}"
        if self._said.get("required") and value in (None, "", (), {}):
            yield f"has no {self._key}", f"add {self._key}"
        if self._allowed and value not in self._allowed.values():
            yield f"has another {self._key} than is allowed", f"write {' or '.join(self._allowed)}"

    def _limit(self, condition: str, node: Node) -> float:
        limit = self._read(condition, node)
        if self._form.type not in (int, float) or not isinstance(limit, int | float):
            raise _UselessError(condition, f"{self._key} is no number", "use one_of or required")
        return limit

    def _read(self, condition: str, node: Node) -> Any:
        """A value of the policy as a Config has it."""
        value, form = node.data(), self._form
        if not self._key:
            raise _UselessError(condition, *_NO_KEY)
        if form.type not in (int, float, str, bool) and get_origin(form.type) is not Literal:
            below = next(iter(_keys(form)), None)
            remedy = f"name one of its keys, such as {self._key}.{below}" if below else "use required"
            raise _UselessError("key", f"{self._key} has no single value to compare", remedy)
        try:
            found = form.kind.read(value) if form.kind.read and value is not None else value
        except (ValueError, TypeError, AttributeError, OverflowError):  # read expects what the schema lets through
            remedy = f"write one such as {form.key.examples[0]}" if form.key else ""
            raise _UselessError(condition, f"{condition}: {node.raw} is no value of {self._key}", remedy) from None
        found = found.get(self._names[-1]) if isinstance(found, Fields) else found
        return self._config.priorities.get(found) if self._key == "priority" and isinstance(found, str) else found


def _found(cls: type | None, key: str) -> tuple[list[str], Form]:
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
    return names, form


def _keys(form: Form) -> dict[str, Field]:
    """The keys of a map of the file that a Config has, by name; none of what is no map."""
    is_map = isinstance(form.type, type) and dataclasses.is_dataclass(form.type)
    return {field.written: field for field in keys_of(form.type) if not field.of_file} if is_map else {}
