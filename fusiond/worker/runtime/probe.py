"""
Load the tasks of a group as its fork server would, and tell what came of each: `fusiond validate --imports`.

1. say      which path is tried, so that whoever listens knows what hung or died
2. load     it; a module that is there is loaded once
3. tell     its parameters, or why it cannot be called, with the traceback of the user's own frames
4. resolve  the exceptions that the group's retry policies name

One JSON object a packet on the control socket: {"trying": PATH} and {"tried": PATH, …}.

Standard library only, CPython 3.9 and later: it runs under the application's own interpreter.
"""

from __future__ import annotations

import builtins
import faulthandler
import importlib
import inspect
import json
import os
import sys

from . import errortext, refusals, startup, task, task_errors, wrong_paths

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket
    from typing import Any

#: characters of a traceback that are sent, its end; a packet has its limit
MAX_TRACEBACK = 8000
#: where the frames are that are not the user's
_MACHINERY = (__file__, task.__file__, "<frozen importlib", os.path.dirname(importlib.__file__))


def main(control: int, setup: dict[str, Any]) -> None:
    """
    Try everything, then end at once: a thread that an import started must not keep the process.

    Args:
        control: descriptor of the control socket.
        setup: directory, umask, patience (s for one path), paths [dotted path], exceptions [name].
    """
    sock = startup.enter(control, setup, one_job=False)
    refusals.begin()
    for key, examine in (("paths", function), ("exceptions", exception)):
        for path in setup[key]:
            _say(sock, {"trying": path})
            # If the import hangs, the place is printed to standard error, which the daemon reads too.
            faulthandler.dump_traceback_later(setup["patience"])
            try:
                found = examine(path)
            except task_errors.TaskError as error:
                found = _failure(path, error)
            faulthandler.cancel_dump_traceback_later()
            _say(sock, {"tried": path, **found})
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(0)


def function(path: str) -> dict[str, Any]:
    """`parameters` as [name, kind, whether it has a default]; None if the callable does not tell them."""
    found = task.load_function(path)
    # A partial or a method counts as its function; an object is called by its class.
    for called in (found, getattr(type(found), "__call__", None)):  # noqa: B004
        if inspect.isgeneratorfunction(called) or inspect.isasyncgenfunction(called):
            message = f"{path} is a generator function: a call of it runs nothing"
            return {"reason": "not-callable", "message": message, "near": []}
    try:
        parameters = inspect.signature(found).parameters.values()
    except (TypeError, ValueError):  # some built-ins have no signature
        return {"parameters": None}
    return {"parameters": [[each.name, int(each.kind), each.default is not each.empty] for each in parameters]}


def exception(path: str) -> dict[str, Any]:
    """Nothing if this is an exception class; otherwise the failure. A bare name is a built-in's."""
    if "." not in path:
        return _namesakes(path)
    found = task.load(path)
    if isinstance(found, type) and issubclass(found, BaseException):
        return {}
    return {"reason": "not-an-exception", "message": f"{path} is not an exception", "near": []}


def _namesakes(name: str) -> dict[str, Any]:
    """Other exceptions of a built-in one's name in the packages that are loaded, such as `requests.ConnectionError`."""
    own = getattr(builtins, name, BaseException)
    found = [
        f"{package}.{name}"
        for package, module in sorted(sys.modules.items())
        if "." not in package and _is_namesake(getattr(module, "__dict__", {}).get(name), own)
    ]
    if not found:
        return {}
    message = f"{name} is Python's own exception, which {' and '.join(found)} does not belong to"
    return {"reason": "namesake", "message": message, "near": found}


def _is_namesake(found: Any, own: type[BaseException]) -> bool:
    return isinstance(found, type) and issubclass(found, BaseException) and not issubclass(found, own)


def _failure(path: str, error: task_errors.TaskError) -> dict[str, Any]:
    """`reason`, `message`, `detail` and `near`, the paths that may have been meant."""
    reason, detail, cause = "broken-module", "", error.__cause__
    near: list[str] = []
    if cause is not None:
        trace = errortext.trace(cause, errortext.frames(cause), _MACHINERY)
        detail = trace[-MAX_TRACEBACK:].rstrip()
    elif not error.is_of_module:
        reason, near = wrong_paths.wrong_part(path, error)
    return {"reason": reason, "message": str(error), "detail": detail, "near": near}


def _say(sock: _socket.socket, message: dict[str, Any]) -> None:
    sock.send(json.dumps(message).encode())
