"""
Notice that code was saved: for `fusiond dev`.

1. watch      the directories of the groups, those below included, less what holds no code of one's own
2. compare    a print of their *.py files; only a change of it is a change
3. name       the groups whose directory it is
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING

from fusiond.supervise.watch import Print, View, Watcher, fingerprint, view

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from fusiond.config.model import WorkerGroup

#: who asks for a reload when code was saved
CODE_WATCHER = "the code's change"
#: beside those that begin with a dot, and virtual environments
_PASSED_OVER = frozenset({"__pycache__", "node_modules", "site-packages"})
#: directories of one group; a look at more would hold up the loop
MOST = 4000
log = logging.getLogger(__name__)


class Code:
    """
    The code of all groups, as it was when it was looked at last.

    Args:
        wake: makes the loop turn; safe from any thread.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._watcher = Watcher(_find, wake)
        self._prints: dict[str, Print] = {}

    def changed(self, groups: Mapping[str, WorkerGroup]) -> frozenset[str]:
        """The groups whose code is not what it was at the last call. What is new here has not changed."""
        directory_of = {name: group.directory for name, group in groups.items()}
        roots = sorted(set(directory_of.values()))
        self._watcher.watch(tuple(roots))
        if not self._watcher.fired():
            return frozenset()
        before, self._prints = self._prints, {root: fingerprint(_sources(root)) for root in roots}
        changed = {root for root in roots if root in before and self._prints[root] != before[root]}
        return frozenset(name for name, root in directory_of.items() if root in changed)

    def stop(self) -> None:
        """Watch nothing any more."""
        self._watcher.stop()


def _find(roots: Iterable[str]) -> View:
    """What to watch for the code below these directories."""
    roots = list(roots)
    above = view(roots)
    below = {directory for root in roots for directory, _ in _walk(root)}
    return View(above.directories | below, lambda path: above.concerns(path) or path in below or _may_be_code(path))


def _may_be_code(path: str) -> bool:
    """Whether it is a module, or may be a directory: not the log file that is written to all day."""
    return path.endswith(".py") or "." not in os.path.basename(path)  # noqa: PTH119 - a text


def _sources(root: str) -> list[str]:
    return sorted(
        str(Path(directory, name)) for directory, names in _walk(root) for name in names if name.endswith(".py")
    )


def _walk(root: str) -> Iterator[tuple[str, list[str]]]:
    """Each directory that may hold code of one's own, and the names of its files; nobody's own is all of /."""
    real, left = os.path.realpath(root), MOST
    for directory, below, names in os.walk(real) if real != "/" else ():
        if "pyvenv.cfg" in names:
            below.clear()
            continue
        left -= 1
        if left < 0:
            log.warning("%s has more directories than %d: what is saved further down is not noticed", root, MOST)
            return
        below[:] = [name for name in below if not (name.startswith(".") or name in _PASSED_OVER)]
        yield directory, names
