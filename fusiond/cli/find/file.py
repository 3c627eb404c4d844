"""The file: -c, otherwise $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from fusiond.cli.exits import UsageError
from fusiond.errors import ConfigError
from fusiond.paths import find_config

if TYPE_CHECKING:
    from fusiond.config import model
    from fusiond.config.yaml.nodes import Node


def path(named: str | None) -> Path:
    """The absolute path of the file; `named` is the value of -c. Raises UsageError if there is no file."""
    try:
        return find_config(named)
    except ConfigError as error:
        raise UsageError(str(error)) from error


def short_path(named: str | None) -> Path:
    """The same path as tables and messages show it: relative if the file is below the current directory."""
    file, here = path(named), Path.cwd()
    return file.relative_to(here) if file.is_relative_to(here) else file


def read(file: Path | str) -> tuple[Node, model.Config]:
    """The nodes of a file and its configuration. Raises UsageError or ConfigError."""
    from fusiond.config.lint.reports import as_text
    from fusiond.config.load import load

    loaded = load(file, environ=os.environ)
    if loaded.config is not None and loaded.tree.root is not None:
        return loaded.tree.root, loaded.config
    wrong = [problem for problem in loaded.problems if problem.is_error]
    kind = UsageError if any(problem.code == "unreadable" for problem in wrong) else ConfigError
    raise kind(f"{file} cannot be used\n{as_text(wrong)}")


def config(named: str | None) -> model.Config:
    """The configuration of the file. Raises UsageError or ConfigError."""
    return read(path(named))[1]


def directory(file: Path, key: str) -> str | None:
    """The `state_directory` or `runtime_directory` that the file names, even if the rest of it has problems."""
    from fusiond.config import build
    from fusiond.config.load import load

    return build.directory(load(file, environ=os.environ).tree.root, key)
