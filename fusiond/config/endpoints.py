"""
The parts of a broker's URL.

    redis://host:6379/0   rediss://user:password@host:6379/0   unix:///path/redis.sock?db=1
    redis+sentinel://host:26379,host:26379/service/0      rediss+sentinel:// with TLS
    redis+cluster://host:6379,host:6379                   rediss+cluster:// with TLS

Each may have options behind a question mark: `db`, and with TLS `ssl_cert_reqs` and `ssl_check_hostname`, which are
named and mean what they do in redis-py. Each may also give the namespace, which is not an option of a connection:
redis://host:6379/0?namespace=shop

Both the checks of the file and the broker use these functions.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote, urlsplit

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
#: option of the query, with TLS → what may be written → what it means
_OF_TLS: Final = {
    "ssl_cert_reqs": {"required": True, "optional": True, "none": False},
    "ssl_check_hostname": {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False},
}


@dataclass(frozen=True, slots=True)
class Endpoints:
    """The parts of a URL that names one server or several."""

    scheme: str
    user: str
    password: str
    #: host and port; of a unix socket none
    hosts: tuple[tuple[str, int], ...]
    #: of a unix socket
    path: str = ""
    #: of Sentinel: its name for the primary and its replicas
    service: str = ""
    database: int = 0
    #: with TLS: whether the server's certificate is checked; and whether the host's name must be in it
    check_certificate: bool = True
    check_hostname: bool = True

    @property
    def tls(self) -> bool:
        """Whether every connection is encrypted."""
        return self.scheme.startswith("rediss")

    @property
    def cluster(self) -> bool:
        """Whether the hosts are nodes of a Cluster."""
        return self.scheme.endswith("+cluster")


class BadUrl(ValueError):
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
    """The parts of a URL that has no namespace. Raises BadUrl."""
    scheme, separator, _ = url.partition("://")
    if not separator:
        raise BadUrl("the URL has no scheme", _with_scheme(url))
    if scheme not in SCHEMES:
        raise BadUrl("the URL's scheme is not one of a broker", f"write one of {', '.join(SCHEMES)}, in small letters")
    try:
        parts = urlsplit(url)
    except ValueError:  # half an IPv6 address
        raise (_unescaped() if "@" in url else _unreadable()) from None
    if parts.fragment or "@" in parts.query or ("@" in parts.path and parts.scheme != "unix"):
        raise _unescaped()
    login, _, names = parts.netloc.rpartition("@")
    user, _, password = map(unquote, login.partition(":"))
    options = _options(parts.query, tls=parts.scheme.startswith("rediss"))
    check_certificate = _OF_TLS["ssl_cert_reqs"][options.get("ssl_cert_reqs", "required")]
    check_hostname = _OF_TLS["ssl_check_hostname"][options.get("ssl_check_hostname", "true")]
    if parts.scheme == "unix":
        if names or parts.path in ("", "/") or not unquote(parts.path).isprintable():
            raise BadUrl("the URL has no path of a socket", "write unix:///path/redis.sock, with three slashes")
        database = _database(options.get("db", ""))
        return Endpoints(parts.scheme, user, password, (), unquote(parts.path), database=database)
    kind = parts.scheme.partition("+")[2]
    if "," in names and not kind:
        raise BadUrl("the URL has several hosts", "write redis+sentinel:// or redis+cluster://, or one host")
    hosts = tuple(_host(name, parts.scheme) for name in names.split(","))
    service, database = _path(parts.path.strip("/"), kind, options.get("db", ""))
    return Endpoints(parts.scheme, user, password, hosts, "", service, database, check_certificate, check_hostname)


def _options(query: str, *, tls: bool) -> Mapping[str, str]:
    """The options of the query. Raises BadUrl."""
    known = ["db", *(_OF_TLS if tls else ())]
    found: dict[str, str] = {}
    for option in filter(None, query.split("&")):
        name, _, value = map(unquote, option.partition("="))
        if name not in known:
            raise BadUrl(
                f"the URL has the option {name[:30]!r}", f"remove it; the options are {', '.join(known)} and namespace"
            )
        if name in found:
            raise BadUrl(f"the URL has the option {name} twice", "remove one of them")
        values = _OF_TLS.get(name)
        if values is not None and value.lower() not in values:
            raise BadUrl(f"the URL's option {name} is {value[:30]!r}", f"write one of {', '.join(values)}")
        found[name] = value.lower()
    return found


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
    host = unquote(parts.hostname)
    if not host.isprintable():
        raise _unreadable()
    return host, port or SCHEMES[scheme]


def _with_scheme(url: str) -> str:
    """The remedy for a URL without a scheme."""
    if "@" in url:  # it may hold a password
        return "write redis:// before it"
    return f"write unix://{url}" if url.startswith("/") else f"write redis://{url}"


def _unreadable() -> BadUrl:
    return BadUrl("the URL's host or port cannot be read", "write host:port, the port from 1 to 65535")


def _unescaped() -> BadUrl:
    remedy = "write %23 for #, %2F for /, %3A for :, %3F for ?, %40 for @, %5B for [, %5D for ], and %25 for %"
    return BadUrl("the URL has a character that must be escaped", remedy)


def _path(path: str, kind: str, option: str) -> tuple[str, int]:
    """Service and database; `option`: the database that the query names, which outranks the path's."""
    service = ""
    if kind == "sentinel":
        service, _, path = path.partition("/")
        service = unquote(service)
        if not service:
            raise BadUrl("the URL names no service", "write redis+sentinel://host:26379/mymaster")
    database = option or path
    if kind == "cluster" and database not in ("", "0"):
        raise BadUrl("a Redis Cluster has database 0 alone", "remove the path, and `db`, from the URL")
    return service, _database(database)


def _database(text: str) -> int:
    if text and not (text.isascii() and text.isdigit() and len(text) < 10):
        raise BadUrl(f"the URL's database is {text[:30]!r}, not a number", "write redis://host:6379/0")
    return int(text or 0)
