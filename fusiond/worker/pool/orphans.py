"""
Kill and reap what a dead fork server has left to this process, which is a subreaper.

A child is killed before it is reaped, its process group first, so that no number is anybody else's by then.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import signal
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger("fusiond.job")

_PR_SET_CHILD_SUBREAPER = 36
#: pids of fork servers: their own children are theirs, and who started one takes its status
spared: set[int] = set()
#: what is said of processes that are given up
LEFT = "processes that were killed have not ended, and are left"
#: s; for the kernel to hand over and end what was killed
REAP_WITHIN = 5.0


def be_subreaper() -> None:
    """Inherit the orphans of the fork server, to kill them."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def kill_children() -> tuple[set[int], dict[int, int]]:
    """
    Kill each child of this process but those that are spared, its group first, and reap what is dead.

    Returns:
        the pids of those that are left, and pid → status of those that were reaped, as os.waitstatus_to_exitcode gives
        it. Raises OSError where the kernel does not tell the children: no descriptor is left.
    """
    pid = os.getpid()
    with open(f"/proc/{pid}/task/{pid}/children") as file:  # noqa: PTH123
        left = {int(word) for word in file.read().split()} - spared
    reaped: dict[int, int] = {}
    for child in left:
        for kill in (os.killpg, os.kill):
            try_to_kill(kill, child)
        try:
            found, status = os.waitpid(child, os.WNOHANG)
        except ChildProcessError:
            continue
        if found:
            reaped[child] = os.waitstatus_to_exitcode(status)
    return left - reaped.keys(), reaped


def kill_all_children(within: float = REAP_WITHIN) -> bool:
    """Kill and reap every child that this process has, orphans that come meanwhile too; False: not all in this time."""
    return wait(_none_is_left, within)


def end_children() -> None:
    """Kill and reap whatever is below this process, which is about to end; fork servers are not spared."""
    spared.clear()
    if not kill_all_children():
        log.error(LEFT)


def _none_is_left() -> bool:
    try:
        left, reaped = kill_children()
    except OSError:
        return False
    # What was reaped may have left children of its own to us.
    return not left and not reaped


def wait(done: Callable[[], bool], within: float) -> bool:
    """Until `done()`, but no longer than so many seconds; whether it is done."""
    deadline = time.monotonic() + within
    while not (ended := done()) and time.monotonic() < deadline:
        time.sleep(0.002)
    return ended


def try_to_kill(kill: Callable[[int, int], None], pid: int) -> None:
    """By os.kill or os.killpg; what is gone, or another user's, is left as it is."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        kill(pid, signal.SIGKILL)
