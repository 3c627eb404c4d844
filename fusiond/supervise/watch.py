"""
Notice that the file changed.

1. watch      the directories of the file, of its real path, and of each include: editors rename over a file, and a
              Kubernetes ConfigMap swaps a symlink in a directory above
2. wake       the loop, about 100 ms after the last of a burst of events
3. compare    a print of all files; only a change of it is a change

The thread touches nothing but its own events and the loop's wake-up pipe.
"""

from __future__ import annotations

import contextlib
import glob
import logging
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

#: ms: a burst has ended when nothing came for STEP, or after DEBOUNCE
DEBOUNCE, STEP = 100, 50
#: seconds until a directory that is gone is looked for again
PATIENCE = 5.0
#: symlinks in a row, as the kernel counts
LINKS = 40
#: who asks for a reload when a file was saved
WATCHER = "the file's change"
log = logging.getLogger(__name__)

#: path → what tells one content of it from another
Print = tuple[tuple[object, ...], ...]


def fingerprint(files: Iterable[str]) -> Print:
    """What would differ if one of the files, or globs, changed, came, went, or were another through a symlink."""
    return tuple(_mark(path) for path in _expand(files))


def directories(files: Iterable[str]) -> frozenset[str]:
    """The directories to watch for the files and globs; only those that exist."""
    found: set[Path] = set()
    for name in _expand(files, keep_globs=True):
        link = Path(name)
        found |= {link.parent, Path(os.path.realpath(link)).parent}
        # Each symlink on the way may be swapped: file -> ..data/file, ..data -> ..2026_01
        for _ in range(LINKS):
            if not link.is_symlink():
                break
            link = Path(os.path.normpath(link.parent / link.readlink()))
            found |= {link.parent, link.parent.parent}
    return frozenset(str(directory) for directory in found if directory.is_dir())


class Watcher:
    """A thread that wakes the loop when something happened beside one of the files."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._files: tuple[str, ...] = ()
        self._fired = threading.Event()
        self._stop = threading.Event()

    def watch(self, files: tuple[str, ...]) -> None:
        """From now on, these; nothing happens where they are the same as before."""
        if files != self._files:
            self.stop()
            self._files, self._stop = files, threading.Event()
            threading.Thread(target=self._run, args=(files, self._stop), name="watch", daemon=True).start()

    def fired(self) -> bool:
        """Whether something happened since the last call."""
        fired = self._fired.is_set()
        self._fired.clear()
        return fired

    def stop(self) -> None:
        """End the thread, within a step."""
        self._stop.set()

    def _run(self, files: tuple[str, ...], stop: threading.Event) -> None:
        import watchfiles  # here: it takes its time, and the daemon starts meanwhile

        logging.getLogger("watchfiles").setLevel(logging.WARNING)
        while not stop.is_set():
            watch = directories(files)
            # What changed before the first watch, or between two, has no event.
            self._fire()
            if not watch:
                # watchfiles would wait for nothing, for ever.
                stop.wait(PATIENCE)
                continue
            with contextlib.suppress(FileNotFoundError):
                for _ in watchfiles.watch(
                    *sorted(watch), watch_filter=None, debounce=DEBOUNCE, step=STEP, stop_event=stop, recursive=False,
                    raise_interrupt=False,
                ):  # fmt: skip
                    self._fire()
                    if directories(files) != watch:
                        break

    def _fire(self) -> None:
        self._fired.set()
        self._wake()


def _expand(files: Iterable[str], *, keep_globs: bool = False) -> Iterator[str]:
    for path in files:
        if not glob.has_magic(path):
            yield path
            continue
        if keep_globs:
            yield path
        yield from sorted(glob.glob(path))  # noqa: PTH207 - the pattern is absolute


def _mark(path: str) -> tuple[object, ...]:
    try:
        seen = Path(path).stat()
    except OSError as error:
        return (path, error.errno)
    return (path, os.path.realpath(path), seen.st_dev, seen.st_ino, seen.st_mtime_ns, seen.st_size)


def newest(files: Iterable[str]) -> float:
    """Epoch seconds of the last change to any of the files; 0 where there is none."""
    times = [0.0]
    for path in _expand(files):
        with contextlib.suppress(OSError):
            times.append(Path(path).stat().st_mtime)
    return max(times)
