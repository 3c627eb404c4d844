"""
Notice that the file changed.

1. watch      the directories of the file, of its real path, and of each include: editors rename over a file, and a
              Kubernetes ConfigMap swaps a symlink in a directory above
2. filter     only a change to a path that leads to a file, or in a directory that a glob searches, wakes the loop
3. compare    the loop compares a fingerprint of all files; only another fingerprint is a change

A thread waits for watchfiles, which waits for inotify. While that fails, the files are compared each second.
"""

from __future__ import annotations

import contextlib
import glob
import logging
import threading
import time
from os.path import dirname, isdir, islink, normpath, realpath
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from fusiond.config.yaml.nodes import tell_apart

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

#: ms: a burst of changes has ended when nothing came for STEP, or after DEBOUNCE
DEBOUNCE, STEP = 100, 50
#: seconds after which a new watch is sure to see all changes; polling compares times in whole seconds
SETTLED = 1.0
#: seconds until the directories are watched anew and the files compared, whatever happens
AGAIN = 10.0
#: seconds that the end of the daemon waits for the thread, which may hang in a network file system
PATIENCE = 2.0
#: the most symlinks that are followed, as in the kernel
LINKS = 40
#: who asks for a reload when a file was saved
FILE_WATCHER = "the file's change"
log = logging.getLogger(__name__)

#: for each file its path and what tells one content from another
Fingerprint = tuple[tuple[object, ...], ...]


def fingerprint(files: Iterable[str]) -> Fingerprint:
    """Differs if one of the files, or of the matches of a glob, changed, came, went, or was swapped by a symlink."""
    return tuple(_mark(path) for path in _expand(files))


def fingerprint_as_read(files: Iterable[str], stats: Mapping[str, Sequence[int]]) -> Fingerprint:
    """
    The fingerprint of files that were read before, without those that have changed, come or gone since.

    Args:
        files: paths and globs.
        stats: path → `tell_apart` of the file when it was read.
    """
    return tuple(mark for mark in fingerprint(files) if mark[2:] == tuple(stats.get(str(mark[0]), ())))


def newest(files: Iterable[str]) -> float:
    """Epoch seconds of the last change to any of the files; 0 if there is none."""
    times = [0.0]
    for path in _expand(files):
        with contextlib.suppress(OSError):
            times.append(Path(path).stat().st_mtime)
    return max(times)


def _expand(files: Iterable[str]) -> Iterator[str]:
    for path in files:
        yield from sorted(glob.glob(path)) if glob.has_magic(path) else [path]


def _mark(path: str) -> tuple[object, ...]:
    try:
        return (path, realpath(path), *tell_apart(Path(path).stat()))
    except OSError as error:
        return (path, error.errno)


class Targets(NamedTuple):
    """What to watch for some files."""

    #: real paths of directories that exist
    directories: frozenset[str]
    #: whether a change to this path, in one of the directories, may be a change to the files
    concerns: Callable[[str], bool]


def targets(files: Iterable[str]) -> Targets:
    """What to watch for files and globs. For a path that does not exist yet: the nearest directory above that does."""
    files = tuple(files)
    searched = {directory for pattern in files if glob.has_magic(pattern) for directory in _searched(Path(pattern))}
    names = {_existing(directory) for directory in searched if not isdir(directory)}
    for name in _expand(files):
        # Each may be swapped: file -> ..data/file, ..data -> ..2026_01; current/file, current -> releases/42
        names.update(map(_existing, (Path(name), Path(realpath(name)), *_links(Path(name)))))
    globbed = {realpath(directory) for directory in searched if isdir(directory)}
    directories = globbed.union(map(dirname, names))

    def concerns(path: str) -> bool:
        return path in names or path in directories or dirname(path) in globbed

    return Targets(frozenset(directories), concerns)


def _existing(path: Path) -> str:
    """The path, or the topmost missing directory above it, below the real path of its parent."""
    # Path.is_dir() raises where a parent cannot be searched, or the name is too long.
    while not isdir(path.parent):
        path = path.parent
    return str(Path(realpath(path.parent), path.name))


def _searched(pattern: Path) -> Iterator[Path]:
    """The directories in which a new match may appear."""
    for parent in map(str, pattern.parents):
        if not glob.has_magic(parent):
            yield Path(parent)
            return
        yield from map(Path, glob.glob(parent))


def _links(path: Path) -> list[Path]:
    """Each symlink that leads to the file."""
    found: list[Path] = []
    steps = [path, *path.parents]
    for step in steps:  # which grows
        if islink(step) and step not in found and len(found) < LINKS:
            found.append(step)
            with contextlib.suppress(OSError):  # swapped just now
                to = Path(normpath(step.parent / step.readlink()))
                steps += [to, *to.parents]
    return found


class Watcher:
    """
    Wakes the loop when something happened to the files.

    Args:
        find: files → what to watch for them.
        wake: makes the loop turn; safe from any thread.
    """

    def __init__(self, find: Callable[[tuple[str, ...]], Targets], wake: Callable[[], None]) -> None:
        self._find, self._wake = find, wake
        self._files: tuple[str, ...] = ()
        #: set by the thread: something may have happened
        self._fired = threading.Event()
        #: set for the thread: there are other files, or the daemon ends
        self._disturbed = threading.Event()
        self._stopped = self._warned = False
        self._thread: threading.Thread | None = None

    def watch(self, files: tuple[str, ...]) -> None:
        """Watch these files from now on; cheap if they are the same as before."""
        if files == self._files:
            return
        self._files = files
        # There is no event for what changed before the first watch.
        self._fire()
        self._disturbed.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
            self._thread.start()

    def fired(self) -> bool:
        """Whether something may have happened since the last call."""
        # Cleared before the caller looks at the files: a later change fires again.
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
        # watchfiles logs each burst of changes at INFO.
        logging.getLogger("watchfiles").setLevel(logging.WARNING)
        while not self._stopped:
            self._disturbed.clear()
            try:
                self._wait(self._find(self._files))
            except Exception as error:  # noqa: BLE001 - without this thread no change would be noticed
                self._report(error)
                self._disturbed.wait(SETTLED)
                self._fire()

    def _report(self, error: Exception) -> None:
        """Warn, once, if the kernel cannot report changes; not if a directory has just gone, or a name is no UTF-8."""
        passing = isinstance(error, (FileNotFoundError, UnicodeError)) or "decode path" in str(error)
        if passing or self._warned:
            log.debug("the watch is begun anew: %s", error)
            return
        self._warned = True
        log.warning(
            "the kernel cannot report changes to the files (%s): they are compared each second instead. "
            "If a limit is reached, raise fs.inotify.max_user_instances or max_user_watches with sysctl",
            error,
        )

    def _wait(self, found: Targets) -> None:
        """Wait until something happened, or until it is time to look for the directories again."""
        import watchfiles  # here: the start of the daemon does not wait for it

        began, settled = time.monotonic(), False
        for changes in watchfiles.watch(
            *sorted(found.directories), watch_filter=None, debounce=DEBOUNCE, step=STEP, stop_event=self._disturbed,
            recursive=False, raise_interrupt=False, rust_timeout=int(SETTLED * 1000), yield_on_timeout=True,
            ignore_permission_denied=True,
        ):  # fmt: skip
            if any(found.concerns(path) for _, path in changes):
                self._fire()
                return
            passed = time.monotonic() - began
            if not settled and passed >= SETTLED:
                # There is no event for what changed between the last look at the files and the begin of the watch.
                settled = True
                self._fire()
            if passed >= AGAIN:
                return
