"""
From the file's `broker:`, or a producer's URL, to addresses: of one server, of a Sentinel's primary, of a Cluster.
"""

from __future__ import annotations

import dataclasses
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from redis.credentials import CredentialProvider

from fusiond.broker.address import Address, parse
from fusiond.broker.sentinel import PATIENCE, PRIMARY_PATIENCE, Sentinel, SentinelAddress
from fusiond.broker.slots import ClusterAddress
from fusiond.config.endpoints import Endpoints, bracketed, endpoints
from fusiond.errors import BrokerUnavailable
from fusiond.paths import redis_socket

if TYPE_CHECKING:
    from fusiond.config.model import Broker

#: seconds that a connection may take to come about
CONNECT_TIMEOUT = 5.0
# A peer that vanished without a word is noticed after 15 + 3 * 5 seconds.
_KEEPALIVE = {socket.TCP_KEEPIDLE: 15, socket.TCP_KEEPINTVL: 5, socket.TCP_KEEPCNT: 3}


def address(
    settings: Broker, runtime: Path, timeout: float = CONNECT_TIMEOUT
) -> Address | SentinelAddress | ClusterAddress:
    """
    What `broker:` means.

    Args:
        settings: the file's `broker:`.
        runtime: the daemon's runtime directory, which holds the socket of `url: embedded`.
        timeout: seconds that a connection may take to come about.

    Raises:
        BrokerUnavailable: the URL is none that can be read.
    """
    url = f"unix://{redis_socket(runtime)}" if settings.url == "embedded" else settings.url
    try:
        return _address(settings, url, timeout)
    except ValueError as error:
        raise BrokerUnavailable(f"broker.url: {shown(url)} cannot be read: {error}") from None


def _address(settings: Broker, url: str, timeout: float) -> Address | SentinelAddress | ClusterAddress:
    scheme = url.partition("://")[0]
    options = _options(settings, url, timeout, tls=scheme.startswith("rediss"))
    if settings.password_file:
        url = _without_user(url)
    kind = scheme.partition("+")[2]
    if kind == "sentinel":
        return _sentinels(shown(url), endpoints(url), options)
    if kind == "cluster":
        return _cluster(shown(url), endpoints(url), options)
    parse(url)
    ours = " (fusiond run starts it)" if settings.url == "embedded" else ""
    return Address(shown(url) + ours, url, options)


def _options(settings: Broker, url: str, timeout: float, *, tls: bool) -> dict[str, Any]:
    options: dict[str, Any] = {
        "protocol": 2,
        "socket_connect_timeout": timeout,
        "socket_keepalive": True,
        "socket_keepalive_options": _KEEPALIVE,
    }
    if settings.password_file:
        user = urlsplit(url).username
        options["credential_provider"] = _PasswordFile(Path(settings.password_file), user and unquote(user))
    if tls:
        files = settings.tls
        options |= {"ssl_ca_certs": files.ca_file, "ssl_certfile": files.cert_file, "ssl_keyfile": files.key_file}
        # Without one OpenSSL asks the terminal for the password of an encrypted key, and waits.
        options["ssl_password"] = ""
    return options


def _sentinels(name: str, parts: Endpoints, options: dict[str, Any]) -> SentinelAddress:
    """A Sentinel has no databases; with its user and password, or without them if it has none."""
    asked = dataclasses.replace(parts, database="")
    anonymous = dataclasses.replace(asked, login="")
    quick = options | {"socket_connect_timeout": PATIENCE}
    nameless = {key: value for key, value in quick.items() if key != "credential_provider"}
    sentinels = [Sentinel(_server(asked, quick, *host), _server(anonymous, nameless, *host)) for host in parts.hosts]
    parse(parts.url(*parts.hosts[0]))
    patient = options | {"socket_connect_timeout": PRIMARY_PATIENCE}
    return SentinelAddress(name, parts.service, sentinels, lambda host, port: _server(parts, patient, host, port))


def _cluster(name: str, parts: Endpoints, options: dict[str, Any]) -> ClusterAddress:
    parts = dataclasses.replace(parts, database="")
    parse(parts.url(*parts.hosts[0]))
    return ClusterAddress(name, parts.hosts, lambda host, port: _server(parts, options, host, port))


def _server(parts: Endpoints, options: dict[str, Any], host: str, port: int) -> Address:
    return Address(f"{bracketed(host)}:{port}", parts.url(host, port), options)


def shown(url: str) -> str:
    """The URL without its password."""
    parts = urlsplit(url)
    if parts.password is None:
        return url
    return _with_netloc(url, f"{parts.username or ''}:***@{parts.netloc.rpartition('@')[2]}")


def _without_user(url: str) -> str:
    return _with_netloc(url, urlsplit(url).netloc.rpartition("@")[2])


def _with_netloc(url: str, netloc: str) -> str:
    # not urlunsplit: it writes unix:/path where there is no netloc, which redis-py does not read
    return url.replace(f"//{urlsplit(url).netloc}", f"//{netloc}", 1)


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
