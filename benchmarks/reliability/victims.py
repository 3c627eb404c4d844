"""The processes of a runner, by how far they are from what the service manager started."""

from __future__ import annotations

from pathlib import Path


def victims(roots: list[int], target: str) -> list[int]:
    """
    The pids that a kill may be meant for.

    `root`: what the service manager started. `child`: the farthest from there, which run jobs; with RQ there are some
    only while jobs run. `any`: all of them.
    """
    if target == "root":
        return [root for root in roots if Path(f"/proc/{root}").exists()]
    found = [list(_levels(root)) for root in roots]
    if target == "child":
        return [pid for levels in found if len(levels) > 1 for pid in levels[-1]]
    return [pid for levels in found for level in levels for pid in level]


def _levels(root: int) -> list[list[int]]:
    levels, level = [], [root] if Path(f"/proc/{root}").exists() else []
    while level:
        levels.append(level)
        level = [child for pid in level for child in _children(pid)]
    return levels


def _children(pid: int) -> list[int]:
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        return [int(word) for task in tasks for word in (task / "children").read_text().split()]
    except OSError:
        return []
