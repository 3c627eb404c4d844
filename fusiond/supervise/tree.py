"""
Find the processes below a program, in /proc, and kill them.

A process is identified by its pid and its start time, so that a process that got the same pid later is never signalled.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import NamedTuple


class Member(NamedTuple):
    """One process."""

    pid: int
    #: in clock ticks since the machine's start
    started: int


def below(pid: int) -> frozenset[Member]:
    """All descendants of the process that live now, without the process itself."""
    found: set[Member] = set()
    parents = [pid]
    while parents:  # no recursion: a job may have made a long chain of processes
        for child in _children(parents.pop()):
            if (started := _started(child)) is not None and (member := Member(child, started)) not in found:
                found.add(member)
                parents.append(child)
    return frozenset(found)


def living(members: frozenset[Member]) -> frozenset[Member]:
    """The members that still live, and the processes below them now."""
    still = frozenset(member for member in members if _started(member.pid) == member.started)
    return still.union(*(below(member.pid) for member in still))


def kill(members: frozenset[Member]) -> None:
    """Send SIGKILL to each, except to those that this user may not signal."""
    for member in members:
        with contextlib.suppress(OSError):
            descriptor = os.pidfd_open(member.pid)
            try:
                if _started(member.pid) == member.started:
                    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            finally:
                os.close(descriptor)


def _children(pid: int) -> list[int]:
    """The children of all of its threads."""
    found: list[int] = []
    with contextlib.suppress(OSError):  # the process has just ended
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):  # the thread has: its children have moved to another thread
                found += map(int, (thread / "children").read_bytes().split())
    return found


def _started(pid: int) -> int | None:
    """When the process started; None: it has ended."""
    try:
        # The name, in parentheses, may hold any bytes; after it come state, parent, …
        state, *rest = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if state in b"ZX" else int(rest[18])
