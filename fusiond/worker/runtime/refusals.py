"""
Enqueues that the client library refused while task modules were loaded, here or in a program that an import started.

1. begin   the client library sees by `_fusiond_loading.pid` that this process loads modules; a program that an import
           starts sees it by an environment variable, which names a pipe of this process
2. taken   which modules have tried to enqueue: they are refused even if their code catches the exception
3. end     close the pipe: from then on the variable has no effect, not even in a program that has a copy

Standard library only, CPython 3.9 and later: it runs under the application's own interpreter.
"""

from __future__ import annotations

import os
import posix
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: `fusiond.producer.loading_guard` uses the same name
VARIABLE = "FUSION_LOADING"

#: a module of no package, since the client library, of another version perhaps, finds it in `sys.modules`. `pid`: the
#: process in which nothing is enqueued; `refused`: (FILE, line N; names of the modules being imported) of each attempt
#: from `begin` to `close`; later ones, of a thread that an import has left, are not the fault of what a child loads
_loading: Any = sys.modules.setdefault("_fusiond_loading", type(sys)("_fusiond_loading"))
_loading.pid, _loading.refused = 0, None

#: module → where it enqueued. It stays in `sys.modules` where its code went on
_reasons: dict[str, str] = {}
#: both ends of the pipe, while there is one
_pipe: tuple[int, int] | None = None


def begin() -> tuple[int, bool]:
    """Refuse from now on; returns the argument for `end`."""
    global _pipe
    before = _loading.pid
    _loading.pid = posix.getpid()
    _loading.refused = _loading.refused or []
    if _pipe is not None and before == _loading.pid:
        return before, False
    try:
        _pipe = posix.pipe()
    except OSError:
        return before, False  # no descriptor is left; this process' own attempts are still refused
    posix.set_blocking(_pipe[0], False)
    pipe = posix.readlink(f"/proc/self/fd/{_pipe[1]}")
    os.environ[VARIABLE] = f"/proc/{posix.getpid()}/fd/{_pipe[1]} {pipe}"
    return before, True


def end(begun: tuple[int, bool]) -> None:
    """Undo one `begin`."""
    _loading.pid = begun[0]
    if begun[1]:
        close()


def close() -> None:
    """Programs may enqueue from now on, and so may the forks of this process; it may not while its `begin` lasts."""
    global _pipe
    if _pipe is not None:
        os.environ.pop(VARIABLE, None)
        for fd in _pipe:
            posix.close(fd)
        _pipe = None
    _loading.refused = None


def taken(path: str) -> str:
    """Why the task at this dotted path, tried since the last call, is refused; empty: it is not."""
    attempts = [*_loading.refused, *((place, []) for place in _reported())]
    _loading.refused = []
    parts = path.split(".")
    heads = [".".join(parts[:cut]) for cut in range(len(parts) - 1, 0, -1)]
    name = next((head for head in heads if head in sys.modules), ".".join(parts[:-1]))
    for place, modules in attempts:
        for module in [name, *modules]:
            _reasons.setdefault(module, place)
    place = next((_reasons[head] for head in heads if head in _reasons), "")
    return place and (
        f"module '{name}' failed to import at {place}: it enqueues a job, which is refused while modules are loaded;"
        " enqueue inside a function that is called later"
    )


def _reported() -> list[str]:
    """The places that programs have written to the pipe."""
    try:
        return posix.read(_pipe[0], 1 << 16).decode(errors="replace").splitlines() if _pipe is not None else []
    except BlockingIOError:
        return []
