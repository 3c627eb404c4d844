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

import difflib
import faulthandler
import importlib
import inspect
import itertools
import json
import os
import pkgutil
import re
import sys

from . import errortext, refusals, startup, task

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket
    from typing import Any, Callable

#: characters of a traceback that are sent, its end; a packet has its limit
MAX_TRACEBACK = 8000
#: names that may have been meant
MAX_NEAR = 5
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
                found = examine(task.load(path), path)
            except task.TaskError as error:
                found = _failure(path, error)
            faulthandler.cancel_dump_traceback_later()
            _say(sock, {"tried": path, **found})
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(0)


def function(found: Any, _path: str) -> dict[str, Any]:
    """`parameters` as [name, kind, whether it has a default]; None if the callable does not tell them."""
    try:
        parameters = inspect.signature(found).parameters.values()
    except (TypeError, ValueError):  # some built-ins have no signature
        return {"parameters": None}
    return {"parameters": [[each.name, int(each.kind), each.default is not each.empty] for each in parameters]}


def exception(found: Any, path: str) -> dict[str, Any]:
    """Nothing if this is an exception class; otherwise the failure."""
    if isinstance(found, type) and issubclass(found, BaseException):
        return {}
    return {"reason": "not-an-exception", "message": f"{path} is no exception", "near": []}


def _failure(path: str, error: task.TaskError) -> dict[str, Any]:
    """`reason`, `message`, `detail` and `near`, the paths that may have been meant."""
    reason, detail, cause = "broken-module", "", error.__cause__
    near: list[str] = []
    if cause is not None:
        trace = errortext.trace(cause, errortext.frames(cause), _MACHINERY)
        detail = trace[-MAX_TRACEBACK:].rstrip()
    elif not isinstance(error, task.EnqueuedError):
        reason, near = _wrong_part(path, is_module=error.code == "IMPORT_ERROR")
    return {"reason": reason, "message": str(error), "detail": detail, "near": near}


def _wrong_part(path: str, *, is_module: bool) -> tuple[str, list[str]]:
    """What is wrong with a path whose modules raise nothing, and the paths that may have been meant."""
    parts = path.split(".")
    at = next((cut for cut in range(len(parts) - 1, 0, -1) if ".".join(parts[:cut]) in sys.modules), 0)
    if at == 0:
        # The first one on sys.path of a name is the one that is imported.
        modules = {each.name: each for each in reversed([*pkgutil.iter_modules()])}

        def leads_on(name: str) -> bool:
            return _is_written_in(modules[name], parts[1:]) if name in modules else _is_built_in(name, parts[1:])

        return "missing-module", _near(parts, at, [*modules, *sys.builtin_module_names], leads_on)
    found: Any = sys.modules[".".join(parts[:at])]
    if is_module:
        return "missing-module", _near(parts, at, _modules_of(found))
    while at < len(parts) and hasattr(found, parts[at]):
        found, at = getattr(found, parts[at]), at + 1
    if at == len(parts):
        return "not-callable", []
    return "missing-attribute", _near(parts, at, [*dir(found), *_modules_of(found)])


def _modules_of(package: Any) -> list[str]:
    """The modules of a package, loaded or not; none if it is no package."""
    return [each.name for each in pkgutil.iter_modules(getattr(package, "__path__", ()))]


def _is_written_in(module: pkgutil.ModuleInfo, names: list[str]) -> bool:
    """Whether the source of a module, or of the module below it that is named first, has the name. Imports nothing."""
    find: Any = getattr(module.module_finder, "find_spec", None)  # in 3.9 that of a zip has none
    spec = find(module.name) if find else None
    if spec is None or not names:
        return False
    for below in pkgutil.iter_modules(spec.submodule_search_locations or ()):
        if below.name == names[0]:
            return len(names) == 1 or _is_written_in(below, names[1:])
    try:
        source = spec.loader.get_source(module.name) or ""
    except (AttributeError, ImportError, OSError, SyntaxError):  # no source, or none that can be read
        return False
    return re.search(rf"\b{re.escape(names[0])}\b", source) is not None


def _is_built_in(name: str, names: list[str]) -> bool:
    return bool(names) and hasattr(importlib.import_module(name), names[0])


def _near(parts: list[str], at: int, names: list[str], leads_on: Callable[[str], bool] = lambda _: True) -> list[str]:
    """The path with its wrong part replaced by each name that resembles it and leads on."""
    private = parts[at].startswith("_")
    allowed = [name for name in names if name.startswith("_") <= private]
    close = filter(leads_on, difflib.get_close_matches(parts[at], allowed, len(allowed) or 1))
    return [".".join([*parts[:at], name, *parts[at + 1 :]]) for name in itertools.islice(close, MAX_NEAR)]


def _say(sock: _socket.socket, message: dict[str, Any]) -> None:
    sock.send(json.dumps(message).encode())
