"""
From the file's `broker:`, or a producer's URL, to what redis-py is given: one server, a Sentinel's service, a Cluster.
"""

from __future__ import annotations

import dataclasses
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from redis.connection import parse_url
from redis.credentials import CredentialProvider

from fusiond.broker.redis.redis_errors import EMBEDDED
from fusiond.config.endpoints import Endpoints, endpoints
from fusiond.config.model import Broker
from fusiond.errors import BrokerUnavailable
from fusiond.paths import redis_socket

# A peer that vanished without a word is noticed after 15 + 3 * 5 seconds.
_KEEPALIVE = {socket.TCP_KEEPIDLE: 15, socket.TCP_KEEPINTVL: 5, socket.TCP_KEEPCNT: 3}


@dataclass(frozen=True, slots=True)
class Address:
    """Where a Redis is, and how to be let in."""

    #: for people: the URL without its password
    shown: str
    #: of one server; "" where the hosts below lead to it
    url: str
    #: what redis-py's connections to the servers of jobs take; beside the URL, where there is one
    options: dict[str, Any]
    #: of the Sentinels, or of some nodes of a Cluster: host and port
    hosts: tuple[tuple[str, int], ...] = ()
    #: what the Sentinels call the primary; "" of a Cluster
    service: str = ""


def address(settings: Broker, runtime: Path, timeout: float) -> Address:
    """
    What `broker:` means.

    Args:
        settings: the file's `broker:`.
        runtime: the daemon's runtime directory, which holds the socket of `url: embedded`.
        timeout: seconds that a connection may take to come about, and then a reply.

    Raises:
        BrokerUnavailable: the URL cannot be read.
    """
    url = f"unix://{redis_socket(runtime)}" if settings.url == "embedded" else settings.url
    try:
        return _address(settings, url, timeout)
    except ValueError as error:
        raise BrokerUnavailable(f"broker.url: {shown(url)} cannot be read: {error}") from None


def _address(settings: Broker, url: str, timeout: float) -> Address:
    options = _options(settings, url, timeout)
    if settings.password_file:
        url = _without_user(url)
    if url.partition("://")[0].endswith(("+sentinel", "+cluster")):
        parts = endpoints(url)
        return Address(shown(url), "", _of_any_host(parts) | options, parts.hosts, parts.service)
    parse_url(url)
    if url.startswith("unix:"):
        options = {name: value for name, value in options.items() if not name.startswith("socket_keepalive")}
    return Address(shown(url) + (EMBEDDED if settings.url == "embedded" else ""), url, options)


def _options(settings: Broker, url: str, timeout: float) -> dict[str, Any]:
    options: dict[str, Any] = {
        "protocol": 2,
        # redis-py would look for its own version among the installed packages, 16 ms and 1.5 MB, to tell the server.
        "driver_info": None,
        "socket_connect_timeout": timeout,
        "socket_timeout": timeout,
        "socket_keepalive": True,
        "socket_keepalive_options": _KEEPALIVE,
    }
    if settings.password_file:
        user = urlsplit(url).username
        options["credential_provider"] = _PasswordFile(Path(settings.password_file), user and unquote(user))
    if url.startswith("rediss"):
        files = settings.tls
        options |= {"ssl_ca_certs": files.ca_file, "ssl_certfile": files.cert_file, "ssl_keyfile": files.key_file}
        # Without one OpenSSL asks the terminal for the password of an encrypted key, and waits.
        options["ssl_password"] = ""
    return options


def _of_any_host(parts: Endpoints) -> dict[str, Any]:
    """What the URL says of every server: user, password, database, TLS and the query's options."""
    if parts.scheme.endswith("cluster"):
        parts = dataclasses.replace(parts, database="")
    options: dict[str, Any] = parse_url(parts.url(*parts.hosts[0]))
    for name in ("host", "port", "connection_class"):
        options.pop(name, None)
    return options | {"ssl": parts.tls}


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
