"""
What a process has used of the processor and of memory, as getrusage(2) and wait4(2) tell it.

By way of ctypes, which the fork server needs anyway: the module `resource`, which os.wait4 loads, too, would cost each
fork 0.01 ms.

Standard library only, CPython 3.9 and later: it runs under the application's own interpreter.
"""

from __future__ import annotations

import ctypes

TYPE_CHECKING = False
if TYPE_CHECKING:
    Usage = ctypes.Array[ctypes.c_long]

#: from <bits/resource.h>: s and us of user time, s and us of system time, KiB of memory at the peak, and more
RUsage = ctypes.c_long * 18
_getrusage = ctypes.CDLL(None).getrusage
#: of this process, and of those that it has waited for, as of the last look
own, below = RUsage(), RUsage()
_RUSAGE_SELF, _RUSAGE_CHILDREN = 0, -1


def used() -> tuple[float, int]:
    """CPU seconds of this process and of those that it has waited for, and KiB at the peak of the largest one."""
    _getrusage(_RUSAGE_SELF, own)
    _getrusage(_RUSAGE_CHILDREN, below)
    return cpu_seconds(own) + cpu_seconds(below), max(own[4], below[4])


def cpu_seconds(usage: Usage) -> float:
    """User and system time together."""
    return usage[0] + usage[2] + (usage[1] + usage[3]) / 1e6
