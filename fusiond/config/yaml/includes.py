"""
A file and what it includes → one tree.

1. read     the main file
2. find     what its `include:` names: paths and globs, in alphabetical order; relative ones start at the file
3. read     each; an included file includes no further ones, so that there are no circles
4. merge    sections by name; the same name declared twice is an error at its second place
"""

from __future__ import annotations

import dataclasses
import glob
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fusiond.config.fields import keys_of
from fusiond.config.model import Config
from fusiond.config.problems import Problem
from fusiond.config.yaml.nodes import Node, Place, Tree
from fusiond.config.yaml.source import MAX_BYTES, MAX_NODES, RefusedText, compose, source_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MAX_FILES: Final = 500
#: sections that may be spread over files
_BY_NAME: Final = frozenset(field.name for field in keys_of(Config) if field.by_name)
#: problems that leave a file out
_UNREAD: Final = frozenset({"unreadable", "missing-include", "too-many-files", "too-many-values"})
#: keys that each file may hold
_IN_EACH: Final = frozenset({"version", "include"})


def read_tree(path: Path, environ: Mapping[str, str], data: bytes | None = None) -> Tree:
    """
    The file at `path` and its includes; what cannot be read is a problem, never an exception.

    Args:
        path: the file, as the user named it.
        environ: for `${VAR}`.
        data: the file's bytes where they did not come from `path`: standard input.
    """
    problems: list[Problem] = []
    stats: dict[Path, os.stat_result] = {}
    main = _read(path, environ, problems, stats, data)
    files = [Path(os.path.abspath(path))] if data is None else []  # noqa: PTH100 - resolve() would follow symlinks
    if main is None:
        return Tree(None, (), tuple(problems), tuple(files), stats=stats)
    roots = [main]
    total, whole = main.size, True
    for included in _included(main, path, problems):
        files.append(Path(os.path.abspath(included)))  # noqa: PTH100
        dropped_in = _read(included, environ, problems, stats)
        if dropped_in is not None:
            problems.extend(_nested(dropped_in))
            roots.append(dropped_in)
            total += dropped_in.size
        whole = whole and dropped_in is not None
        if total > MAX_NODES:
            place = main.keys["include"]
            message = f"more than {MAX_NODES:,} values in all files together"
            problems.append(place.error("too-many-values", message, "remove some of the files"))
            break
    root = _merged(roots, problems)
    patterns = (pattern for item, pattern in _patterns(main, path) if glob.has_magic(str(item.value)))
    globs = tuple(os.path.abspath(pattern) for pattern in patterns)  # noqa: PTH100
    unread = any(problem.code in _UNREAD for problem in problems)
    whole = whole and not unread
    return Tree(root, tuple(roots), tuple(problems), tuple(files), globs, is_whole=whole, stats=stats)


def _read(
    path: Path,
    environ: Mapping[str, str],
    problems: list[Problem],
    stats: dict[Path, os.stat_result],
    data: bytes | None = None,
) -> Node | None:
    place = Path(os.path.abspath(path))  # noqa: PTH100
    try:
        if data is None:
            data, stats[place] = _bytes(path)
        root, found = compose(source_of(str(path), place.parent, data), environ)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        remedy = "check the path" if isinstance(error, FileNotFoundError) else "make it readable for this user"
        problems.append(Problem(str(path), 0, 0, "error", "unreadable", f"the file cannot be read: {reason}", remedy))
        return None
    except RefusedText as refused:
        problems.append(refused.problem)
        return None
    problems.extend(found)
    return root


def _bytes(path: Path) -> tuple[bytes, os.stat_result]:
    """
    What was read, and of what: by the descriptor, since the path may lead elsewhere a moment later.

    At most one byte more than is allowed: whatever the path is, it cannot fill the memory.
    """
    with path.open("rb") as file:
        found = os.fstat(file.fileno())
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(21, "it is a directory")
        return file.read(MAX_BYTES + 1), found


def _included(main: Node, path: Path, problems: list[Problem]) -> Iterator[Path]:
    """The files that the main one includes, each once, in the order of the list and alphabetical inside a glob."""
    own = os.path.realpath(path)
    seen = {own}
    for item, pattern in _patterns(main, path):
        if len(problems) > MAX_FILES:
            return  # of files that are not there
        for found in _matches(item, pattern, problems):
            real = os.path.realpath(found)
            if real == own:
                problems.append(item.place.error("include-circle", "the file includes itself", "remove it"))
            elif len(seen) > MAX_FILES:
                problems.append(item.place.error("too-many-files", f"more than {MAX_FILES} files", "merge some"))
                return
            elif real not in seen:
                seen.add(real)
                yield Path(found)


def _patterns(main: Node, path: Path) -> Iterator[tuple[Node, str]]:
    """Each item of `include:`, with the path or glob that it means; what is no path is left to the schema."""
    include = main.get("include")
    for item in include.items() if include else ():
        if isinstance(item.value, str) and item.value and "\0" not in item.value:
            own = glob.escape(str(path.parent)) if glob.has_magic(item.value) else path.parent
            yield item, os.path.join(own, item.value)  # noqa: PTH118 - keeps the user's own spelling


def _matches(item: Node, pattern: str, problems: list[Problem]) -> list[str]:
    """The files that an item means. Only regular ones: a pipe would never end."""
    if glob.has_magic(str(item.value)):
        for directory, reason in _unsearchable(pattern):
            message, remedy = f"{directory} cannot be searched: {reason}", "make it readable for this user"
            problems.append(item.place.error("unreadable", message, remedy))
        return [found for found in sorted(glob.glob(pattern)) if _is_file(found)]  # noqa: PTH207
    if _is_file(pattern):
        return [pattern]
    remedy = "check the path, or use a glob"
    problems.append(item.place.error("missing-include", f"there is no file {item.raw}", remedy))
    return []


def _unsearchable(pattern: str) -> Iterator[tuple[str, str]]:
    """Directories that a glob leads to and may not look into, with the reason; `glob` takes them for empty."""
    head, name = os.path.split(pattern)
    if glob.has_magic(head):
        yield from _unsearchable(head)
    for directory in glob.glob(head):  # noqa: PTH207
        try:
            os.scandir(directory).close() if glob.has_magic(name) else os.stat(f"{directory}/{name}")  # noqa: PTH116
        except PermissionError as error:
            yield directory, (error.strerror or str(error)).lower()
        except OSError:
            pass  # none, or no directory: nothing matches there


def _is_file(path: str) -> bool:
    # Path.is_file() raises where a parent cannot be searched, or the name is too long.
    return os.path.isfile(path)  # noqa: PTH113


def _nested(root: Node) -> Iterator[Problem]:
    if root.get("include") is not None:
        message, remedy = "an included file cannot include others", "list it in the main file"
        yield root.keys["include"].error("nested-include", message, remedy)


def _merged(roots: list[Node], problems: list[Problem]) -> Node:
    """One root out of all. A section of the wrong type is left to the schema, which looks at each file by itself."""
    main, *others = roots
    merged = Node({}, main.place)
    for root in (main, *others):
        for key, node in root.entries():
            _merge_key(merged, root, key, node, problems)
    return merged


def _merge_key(merged: Node, root: Node, key: str, node: Node, problems: list[Problem]) -> None:
    sections = merged.value
    if not isinstance(sections, dict):
        raise TypeError("a root is a map")
    if key not in sections:
        # A copy, since names of other files will be put into it; the file's own node stays as it is.
        own = dict(node.value) if isinstance(node.value, dict) else node.value
        sections[key] = dataclasses.replace(node, value=own, keys=dict(node.keys))
        merged.keys[key] = root.keys[key]
    elif key in _BY_NAME:
        _merge_names(sections[key], node, key, problems)
    elif key not in _IN_EACH:
        problems.append(_twice(root.keys[key], f"{key!r} is declared twice", merged.keys[key]))


def _merge_names(section: Node, node: Node, key: str, problems: list[Problem]) -> None:
    if section.value is None:
        section.value = {}
    for name, entry in node.entries():
        if not isinstance(section.value, dict):
            return
        if name in section.value:
            problems.append(_twice(node.keys[name], f"{key}: {name!r} is declared twice", section.keys[name]))
        else:
            section.value[name], section.keys[name] = entry, node.keys[name]


def _twice(place: Place, message: str, first: Place) -> Problem:
    return place.error(
        "duplicate-name", f"{message}, first at {first.source.name}:{first.line}", "rename or remove one"
    )
