"""
Who is meant: a daemon's identity, whatever its host is called, a random id in its state directory; a user's name.

Standard library only.
"""

from __future__ import annotations

import fcntl
import os
import pwd
import re
from pathlib import Path

from fusiond.errors import ConfigError
from fusiond.files import write_atomically
from fusiond.job import new_token

_ID = re.compile(r"[0-9A-Za-z_:]{22}")


def daemon_id(state: Path) -> str:
    """The id of the daemon of this state directory; the first call makes it. Raises ConfigError."""
    path = state / "daemon-id"
    try:
        directory = os.open(state, os.O_RDONLY | os.O_DIRECTORY)
        try:
            # Programs that ask at the same time get one id.
            fcntl.flock(directory, fcntl.LOCK_EX)
            found = path.read_text(errors="replace").strip() if path.exists() else ""
            if not _ID.fullmatch(found):  # a full disk may have cut it short
                found = new_token()
                write_atomically(path, f"{found}\n".encode(), durable=False)
        finally:
            os.close(directory)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}; the daemon must be able to read and write {state}") from error
    return found


def user_name(uid: int) -> str:
    """The name of a user; its number, if it has none here."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
