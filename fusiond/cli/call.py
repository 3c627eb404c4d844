"""`fusiond call`: one task in the foreground, without Redis."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Final, NoReturn

from fusiond.cli import arguments
from fusiond.cli.enqueue import words
from fusiond.cli.find import entry, file
from fusiond.errors import FusionError

if TYPE_CHECKING:
    from fusiond.config.model import Config, Task, WorkerGroup

#: variables that a debugger and coloured output need; a group's children do not get them
_TERMINAL: Final = ("TERM", "COLORTERM", "NO_COLOR", "COLUMNS", "LINES", "PYTHONBREAKPOINT", "DISPLAY")


def register(subparsers: Any) -> None:
    """Add `call`."""
    parser = arguments.command(subparsers, "call", _call)
    arguments.add_file(parser)
    parser.add_argument("--group", metavar="NAME", help="use this group's settings; default: one that serves the task")
    parser.add_argument("task", metavar="TASK")
    words.add_options(parser)


def _call(options: arguments.Options) -> NoReturn:
    """
    Run one task here, in the foreground, without Redis, retries and timeouts; breakpoint() works.

    The task has the directory, interpreter and environment of its worker group, but runs as this user and in this
    terminal. The result is printed as JSON; an exception prints its traceback and gives status 1.
    """
    config = file.config(options.config)
    task = entry("task", config.tasks, options.task)
    args, kwargs = words.arguments(options)
    group = _group(config, task, options.group)
    request = {"run": task.code, "soft": task.timeout.soft, "args": args, "kwargs": kwargs}
    request["pass_job"] = task.job_keyword
    _become(group, {**request, "on_start": group.on_start})


def _group(config: Config, task: Task, name: str | None) -> WorkerGroup:
    """The group of that name; if none is named, the first that serves the task's queue."""
    from fusiond.config.model import serves

    if name is not None:
        return entry("worker group", config.workers, name)
    found = next((group for group in config.workers.values() if serves(group.queues, task.queue)), None)
    if found is None:
        raise FusionError(f"no group serves queue {task.queue!r} of task {task.name!r}; name one with --group")
    return found


def _become(group: WorkerGroup, request: dict[str, Any]) -> NoReturn:
    """Replace this process by the group's interpreter, so that the task has the terminal, Ctrl-C and the debugger."""
    from dataclasses import replace
    from pathlib import Path

    from fusiond.worker.pool.fork_server import launch
    from fusiond.worker.runtime import foreground

    python, ours = launch.interpreter(group), Path(foreground.__file__).parent
    argv = [python, "-c", foreground.BOOT, json.dumps(request), str(ours), str(ours.parent.parent)]
    key = "environment_file"
    try:
        environment = launch.environment(replace(group, user=None), os.environ)
        environment |= {name: os.environ[name] for name in _TERMINAL if name in os.environ}
        if group.umask is not None:
            os.umask(group.umask)
        key = "directory"
        os.chdir(group.directory)
        key = "python"
        os.execve(python, argv, environment)
    except OSError as error:
        raise FusionError(f"workers.{group.name}.{key}: {error.filename}: {error.strerror}") from error
