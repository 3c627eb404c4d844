"""
From the file's `broker:` to a connection that is made.

Only the connection classes of redis-py are used, and only to connect: they know TCP, TLS, unix sockets and log-in. Its
clients, with their pools and retries, are not: a command is sent once, and whether to repeat it is the caller's to say.
"""

from __future__ import annotations

import asyncio
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import redis.asyncio.connection
import redis.connection
from redis.credentials import CredentialProvider

from fusiond import paths
from fusiond.broker.wire import AsyncWire, Wire
from fusiond.errors import BrokerUnavailable

if TYPE_CHECKING:
    from fusiond.config.model import Broker

#: seconds that a connection may take to come about
CONNECT_TIMEOUT = 5.0
# A peer that vanished without a word is noticed after 15 + 3 * 5 seconds.
_KEEPALIVE = {socket.TCP_KEEPIDLE: 15, socket.TCP_KEEPINTVL: 5, socket.TCP_KEEPCNT: 3}


@dataclass(frozen=True, slots=True)
class Address:
    """Where a Redis is and how to be let in."""

    #: for people: the URL without its password
    shown: str
    url: str
    options: dict[str, Any]

    def open(self, seconds: float) -> Wire:
        """A connection for threads. `seconds`: to wait for a reply. Raises RedisError, OSError or BrokerUnavailable."""
        options = _parse(self.url) | self.options
        kind = options.pop("connection_class", redis.connection.Connection)
        made = kind(**_without_tcp(kind, options), socket_timeout=seconds)
        made.connect()
        return Wire(made, seconds)

    async def open_async(self, seconds: float) -> AsyncWire:
        """A connection for asyncio, made within so many seconds. Raises as `open`."""
        options: dict[str, Any] = {**redis.asyncio.connection.parse_url(self.url), **self.options}
        kind = options.pop("connection_class", redis.asyncio.connection.Connection)
        made = kind(**_without_tcp(kind, options), socket_timeout=None)
        try:
            async with asyncio.timeout(seconds):
                await made.connect()
        except BaseException:
            await made.disconnect(nowait=True)
            raise
        return AsyncWire(made)


def address(settings: Broker, runtime: Path) -> Address:
    """
    What `broker:` means.

    Args:
        settings: the file's `broker:`.
        runtime: the daemon's runtime directory, which holds the socket of `url: embedded`.

    Raises:
        BrokerUnavailable: the URL is none that redis-py reads.
    """
    url = f"unix://{paths.redis_socket(runtime)}" if settings.url == "embedded" else settings.url
    options: dict[str, Any] = {
        "protocol": 2,
        "socket_connect_timeout": CONNECT_TIMEOUT,
        "socket_keepalive": True,
        "socket_keepalive_options": _KEEPALIVE,
    }
    if settings.password_file:
        options["credential_provider"] = _PasswordFile(Path(settings.password_file), urlsplit(url).username)
        url = _without_user(url)
    if url.startswith("rediss:"):
        tls = settings.tls
        options |= {"ssl_ca_certs": tls.ca_file, "ssl_certfile": tls.cert_file, "ssl_keyfile": tls.key_file}
    try:
        _parse(url)
    except ValueError as error:
        raise BrokerUnavailable(f"broker.url: {shown(url)} cannot be read: {error}") from None
    return Address(shown(url), url, options)


def shown(url: str) -> str:
    """The URL without its password."""
    parts = urlsplit(url)
    if parts.password is None:
        return url
    return _with_netloc(url, f"{parts.username or ''}:***@{parts.netloc.rpartition('@')[2]}")


def _parse(url: str) -> dict[str, Any]:
    return redis.connection.parse_url(url)  # type: ignore[no-untyped-call, no-any-return]


def _without_user(url: str) -> str:
    return _with_netloc(url, urlsplit(url).netloc.rpartition("@")[2])


def _with_netloc(url: str, netloc: str) -> str:
    # not urlunsplit: it writes unix:/path where there is no netloc, which redis-py does not read
    return url.replace(f"//{urlsplit(url).netloc}", f"//{netloc}", 1)


def _without_tcp(kind: type, options: dict[str, Any]) -> dict[str, Any]:
    if "UnixDomainSocket" not in kind.__name__:
        return options
    return {name: value for name, value in options.items() if not name.startswith("socket_keepalive")}


class _PasswordFile(CredentialProvider):
    """Reads the password at each connection, so that it can be changed under a running daemon."""

    def __init__(self, path: Path, user: str | None) -> None:
        self._path, self._user = path, user

    def get_credentials(self) -> tuple[str] | tuple[str, str]:
        try:
            password = self._path.read_text().rstrip("\n")
        except OSError as error:
            raise BrokerUnavailable(f"broker.password_file: {self._path}: {error.strerror}") from None
        return (self._user, password) if self._user else (password,)

    async def get_credentials_async(self) -> tuple[str] | tuple[str, str]:
        return self.get_credentials()
