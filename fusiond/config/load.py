"""
A path goes in, a Config or its problems come out.

1. read    the file and its includes: nodes with their places; hide secrets from what quotes them
2. schema  each file by itself
3. names   references, cron texts, urls: whatever a schema cannot say, on the nodes
4. build   the Config; where there are errors, of the entries that have none (lint/partial.py), to check these further
5. values  what only the resolved values tell: timeouts, unserved queues, what this machine has
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fusiond.config.build import build
from fusiond.config.lint import unit
from fusiond.config.lint.partial import error_free_part
from fusiond.config.lint.passes import (
    check_limits,
    check_machine,
    check_names,
    check_secrets,
    check_unit,
    check_usage,
    check_values,
)
from fusiond.config.schema import check as check_schema
from fusiond.config.yaml.includes import read_tree

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping

    from fusiond.config.model import Config
    from fusiond.config.problems import Problem
    from fusiond.config.yaml.nodes import Node, Tree


MAX_ERRORS: Final = 250
MAX_WARNINGS: Final = 1000


@dataclass(frozen=True, slots=True)
class Loaded:
    """What came out of a file."""

    #: None where a problem is an error
    config: Config | None
    #: sorted by place
    problems: tuple[Problem, ...]
    #: every file that was read or should have been, absolute, the main one first: what a watcher watches
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
        elsewhere: another machine will run it, so that nothing is said of what this one lacks.
        unit_file: the systemd unit that will run it; None: the one that this machine has, if any.
        to_run: this machine is about to run it, so that what is missing here (a user, a directory) is an error.
    """
    tree = read_tree(Path(path), environ, data)
    found = _Found()
    found.take(tree.problems)
    found.take(check_secrets(tree))
    for index, root in enumerate(tree.roots):
        found.take(tree.untold(check_schema(root, included=index > 0)))
    config = None
    if tree.root is not None:
        found.take(tree.untold(check_names(tree.root, whole=tree.is_whole)))
        whole = not found.errors
        sound = tree.root if whole else _sound_part(tree, found)
        if sound is not None:
            config = build(sound)
            found.take(check_values(sound, config))
            found.take(check_limits(sound, config))
            if not elsewhere:
                found.take(check_machine(tree, sound, config, to_run=to_run))
            if whole:
                found.take(check_usage(sound, config))
                found.take(check_unit(sound, config, unit_file or (None if elsewhere else unit.installed())))
    return Loaded(None if found.errors else config, found.sorted(), tree.files, tree.globs, tree.root, tree.stats)


def _sound_part(tree: Tree, found: _Found) -> Node | None:
    """What is left of a file without its errors; None where that is nothing, or not all errors are known."""
    if tree.root is None or len(found.errors) >= MAX_ERRORS:
        return None
    return error_free_part(tree.root, found.errors, _errors_of_names)


def _errors_of_names(root: Node) -> Iterator[Problem]:
    return (problem for problem in check_names(root, whole=True) if problem.is_error)


class _Found:
    """The problems so far. Bounded, since a hostile file may hold a mistake in each of its bytes."""

    def __init__(self) -> None:
        self.errors: list[Problem] = []
        self._warnings: list[Problem] = []

    def take(self, problems: Iterable[Problem]) -> None:
        """Add them, until there are more than anyone reads."""
        for problem in problems:
            if not problem.is_error:
                self._warnings += [problem] * (len(self._warnings) < MAX_WARNINGS)
            elif len(self.errors) < MAX_ERRORS:
                self.errors.append(problem)
            else:
                return

    def sorted(self) -> tuple[Problem, ...]:
        """All of them by their place, each once."""
        return tuple(sorted({*self.errors, *self._warnings}))
