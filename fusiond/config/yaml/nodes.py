"""
What a file says, each value with its place.

A node's value is a dict or list of nodes, or a scalar; `data()` strips the places. An alias shares its anchor's node.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from fusiond.config.problems import Problem, Severity

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

#: characters of a line that a problem carries along
_LONGEST_LINE: Final = 2000

Scalar: TypeAlias = str | int | float | bool | None


@dataclass(frozen=True, slots=True, eq=False)
class SourceFile:
    """One file that was read."""

    #: as the user named it, for messages
    name: str
    #: where its relative paths start, absolute
    directory: Path
    text: str
    lines: list[str]


class Place(NamedTuple):
    """A stretch of one line."""

    source: SourceFile
    #: from 1
    line: int
    column: int
    width: int = 1

    def problem(self, severity: Severity, code: str, message: str, remedy: str = "", detail: str = "") -> Problem:
        """A problem at this place."""
        lines = self.source.lines
        line = lines[self.line - 1] if self.line <= len(lines) else ""
        excerpt = line[:_LONGEST_LINE] if self.column < _LONGEST_LINE else ""
        return Problem(
            self.source.name,
            self.line,
            self.column,
            severity,
            code,
            message,
            remedy,
            max(1, self.width),
            excerpt,
            detail,
        )

    def error(self, code: str, message: str, remedy: str = "", detail: str = "") -> Problem:
        """An error at this place."""
        return self.problem("error", code, message, remedy, detail)

    def warning(self, code: str, message: str, remedy: str = "") -> Problem:
        """A warning at this place."""
        return self.problem("warning", code, message, remedy)


@dataclass(slots=True, eq=False)
class Node:
    """A value and its place."""

    value: dict[str, Node] | list[Node] | Scalar
    place: Place
    #: a scalar as it was written, before `${VAR}` was replaced
    raw: str = ""
    #: the same after it was, before its type was decided; never shown, it may hold a secret
    expanded: str = ""
    #: a scalar without quotes, whose type the text decides
    plain: bool = False
    #: nodes beneath and this one, aliases counted as often as they are used
    size: int = 1
    #: the place of each key of a mapping
    keys: dict[str, Place] = field(default_factory=dict)

    def entries(self) -> Iterator[tuple[str, Node]]:
        """The keys and values of a mapping; nothing where this is none."""
        if isinstance(self.value, dict):
            yield from self.value.items()

    def items(self) -> list[Node]:
        """The items of a list; none where this is no list."""
        return self.value if isinstance(self.value, list) else []

    def get(self, *path: str) -> Node | None:
        """The node beneath, along the keys; None where there is none."""
        node: Node | None = self
        for key in path:
            node = node.value.get(key) if node is not None and isinstance(node.value, dict) else None
        return node

    def text(self, *path: str) -> str | None:
        """The string beneath, along the keys; None where there is none or it is something else."""
        node = self.get(*path)
        return node.value if node is not None and isinstance(node.value, str) else None

    def nearest(self, *path: str) -> Place:
        """The place of the deepest node along the keys: of its key, where its value is a mapping or list."""
        node, place = self, self.place
        for key in path:
            if not isinstance(node.value, dict) or key not in node.value:
                break
            parent, node = node, node.value[key]
            place = parent.keys[key] if isinstance(node.value, dict | list) else node.place
        return place

    def data(self) -> Any:
        """The value without places: dict, list, scalar."""
        if isinstance(self.value, dict):
            return {key: node.data() for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.data() for node in self.value]
        return self.value


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """A file and its includes, read."""

    #: the sections of all files together; None where the main file could not be read
    root: Node | None
    #: each file's own root, the main one first
    roots: tuple[Node, ...]
    problems: tuple[Problem, ...]
    #: absolute paths, the main one first; those that could not be read too
    files: tuple[Path, ...]
    #: absolute patterns of `include:`, whether they match something or not
    globs: tuple[str, ...] = ()
    #: every file could be read, so that a name which is not here is nowhere
    is_whole: bool = False
    #: each file that was read, as of when it was
    stats: Mapping[Path, os.stat_result] = field(default_factory=dict)

    def untold(self, problems: Iterable[Problem]) -> Iterator[Problem]:
        """Those about other places than what reading has complained of: one mistake is one problem."""
        told = {_place(problem) for problem in self.problems if problem.line}
        return (problem for problem in problems if _place(problem) not in told)


def tell_apart(found: os.stat_result) -> tuple[int, ...]:
    """What differs between two contents of a file, or between what may be read and what may not."""
    owner = found.st_mode, found.st_uid, found.st_gid
    return (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size, *owner)


def _place(problem: Problem) -> tuple[str, int, int]:
    return problem.file, problem.line, problem.column
