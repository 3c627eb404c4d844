"""Problems as commands of GitHub Actions: each is shown beside its line in the pull request."""

from __future__ import annotations

import os
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from fusiond.config.problems import mask, visible

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fusiond.config.problems import Problem

_IN_MESSAGES: Final = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_IN_PROPERTIES: Final = {**_IN_MESSAGES, ":": "%3A", ",": "%2C"}


def as_annotations(problems: Sequence[Problem], environ: Mapping[str, str]) -> str:
    """
    One command a line, sorted by place.

    Args:
        problems: in any order.
        environ: GITHUB_WORKSPACE is where the checkout is; annotations name files as seen from there.
    """
    return "\n".join(_command(problem, environ.get("GITHUB_WORKSPACE", "")) for problem in sorted(problems))


def _command(problem: Problem, workspace: str) -> str:
    properties = {"file": _path(problem.file, workspace), "title": problem.code}
    if problem.line:
        properties |= {
            "line": str(problem.line),
            "endLine": str(problem.line),
            "col": str(problem.column),
            "endColumn": str(problem.column + problem.width),
        }
    told = ",".join(f"{key}={_escaped(value, _IN_PROPERTIES)}" for key, value in properties.items())
    detail = "\n".join(visible(line) for line in mask(problem.detail).splitlines())
    message = "\n".join(part for part in (problem.sentence, detail) if part)
    return f"::{problem.severity} {told}::{_escaped(message, _IN_MESSAGES)}"


def _path(name: str, workspace: str) -> str:
    absolute = PurePath(os.path.abspath(name))  # noqa: PTH100 - resolve() would follow symlinks
    return str(absolute.relative_to(workspace)) if workspace and absolute.is_relative_to(workspace) else name


def _escaped(text: str, table: Mapping[str, str]) -> str:
    return "".join(table.get(char, char) for char in text)
