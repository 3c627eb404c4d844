"""
The processes below a program, found in /proc, and killed.

A process is known by its pid and by when it began, so that a number that the kernel has given to another process since
is never signalled.
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
    began: int


def below(pid: int) -> frozenset[Member]:
    """All descendants of the process that live now; without it."""
    found: set[Member] = set()
    parents = [pid]
    while parents:  # no recursion: a job may have made a long line of processes
        for child in _children(parents.pop()):
            if (began := _began(child)) is not None and (member := Member(child, began)) not in found:
                found.add(member)
                parents.append(child)
    return frozenset(found)


def living(members: frozenset[Member]) -> frozenset[Member]:
    """Those of the members that still live, and what is below them now."""
    still = frozenset(member for member in members if _began(member.pid) == member.began)
    return still.union(*(below(member.pid) for member in still))


def kill(members: frozenset[Member]) -> None:
    """Send SIGKILL to each; those of another user whom this one may not signal are left."""
    for member in members:
        with contextlib.suppress(OSError):
            descriptor = os.pidfd_open(member.pid)
            try:
                if _began(member.pid) == member.began:
                    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            finally:
                os.close(descriptor)


def _children(pid: int) -> list[int]:
    """Of all of its threads."""
    found: list[int] = []
    with contextlib.suppress(OSError):  # the process has just ended
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):  # the thread has: its children are another thread's
                found += map(int, (thread / "children").read_bytes().split())
    return found


def _began(pid: int) -> int | None:
    """None of a process that has ended."""
    try:
        # The name, in parentheses, may hold any bytes; what follows it is: state, parent, …
        state, *rest = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if state in b"ZX" else int(rest[18])
