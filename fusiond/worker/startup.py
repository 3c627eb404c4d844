"""
What a fork server does before it forks: its name, its output, the tasks' modules, and a rehearsal.

Standard library only, CPython 3.9 and later: it runs under the application's own interpreter.
"""

from __future__ import annotations

import _socket
import io
import json
import os
import sys

from . import fresh, run, task, wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: characters of one import failure, and failures that are told; a packet has its limit
MAX_PROBLEM, MAX_PROBLEMS = 500, 30


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
    for name in names:
        try:
            tasks.function(name.encode())
        except task.TaskError as error:
            if len(problems) < MAX_PROBLEMS:
                problems[name] = [error.code, str(error)[:MAX_PROBLEM]]
    return problems


def rehearse(times: int = 20) -> None:
    """
    Run a job that does nothing, in this process, as a child would.

    The interpreter rewrites byte code when it has run a few times. Done here once, it is not done again in each child,
    which would have the page copied for it: measured on 3.11, a sixth fewer pages.
    """
    body = wire.jobs_frame([wire.JobMessage(1, 1, b"", b"", b"", b"[[],{}]")])
    table: dict[str, Any] = {"tasks": {"": ["builtins.dict", 60.0, [], [], None]}, "max_jobs": None, "max_memory": None}
    tasks = task.Tasks(json.dumps(table).encode())
    ours, theirs = _socket.socketpair()
    fd, nowhere = os.memfd_create("fusiond-rehearsal"), os.open(os.devnull, os.O_WRONLY)
    os.ftruncate(fd, wire.PAGE_BYTES)
    mapped = wire.Page(fd)
    mapped.allow(1, 1 << 63)
    for _ in range(times):
        ours.sendall(body)
        fresh.FreshChild(nowhere, mapped, tasks).serve(theirs.fileno())
    run.rest()
    for end in (ours, theirs):
        end.close()
    mapped.close()
    os.close(fd)
    os.close(nowhere)
