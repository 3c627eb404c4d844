"""
Who a daemon is, whatever its host is called: a random id in its state directory.

Standard library only.
"""

from __future__ import annotations

import fcntl
import os
import re
from typing import TYPE_CHECKING

from fusiond.errors import ConfigError
from fusiond.job import new_token

if TYPE_CHECKING:
    from pathlib import Path

_NAME = "daemon-id"
_ID = re.compile(r"[0-9A-Za-z_:]{22}")


def daemon_id(state: Path) -> str:
    """The id of the daemon of this state directory; the first call makes it. Raises ConfigError."""
    path = state / _NAME
    try:
        return _read(path) or _create(path)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}; make {state} readable and writable to the daemon") from error


def _read(path: Path) -> str:
    """The id in the file; empty where there is none."""
    try:
        text = path.read_text(errors="replace").strip()
    except FileNotFoundError:
        return ""
    return text if _ID.fullmatch(text) else ""


def _create(path: Path) -> str:
    """A new id where there is none, or where a full disk has cut it short; programs that ask at once agree on one."""
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(directory, fcntl.LOCK_EX)
        found = _read(path)
        if not found:
            found = new_token()
            fresh = path.with_name(f"{_NAME}.new")
            fresh.write_text(f"{found}\n")
            fresh.replace(path)
        return found
    finally:
        os.close(directory)
