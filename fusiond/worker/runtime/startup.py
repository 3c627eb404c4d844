"""
What a fork server does before it forks: its name, its output, the tasks' modules.

Standard library only, CPython 3.9 and later: it runs under the application's own interpreter.
"""

from __future__ import annotations

import io
import json
import sys
import time

from . import task

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

#: characters of one import failure, and tasks that are told of in one packet, which has at most 64 KiB
MAX_PROBLEM, AT_ONCE = 500, 10


def set_name(group: str) -> None:
    """What `ps` and `top` show of this process and its children, 15 characters of it."""
    try:
        with open("/proc/self/comm", "w") as file:
            file.write(f"fusion:{group}")
    except OSError:
        pass  # a name is a kindness, not a need


def set_streams(one_job: bool) -> None:
    """Let lines leave at once; of a one-job child everything, since flushing would cost each job 0.04 ms."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if one_job:
            raw = io.FileIO(stream.fileno(), "w", closefd=False)
            stream = io.TextIOWrapper(raw, stream.encoding, stream.errors, write_through=True)
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)
        else:
            stream.reconfigure(line_buffering=True)


def preload(tasks: task.Tasks, names: list[str], on_progress: Callable[[], object]) -> tuple[int, list[bytes]]:
    """
    Import what the tasks need.

    Args:
        tasks: the table.
        names: of the tasks.
        on_progress: called between two of them, once a second at most.

    Returns:
        how many can run, and task → [code, message] of each other one, as parts in JSON.
    """
    problems: list[tuple[str, list[str]]] = []
    told = time.monotonic()
    for name in names:
        if time.monotonic() - told >= 1.0:
            told = time.monotonic()
            on_progress()
        try:
            tasks.function(name.encode())
        except task.TaskError as error:
            problems.append((name, [error.code, str(error)[:MAX_PROBLEM]]))
    parts = [json.dumps(dict(problems[at : at + AT_ONCE])).encode() for at in range(0, len(problems), AT_ONCE)]
    return len(names) - len(problems), parts
