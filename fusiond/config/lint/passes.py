"""
What a schema cannot say: one file for each subject, one function for each rule.

0. secrets first of all, on each file: nothing may quote one
1. names   on the nodes, whatever else is wrong with them: references, schedules, the broker's URL, traps of YAML
2. values  on the built Config, where no error is left: timeouts, unserved queues, names that nobody uses
3. machine what this machine has: users, directories, interpreters, the owner of the file
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fusiond.config.lint import (
    broker_url,
    clear_secrets,
    groups,
    limits,
    machine,
    ownership,
    patterns,
    policies,
    references,
    schedules,
    traps,
    unit,
    usage,
    values,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fusiond.config.model import Config
    from fusiond.config.problems import Problem
    from fusiond.config.yaml.nodes import Node, Tree


def check_secrets(tree: Tree) -> Iterator[Problem]:
    """Secrets in any of the files; hides them from whatever quotes the files afterwards."""
    for root in tree.roots:
        yield from clear_secrets.check(root)


def check_names(root: Node, *, whole: bool) -> Iterator[Problem]:
    """Rules that need no resolved value; they skip what the schema refuses. Not `whole`: some names are not known."""
    if whole:
        yield from references.check(root)
    for rule in (schedules.check, broker_url.check, traps.check, groups.check_names):
        yield from rule(root)


def check_values(root: Node, config: Config) -> Iterator[Problem]:
    """Rules about resolved values; `root` says where each of them was written."""
    for rule in (values.check, policies.check, patterns.check, groups.check):
        yield from rule(root, config)


def check_usage(root: Node, config: Config) -> Iterator[Problem]:
    """Rules about what is not there: whoever uses a name, serves a queue, has work. Only of a whole file."""
    yield from usage.check(root, config)


def check_limits(root: Node, config: Config) -> Iterator[Problem]:
    """Rules about the kernel, which is much the same everywhere."""
    yield from limits.check(root, config)


def check_machine(tree: Tree, root: Node, config: Config, *, to_run: bool) -> Iterator[Problem]:
    """Rules about this machine: errors where it is about to run the file, else warnings."""
    yield from machine.check(root, config, to_run=to_run)
    yield from limits.check_memory(root, config)
    yield from ownership.check(tree, to_run=to_run)


def check_unit(root: Node, config: Config, path: Path | None) -> Iterator[Problem]:
    """Rules about the systemd unit; None: there is none to compare with."""
    if path is not None:
        yield from unit.check(root, config, path)
