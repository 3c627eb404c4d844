"""
Kill and reap the processes that a dead fork server leaves to this process, which is a subreaper.

A child and its process group are killed before the child is reaped: until then no other process can get their numbers.
"""

from __future__ import annotations

import ctypes
import logging
import os
import time
from collections.abc import Callable

from fusiond.worker.runtime.leftovers import children_of, kill

log = logging.getLogger("fusiond.job")

_PR_SET_CHILD_SUBREAPER = 36
#: pids of fork servers that have not ended: they end their own children, and their handles take their status
spared: set[int] = set()
#: message about processes that are given up
LEFT = "processes that were killed have not ended, and are left"
#: s; for the kernel to hand over and end what was killed
REAP_WITHIN = 5.0


def be_subreaper() -> None:
    """Have this process inherit the orphans of its fork servers."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def kill_children() -> tuple[set[int], dict[int, int]]:
    """
    Kill each child of this process that is not spared, and its group; reap those that are dead.

    Returns:
        the pids of those that are left, and pid → status of those that were reaped, as os.waitstatus_to_exitcode gives
        it. Raises OSError if no descriptor is left by which the children could be found.
    """
    left = set(children_of(os.getpid())) - spared
    reaped: dict[int, int] = {}
    for child in left:
        kill(child, child)
        try:
            found, status = os.waitpid(child, os.WNOHANG)
        except ChildProcessError:
            continue
        if found:
            reaped[child] = os.waitstatus_to_exitcode(status)
    return left - reaped.keys(), reaped


def end_children() -> None:
    """Kill and reap every child of this process, fork servers and orphans that come meanwhile too."""
    spared.clear()
    if not wait(_none_is_left, REAP_WITHIN):
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
