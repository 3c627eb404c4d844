"""
Notice that code was saved, for `fusiond dev`.

1. watch      the directory of each group, and the directories below it that may hold code of the user
2. compare    a fingerprint of their *.py files; only another fingerprint is a change
3. name       the groups that have the changed directory
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from fusiond.config.model import WorkerGroup
from fusiond.supervise.watch import Fingerprint, Targets, Watcher, fingerprint, targets

#: who asks for a reload when code was saved
CODE_WATCHER = "the code's change"
#: names of directories without code of the user; hidden directories and virtual environments are skipped too
_SKIPPED = frozenset({"__pycache__", "node_modules", "site-packages"})
#: the most directories of one group that are watched: to look at more would block the loop
MOST = 4000
log = logging.getLogger(__name__)


class CodeWatcher:
    """
    Watches the code of all groups.

    Args:
        wake: makes the loop turn; safe from any thread.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._watcher = Watcher(_find, wake)
        self._fingerprints: dict[str, Fingerprint] = {}

    def changed(self, groups: Mapping[str, WorkerGroup]) -> frozenset[str]:
        """The groups whose code has changed since the last call; none for a group that is new here."""
        directory_of = {name: group.directory for name, group in groups.items()}
        roots = sorted(set(directory_of.values()))
        self._watcher.watch(tuple(roots))
        if not self._watcher.fired():
            return frozenset()
        before, self._fingerprints = self._fingerprints, {root: fingerprint(_sources(root)) for root in roots}
        changed = {root for root in roots if root in before and self._fingerprints[root] != before[root]}
        return frozenset(name for name, root in directory_of.items() if root in changed)

    def stop(self) -> None:
        """Watch nothing any more."""
        self._watcher.stop()


def _find(roots: tuple[str, ...]) -> Targets:
    """What to watch for the code below these directories."""
    above = targets(roots)
    below = {directory for root in roots for directory, _ in _walk(root)}

    def concerns(path: str) -> bool:
        # The directories above are watched as well, and what else is in them is no code of these groups.
        parent = os.path.dirname(path)  # noqa: PTH120 - a text
        return above.concerns(path) or path in below or (parent in below and _may_be_code(path))

    return Targets(above.directories | below, concerns)


def _may_be_code(path: str) -> bool:
    """Whether the path is a module or may be a directory, and not a log file that is written all the time."""
    return path.endswith(".py") or "." not in os.path.basename(path)  # noqa: PTH119 - a text


def _sources(root: str) -> list[str]:
    return sorted(
        str(Path(directory, name)) for directory, names in _walk(root) for name in names if name.endswith(".py")
    )


def _walk(root: str) -> Iterator[tuple[str, list[str]]]:
    """Each directory that may hold code of the user's, and the names of its files; none for `/`."""
    real, left = os.path.realpath(root), MOST
    for directory, below, names in os.walk(real) if real != "/" else ():
        if "pyvenv.cfg" in names:
            below.clear()
            continue
        left -= 1
        if left < 0:
            log.warning("%s has more than %d directories: changes to code in the others are not noticed", root, MOST)
            return
        below[:] = [name for name in below if not (name.startswith(".") or name in _SKIPPED)]
        yield directory, names
