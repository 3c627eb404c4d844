"""
What is wrong with a task's path whose modules raise nothing, and which path may have been meant.

1. find     the part of the path that is wrong: a module, or a name in it
2. compare  it with the modules and names that there are
3. keep     those that the rest of the path fits

Standard library only, CPython 3.9 and later: it runs under the application's own interpreter.
"""

from __future__ import annotations

import sys

# Other modules are imported by the functions: a fork server whose paths are right must not hold them for its children.

TYPE_CHECKING = False
if TYPE_CHECKING:
    import pkgutil
    from typing import Any, Callable

    from . import task_errors

#: paths that may have been meant
MAX_NEAR = 5


def remedy(path: str, error: task_errors.TaskError, directory: str) -> str:
    """What to do about a path that does not load: the path that may have been meant; "" if its module has failed."""
    if error.is_of_module or path.startswith("{"):  # that of a command has its remedy
        return ""
    try:
        reason, near = wrong_part(path, error)
    except Exception:  # noqa: BLE001 - the user's modules and finders may raise anything, and the other tasks go on
        return ""
    if near:
        return f"did you mean {near[0]!r}?"
    if reason != "missing-module":
        return ""
    return f"correct the path, or `directory`, which is {directory}, or `python`, which is {sys.executable}"


def wrong_part(path: str, error: task_errors.TaskError) -> tuple[str, list[str]]:
    """The code of the rule that the path breaks, and the paths that may have been meant, the nearest first."""
    import pkgutil

    parts = path.split(".")
    at = next((cut for cut in range(len(parts) - 1, 0, -1) if ".".join(parts[:cut]) in sys.modules), 0)
    if at == 0:
        # The first one on sys.path of a name is the one that is imported.
        modules = {each.name: each for each in reversed([*pkgutil.iter_modules()])}

        def leads_on(name: str) -> bool:
            return _is_written_in(modules[name], parts[1:]) if name in modules else _is_built_in(name, parts[1:])

        return "missing-module", _near(parts, at, [*modules, *sys.builtin_module_names], leads_on)
    found: Any = sys.modules[".".join(parts[:at])]
    if error.code == "IMPORT_ERROR":
        return "missing-module", _near(parts, at, _modules_of(found))
    while at < len(parts) and hasattr(found, parts[at]):
        found, at = getattr(found, parts[at]), at + 1
    if at == len(parts):
        return "not-callable", []
    return "missing-attribute", _near(parts, at, [*dir(found), *_modules_of(found)])


def _modules_of(package: Any) -> list[str]:
    """The modules of a package, loaded or not; none if it is not a package."""
    import pkgutil

    return [each.name for each in pkgutil.iter_modules(getattr(package, "__path__", ()))]


def _is_written_in(module: pkgutil.ModuleInfo, names: list[str]) -> bool:
    """Whether the source of a module, or of the module below it that is named first, has the name. Imports nothing."""
    import pkgutil
    import re

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
    import importlib

    return bool(names) and hasattr(importlib.import_module(name), names[0])


def _near(parts: list[str], at: int, names: list[str], leads_on: Callable[[str], bool] = lambda _: True) -> list[str]:
    """The path with its wrong part replaced by each name that resembles it and leads on."""
    import difflib
    import itertools

    private = parts[at].startswith("_")
    allowed = [name for name in names if name.startswith("_") <= private]
    close = filter(leads_on, difflib.get_close_matches(parts[at], allowed, len(allowed) or 1))
    return [".".join([*parts[:at], name, *parts[at + 1 :]]) for name in itertools.islice(close, MAX_NEAR)]
