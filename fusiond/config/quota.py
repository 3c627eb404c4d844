"""How many processors this process may use: `processes: auto`."""

from __future__ import annotations

import contextlib
import math
import os
from pathlib import Path
from typing import Final

_CGROUPS: Final = Path("/sys/fs/cgroup")
_OWN: Final = Path("/proc/self/cgroup")


def cpu_quota(cgroups: Path = _CGROUPS, own: Path = _OWN) -> int:
    """The processors that affinity and the cgroup's quota (v2, its parents' too) leave, at least 1."""
    allowed = float(len(os.sched_getaffinity(0)))
    with contextlib.suppress(OSError, ValueError, StopIteration):
        name = next(line[3:] for line in own.read_text().splitlines() if line.startswith("0::"))
        group = cgroups / name.lstrip("/")
        for directory in (group, *group.parents):
            allowed = min(allowed, _quota(directory))
            if directory == cgroups:
                break
    return max(1, math.ceil(allowed))


def _quota(directory: Path) -> float:
    """The processors of one cgroup's `cpu.max`, such as `150000 100000`; infinity where there is no limit."""
    try:
        quota, period = (directory / "cpu.max").read_text().split()
        return float(quota) / float(period)
    except (OSError, ValueError):
        return math.inf
