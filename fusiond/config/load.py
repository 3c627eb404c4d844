"""
A path goes in, a Config or its problems come out.

1. read    the file and its includes: nodes with their places; hide secrets from what quotes them
2. schema  each file by itself
3. names   what a schema cannot say, on the nodes: names, schedules, the broker's URL, traps of YAML
4. build   the Config; where there are errors, of the entries without errors, to check these further
5. values  what only the resolved values show: timeouts, unserved queues, what this machine has
"""

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from fusiond.config import secrets
from fusiond.config.build import build
from fusiond.config.fields import keys_of
from fusiond.config.lint import (
    broker_url,
    calls,
    command_tasks,
    dashboard,
    declared_policies,
    flow_graphs,
    machine,
    names,
    odd_characters,
    outbox_keys,
    policies,
    queue_limits,
    schedules,
    sink_keys,
    systemd_unit,
    traps,
)
from fusiond.config.model import Config
from fusiond.config.problems import Problem, Spot
from fusiond.config.schema import check as check_schema
from fusiond.config.yaml.includes import read_tree
from fusiond.config.yaml.nodes import Node, Place, Tree
from fusiond.paths import as_named

MAX_ERRORS: Final = 250
MAX_WARNINGS: Final = 1000
#: sections with an entry for each name
_SECTIONS: Final = frozenset(field.name for field in keys_of(Config) if field.entries)
#: rules that need no resolved value, and those that do
_OF_NODES: Final = (
    schedules.check, broker_url.check, traps.check, queue_limits.check, flow_graphs.check, sink_keys.check,
    names.check_similar, names.check_twice,
)  # fmt: skip
_OF_VALUES: Final = (
    policies.check, calls.check, command_tasks.check, queue_limits.check_pairs, queue_limits.check_needs,
    flow_graphs.check_values,
    schedules.check_ticks, machine.check_paths, dashboard.check, outbox_keys.check,
)  # fmt: skip
#: what entries share or refer to: if it is wrong as a whole, nothing can be said of any entry
_SHARED: Final = frozenset({"defaults", *(field.name for field in keys_of(Config) if field.by_name)})


@dataclass(frozen=True, slots=True)
class Loaded:
    """What came out of a file."""

    #: None if a problem is an error
    config: Config | None
    #: sorted by place
    problems: tuple[Problem, ...]
    #: what the files say, with places, and which files these are
    tree: Tree


def load(
    path: str | os.PathLike[str],
    *,
    environ: Mapping[str, str],
    data: bytes | None = None,
    to_run: bool = False,
    elsewhere: bool = False,
    unit_file: Path | None = None,
) -> Loaded:
    """
    Read and check a file. Never raises an exception because of the file.

    Args:
        path: the file; problems name it as it is given here.
        environ: for `${VAR}`.
        data: its bytes, where they do not come from `path`.
        to_run: this machine is about to run it: what is missing here (a user, a directory) is an error.
        elsewhere: another machine will run it: what this machine lacks is not reported.
        unit_file: the systemd unit that will run it; None: the one that this machine has, if any.
    """
    tree = read_tree(Path(path), environ, data)
    if refused := tuple(_tests_files(tree)):
        return Loaded(None, refused, tree)
    found = _Found()
    found.take(tree.problems)
    found.take(secrets.check(tree))
    for number, root in enumerate(tree.roots):
        found.take(tree.not_reported(check_schema(root, included=number > 0)))
    if tree.root is not None:
        found.take(tree.not_reported(_check_names(tree.root, whole=tree.is_whole)))
    whole = not found.errors
    sound = tree.root if whole or tree.root is None else _sound_part(tree.root, found.errors)
    config = build(sound) if sound is not None else None
    if sound is not None and config is not None:
        for check in _OF_VALUES:
            found.take(check(sound, config))
        if not elsewhere:
            found.take(machine.check(sound, config, to_run=to_run))
            found.take(machine.check_owners(tree, to_run=to_run))
        if whole:
            found.take(names.check_used(sound, config))
            found.take(declared_policies.check(sound, config))
            name = systemd_unit.unit_of(as_named(path))
            unit = unit_file or (None if elsewhere else systemd_unit.installed(name))
            found.take(systemd_unit.check(sound, config, unit, name))
    problems = tuple(sorted({*map(odd_characters.explained, found.errors), *found.warnings}))
    return Loaded(None if found.errors else config, problems, tree)


def _tests_files(tree: Tree) -> Iterator[Problem]:
    """Files of tests in the place of the file, or of an included one."""
    for root in tree.roots:
        if "tests" in root.keys and not root.keys.keys() - {"version", "hosts", "tests"}:
            remedy = f"run `fusiond test {root.place.source.name}`"
            yield root.keys["tests"].error("tests-file", "this is a tests file", remedy)


def _check_names(root: Node, *, whole: bool) -> Iterator[Problem]:
    """Rules that need no resolved value; they skip what the schema refuses. `whole`: no file with names is missing."""
    if whole:
        yield from names.check_declared(root)
        yield from names.check_aliases(root)
        yield from outbox_keys.check_tasks(root)
    for check in _OF_NODES:
        yield from check(root)


def _sound_part(root: Node, errors: set[Problem]) -> Node | None:
    """
    The part of a file that has no errors, so that one mistake does not hide the next.

    1. drop   each entry (a task, a queue, a group …) with an error in it. With a default in place of a wrong value, it
              would say what nobody wrote
    2. drop   the entries that refer to these, until none is left that does

    Returns:
        None if not all errors are known, or one is in what many entries share: `defaults`, `priorities`, or a section
        that is not a map. Nothing can be said about any part then.
    """
    if len(errors) == MAX_ERRORS:
        return None
    spots = {problem.spot for problem in errors}
    left: Node | None = _part(root, [field.name for field in keys_of(Config)])
    while spots and left is not None:
        left = _without(left, spots)
        found = _check_names(left, whole=True) if left is not None else ()
        spots = {problem.spot for problem in found if problem.is_error}
    return left


def _part(node: Node, names: Collection[str]) -> Node:
    """A map with only these of its keys."""
    values = {name: entry for name, entry in node.entries() if name in names}
    return replace(node, value=values, keys={name: node.keys[name] for name in values})


def _without(root: Node, errors: set[Spot]) -> Node | None:
    """The file without the entries at these places; None if one of the places is in what many entries share."""
    sections: dict[str, Node] = {}
    for key, node in root.entries():
        if key in _SECTIONS and errors.isdisjoint((root.keys[key].spot, node.place.spot)):
            sound = {name for name, entry in node.entries() if errors.isdisjoint(_spots(node.keys[name], entry))}
            sections[key] = _part(node, sound)
        elif errors.isdisjoint(_spots(root.keys[key], node)):
            sections[key] = node
        elif key in _SHARED:
            return None
    return replace(root, value=sections, keys={key: root.keys[key] for key in sections})


def _spots(key: Place, node: Node) -> Iterator[Spot]:
    """The places of a key and of everything beneath it."""
    yield key.spot
    for _, each in node.walk():
        yield each.place.spot
        yield from (place.spot for place in each.keys.values())


class _Found:
    """The problems so far, each once. Bounded: each byte of a hostile file may be a mistake."""

    def __init__(self) -> None:
        self.errors: set[Problem] = set()
        self.warnings: set[Problem] = set()

    def take(self, problems: Iterable[Problem]) -> None:
        """Add them, as long as there is room; no number of warnings hides an error."""
        for problem in problems:
            if problem.is_error and len(self.errors) == MAX_ERRORS:
                return
            if problem.is_error:
                self.errors.add(problem)
            elif len(self.warnings) < MAX_WARNINGS:
                self.warnings.add(problem)
