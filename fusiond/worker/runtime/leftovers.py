"""
The processes below a fork server that are not its children: what imports have started, and what jobs leave behind.

1. spare  what was there when the tasks were loaded, and what stays in its groups: it lives as long as the fork server
2. kill   what a dead child has left, with the groups of these processes, and say so
3. wait   for a resource tracker: Python's `multiprocessing` starts one for a job that uses shared memory. It removes
          that memory once the job's other processes have ended

A process that ends leaves its children to the fork server, a subreaper. So each survivor of a dead child, or a process
above it, is found among the fork server's own children. None of these is reaped elsewhere, so that the number of its
group belongs to that group.

Standard library only, CPython 3.9 and later: it runs under the application's own interpreter.
"""

from __future__ import annotations

import posix
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

# Kept from before a task's module may replace them.
_open, _read, _close, _listdir = posix.open, posix.read, posix.close, posix.listdir
_getpgid, _kill, _killpg, _monotonic = posix.getpgid, posix.kill, posix.killpg, time.monotonic
_SIGKILL = 9
#: s; for a resource tracker to start and to do its work
_PATIENCE = 5.0
#: s; for a process to become one: a job may end before the tracker that it has started is more than a fork
_STARTS = 0.25
#: processes that are named in one report
_MOST_NAMED = 10


class Leftovers:
    """What is below this process, besides the children of its group."""

    def __init__(self, say: Callable[[str], None]) -> None:
        """The tasks are loaded. `say`: sends the dispatcher a report."""
        self._say, self._pid = say, posix.getpid()
        self._spared, self._is_last = set(children_of(self._pid)), False
        #: pids that were killed, and are not reaped yet
        self._killed: set[int] = set()
        #: pid of a resource tracker, or of what may become one → monotonic s when it was found
        self.waiting: dict[int, float] = {}
        self._own = _command(self._pid)

    def reaped(self, pid: int, living: dict[int, int]) -> bool:
        """A process was reaped that is not a child; whether it was a leftover, so that it may have left others."""
        if pid in self._spared:
            # A program that goes on in the background leaves a process behind, and ends.
            self._spared.discard(pid)
            self._spared.update(self._strays(living))
        is_leftover = pid in self._killed or pid in self.waiting
        self._killed.discard(pid)
        self.waiting.pop(pid, None)
        return is_leftover

    def kill(self, living: dict[int, int], died: dict[int, tuple[int, int]]) -> None:
        """
        Kill what dead children have left. An orphan in the group of a living child is left to that child.

        Args:
            living: pid → slot of the children.
            died: pid → slot and status of those that were reaped just now.
        """
        now, strays = _monotonic(), self._strays(living)
        wait = set()
        for pid, group in strays.items():
            # Forks of a job that was killed must be gone when it runs again.
            found = now if died.get(group, (0, 1))[1] == 0 else now - _STARTS
            if now < self.waiting.setdefault(pid, found) + self._patience(pid):
                wait.add(pid)
        self.waiting = {pid: self.waiting[pid] for pid in wait}
        # These are killed process by process: the group of one that waits, and of a child that is ending.
        apart = {strays[pid] for pid in wait} | {self._pid, *living}
        left: dict[int, list[str]] = {}
        for pid in strays.keys() - wait:
            group = strays[pid]
            if name := _command(pid).partition(b"\0")[0].rpartition(b"/")[2][:50]:
                left.setdefault(died.get(group, (-1, 1))[0], []).append(f"{name.decode(errors='replace')!r} ({pid})")
            kill(pid, None if group in apart else group)
            self._killed.add(pid)
        for slot, names in left.items():
            more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
            self._say(f"left {slot} {', '.join(names[:_MOST_NAMED])}{more}")

    def _patience(self, pid: int) -> float:
        """Seconds until a stray is killed."""
        command = _command(pid)
        if b"resource_tracker import main" in command:
            return _PATIENCE
        # A program has the command line of this process, or none, until the kernel has started it.
        return _STARTS if command in (b"", self._own) else 0.0

    def _strays(self, living: dict[int, int]) -> dict[int, int]:
        """Pid → group of those that belong to nothing that goes on, and were not killed yet."""
        try:
            found = children_of(self._pid)
        except OSError:  # no descriptor is left
            return {}
        if len(found) == len(living) + len(self._spared):
            return {}
        strays = {}
        for pid in {*found}.difference(living, self._spared, self._killed):
            group = _getpgid(pid)
            # What imports start is in the group of this process, unless it has left that. A program of a living child
            # has a group of its own.
            spared = group in living or group in self._spared or group == self._pid or _parent_of(group) in living
            if self._is_last or not spared:
                strays[pid] = group
        return strays

    def end(self) -> None:
        """Spare nothing any more. A tracker that imports have started would wait for this process."""
        self.waiting.update(dict.fromkeys(self._spared, 0.0))
        self._spared.clear()
        self._is_last = True


def kill(pid: int, group: int | None = None) -> None:
    """Kill a process, and a group if one is given. Their numbers are theirs until this process has reaped it."""
    for act, number in ((_kill, pid), (_killpg, group)):
        if number is not None:
            try:
                act(number, _SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass  # it is gone, or belongs to another user by now, as a job that became sudo does


def children_of(pid: int) -> list[int]:
    """Pids of the children, dead and adopted ones included. Raises OSError if no descriptor is left."""
    return [int(word) for word in _content(f"/proc/{pid}/task/{pid}/children").split()]


def _parent_of(pid: int) -> int:
    try:
        return int(_content(f"/proc/{pid}/stat").rpartition(b")")[2].split()[1])
    except OSError:
        return 0


def _command(pid: int) -> bytes:
    try:
        return _content(f"/proc/{pid}/cmdline")
    except OSError:
        return b""


def _content(path: str) -> bytes:
    content, more = b"", b" "
    # Not open(): the objects of a file would have 30 pages copied, all shared since the last fork.
    fd = _open(path, posix.O_RDONLY)
    while more:
        more = _read(fd, 1 << 16)
        content += more
    _close(fd)
    return content
