"""
What redis-py is told where it finds servers: its clients of Sentinels, and its map of a Cluster. Jobs do not use
redis-py's connections.
"""

from __future__ import annotations

from typing import Any

from redis.credentials import CredentialProvider
from redis.exceptions import AuthenticationError, ResponseError
from redis.exceptions import TimeoutError as TimedOut

from fusiond.broker.redis import tls
from fusiond.broker.redis.address import Address
from fusiond.broker.redis.redis_errors import ReplyError
from fusiond.broker.redis.sessions import KEEPALIVE


def options(where: Address, seconds: float) -> dict[str, Any]:
    """The options of a client that is let in as at `where`; `seconds`: to connect, and for each reply."""
    told: dict[str, Any] = {
        "protocol": 2,
        # redis-py would look for its own version among the installed packages, 16 ms and 1.5 MB, to tell the server.
        "driver_info": None,
        "socket_connect_timeout": seconds,
        "socket_timeout": seconds,
        "socket_keepalive": True,
        "socket_keepalive_options": KEEPALIVE,
        "ssl": where.encryption is not None,
    }
    if where.has_login:
        told["credential_provider"] = _Login(where)
    if encryption := where.encryption:
        files = encryption.files
        told |= {
            "ssl_ca_certs": files.ca_file,
            "ssl_certfile": files.cert_file,
            "ssl_keyfile": files.key_file,
            # Without one OpenSSL asks the terminal for the password of an encrypted key, and waits.
            "ssl_password": "",
            "ssl_cert_reqs": "required" if encryption.check_certificate else "none",
            "ssl_check_hostname": encryption.check_certificate and encryption.check_hostname,
        }
    return told


class _Login(CredentialProvider):
    """Reads a password file at each connection."""

    def __init__(self, where: Address) -> None:
        self._where = where

    def get_credentials(self) -> tuple[str] | tuple[str, str]:
        return self._where.login()

    async def get_credentials_async(self) -> tuple[str] | tuple[str, str]:
        return self.get_credentials()


def check_files(where: Address) -> None:
    """Raise BrokerUnavailable, with the name of the file, if a file for TLS cannot be used."""
    if where.encryption:
        tls.check(where.encryption.files)


def as_ours(error: Exception) -> Exception:
    """The exception that sessions.py would have raised in place of redis-py's."""
    if isinstance(error, (AuthenticationError, ResponseError)):
        # redis-py has taken off the first word.
        return ReplyError(f"{error.status_code} {error}" if error.status_code else str(error))
    cause = error.__cause__ or error.__context__
    if isinstance(cause, OSError):
        return cause
    return TimeoutError() if isinstance(error, TimedOut) else ConnectionError(str(error))
