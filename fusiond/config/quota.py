"""What this process may use: processors for `processes: auto`, memory to compare with the sum of `max_memory`."""

import contextlib
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_CGROUPS: Final = Path("/sys/fs/cgroup")
_OWN: Final = Path("/proc/self/cgroup")


def cpu_quota(cgroups: Path = _CGROUPS, own: Path = _OWN) -> int:
    """The processors that affinity and the cgroup's quota (v2, its parents' too) allow, at least 1."""
    allowed = float(len(os.sched_getaffinity(0)))
    for text in _limits("cpu.max", cgroups, own):
        with contextlib.suppress(ValueError):  # `max 100000`: no limit
            quota, period = map(float, text.split())
            allowed = min(allowed, quota / period)
    return max(1, math.ceil(allowed))


def memory_limit(cgroups: Path = _CGROUPS, own: Path = _OWN) -> int:
    """The bytes that the machine and the cgroup's limit (v2, its parents' too) allow."""
    limits = [int(text) for text in _limits("memory.max", cgroups, own) if text.strip().isdecimal()]
    return min([os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), *limits])


def _limits(name: str, cgroups: Path, own: Path) -> Iterator[str]:
    """What a file says in this process' cgroup, and in each one around it."""
    with contextlib.suppress(OSError):
        for path in [line[3:] for line in own.read_text().splitlines() if line.startswith("0::")]:
            group = cgroups / path.lstrip("/")
            for directory in (group, *group.parents):
                if directory.is_relative_to(cgroups):
                    with contextlib.suppress(OSError):
                        yield (directory / name).read_text()
