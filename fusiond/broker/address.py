"""
Where one Redis is, and how to be let in.

Only the connection classes of redis-py are used, and only to connect: they know TCP, TLS, unix sockets and log-in. Its
clients, with their pools and retries, are not: a command is sent once, and whether to repeat it is the caller's to say.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import redis.asyncio.connection
import redis.connection

from fusiond.broker import tls_files
from fusiond.broker.wire import LOST, AsyncWire, Lead, Wire


@dataclass(frozen=True, slots=True)
class Address:
    """One server."""

    #: for people: the URL without its password
    shown: str
    url: str
    #: what redis-py's connections take beside
    options: dict[str, Any]

    def close(self) -> None:
        """End what is kept beside the connections: nothing."""

    def has_moved(self, _lead: Lead) -> bool:
        """Whether another server is to be asked now; no other ever is."""
        return False

    async def has_moved_async(self, _lead: Lead) -> bool:
        """The same."""
        return False

    def open(self, seconds: float) -> Wire:
        """A connection for threads. `seconds`: to wait for a reply. Raises RedisError, OSError or BrokerUnavailable."""
        options = parse(self.url) | self.options
        kind = options.pop("connection_class", redis.connection.Connection)
        made = kind(**_without_tcp(kind, options), socket_timeout=seconds)
        try:
            made.connect()
        except (*LOST, TypeError):  # a key_file without a cert_file is a TypeError of Python's
            tls_files.check(self.options)
            raise
        return Wire(made, seconds)

    async def open_async(self, seconds: float) -> AsyncWire:
        """A connection for asyncio, made within so many seconds. Raises as `open`."""
        options: dict[str, Any] = {**redis.asyncio.connection.parse_url(self.url), **self.options}
        kind = options.pop("connection_class", redis.asyncio.connection.Connection)
        made = kind(**_without_tcp(kind, options), socket_timeout=None)
        try:
            async with asyncio.timeout(seconds):
                await made.connect()
        except BaseException as error:
            await made.disconnect(nowait=True)
            if isinstance(error, (*LOST, TypeError)):
                tls_files.check(self.options)
            raise
        return AsyncWire(made)


def parse(url: str) -> dict[str, Any]:
    """What redis-py makes of a URL. Raises ValueError."""
    return redis.connection.parse_url(url)  # type: ignore[no-untyped-call, no-any-return]


def _without_tcp(kind: type, options: dict[str, Any]) -> dict[str, Any]:
    if "UnixDomainSocket" not in kind.__name__:
        return options
    return {name: value for name, value in options.items() if not name.startswith("socket_keepalive")}
