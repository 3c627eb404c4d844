"""
From the file's `broker:`, or a producer's URL, to where Redis is: one server, a Sentinel's service, a Cluster.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fusiond.broker.redis.redis_errors import EMBEDDED
from fusiond.broker.redis.tls import Encryption
from fusiond.config.endpoints import BadUrl, endpoints
from fusiond.config.model import Broker
from fusiond.errors import BrokerUnavailable
from fusiond.files import read_secret
from fusiond.paths import redis_socket

#: of one server: host and port; or the path of its unix socket
Place = tuple[str, int] | str


@dataclass(frozen=True, slots=True)
class Address:
    """Where a Redis is, and how to be let in."""

    #: for people: the URL without its password
    shown: str
    #: of the server; or of the Sentinels, or of some nodes of a Cluster, each with host and port
    places: tuple[Place, ...]
    #: seconds that a connection may take to come about, and then each reply
    timeout: float
    #: what the Sentinels call the primary; "" without Sentinels
    service: str
    #: whether the places are nodes of a Cluster
    cluster: bool
    #: "" where there is none
    user: str
    password: str
    #: has the password; read at each connection, so that it can be changed under a running daemon
    password_file: str | None
    database: int
    #: None: connections are not encrypted
    encryption: Encryption | None

    @property
    def has_login(self) -> bool:
        """Whether there is a user or a password."""
        return bool(self.user or self.password or self.password_file)

    def login(self) -> tuple[str] | tuple[str, str]:
        """User and password, or the password alone. Raises BrokerUnavailable if its file cannot be read."""
        password = self.password
        if self.password_file:
            try:
                password = read_secret(self.password_file)
            except OSError as error:
                raise BrokerUnavailable(f"broker.password_file: {self.password_file}: {error.strerror}") from None
        return (self.user, password) if self.user else (password,)


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
    embedded = settings.url == "embedded"
    url = f"unix://{redis_socket(runtime)}" if embedded else settings.url
    try:
        parts = endpoints(url)
    except BadUrl as error:
        without_query = shown(url).partition("?")[0]
        raise BrokerUnavailable(f"broker.url: {without_query} cannot be read: {error}; {error.remedy}") from None
    encryption = Encryption(settings.tls, parts.check_certificate, parts.check_hostname)
    return Address(
        shown=shown(url) + (EMBEDDED if embedded else ""),
        places=parts.hosts or (parts.path,),
        timeout=timeout,
        service=parts.service,
        cluster=parts.cluster,
        user=parts.user,
        password=parts.password,
        password_file=settings.password_file,
        database=parts.database,
        encryption=encryption if parts.tls else None,
    )


def shown(url: str) -> str:
    """The URL without its password, even if the password has characters that should have been escaped."""
    head, separator, rest = url.partition("://")
    scheme, rest = (head, rest) if separator else ("", url)
    if rest.startswith("/"):
        return url  # a path, in which anything may stand
    login, at, place = rest.partition("@/") if scheme == "unix" else rest.rpartition("@")
    user, colon, _ = login.partition(":")
    return f"{scheme}{separator}{user}:***{at}{place}" if at and colon else url
