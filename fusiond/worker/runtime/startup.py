"""
What a fork server does before it forks: its name, its socket, its output, the tasks' modules.

A probe starts in the same way.

Standard library only, CPython 3.9 and later: it runs under the application's own interpreter.
"""

from __future__ import annotations

import _socket
import io
import json
import os
import posix
import sys
import time

from . import task, task_errors, wrong_paths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

#: characters of one import failure; a packet has at most 64 KiB
MAX_PROBLEM = 500
#: tasks whose wrong path is answered with a remedy: to find one, all modules are listed
MAX_REMEDIES = 10


def set_name(group: str) -> None:
    """What `ps` and `top` show of this process and its children, 15 characters of it."""
    try:
        with open("/proc/self/comm", "w") as file:
            file.write(f"fusion:{group}")
    except OSError:
        pass  # a name is a kindness, not a need


def enter(control: int, setup: dict[str, Any], one_job: bool) -> _socket.socket:
    """The control socket, once this process has the directory, the umask and the output that `setup` asks for."""
    sock = _socket.socket(fileno=control)
    posix.set_inheritable(control, False)
    _set_streams(one_job)
    if setup["umask"] is not None:
        posix.umask(setup["umask"])
    # Without links: one that a deployment switches would lead this process, which has loaded one release, to another.
    sys.path[:] = [setup["directory"], *(os.path.realpath(path) for path in sys.path if path)]
    return sock


def _set_streams(one_job: bool) -> None:
    """Write each line at once; in a one-job child everything, since a flush would cost each job 0.04 ms."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if one_job:
            raw = io.FileIO(stream.fileno(), "w", closefd=False)
            stream = io.TextIOWrapper(raw, stream.encoding, stream.errors, write_through=True)
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)
        else:
            stream.reconfigure(line_buffering=True)


def preload(tasks: task.Tasks, names: list[str], directory: str, say: Callable[[bytes], object]) -> int:
    """
    Import what the tasks need; returns how many of them can run.

    Args:
        tasks: the table.
        names: of the tasks.
        directory: the group's, for a remedy.
        say: sends the dispatcher a packet: `positional` for each of them whose parameters are known, `unloaded` for
            each other task, `loading` once a second at most.
    """
    loaded, told = 0, time.monotonic()
    for tried, name in enumerate(names):
        if time.monotonic() - told >= 1.0:
            told = time.monotonic()
            say(b"loading")
        try:
            path = tasks.rows[name.encode()].run
            known = task.positional(tasks.function(path))
            loaded += 1
            if known is not None:
                say(f"positional {name} {known}".encode())
        except task_errors.TaskError as error:
            remedy = wrong_paths.remedy(path, error, directory) if tried - loaded < MAX_REMEDIES else ""
            sentence = "; ".join(filter(None, (str(error)[:MAX_PROBLEM], remedy)))
            say_unloaded(name, error.code, sentence, say)
    return loaded


def say_unloaded(name: str, code: str, sentence: str, say: Callable[[bytes], object]) -> None:
    """Tell the dispatcher that a task cannot run, and why."""
    say(b"unloaded " + json.dumps({name: [code, sentence]}).encode())


def load_ahead(tasks: task.Tasks, path: str) -> None:
    """Load the function before the forks, if it loads; otherwise each child says why it does not."""
    try:
        tasks.function(path)
    except task_errors.TaskError:
        pass
