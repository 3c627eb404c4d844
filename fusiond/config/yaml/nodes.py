"""
The values of a file, each with its place.

A node's value is a dict or list of nodes, or a scalar; `data()` is the same without places. An alias is the same node
as its anchor.
"""

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from fusiond.config.problems import Problem, Severity, Spot

#: characters of a source line that a problem keeps
_LONGEST_LINE: Final = 2000

Scalar: TypeAlias = str | int | float | bool | None


@dataclass(frozen=True, slots=True, eq=False)
class SourceFile:
    """One file that was read."""

    #: as the user named it, for messages
    name: str
    #: absolute; the file's relative paths start here
    directory: Path
    text: str
    lines: list[str]


class Place(NamedTuple):
    """A part of one line."""

    source: SourceFile
    #: from 1
    line: int
    column: int
    width: int = 1

    @property
    def spot(self) -> Spot:
        """The place as a Problem has it."""
        return self.source.name, self.line, self.column

    def problem(self, severity: Severity, code: str, message: str, remedy: str = "", detail: str = "") -> Problem:
        """A problem at this place."""
        name, lines, width = self.source.name, self.source.lines, max(1, self.width)
        line = lines[self.line - 1] if self.line <= len(lines) else ""
        excerpt = line[:_LONGEST_LINE] if self.column < _LONGEST_LINE else ""
        return Problem(name, self.line, self.column, severity, code, message, remedy, width, excerpt, detail)

    def error(self, code: str, message: str, remedy: str = "", detail: str = "") -> Problem:
        """An error at this place."""
        return self.problem("error", code, message, remedy, detail)

    def warning(self, code: str, message: str, remedy: str = "") -> Problem:
        """A warning at this place."""
        return self.problem("warning", code, message, remedy)


@dataclass(slots=True, eq=False)
class Node:
    """A value and its place."""

    value: "dict[str, Node] | list[Node] | Scalar"
    place: Place
    #: a scalar as it is written, with its `${VAR}`
    raw: str = ""
    #: the same with `${VAR}` replaced, before its type was decided; never shown, since it may hold a secret
    expanded: str = ""
    #: a scalar without quotes: its text decides its type
    plain: bool = False
    #: number of nodes, this one and all beneath it; each use of an alias counts
    size: int = 1
    #: levels of maps and lists, this one included
    depth: int = 0
    #: for a map: the place of each key
    keys: dict[str, Place] = field(default_factory=dict)

    def get(self, *path: str) -> "Node | None":
        """The node at the end of a path of keys; None if there is none."""
        node: Node | None = self
        for key in path:
            node = node.value.get(key) if node is not None and isinstance(node.value, dict) else None
        return node

    def entries(self, *path: str) -> Iterator[tuple[str, "Node"]]:
        """The keys and values of the map at the end of a path; nothing if there is no map."""
        node = self.get(*path)
        if node is not None and isinstance(node.value, dict):
            yield from node.value.items()

    def names(self, *path: str) -> Mapping[str, Place]:
        """The keys of the map at the end of a path, each with its place; none if there is no map."""
        node = self.get(*path)
        return node.keys if node is not None else {}

    def items(self, *path: str) -> "list[Node]":
        """The items of the list at the end of a path; none if there is no list."""
        node = self.get(*path)
        return node.value if node is not None and isinstance(node.value, list) else []

    def text(self, *path: str) -> str | None:
        """The text at the end of a path; None if there is none, or something else."""
        node = self.get(*path)
        return node.value if node is not None and isinstance(node.value, str) else None

    def walk(self, key: str = "", *, without: Collection[str] = ()) -> Iterator[tuple[str, "Node"]]:
        """This node and each one beneath it, with its key; leaves out the keys in `without`."""
        yield key, self
        below = self.value.items() if isinstance(self.value, dict) else ((key, item) for item in self.items())
        for name, node in below:
            if name not in without:
                yield from node.walk(name, without=without)

    def find(self, *path: str | int) -> "tuple[Node, Place]":
        """The last node that exists on a path of keys and indices, and where to point: at the key of a map or list."""
        node, place = self, self.place
        for step in path:
            if isinstance(step, int):
                node = node.items()[step]
                place = node.place
            elif isinstance(node.value, dict) and step in node.value:
                parent, node = node, node.value[step]
                place = parent.keys[step] if isinstance(node.value, dict | list) else node.place
            else:
                break
        return node, place

    def nearest(self, *path: str) -> Place:
        """The place of the last node that exists on a path of keys."""
        return self.find(*path)[1]

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

    #: the sections of all files together; None if the main file could not be read
    root: Node | None
    #: each file's own root, the main one first
    roots: tuple[Node, ...]
    problems: tuple[Problem, ...]
    #: absolute paths, the main one first, including those that could not be read: what a watcher watches
    files: tuple[Path, ...]
    #: absolute patterns of `include:`; a new file that matches one becomes part of the configuration
    globs: tuple[str, ...]
    #: the stat of each file, taken when it was read
    stats: Mapping[Path, os.stat_result]
    #: whether all files could be read; then a name that is missing here is declared nowhere
    is_whole: bool

    def not_reported(self, problems: Iterable[Problem]) -> Iterator[Problem]:
        """The problems at places where reading found none, so that one mistake gives one problem."""
        places = {problem.spot for problem in self.problems if problem.line}
        return (problem for problem in problems if problem.spot not in places)


def tell_apart(found: os.stat_result) -> tuple[int, ...]:
    """Values of which one changes whenever the file's content, owner or mode changes."""
    owner = found.st_mode, found.st_uid, found.st_gid
    return (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size, *owner)
