"""
Load a Python file into each process of the daemon, for proofs: FUSIOND_HOOK=/absolute/path.py.

1. run      each program of the daemon calls the file's `hook(process, name, find)`. The programs are forked from the
            supervisor: what the hook has replaced there is replaced in them as well
2. handed   a fork server gets the source of the file over its descriptor, and runs the file's `main` instead of its own

Only the daemon's own environment sets the variable, not the YAML file and not the environment of a worker group.

Standard library only: the program of the embedded Redis runs without the package.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import cache
from importlib import util
from typing import Any

VARIABLE = "FUSIOND_HOOK"


def path() -> str | None:
    """The file that the variable names; None if it is not set. Raises ValueError if the path is not absolute."""
    value = os.environ.get(VARIABLE)
    if value and not value.startswith("/"):
        raise ValueError(f"{VARIABLE}: {value!r} is not an absolute path")
    return value or None


def run(process: str, name: str = "", find: Callable[[str], Any] | None = None) -> None:
    """
    Call the file's `hook` in this process, if the variable is set.

    Args:
        process: its kind: supervisor, redis, scheduler, dispatcher, sink or outbox.
        name: the worker group of a dispatcher, of a sink or an outbox its own.
        find: a module's name within the package → the module; by default, it must be loaded.

    Raises:
        OSError: the file cannot be read.
        ValueError: the path is not absolute, or the file's own settings are wrong.
    """
    file = path()
    if file:
        _load(file).hook(process, name, find or _loaded)


def handed() -> Any:
    """The result of the file's `handed()`: a fork server passes it to the file's `main`, as JSON. Raises as `run`."""
    file = path()
    return _load(file).handed() if file else None


@cache
def _load(file: str) -> Any:
    spec = util.spec_from_file_location("fusiond_hook", file)
    if spec is None or spec.loader is None:
        raise ValueError(f"{VARIABLE}: {file} is not a Python file")
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _loaded(module: str) -> Any:
    return sys.modules[f"{__package__}.{module}"]
