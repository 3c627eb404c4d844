"""
What a fork server does before it forks: its name, its output, the tasks' modules.

Standard library only, CPython 3.9 and later: it runs under the application's own interpreter.
"""

from __future__ import annotations

import io
import json
import sys

from . import task

#: characters of one import failure, failures that are told, and bytes of all as JSON, where a character may take 12: a
#: packet of 64 KiB tells them to the dispatcher, and another, with words around them, tells the supervisor
MAX_PROBLEM, MAX_PROBLEMS, MAX_BYTES = 500, 30, 48 << 10


def set_name(group: str) -> None:
    """What `ps` and `top` show of this process and its children, 15 characters of it."""
    try:
        with open("/proc/self/comm", "w") as file:
            file.write(f"fusion:{group}")
    except OSError:
        pass  # a name is a kindness, not a need


def set_streams(fresh: bool) -> None:
    """Let lines leave at once; of a fresh child everything, since flushing would cost each job 0.04 ms."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if fresh:
            raw = io.FileIO(stream.fileno(), "w", closefd=False)
            stream = io.TextIOWrapper(raw, stream.encoding, stream.errors, write_through=True)
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)
        else:
            stream.reconfigure(line_buffering=True)


def preload(tasks: task.Tasks, names: list[str]) -> dict[str, list[str]]:
    """Import what the tasks need; returns task → [code, message] of each that cannot run."""
    problems: dict[str, list[str]] = {}
    size = 0
    for name in names:
        try:
            tasks.function(name.encode())
        except task.TaskError as error:
            problem = [error.code, str(error)[:MAX_PROBLEM]]
            size += len(json.dumps({name: problem}))
            if len(problems) < MAX_PROBLEMS and size <= MAX_BYTES:
                problems[name] = problem
    return problems
