"""What this process may use: processors for `processes: auto`, memory for what `max_memory` comes to."""

from __future__ import annotations

import contextlib
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_CGROUPS: Final = Path("/sys/fs/cgroup")
_OWN: Final = Path("/proc/self/cgroup")


def cpu_quota(cgroups: Path = _CGROUPS, own: Path = _OWN) -> int:
    """The processors that affinity and the cgroup's quota (v2, its parents' too) leave, at least 1."""
    allowed = _least(float(len(os.sched_getaffinity(0))), _quota, cgroups, own)
    return max(1, math.ceil(allowed))


def memory_limit(cgroups: Path = _CGROUPS, own: Path = _OWN) -> int:
    """The bytes that the machine and the cgroup's limit (v2, its parents' too) leave."""
    return int(_least(float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")), _memory, cgroups, own))


def _least(allowed: float, limit: Callable[[Path], float], cgroups: Path, own: Path) -> float:
    """The least of what is allowed and the limits of the own cgroup and those around it."""
    with contextlib.suppress(OSError, ValueError, StopIteration):
        name = next(line[3:] for line in own.read_text().splitlines() if line.startswith("0::"))
        group = cgroups / name.lstrip("/")
        for directory in (group, *group.parents):
            allowed = min(allowed, limit(directory))
            if directory == cgroups:
                break
    return allowed


def _memory(directory: Path) -> float:
    """The bytes of one cgroup's `memory.max`; infinity where it says `max`, or nothing."""
    try:
        return float((directory / "memory.max").read_text())
    except (OSError, ValueError):
        return math.inf


def _quota(directory: Path) -> float:
    """The processors of one cgroup's `cpu.max`, such as `150000 100000`; infinity where there is no limit."""
    try:
        quota, period = (directory / "cpu.max").read_text().split()
        return float(quota) / float(period)
    except (OSError, ValueError):
        return math.inf
