"""
Refuse to enqueue while the modules of tasks are loaded: `validate --imports` or a reload must not make a job.

1. know    that this process loads modules, or that a program does whose import has started this one
2. report  the enqueue to who loads: the module is refused although its code may catch the exception
3. raise   an EnqueueError

The other side is `worker/runtime/refusals.py`, which may be of another version and under another interpreter.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import FrameType
from typing import Final

from fusiond.errors import EnqueueError

#: set by who loads modules, for the programs that these start: "/proc/PID/fd/NUMBER pipe:[INODE]"
VARIABLE: Final = "FUSION_LOADING"
#: bytes of a report; a pipe takes so many at once or none
_MOST: Final = 2000
_OURS: Final = str(Path(__file__).parents[1]) + os.sep
#: what the variable said when this program began; nobody sets it later but the process that loads modules itself
_AT_START: Final = os.environ.get(VARIABLE)
_SENTENCE: Final = (
    "a job was enqueued while the modules of tasks are loaded, as each worker and `fusiond validate --imports` do:"
    " enqueue inside a function that is called later"
)


def refuse_while_loading() -> None:
    """Raise EnqueueError where this process, or the one whose import started it, is loading the modules of tasks."""
    loading, where = sys.modules.get("_fusiond_loading"), _AT_START
    if loading is not None:
        if loading.pid == os.getpid():
            place, modules = _caller()
            if (refused := getattr(loading, "refused", None)) is not None:
                refused.append((place, modules))
            raise EnqueueError(_SENTENCE)
        where = os.environ.get(VARIABLE)
    if where and _reported(where):
        raise EnqueueError(_SENTENCE)


def _caller() -> tuple[str, list[str]]:
    """`FILE, line N` of the enqueue, and the names of the modules that are being imported around it."""
    place, modules = "", []
    frame: FrameType | None = sys._getframe()  # noqa: SLF001 - the standard library's own way to a caller
    while frame is not None:
        code = frame.f_code
        if not place and not code.co_filename.startswith(_OURS):
            place = f"{code.co_filename}, line {frame.f_lineno}"
        if code.co_name == "<module>":
            modules.append(str(frame.f_globals.get("__name__")))
        frame = frame.f_back
    return place, modules


def _reported(where: str) -> bool:
    """
    Whether the process that set the variable is loading still; it is told of the enqueue.

    Its pipe is closed when the modules are loaded, so a copy of the variable that is older than that says nothing.
    """
    path, _, pipe = where.partition(" ")
    try:
        fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        if os.readlink(f"/proc/self/fd/{fd}") != pipe:  # noqa: PTH115 - the link's text, which is not a path
            return False
        os.write(fd, _caller()[0].encode(errors="replace")[:_MOST] + b"\n")
    except OSError:
        pass  # full of reports, of which one is enough
    finally:
        os.close(fd)
    return True
