"""
A file and what it includes → one tree.

1. read     the main file
2. find     what its `include:` names: paths and globs, in alphabetical order; relative ones start at the file
3. read     each; an included file cannot include others, so there are no circles
4. merge    sections by name, and policies; a name that is declared twice is an error at its second place
"""

import dataclasses
import glob
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from fusiond.config.fields import keys_of
from fusiond.config.model import Config
from fusiond.config.problems import Problem
from fusiond.config.yaml.nodes import Node, Place, Tree
from fusiond.config.yaml.source import MAX_BYTES, MAX_NODES, RefusedText, compose, source_of

MAX_FILES: Final = 500
#: the end of the name of a file of tests, which stands beside the file: no glob takes it in
TESTS: Final = ".tests.yml"
#: sections that may be spread over files
_BY_NAME: Final = frozenset(field.name for field in keys_of(Config) if field.by_name)
#: lists to which each file may add
_LISTS: Final = frozenset({"policies"})
#: problems that keep a file from being read
_UNREAD: Final = frozenset({"unreadable", "missing-include", "too-many-files", "too-many-values"})
#: keys that each file may have
_IN_EACH: Final = frozenset({"version", "include"})


def read_tree(path: Path, environ: Mapping[str, str], data: bytes | None = None) -> Tree:
    """
    Read the file at `path` and its includes. A file that cannot be read gives a problem, not an exception.

    Args:
        path: the file, as the user named it.
        environ: for `${VAR}`.
        data: the file's bytes if they came from standard input; None: read `path`.
    """
    return _Reader(path, environ).tree(data)


class _Reader:
    """Reads one file and its includes, and collects their problems."""

    def __init__(self, path: Path, environ: Mapping[str, str]) -> None:
        self._path, self._environ = path, environ
        self._problems: list[Problem] = []
        self._stats: dict[Path, os.stat_result] = {}
        self._files: list[Path] = []

    def tree(self, data: bytes | None) -> Tree:
        """All files, merged."""
        main = self._read(self._path, data)
        roots = [main] if main is not None else []
        for path in self._included(main) if main is not None else ():
            root = self._read(path)
            if root is None:
                continue
            if "include" in root.keys:
                message, remedy = "an included file cannot include others", "list it in the main file"
                self._problems.append(root.keys["include"].error("nested-include", message, remedy))
            roots.append(root)
            if sum(each.size for each in roots) > MAX_NODES:
                message = f"more than {MAX_NODES:,} values in all files together"
                self._problems.append(roots[0].keys["include"].error("too-many-values", message, "remove some files"))
                break
        merged = self._merged(roots) if roots else None
        globs = [pattern for item, pattern in self._patterns(main) if glob.has_magic(str(item.value))]
        whole = len(roots) == len(self._files) + (data is not None)
        return Tree(
            merged,
            tuple(roots),
            tuple(self._problems),
            tuple(self._files),
            tuple(map(os.path.abspath, globs)),
            self._stats,
            is_whole=whole and not any(problem.code in _UNREAD for problem in self._problems),
        )

    def _read(self, path: Path, data: bytes | None = None) -> Node | None:
        """The root of one file; None if it cannot be read."""
        place = Path(os.path.abspath(path))  # noqa: PTH100 - resolve() would follow symlinks
        if data is None:
            self._files.append(place)
        try:
            if data is None:
                data, self._stats[place] = _bytes(path)
            root, found = compose(source_of(str(path), place.parent, data), self._environ)
        except OSError as error:
            message = f"the file cannot be read: {(error.strerror or str(error)).lower()}"
            remedy = "check the path" if isinstance(error, FileNotFoundError) else "make it readable for this user"
            self._problems.append(Problem(str(path), 0, 0, "error", "unreadable", message, remedy))
            return None
        except RefusedText as refused:
            self._problems.append(refused.problem)
            return None
        self._problems += found
        return root

    def _included(self, main: Node) -> Iterator[Path]:
        """The files that the main one includes, each once: in the order of the list, alphabetical inside a glob."""
        own = os.path.realpath(self._path)
        seen = {own}
        for item, pattern in self._patterns(main):
            if len(self._problems) > MAX_FILES:
                return  # as many files are missing
            for found in self._matches(item, pattern):
                real = os.path.realpath(found)
                if real == own:
                    self._problems.append(item.place.error("include-circle", "the file includes itself", "remove it"))
                elif len(seen) > MAX_FILES:
                    message = f"more than {MAX_FILES} files"
                    self._problems.append(item.place.error("too-many-files", message, "merge some"))
                    return
                elif real not in seen:
                    seen.add(real)
                    yield Path(found)

    def _patterns(self, main: Node | None) -> Iterator[tuple[Node, str]]:
        """Each item of `include:` and the path or glob that it stands for; the schema reports any other value."""
        for item in main.items("include") if main is not None else ():
            if isinstance(item.value, str) and item.value and "\0" not in item.value:
                parent = self._path.parent
                own = glob.escape(str(parent)) if glob.has_magic(item.value) else parent
                yield item, os.path.join(own, item.value)  # noqa: PTH118 - keeps the user's own spelling

    def _matches(self, item: Node, pattern: str) -> list[str]:
        """The files that an item stands for: regular files only, since a pipe may never end."""
        # Not Path.is_file(), which raises where a parent cannot be searched, or the name is too long.
        if glob.has_magic(str(item.value)):
            for directory, reason in _unsearchable(pattern):
                message, remedy = f"{directory} cannot be searched: {reason}", "make it readable for this user"
                self._problems.append(item.place.error("unreadable", message, remedy))
            found = (each for each in sorted(glob.glob(pattern)) if not each.endswith(TESTS))  # noqa: PTH207
            return list(filter(os.path.isfile, found))
        if os.path.isfile(pattern):  # noqa: PTH113
            return [pattern]
        remedy = "check the path, or use a glob"
        self._problems.append(item.place.error("missing-include", f"there is no file {item.raw}", remedy))
        return []

    def _merged(self, roots: list[Node]) -> Node:
        """Merge the roots into one. The schema checks each file by itself, and reports sections of the wrong type."""
        sections: dict[str, Node] = {}
        merged = Node(sections, roots[0].place)
        for root in roots:
            for key, node in root.entries():
                if key not in sections:
                    # A copy, since names of other files will be put into it; the file's own node stays as it is.
                    own = dict(node.value) if isinstance(node.value, dict) else node.value
                    sections[key] = dataclasses.replace(node, value=own, keys=dict(node.keys))
                    merged.keys[key] = root.keys[key]
                elif key in _LISTS:
                    sections[key].value = [*sections[key].items(), *node.items()]
                elif key in _BY_NAME:
                    self._merge(sections[key], node, key)
                elif key not in _IN_EACH:
                    self._declared_twice(root.keys[key], f"{key!r}", merged.keys[key])
        return merged

    def _merge(self, section: Node, other: Node, key: str) -> None:
        """Put the names of another file into a section."""
        names = section.value = {} if section.value is None else section.value
        for name, entry in other.entries():
            if not isinstance(names, dict):
                return
            if name in names:
                self._declared_twice(other.keys[name], f"{key}: {name!r}", section.keys[name])
            else:
                names[name], section.keys[name] = entry, other.keys[name]

    def _declared_twice(self, place: Place, what: str, first: Place) -> None:
        message = f"{what} is declared twice, first at {first.source.name}:{first.line}"
        self._problems.append(place.error("duplicate-name", message, "rename or remove one"))


def _bytes(path: Path) -> tuple[bytes, os.stat_result]:
    """
    The bytes of a file, and its stat by the same descriptor: a moment later the path may lead elsewhere.

    At most one byte more than is allowed, so that no file can fill the memory.
    """
    with path.open("rb") as file:
        found = os.fstat(file.fileno())
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(21, "it is a directory")
        return file.read(MAX_BYTES + 1), found


def _unsearchable(pattern: str) -> Iterator[tuple[str, str]]:
    """Directories of a glob that this user may not search, with the reason; `glob` treats them as empty."""
    head, name = os.path.split(pattern)
    if glob.has_magic(head):
        yield from _unsearchable(head)
    for directory in glob.glob(head):  # noqa: PTH207
        try:
            os.scandir(directory).close() if glob.has_magic(name) else os.stat(f"{directory}/{name}")  # noqa: PTH116
        except PermissionError as error:
            yield directory, (error.strerror or str(error)).lower()
        except OSError:
            pass  # no directory: nothing matches there
