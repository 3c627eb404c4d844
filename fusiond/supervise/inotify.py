"""
The kernel's own word that something happened in a directory: inotify(7), by way of libc.

A descriptor that the loop polls: no thread, nothing to do while nothing happens.
Where a file system has no such word (a network's, a shared folder of a virtual machine's), see polling.py.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

# From <sys/inotify.h>.
IN_ATTRIB, IN_CLOSE_WRITE, IN_MOVED_FROM, IN_MOVED_TO = 0x4, 0x8, 0x40, 0x80
IN_CREATE, IN_DELETE, IN_DELETE_SELF, IN_MOVE_SELF = 0x100, 0x200, 0x400, 0x800
IN_ONLYDIR = 0x0100_0000
#: not IN_MODIFY: beside the file may lie one that is written to all day, and who writes ours closes it
_EVENTS = (
    IN_ATTRIB | IN_CLOSE_WRITE | IN_MOVED_FROM | IN_MOVED_TO
    | IN_CREATE | IN_DELETE | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR
)  # fmt: skip
_READ = 1 << 16


class Inotify:
    """One instance; raises OSError where the user may have no more of them."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self.fd = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self.fd < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        self._watched: set[int] = set()

    def watch(self, directories: Iterable[str]) -> None:
        """Hear of these and no others; a directory that is gone, or not ours to read, is passed over."""
        added = {self._libc.inotify_add_watch(self.fd, os.fsencode(path), _EVENTS) for path in directories}
        for number in self._watched - added:
            # Of a directory that was removed the kernel has forgotten it already.
            self._libc.inotify_rm_watch(self.fd, number)
        self._watched = added - {-1}

    def take(self) -> None:
        """Take what was said; what it was, a look at the files tells better."""
        with contextlib.suppress(BlockingIOError):
            while os.read(self.fd, _READ):
                pass

    def close(self) -> None:
        """Hear no more."""
        os.close(self.fd)
