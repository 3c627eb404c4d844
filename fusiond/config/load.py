"""
A path goes in, a Config or its problems come out.

1. read    the file and its includes: nodes with their places; hide secrets from what quotes them
2. schema  each file by itself
3. names   what a schema cannot say, on the nodes: names, schedules, the broker's URL, traps of YAML
4. build   the Config; where there are errors, of the entries without errors (lint/partial.py), to check these further
5. values  what only the resolved values show: timeouts, unserved queues, what this machine has
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fusiond.config.build import build
from fusiond.config.lint import (
    broker_url,
    clear_secrets,
    groups,
    machine,
    names,
    ownership,
    policies,
    schedules,
    systemd_unit,
    traps,
)
from fusiond.config.lint.partial import error_free_part
from fusiond.config.schema import check as check_schema
from fusiond.config.yaml.includes import read_tree

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping

    from fusiond.config.model import Config
    from fusiond.config.problems import Problem
    from fusiond.config.yaml.nodes import Node


MAX_ERRORS: Final = 250
MAX_WARNINGS: Final = 1000


@dataclass(frozen=True, slots=True)
class Loaded:
    """What came out of a file."""

    #: None where a problem is an error
    config: Config | None
    #: sorted by place
    problems: tuple[Problem, ...]
    #: each file that was read or should have been, absolute, the main one first: what a watcher watches
    files: tuple[Path, ...]
    #: absolute patterns of `include:`; a file that begins to match one belongs to the configuration, too
    globs: tuple[str, ...] = ()
    #: what the files say, with places; None where the main one could not be read
    root: Node | None = None
    #: each file that was read, as of when it was
    stats: Mapping[Path, os.stat_result] = field(default_factory=dict)


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
    Read and check a file. Never raises for what the file says or is.

    Args:
        path: the file; problems name it as it is given here.
        environ: for `${VAR}`.
        data: its bytes, where they do not come from `path`.
        to_run: this machine is about to run it: what is missing here (a user, a directory) is an error.
        elsewhere: another machine will run it: nothing is said of what this one lacks.
        unit_file: the systemd unit that will run it; None: the one that this machine has, if any.
    """
    tree = read_tree(Path(path), environ, data)
    found = _Found()
    found.take(tree.problems)
    for root in tree.roots:
        found.take(clear_secrets.check(root))
    for number, root in enumerate(tree.roots):
        found.take(tree.not_reported(check_schema(root, included=number > 0)))
    if tree.root is not None:
        found.take(tree.not_reported(_check_names(tree.root, whole=tree.is_whole)))
    whole = not found.errors
    sound = tree.root if whole or tree.root is None else _sound_part(tree.root, found.errors)
    config = build(sound) if sound is not None else None
    if sound is not None and config is not None:
        for check in (policies.check, policies.check_retry, schedules.check_ticks, groups.check, machine.check_paths):
            found.take(check(sound, config))
        if not elsewhere:
            found.take(machine.check(sound, config, to_run=to_run))
            found.take(ownership.check(tree, to_run=to_run))
        if whole:
            found.take(names.check_used(sound, config))
            unit = unit_file or (None if elsewhere else systemd_unit.installed())
            found.take(systemd_unit.check(sound, config, unit))
    problems = tuple(sorted({*found.errors, *found.warnings}))
    return Loaded(None if found.errors else config, problems, tree.files, tree.globs, tree.root, tree.stats)


def _check_names(root: Node, *, whole: bool) -> Iterator[Problem]:
    """Rules that need no resolved value; they skip what the schema refuses. Not `whole`: some names are not known."""
    if whole:
        yield from names.check_declared(root)
    for check in (schedules.check, broker_url.check, traps.check, names.check_similar):
        yield from check(root)


def _sound_part(root: Node, errors: list[Problem]) -> Node | None:
    """What is left of a file without its errors; None where that is nothing, or not all errors are known."""

    def errors_of(part: Node) -> Iterator[Problem]:
        return (problem for problem in _check_names(part, whole=True) if problem.is_error)

    return error_free_part(root, errors, errors_of) if len(errors) < MAX_ERRORS else None


class _Found:
    """The problems so far. Bounded: each byte of a hostile file may be a mistake."""

    def __init__(self) -> None:
        self.errors: list[Problem] = []
        self.warnings: list[Problem] = []

    def take(self, problems: Iterable[Problem]) -> None:
        """Add them, as long as there is room; no number of warnings hides an error."""
        for problem in problems:
            if not problem.is_error:
                self.warnings += [problem] * (len(self.warnings) < MAX_WARNINGS)
            elif len(self.errors) < MAX_ERRORS:
                self.errors.append(problem)
            else:
                return
