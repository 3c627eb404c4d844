"""CPU time and memory of a process and of all that is under it, out of /proc."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

_TICK = os.sysconf("SC_CLK_TCK")


class Use(NamedTuple):
    """What the processes of one kind have used."""

    #: s, user and system, of the living and of those that they have reaped
    cpu: float
    #: bytes; shared pages counted in parts
    pss: int
    processes: int


def use(root: int) -> dict[str, Use]:
    """`redis` and `fusiond` → what the tree under `root` has used so far."""
    kinds: dict[str, list[int]] = {"redis": [], "fusiond": []}
    for pid in tree(root):
        kinds["redis" if _is_server(pid) else "fusiond"].append(pid)
    return {kind: Use(sum(map(_cpu, pids)), sum(map(_pss, pids)), len(pids)) for kind, pids in kinds.items()}


def tree(root: int) -> list[int]:
    """The process and all that are under it."""
    found = [root]
    for pid in found:
        found += _forked(pid)
    return found


def cpu_by_kind(root: int) -> dict[str, float]:
    """`dispatcher`, `children` (with their fork servers) and `other` → seconds of CPU of a daemon's tree so far."""
    seconds = dict.fromkeys(("dispatcher", "children", "other"), 0.0)
    walk = [(root, "other")]
    for pid, kind in walk:
        found = "dispatcher" if _read(Path(f"/proc/{pid}/comm")).startswith("worker:") else kind
        seconds[found] += _cpu(pid)
        walk += [(child, "other" if found == "other" else "children") for child in _forked(pid)]
    return seconds


def cpu_of(root: int, name: str) -> float:
    """Seconds of CPU so far of the processes of this name under `root`, at most 15 characters of it."""
    return sum(_cpu(pid) for pid in tree(root) if _read(Path(f"/proc/{pid}/comm")).strip() == name)


def group_memory(root: int, word: str) -> int:
    """Bytes of the processes under `root` whose command line has this word, and of the parent of the first of them."""
    found = [pid for pid in tree(root) if word in _read(Path(f"/proc/{pid}/cmdline")).split("\0")]
    parent = int(_read(Path(f"/proc/{found[0]}/stat")).rpartition(")")[2].split()[1])
    return sum(map(_pss, {parent, *found}))


def _forked(pid: int) -> list[int]:
    return [int(word) for task in _tasks(pid) for word in _read(task / "children").split()]


def _is_server(pid: int) -> bool:
    return _read(Path(f"/proc/{pid}/comm")).strip() in ("valkey-server", "redis-server")


def _cpu(pid: int) -> float:
    # The scheduler's own count, in ns: a tick is 10 ms, longer than an idle process runs in a minute.
    own = sum(int((_read(task / "schedstat") or "0").split()[0]) for task in _tasks(pid)) / 1e9
    fields = _read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    return own + (int(fields[13]) + int(fields[14])) / _TICK if fields else own


def _pss(pid: int) -> int:
    lines = _read(Path(f"/proc/{pid}/smaps_rollup")).splitlines()
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))


def _tasks(pid: int) -> list[Path]:
    try:
        return list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return []


def _read(path: Path) -> str:
    """The file's text; nothing where the process is gone."""
    try:
        return path.read_text()
    except OSError:
        return ""
