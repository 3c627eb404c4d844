"""
Load the tasks of a group as its fork server would, and tell what came of each: `fusiond validate --imports`.

1. say      which path is tried, so that whoever listens knows what hung or died
2. load     it; a module that is there is loaded once
3. tell     its parameters, or why it cannot be called, with the traceback of the user's own frames
4. resolve  the exceptions that the group's retry policies name

One JSON object a packet on the control socket: {"trying": PATH}, {"tried": PATH, …}, {"done": true}.

Standard library only, CPython 3.9 and later: it runs under the application's own interpreter.
"""

from __future__ import annotations

import difflib
import faulthandler
import inspect
import json
import os
import pkgutil
import socket
import sys
import traceback
from typing import Any

from . import errortext, refusals, task

#: characters of a traceback that are sent, its end; a packet has its limit
MAX_TRACEBACK = 8000
#: names that may have been meant
MAX_NEAR = 5


def main(control: int, setup: dict[str, Any]) -> None:
    """
    Try everything, then end at once: a thread that an import started must not keep the process.

    Args:
        control: descriptor of the control socket.
        setup: directory, umask, patience (s for one path), paths [dotted path], exceptions [name].
    """
    sock = socket.socket(fileno=control)
    os.set_inheritable(control, False)
    if setup["umask"] is not None:
        os.umask(setup["umask"])
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    sys.path[:] = [setup["directory"], *(path for path in sys.path if path)]
    refusals.begin()
    for key, examine in (("paths", function), ("exceptions", exception)):
        for path in setup[key]:
            _say(sock, trying=path)
            # What hangs is shown where it hangs: on standard error, which is listened to as well.
            faulthandler.dump_traceback_later(setup["patience"])
            found = examine(path)
            faulthandler.cancel_dump_traceback_later()
            _say(sock, tried=path, **found)
    _say(sock, done=True)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(0)


def function(path: str) -> dict[str, Any]:
    """`parameters` as [name, kind, whether it has a default], None where they are not told; or as `_failure`."""
    try:
        found = task.load(path)
    except task.TaskError as error:
        return _failure(path, error)
    try:
        parameters = inspect.signature(found).parameters.values()
    except (TypeError, ValueError):  # some built-ins tell nothing about themselves
        return {"parameters": None}
    return {"parameters": [[each.name, int(each.kind), each.default is not each.empty] for each in parameters]}


def exception(path: str) -> dict[str, Any]:
    """Nothing where the name is an exception; or as `_failure`."""
    try:
        found = task.load(path)
    except task.TaskError as error:
        return _failure(path, error)
    if isinstance(found, type) and issubclass(found, BaseException):
        return {}
    return {"reason": "not-an-exception", "message": f"{path} is no exception", "near": []}


def _failure(path: str, error: task.TaskError) -> dict[str, Any]:
    """`reason`, `message`, `detail` and `near`, the paths that may have been meant."""
    cause = error.__cause__
    if cause is not None or isinstance(error, task.EnqueuedError):
        detail = _own_frames(cause) if cause is not None else ""
        return {"reason": "broken-module", "message": str(error), "detail": detail, "near": []}
    if error.code == "IMPORT_ERROR":
        return {"reason": "missing-module", "message": str(error), "near": _near_module(path)}
    found, parts, at = _walk(path)
    if at == len(parts):
        return {"reason": "not-callable", "message": str(error), "near": []}
    return {
        "reason": "missing-attribute",
        "message": str(error),
        "near": _near(parts, at, [*dir(found), *_modules_of(found)]),
    }


def _walk(path: str) -> tuple[Any, list[str], int]:
    """The last thing along the path that is there, the path's parts, and how many of them lead to it."""
    parts = path.split(".")
    at = next(cut for cut in range(len(parts) - 1, 0, -1) if ".".join(parts[:cut]) in sys.modules)
    found = sys.modules[".".join(parts[:at])]
    while at < len(parts) and hasattr(found, parts[at]):
        found, at = getattr(found, parts[at]), at + 1
    return found, parts, at


def _near_module(path: str) -> list[str]:
    parts = path.split(".")
    heads = (cut for cut in range(len(parts) - 1, 0, -1) if ".".join(parts[:cut]) in sys.modules)
    at = next(heads, 0)
    if at:
        return _near(parts, at, _modules_of(sys.modules[".".join(parts[:at])]))
    return _near(parts, at, [*(each.name for each in pkgutil.iter_modules()), *sys.builtin_module_names])


def _modules_of(package: Any) -> list[str]:
    """The modules of a package, loaded or not; none where it is no package."""
    return [each.name for each in pkgutil.iter_modules(getattr(package, "__path__", ()))]


def _near(parts: list[str], at: int, names: list[str]) -> list[str]:
    """The path with its wrong part replaced by each name that resembles it."""
    private = parts[at].startswith("_")
    close = difflib.get_close_matches(parts[at], [name for name in names if name.startswith("_") <= private], MAX_NEAR)
    return [".".join([*parts[:at], name, *parts[at + 1 :]]) for name in close]


def _own_frames(error: BaseException) -> str:
    """The traceback without the frames of the import system and of this package, in all of its chain."""
    try:
        return _chain_of_own_frames(error)[-MAX_TRACEBACK:].rstrip()
    except BaseException:  # noqa: BLE001 - whatever an exception of the user's raises while it is formatted
        return errortext.trace(error, errortext.frames(error))[-MAX_TRACEBACK:].rstrip()


def _chain_of_own_frames(error: BaseException) -> str:
    told = traceback.TracebackException.from_exception(error)
    chain: list[Any] = [told]
    while chain:
        each = chain.pop()
        own = [frame for frame in each.stack if not _is_machinery(frame.filename)]
        each.stack = traceback.StackSummary.from_list(own)
        chain += [other for other in (each.__cause__, each.__context__) if other is not None]
    return "".join(told.format())


def _is_machinery(filename: str) -> bool:
    return filename in (__file__, task.__file__) or "importlib" in filename


def _say(sock: socket.socket, **message: Any) -> None:
    sock.send(json.dumps(message).encode())
