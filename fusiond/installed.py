"""
What is installed: the modules that each extra of the package needs, and the files that ship beside its code.

A wheel has `schemas` and `systemd` inside the package, a checkout beside it. No module of an extra is imported here.
Standard library only.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

#: extra → the modules without which what it is for cannot run
EXTRAS: Final[Mapping[str, tuple[str, ...]]] = {
    "web": ("starlette", "uvicorn", "jinja2"),
    "elasticsearch": ("elasticsearch",),
    "top": ("textual", "rich"),
    "outbox": ("sqlalchemy", "psycopg"),
    "otlp": ("google.protobuf", "opentelemetry.proto"),
}


def not_installed(extra: str) -> list[str]:
    """The modules of an extra that this interpreter does not find."""
    return [name for name in EXTRAS.get(extra, ()) if not _is_found(name)]


def _is_found(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # not even the package in which it would be
        return False


def shipped(path: str) -> Traversable:
    """
    The file of this path, such as `schemas/fusion.schema.json`.

    Raises:
        FileNotFoundError: the installation is incomplete.
    """
    for root in (files("fusiond"), Path(__file__).parent.parent):
        if (found := root.joinpath(*path.split("/"))).is_file():
            return found
    raise FileNotFoundError(f"{path} is missing from the installation of fusiond; install it again")
