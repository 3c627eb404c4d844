"""
Notice that files were changed, for example saved by an editor.

1. targets      what to watch for a set of paths and globs: each directory in which one of them, a directory above it,
                or a symlink on the way to it can be replaced. Editors rename a new file over the old one, and a
                Kubernetes ConfigMap replaces a symlink
2. Watcher      a thread that waits for such a change and then wakes the supervisor's loop
3. fingerprint  what the loop compares: the files have changed if and only if their fingerprint has

The watcher may wake the loop when nothing has changed, but it must not miss a change. So it also wakes the loop after
each start of a watch, and at least every RECHECK seconds. While the kernel cannot report changes, that is each second.
"""

from __future__ import annotations

import contextlib
import glob
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os.path import dirname, isdir, normpath, realpath
from pathlib import Path
from typing import NamedTuple

from fusiond.config.yaml.nodes import tell_apart

#: ms: changes are reported together once none has come for STEP, or DEBOUNCE after the first
DEBOUNCE, STEP = 100, 50
#: seconds after which a new watch reports every change; it is more than one since polling compares whole seconds
SETTLE = 1.0
#: seconds between two starts of a watch
RECHECK = 10.0
#: seconds to wait at the end of the daemon for the thread, which may hang in a network file system
STOP_TIMEOUT = 2.0
#: who asks for a reload when a file was saved
FILE_WATCHER = "the file's change"
log = logging.getLogger(__name__)

#: for each file its path, its real path and its stat
Fingerprint = tuple[tuple[object, ...], ...]


def fingerprint(files: Iterable[str]) -> Fingerprint:
    """What the files and the matches of the globs are now; differs after any change to them."""
    return tuple(_mark(path) for path in _expand(files))


def fingerprint_as_read(files: Iterable[str], stats: Mapping[str, Sequence[int]]) -> Fingerprint:
    """
    The fingerprint of files that were read before, without those that were changed, created or removed since.

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
    """Each path, and each match of a glob."""
    for path in files:
        yield from sorted(glob.glob(path)) if glob.has_magic(path) else [path]


def _mark(path: str) -> tuple[object, ...]:
    try:
        return (path, realpath(path), *tell_apart(Path(path).stat()))
    except OSError as error:
        return (path, error.errno)


class Targets(NamedTuple):
    """What to watch."""

    #: directories that exist
    directories: frozenset[str]
    #: whether a change to this path, which is in one of the directories, may be a change to the files
    concerns: Callable[[str], bool]


def targets(files: Iterable[str]) -> Targets:
    """What to watch for paths and globs, whether the files exist or not."""
    files = tuple(files)
    searched = {directory for pattern in files if glob.has_magic(pattern) for directory in _searched(pattern)}
    names = {name for path in (*_expand(files), *searched) for name in _way(path)}
    globbed = {realpath(directory) for directory in searched}
    directories = frozenset(filter(isdir, globbed.union(map(dirname, names))))
    return Targets(directories, lambda path: path in names or dirname(path) in globbed)


def _searched(pattern: str) -> Iterator[str]:
    """The directories in which a new match of the glob may appear."""
    for parent in map(str, Path(pattern).parents):
        if not glob.has_magic(parent):
            yield parent
            return
        yield from glob.glob(parent)


def _way(path: str) -> set[str]:
    """The path, the directories above it, and the same for the target of each symlink among them."""
    names: set[str] = set()
    left = [Path(path)]
    while left:
        step = left.pop()
        # As the watch reports it: below the real path of its directory.
        name = Path(realpath(step.parent), step.name)
        if str(name) not in names:
            names.add(str(name))
            left.append(step.parent)
            with contextlib.suppress(OSError):  # it is not a symlink, or does not exist
                left.append(Path(normpath(name.parent / name.readlink())))
    return names


class Watcher:
    """
    Wakes the loop when the files may have changed.

    Args:
        find: files → what to watch for them.
        wake: makes the loop turn; safe from any thread.
    """

    def __init__(self, find: Callable[[tuple[str, ...]], Targets], wake: Callable[[], None]) -> None:
        self._find, self._wake = find, wake
        self._files: tuple[str, ...] = ()
        #: set by the thread, cleared by the loop: the files may have changed
        self._fired = threading.Event()
        #: set by the loop, cleared by the thread: there are other files to watch, or the daemon ends
        self._interrupted = threading.Event()
        self._stopped = self._warned = False
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def watch(self, files: tuple[str, ...]) -> None:
        """Watch these files from now on; cheap if they are the same as before."""
        if files == self._files:
            return
        self._files = files
        self._fire()  # they may have changed before they were watched
        self._interrupted.set()
        if self._thread.ident is None:
            self._thread.start()

    def fired(self) -> bool:
        """Whether the files may have changed since the last call."""
        # Cleared before the caller looks at the files: a later change fires again.
        fired = self._fired.is_set()
        self._fired.clear()
        return fired

    def stop(self) -> None:
        """End the thread."""
        self._stopped = True
        self._interrupted.set()
        if self._thread.ident is not None:
            self._thread.join(STOP_TIMEOUT)

    def _fire(self) -> None:
        self._fired.set()
        self._wake()

    # ---- in the thread

    def _run(self) -> None:
        # watchfiles logs each burst of changes at INFO.
        logging.getLogger("watchfiles").setLevel(logging.WARNING)
        while not self._stopped:
            self._interrupted.clear()
            try:
                self._watch_once(self._find(self._files))
            except Exception as error:  # noqa: BLE001 - without this thread no change would be noticed
                self._report(error)
                self._interrupted.wait(SETTLE)
                self._fire()

    def _report(self, error: Exception) -> None:
        """Warn once if the kernel cannot report changes; other errors pass, such as a directory that was removed."""
        passing = isinstance(error, (FileNotFoundError, UnicodeError)) or "decode path" in str(error)
        if passing or self._warned:
            log.debug("the watch is started again: %s", error)
            return
        self._warned = True
        log.warning(
            "the kernel cannot report changes to the files (%s): they are compared each second instead. "
            "If a limit is reached, raise fs.inotify.max_user_instances or max_user_watches with sysctl",
            error,
        )

    def _watch_once(self, found: Targets) -> None:
        """Wait for one change, at most RECHECK seconds."""
        import watchfiles  # here: without it, the thread compares the files each second

        began, settled = time.monotonic(), False
        # Without a change, this yields an empty set each SETTLE seconds.
        for changes in watchfiles.watch(
            *sorted(found.directories), watch_filter=None, debounce=DEBOUNCE, step=STEP,
            stop_event=self._interrupted, recursive=False, raise_interrupt=False, rust_timeout=int(SETTLE * 1000),
            yield_on_timeout=True, ignore_permission_denied=True,
        ):  # fmt: skip
            if any(found.concerns(path) for _, path in changes):
                self._fire()
                return
            passed = time.monotonic() - began
            if not settled and passed >= SETTLE:
                settled = True
                self._fire()  # the files may have changed before the watch began
            if passed >= RECHECK:
                return
