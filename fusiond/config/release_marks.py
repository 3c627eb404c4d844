"""
What the paths of a group's `reload_on` lead to, as marks that tell one release from the next.

The mark of a directory is its real path alone: its time changes whenever something is created in it, such as
`__pycache__`. Of a file it is also the time of the last change and the size, so that `touch` is a change. Not the
inode: an overlay file system may give a file another one although nobody has changed it.
"""

import os
import stat
import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias


class Mark(NamedTuple):
    """What a path leads to."""

    #: without symlinks
    real: str
    #: of a file: ns since the epoch, and bytes; of a directory both are 0
    changed: int = 0
    size: int = 0


#: path → what it leads to; None: to nothing
Marks: TypeAlias = Mapping[str, Mark | None]


def marks(paths: Iterable[str]) -> dict[str, Mark | None]:
    """What the paths lead to now."""
    return {path: _mark(path) for path in paths}


def switched(before: Marks, now: Marks) -> list[str]:
    """The paths that lead elsewhere now. Not those that lead to nothing: a link may be gone while it is replaced."""
    return [path for path, mark in now.items() if mark is not None and path in before and mark != before[path]]


def in_words(before: Marks, now: Marks) -> str:
    """What was switched, for people: `/srv/shop/current leads to /srv/shop/releases/42`."""
    return ", ".join(_one_in_words(path, before[path], now[path]) for path in switched(before, now))


def _one_in_words(path: str, before: Mark | None, now: Mark | None) -> str:
    real = now.real if now else "nothing"
    return f"{path} was changed" if before and before.real == real else f"{path} leads to {real}"


def release_name(directory: str, found: Marks) -> str:
    """What tells this release from others, for people: what the paths lead to, else the directory if it is a link."""
    known = [mark for mark in found.values() if mark]
    if not known and os.path.realpath(directory) != os.path.normpath(directory):
        known = [Mark(os.path.realpath(directory))]
    said = ", ".join(f"{mark.real} of {_moment(mark.changed)}" if mark.changed else mark.real for mark in known)
    return said[:200].encode(errors="backslashreplace").decode()  # a path may have bytes that are no UTF-8


def _moment(ns: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(ns / 1e9))


def _mark(path: str) -> Mark | None:
    try:
        real = os.path.realpath(path, strict=True)
        found = os.stat(real)  # noqa: PTH116 - as the rest of these
    except OSError:
        return None
    return Mark(real) if stat.S_ISDIR(found.st_mode) else Mark(real, found.st_mtime_ns, found.st_size)
