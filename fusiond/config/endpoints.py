"""
The parts of a broker's URL.

    redis://host:6379/0   rediss://user:password@host:6379/0   unix:///path/redis.sock?db=1
    redis+sentinel://host:26379,host:26379/service/0      rediss+sentinel:// with TLS
    redis+cluster://host:6379,host:6379                   rediss+cluster:// with TLS

Each may also give the namespace, which is not an option of a connection: redis://host:6379/0?namespace=shop

Both the checks of the file and the broker use these functions.
"""

from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

#: scheme → the port where none is written
SCHEMES: Final = {
    "redis": 6379,
    "rediss": 6379,
    "unix": 0,
    "redis+sentinel": 26379,
    "rediss+sentinel": 26379,
    "redis+cluster": 6379,
    "rediss+cluster": 6379,
}


@dataclass(frozen=True, slots=True)
class Endpoints:
    """The parts of a URL that names one server or several."""

    scheme: str
    #: `user:password`, as it stands in the URL
    login: str
    hosts: tuple[tuple[str, int], ...]
    #: of Sentinel: its name for the primary and its replicas
    service: str
    database: str
    #: without the question mark
    query: str

    @property
    def tls(self) -> bool:
        """Whether every connection is encrypted."""
        return self.scheme.startswith("rediss")

    def url(self, host: str, port: int) -> str:
        """The URL of one data server, as redis-py reads it."""
        login = f"{self.login}@" if self.login else ""
        query = f"?{self.query}" if self.query else ""
        place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"  # an IPv6 address is in brackets
        return f"{'rediss' if self.tls else 'redis'}://{login}{place}/{self.database}{query}"


class BadUrl(ValueError):  # noqa: N818 - the URL is bad, not the program
    """The URL cannot be used: `str()` says why, `remedy` what to write. Neither quotes what may hold a password."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(problem)
        self.remedy = remedy


def split_namespace(url: str) -> tuple[str, str]:
    """The URL without `namespace=NAME` of its query, and NAME; "" where it has none. Raises BadUrl."""
    head, mark, query = url.partition("?")
    options = query.split("&") if mark else []
    given = [option.partition("=")[2] for option in options if option.partition("=")[0] == "namespace"]
    if len(given) > 1:
        raise BadUrl("the URL has several namespaces", "write ?namespace=NAME once")
    if given and not given[0]:
        raise BadUrl("the URL's namespace is empty", "write ?namespace=NAME, or leave it out")
    others = "&".join(option for option in options if option.partition("=")[0] != "namespace")
    return head + (f"?{others}" if others else ""), given[0] if given else ""


def with_namespace(url: str, namespace: str) -> str:
    """The URL with the namespace in its query."""
    return f"{url}{'&' if '?' in url else '?'}namespace={namespace}"


def endpoints(url: str) -> Endpoints:
    """The parts of a URL with one of SCHEMES that is not `unix`. Raises BadUrl."""
    try:
        parts = urlsplit(url)
    except ValueError:  # half an IPv6 address
        raise _unreadable() from None
    kind = parts.scheme.partition("+")[2]
    login, _, names = parts.netloc.rpartition("@")
    if "," in names and not kind:
        raise BadUrl("the URL has several hosts", "write redis+sentinel:// or redis+cluster://, or one host")
    hosts = tuple(_host(name, parts.scheme) for name in names.split(","))
    service, database = _path(parts.path.strip("/"), kind)
    return Endpoints(parts.scheme, login, hosts, service, database, parts.query)


def _host(name: str, scheme: str) -> tuple[str, int]:
    try:
        parts = urlsplit(f"//{name}")
        port = parts.port
    except ValueError:
        raise _unreadable() from None
    if port == 0:
        raise BadUrl("port 0 cannot be reached", "write the port from 1 to 65535")
    if not parts.hostname:
        example = "redis://host:6379/0" if "+" not in scheme else f"{scheme}://host:{SCHEMES[scheme]},host2,…"
        raise BadUrl("the URL has no host", f"write {example}")
    return parts.hostname, port or SCHEMES[scheme]


def _unreadable() -> BadUrl:
    return BadUrl("the URL's host or port cannot be read", "write host:port, the port from 1 to 65535")


def _path(path: str, kind: str) -> tuple[str, str]:
    """Service and database."""
    service = ""
    if kind == "sentinel":
        service, _, path = path.partition("/")
        if not service:
            raise BadUrl("the URL names no service", "write redis+sentinel://host:26379/mymaster")
    if kind == "cluster" and path not in ("", "0"):
        raise BadUrl("a Redis Cluster has database 0 alone", "remove the path from the URL")
    if path and not path.isdigit():
        raise BadUrl(f"the URL's database is {path[:30]!r}, not a number", "write redis://host:6379/0")
    return service, path
