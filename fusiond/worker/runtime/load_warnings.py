"""
What a fork server logs once its tasks are loaded: what their modules did that surprises later.

Standard library only, CPython 3.9 and later: it runs under the application's own interpreter.
"""

from __future__ import annotations

import os
import sys

from . import tasklog
from .child import resident_bytes

#: threads that a warning names
MOST_NAMES = 10


def warn_of_threads() -> None:
    """Log which threads the modules have started: a fork has none of them, and what they lock stays locked there."""
    count = len(os.listdir("/proc/self/task")) - 1
    if count <= 0:
        return
    threading = sys.modules.get("threading")
    known = [each for each in threading.enumerate() if each is not threading.main_thread()] if threading else []
    names = [each.name for each in known[:MOST_NAMES]] or ["of a library that is not Python"]
    tasklog.warn(
        f"the modules of the tasks have started threads ({count}: {', '.join(names)}), which no child has; "
        "a lock that one of them holds stays locked there. Start threads in the task or in `on_start`"
    )


def warn_of_hidden(directory: str) -> None:
    """Log which modules of the standard library are not what was loaded: what needs them fails with other errors."""
    standard = getattr(sys, "stdlib_module_names", ())
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name in standard and isinstance(file, str) and file.startswith(directory + "/"):
            tasklog.warn(f"{file} hides the module {name} of Python's standard library; rename it")


def warn_of_memory(limit: int | None) -> None:
    """Log that each child is above the group's `max_memory` (bytes) before its first job; None: no limit."""
    used = resident_bytes()
    if limit is not None and used > limit:
        tasklog.warn(
            f"a new child has {used >> 20} MiB of memory already, and max_memory is {limit >> 20} MiB: "
            "each child runs one job only. Raise max_memory, or import less"
        )
