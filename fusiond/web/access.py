"""
Who may use the dashboard: the tokens, the session that follows one, and the names by which browsers may reach it.

1. token     the file names one, or the daemon makes one in its state directory: it logs in, and may all. Further ones
             of the file have a role each
2. session   a cookie that an HMAC under the token protects: a new token ends all sessions. Only those are stored whose
             users have logged out
3. names     a Host that is none of ours is refused: otherwise a page of another site could point its own name at this
             address and read what is here
"""

from __future__ import annotations

import hmac
import ipaddress
import logging
import secrets
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from fusiond.config.model.web_face import Web
from fusiond.errors import FusionError
from fusiond.files import read_secret, write_atomically
from fusiond.web.rights import User, granted

if TYPE_CHECKING:
    from starlette.datastructures import Headers

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
#: characters
SHORTEST_TOKEN, LONGEST_TOKEN = 16, 512
#: seconds that a session lasts
SESSION = 7 * 86_400
log = logging.getLogger(__name__)


def read_tokens(settings: Web, made: Path) -> dict[str, str]:
    """Name → token; the one that logs in has no name. Raises FusionError if one cannot be used, or two are the same."""
    if settings.token_file is None and not made.exists():
        try:
            write_atomically(made, f"{secrets.token_urlsafe(32)}\n".encode())
        except OSError as error:
            raise FusionError(f"{made}: the dashboard's token cannot be written: {error}") from error
    files = {"": settings.token_file or made} | {name: token.token_file for name, token in settings.tokens.items()}
    found: dict[str, str] = {}
    for name, path in files.items():
        token = _read_token(path)
        if token in found.values():
            raise FusionError(f"{path}: another token of `web` is the same; write another one into the file of {name}")
        found[name] = token
    return found


def _read_token(path: str | Path) -> str:
    """Raises FusionError if the file cannot be read, or is too short to be a token."""
    try:
        token = read_secret(path)
    except OSError as error:
        raise FusionError(f"{path}: the dashboard's token cannot be read: {error.strerror}") from error
    if not SHORTEST_TOKEN <= len(token) <= LONGEST_TOKEN or not token.isascii():
        sentence = f"a token has {SHORTEST_TOKEN} to {LONGEST_TOKEN} characters of ASCII; this has {len(token)}"
        raise FusionError(f"{path}: {sentence}{'' if token.isascii() else ', and others'}")
    return token


class Access:
    """The checks of one configuration. Raises FusionError if it names an address that is none."""

    def __init__(self, settings: Web, tokens: Mapping[str, str]) -> None:
        self.settings, self._tokens, self.token = settings, tokens, tokens[""]
        self._names = {"localhost", socket.gethostname().lower(), socket.getfqdn().lower()}
        self._names |= {name.lower() for name in settings.hosts}
        self._names.add(settings.listen.rpartition(":")[0].lower())
        try:
            self._proxies = [ipaddress.ip_network(each, strict=False) for each in settings.trusted_proxies]
        except ValueError as error:
            raise FusionError(f"web.trusted_proxies: {error}; write such as 10.0.0.5 or fd00::/64") from error

    def holder_of(self, said: str) -> str | None:
        """The name of this token; None: it is none. The time that it takes does not tell how much of it is right."""
        given = said.encode(errors="replace")
        found = [name for name, token in self._tokens.items() if hmac.compare_digest(given, token.encode())]
        return found[0] if found else None

    def user_of_token(self, said: str, address: str) -> User | None:
        """Who sends this token; None: it is none."""
        name = self.holder_of(said)
        if not name:
            return User("the token", address, by_token=True) if name is not None else None
        role = self.settings.tokens[name].role
        grants = granted([self.settings.roles[role]] if role in self.settings.roles else [])
        return User(f"token {name}", address, True, (role,), grants)

    def user_of_proxy(self, headers: Headers, address: str) -> User | None:
        """Whom the proxy names, with the roles of the groups that it names; None: nobody."""
        settings = self.settings
        name = headers.get(settings.user_header) if settings.user_header else None
        if not name or not settings.roles:
            return User(name[:100], address) if name else None
        said = ",".join(headers.getlist(settings.group_header)) if settings.group_header else ""
        groups = {group.strip() for group in said.split(",")}
        roles = {key: role for key, role in settings.roles.items() if groups & {*role.groups}}
        return User(name[:100], address, False, tuple(roles), granted(roles.values()))

    def new_session(self, now: float | None = None) -> str:
        """The value of a cookie."""
        said = f"{int((time.time() if now is None else now) + SESSION)}.{secrets.token_hex(8)}"
        return f"{said}.{self._seal(said)}"

    def is_session(self, cookie: str, now: float | None = None) -> bool:
        """Whether `new_session` has made it, and it holds still."""
        said, _, seal = cookie.rpartition(".")
        sealed = hmac.compare_digest(seal.encode(errors="replace"), self._seal(said).encode())
        return sealed and _end_of(said) > (time.time() if now is None else now)

    def _seal(self, said: str) -> str:
        return hmac.digest(self.token.encode(), f"fusiond session {said}".encode(errors="replace"), "sha256").hex()

    def address_of(self, peer: str, headers: Headers) -> str:
        """
        For the log: who has made a request.

        Who connects to a socket, and a proxy that the file names, say so themselves. `peer`: an address, or `uid N`.
        """
        said = headers.get("x-forwarded-for", "").rpartition(",")[2].strip()
        believed = not _is_address(peer) or self.is_trusted_proxy(ipaddress.ip_address(peer))
        return said if believed and _is_address(said) else peer

    def is_trusted_proxy(self, address: Address) -> bool:
        """Whether this is the address of a proxy that the file names."""
        return any(address in network for network in self._proxies)

    def knows_host(self, host: str) -> bool:
        """
        Whether a request may be for this Host.

        An address is harmless: to point a name of another site at this server takes a name.
        """
        name = _without_port(host.strip().lower())
        return name in self._names or _is_address(name)


class EndedSessions:
    """The sessions whose users have logged out before they were over, without their seals; a restart keeps them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._ended = {*path.read_text(errors="replace").split()} if path.exists() else set()

    def __contains__(self, cookie: str) -> bool:
        return cookie.rpartition(".")[0] in self._ended

    def add(self, cookie: str) -> None:
        """End a session."""
        self._ended = {each for each in self._ended if _end_of(each) > time.time()} | {cookie.rpartition(".")[0]}
        try:
            write_atomically(self._path, "\n".join(self._ended).encode())
        except OSError as error:
            log.warning("%s: %s; a session whose user has logged out holds again after a restart", self._path, error)


def _end_of(said: str) -> int:
    until = said.partition(".")[0]
    return int(until) if until.isdecimal() and until.isascii() and len(until) < 20 else 0


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0]


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


def is_same_origin(origin: str, host: str) -> bool:
    """Whether a request comes from a page that this server has sent. `origin`: empty where the browser named none."""
    scheme, _, rest = origin.partition("://")
    return scheme in ("http", "https") and rest.lower() == host.strip().lower()
