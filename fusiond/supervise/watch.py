"""
Notice that the file changed.

1. watch      the directories of the file, of its real path, and of each include: editors rename over a file, and a
              Kubernetes ConfigMap swaps a symlink in a directory above
2. wait       until a burst of events is over, QUIET after its last, at most LONGEST
3. compare    a print of all files; only a change of it is a change

The kernel tells of events (inotify.py); where it cannot, a thread looks for them (polling.py).
"""

from __future__ import annotations

import contextlib
import glob
import logging
import math
import os
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fusiond.config.nodes import tell_apart
from fusiond.supervise import polling
from fusiond.supervise.inotify import Inotify
from fusiond.supervise.polling import Polling

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

#: seconds: an editor's save is some events within a millisecond, a deployment's many
QUIET, LONGEST = 0.02, 0.1
#: seconds until the files are looked at whatever happens
AGAIN = 10.0
#: symlinks on one way, as the kernel counts
LINKS = 40
#: who asks for a reload when a file was saved
WATCHER = "the file's change"
log = logging.getLogger(__name__)

#: path → what tells one content of it from another
Print = tuple[tuple[object, ...], ...]


def fingerprint(files: Iterable[str]) -> Print:
    """What would differ if one of the files, or globs, changed, came, went, or were another through a symlink."""
    return tuple(_mark(path) for path in _expand(files))


def as_read(seen: Print, stats: Mapping[str, Sequence[int]]) -> Print:
    """
    A print that was taken after the files had been read: without what has changed, come or gone since.

    Args:
        seen: the print.
        stats: path → `tell_apart` of the file as it was read.
    """
    return tuple(mark for mark in seen if mark[2:] == tuple(stats.get(str(mark[0]), ())))


def directories(files: Iterable[str]) -> frozenset[str]:
    """The directories to watch for the files and globs; only those that exist."""
    found: set[Path] = set()
    files = tuple(files)
    for pattern in filter(glob.has_magic, files):
        found |= _searched(Path(pattern))
    for name in _expand(files):
        path = Path(name)
        found |= {path.parent, Path(os.path.realpath(path)).parent}
        # Each may be swapped: file -> ..data/file, ..data -> ..2026_01; current/file, current -> releases/42
        found |= {link.parent for link in _links(path)}
    # Not Path.is_dir(), which raises where a parent cannot be searched, or the name is too long.
    return frozenset(str(directory) for directory in found if os.path.isdir(directory))  # noqa: PTH112


def _searched(pattern: Path) -> set[Path]:
    """The directories in which something may come that matches."""
    found: set[Path] = set()
    for parent in pattern.parents:
        if not glob.has_magic(str(parent)):
            return {*found, parent}
        found |= set(map(Path, glob.glob(str(parent))))  # noqa: PTH207 - the pattern is absolute
    return found


def _links(path: Path) -> set[Path]:
    """Each symlink on the way to the file."""
    found: set[Path] = set()
    ahead = [path]
    while ahead and len(found) < LINKS:
        here = ahead.pop()
        for step in (here, *here.parents):
            if step not in found and os.path.islink(step):  # noqa: PTH114 - as above
                found.add(step)
                with contextlib.suppress(OSError):  # swapped just now
                    ahead.append(Path(os.path.normpath(step.parent / step.readlink())))
    return found


class Watcher:
    """
    Says, to the loop that it is a part of, when something happened beside the files.

    Args:
        places: files → the directories to watch for them.
        wake: makes the loop turn; safe from any thread.
        socket_map: the loop's own.
    """

    def __init__(
        self,
        places: Callable[[tuple[str, ...]], frozenset[str]],
        wake: Callable[[], None],
        socket_map: dict[int, Any],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._places, self._wake, self._socket_map, self._clock = places, wake, socket_map, clock
        self._files: tuple[str, ...] = ()
        #: when the burst of events is over, and must be taken for over; infinite: nothing has happened
        self._over = self._latest = math.inf
        self._inotify: Inotify | None = None
        self._polling: Polling | None = None
        #: set by the thread that polls
        self._rung = threading.Event()

    def watch(self, files: tuple[str, ...]) -> None:
        """From now on, these; nothing happens where they are the same as before."""
        if files == self._files:
            return
        self._files = files
        if not (self._inotify or polling.wanted()):
            self._begin()
        if self._inotify is None:
            self._poll()
        # What changed before the first watch has no event.
        self._over = -math.inf

    def fired(self) -> bool:
        """Whether something happened since the last call, and a moment has passed in which nothing more did."""
        rung = self._rung.is_set()
        self._rung.clear()
        now = self._clock()
        if not rung and self._over > now:
            return False
        self._over = self._latest = math.inf
        if self._inotify is not None:
            places = self._places(self._files)
            # Before the caller looks at the files: whatever happens from here on is an event.
            self._inotify.watch(places)
        # What no watch tells of: a directory further up that was moved away, one that is to come again.
        self._over = now + AGAIN
        return True

    def due(self, now: float) -> float:
        """Seconds until `fired` has something to say by itself."""
        return max(0.0, self._over - now)

    def stop(self) -> None:
        """Watch nothing any more."""
        if self._inotify is not None:
            del self._socket_map[self._inotify.fd]
            self._inotify.close()
            self._inotify = None
        if self._polling is not None:
            self._polling.stop()

    def _begin(self) -> None:
        try:
            self._inotify = Inotify()
        except OSError as error:
            log.warning("the kernel gives no word of changes (%s): files are looked at instead", error)
        else:
            self._socket_map[self._inotify.fd] = self

    def _poll(self) -> None:
        if self._polling is not None:
            self._polling.stop()
        files = self._files
        self._polling = Polling(lambda: self._places(files), self._ring)

    def _ring(self) -> None:
        self._rung.set()
        self._wake()

    # ---- what supervisor's loop calls

    def readable(self) -> bool:
        """Always polled."""
        return True

    def writable(self) -> bool:
        """Never."""
        return False

    def handle_read_event(self) -> None:
        """Something happened; more may follow at once."""
        if self._inotify is not None:
            self._inotify.take()
        now = self._clock()
        self._latest = min(self._latest, now + LONGEST)
        self._over = min(now + QUIET, self._latest)

    def handle_error(self) -> None:
        """Part of the face of a dispatcher."""
        log.exception("watching failed")  # noqa: LOG004 - called in an except block


def _expand(files: Iterable[str]) -> Iterator[str]:
    for path in files:
        if glob.has_magic(path):
            yield from sorted(glob.glob(path))  # noqa: PTH207 - the pattern is absolute
        else:
            yield path


def _mark(path: str) -> tuple[object, ...]:
    try:
        seen = Path(path).stat()
    except OSError as error:
        return (path, error.errno)
    return (path, os.path.realpath(path), *tell_apart(seen))


def newest(files: Iterable[str]) -> float:
    """Epoch seconds of the last change to any of the files; 0 where there is none."""
    times = [0.0]
    for path in _expand(files):
        with contextlib.suppress(OSError):
            times.append(Path(path).stat().st_mtime)
    return max(times)
