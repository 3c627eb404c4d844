"""The broker's URL, and the keys that only go with some of its forms."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import SplitResult, urlsplit

from fusiond.config import kinds
from fusiond.config.endpoints import SCHEMES, BadUrl, endpoints, split_namespace
from fusiond.config.lint.suggest import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fusiond.config.problems import Problem
    from fusiond.config.yaml.nodes import Node

_EXAMPLES: Final = (
    "write embedded, redis://host:6379/0, rediss://host:6379/0, unix:///path/redis.sock, "
    "redis+sentinel://host:26379/service or redis+cluster://host:6379"
)
_NAMESPACE: Final = re.compile(kinds.NAMESPACE.schema["pattern"])
#: words that stand alone elsewhere
_SHORT: Final = {"sentinel": "redis+sentinel", "cluster": "redis+cluster"}


def check(root: Node) -> Iterator[Problem]:
    """A URL that cannot be used, a secret in it, and keys that its form does not take."""
    broker = root.get("broker")
    if broker is None:
        return
    node = broker.get("url")
    url = broker.text("url") if node is not None else "embedded"
    if not url:
        return  # the schema says so
    if node is not None and (found := url_problem(url)) is not None:
        yield node.place.error("bad-url", *found)
        return
    if node is not None:
        yield from _namespaces(broker, node, split_namespace(url)[1])
    scheme = "embedded" if url == "embedded" else urlsplit(url).scheme
    yield from _companions(broker, scheme)
    if node is not None and scheme != "embedded":
        yield from _secret(broker, node, urlsplit(url))


def url_problem(url: str) -> tuple[str, str] | None:
    """Message and remedy of a URL that cannot be used; None where it can. Never quotes what may hold a password."""
    if url == "embedded":
        return None
    if any(char.isspace() or not char.isprintable() for char in url):
        return "the URL holds a space or a control character", "remove it, or write %20"
    scheme, separator, _ = url.partition("://")
    if not separator:
        remedy = did_you_mean(url, ["embedded"]) or (f"write redis://{url}" if "@" not in url else _EXAMPLES)
        return "the URL has no scheme", remedy
    if scheme in _SHORT:
        return f"{scheme}:// is not a broker", f"write {_SHORT[scheme]}://"
    if scheme not in SCHEMES:
        return f"{scheme[:30]}:// is not a broker", did_you_mean(scheme, SCHEMES) or _EXAMPLES
    try:
        bare, _ = split_namespace(url)
    except BadUrl as error:
        return str(error), error.remedy
    return _address_problem(bare)


def _namespaces(broker: Node, node: Node, in_url: str) -> Iterator[Problem]:
    """A namespace in the URL that the schema would not take as the key, or beside another one."""
    given = broker.text("namespace")
    if in_url and _NAMESPACE.fullmatch(in_url) is None:
        yield node.place.error(
            "bad-url", f"the URL's namespace is {in_url[:70]!r}", "use 1 to 64 letters, digits, _.:-"
        )
    elif in_url and given is not None and given != in_url:
        message = f"the URL says namespace={in_url}, and broker.namespace is {given}"
        yield broker.keys["namespace"].error("exclusive-keys", message, "remove one of them")


def _address_problem(url: str) -> tuple[str, str] | None:
    if url.startswith("unix://"):
        path = urlsplit(url).path
        if not path.startswith("/") or path == "/":
            return "the URL has no path of a socket", "write unix:///path/redis.sock, with three slashes"
        return None
    try:
        endpoints(url)
    except BadUrl as error:
        return str(error), error.remedy
    return None


def _companions(broker: Node, scheme: str) -> Iterator[Problem]:
    """Keys that the form of URL does not take."""
    takes = {
        "password_file": tuple(SCHEMES),
        "socket_group": ("embedded",),
        "server": ("embedded",),
        "tls": tuple(scheme for scheme in SCHEMES if scheme.startswith("rediss")),
    }
    for key, schemes in takes.items():
        node = broker.get(key)
        if node is not None and node.value is not None and scheme not in schemes:
            remedy = f"remove it, or use {' or '.join(map(_form, schemes))}"
            yield broker.keys[key].error("exclusive-keys", f"broker.{key} has no meaning with {_form(scheme)}", remedy)
    tls = broker.get("tls")
    given = [key for key in ("cert_file", "key_file") if tls is not None and tls.text(key)]
    if tls is not None and len(given) == 1:
        message = f"broker.tls.{given[0]} is alone"
        yield tls.keys[given[0]].error("missing-key", message, "cert_file and key_file go together")


def _form(scheme: str) -> str:
    return scheme if scheme == "embedded" else f"{scheme}://"


def _secret(broker: Node, node: Node, parts: SplitResult) -> Iterator[Problem]:
    if not parts.password:
        return
    if broker.text("password_file"):
        message = "the password is in the URL and in password_file"
        yield node.place.error("exclusive-keys", message, "remove it from the URL")
    elif parts.password in node.raw:
        yield node.place.warning(
            "secret-in-clear", "the password is in the file in clear", "use password_file, or ${REDIS_PASSWORD}"
        )
