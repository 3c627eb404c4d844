"""The extras of the package: which modules each needs, and which of them are not installed. Imports none of them."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import Final

#: extra → the modules without which what it is for cannot run
EXTRAS: Final[Mapping[str, tuple[str, ...]]] = {
    "web": ("starlette", "uvicorn", "jinja2"),
    "elasticsearch": ("elasticsearch",),
    "top": ("textual", "rich"),
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
