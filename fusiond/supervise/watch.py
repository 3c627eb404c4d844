"""
Notice that the file changed.

1. watch      the directories of the file, of its real path, and of each include: editors rename over a file, and a
              Kubernetes ConfigMap swaps a symlink in a directory above
2. filter     only a change to a name on the way to a file, or in a directory that a glob searches, wakes the loop
3. compare    a print of all files; only a change of it is a change

A thread waits for watchfiles, which waits for inotify; or polls where the kernel reports nothing.
"""

from __future__ import annotations

import contextlib
import glob
import logging
import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fusiond.config.yaml.nodes import tell_apart

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

#: ms: a burst of changes has ended when nothing came for STEP, or after DEBOUNCE
DEBOUNCE, STEP = 100, 50
#: seconds after which a new watch is sure to see all changes; polling compares times in whole seconds
SETTLED = 1.0
#: seconds until the directories are watched anew and the files compared, whatever happens
AGAIN = 10.0
#: seconds that the end of the daemon waits for the thread, which may hang in a network's file system
PATIENCE = 2.0
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


@dataclass(frozen=True, slots=True)
class View:
    """What to watch for some files."""

    #: real paths of directories that exist
    directories: frozenset[str]
    #: whether a change to this path, in one of the directories, may be a change to the files
    concerns: Callable[[str], bool]


def view(files: Iterable[str]) -> View:
    """What to watch for files and globs. Of what does not exist yet, the nearest directory above that does."""
    files = tuple(files)
    names: set[str] = set()
    searched: set[str] = set()
    for pattern in filter(glob.has_magic, files):
        for directory in _searched(Path(pattern)):
            if _is_directory(directory):
                searched.add(os.path.realpath(directory))
            else:
                names.add(_existing(directory))
    for name in _expand(files):
        path = Path(name)
        # Each may be swapped: file -> ..data/file, ..data -> ..2026_01; current/file, current -> releases/42
        names.update(map(_existing, (path, Path(os.path.realpath(path)), *_links(path))))
    directories = searched.union(map(os.path.dirname, names))

    def concerns(path: str) -> bool:
        return path in names or path in directories or os.path.dirname(path) in searched  # noqa: PTH120 - a text

    return View(frozenset(directories), concerns)


def _existing(path: Path) -> str:
    """The path, or the one above it that is the first to be missing, below the real path of its directory."""
    while not _is_directory(path.parent):
        path = path.parent
    return str(Path(os.path.realpath(path.parent), path.name))


def _is_directory(path: Path) -> bool:
    """As Path.is_dir(), which raises where a parent cannot be searched, or the name is too long."""
    return os.path.isdir(path)  # noqa: PTH112


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
    Says, to the loop that it is a part of, when something happened to the files.

    Args:
        find: files → what to watch for them.
        wake: makes the loop turn; safe from any thread.
    """

    def __init__(self, find: Callable[[tuple[str, ...]], View], wake: Callable[[], None]) -> None:
        self._find, self._wake = find, wake
        self._files: tuple[str, ...] = ()
        #: set by the thread: something may have happened
        self._fired = threading.Event()
        #: set for the thread: the files are others, or the daemon ends
        self._disturbed = threading.Event()
        self._stopped = self._warned = False
        self._thread: threading.Thread | None = None

    def watch(self, files: tuple[str, ...]) -> None:
        """From now on, these; nothing happens where they are the same as before."""
        if files == self._files:
            return
        self._files = files
        # What changed before the first watch has no event.
        self._fire()
        self._disturbed.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
            self._thread.start()

    def fired(self) -> bool:
        """Whether something may have happened since the last call."""
        # Cleared before the caller looks at the files: whatever happens from here on fires again.
        fired = self._fired.is_set()
        self._fired.clear()
        return fired

    def stop(self) -> None:
        """Watch nothing any more."""
        self._stopped = True
        self._disturbed.set()
        if self._thread is not None:
            self._thread.join(PATIENCE)

    def _fire(self) -> None:
        self._fired.set()
        self._wake()

    # ---- in the thread

    def _run(self) -> None:
        # watchfiles reports each burst of changes at INFO.
        logging.getLogger("watchfiles").setLevel(logging.WARNING)
        while not self._stopped:
            self._disturbed.clear()
            try:
                changed = self._until_changed(self._find(self._files))
            except Exception as error:  # noqa: BLE001 - a directory has just gone, or its name is not UTF-8
                # Without this thread no change would ever be noticed; with it the files are looked at each second.
                log.debug("the watch is begun anew: %s", error)
                self._disturbed.wait(SETTLED)
                changed = True
            if changed:
                self._fire()

    def _until_changed(self, found: View) -> bool:
        """Whether something happened; False: it is time to look for the directories again."""
        try:
            return self._wait(found)
        except FileNotFoundError:
            raise
        except (OSError, RuntimeError) as error:
            if not self._warned:
                self._warned = True
                log.warning(
                    "the kernel cannot report changes to the files (%s): they are polled instead. "
                    "Where a limit is reached, raise fs.inotify.max_user_instances or max_user_watches with sysctl",
                    error,
                )
            return self._wait(found, polling=True)

    def _wait(self, found: View, *, polling: bool | None = None) -> bool:
        """As `_until_changed`; `polling` None: as the environment says. Raises OSError, RuntimeError."""
        import watchfiles  # here: the start of the daemon does not wait for it

        began, settled = time.monotonic(), False
        for changes in watchfiles.watch(
            *sorted(found.directories), watch_filter=None, debounce=DEBOUNCE, step=STEP, stop_event=self._disturbed,
            recursive=False, raise_interrupt=False, rust_timeout=int(SETTLED * 1000), yield_on_timeout=True,
            force_polling=polling, ignore_permission_denied=True,
        ):  # fmt: skip
            if any(found.concerns(path) for _, path in changes):
                return True
            passed = time.monotonic() - began
            if not settled and passed >= SETTLED:
                # What changed between the last look at the files and the begin of the watch has no event.
                settled = True
                self._fire()
            if passed >= AGAIN:
                return False
        return False


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
