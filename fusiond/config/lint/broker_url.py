"""The broker's URL, and the keys that only go with some of its forms."""

import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

from fusiond.config.endpoints import SCHEMES, BadUrl, endpoints, split_namespace
from fusiond.config.lint.suggest import did_you_mean
from fusiond.config.model import NAMESPACE
from fusiond.config.problems import Problem
from fusiond.config.yaml.nodes import Node

_EXAMPLES: Final = (
    "write embedded, redis://host:6379/0, rediss://host:6379/0, unix:///path/redis.sock, "
    "redis+sentinel://host:26379/service or redis+cluster://host:6379"
)
_NAMESPACE: Final = re.compile(NAMESPACE.schema["pattern"])
#: words that other programs use as a scheme
_SHORT: Final = {"sentinel": "redis+sentinel", "cluster": "redis+cluster"}
#: key of `broker` → the schemes that it goes with
_GOES_WITH: Final = {
    "password_file": tuple(SCHEMES),
    "socket_group": ("embedded",),
    "server": ("embedded",),
    "tls": tuple(scheme for scheme in SCHEMES if scheme.startswith("rediss")),
}


def check(root: Node) -> Iterator[Problem]:
    """A URL that cannot be used, a secret in it, and keys that its form does not take."""
    broker, node = root.get("broker"), root.get("broker", "url")
    url = "embedded" if node is None else root.text("broker", "url")
    if broker is None or not url:
        return  # the schema reports it
    scheme = "embedded"
    if node is not None and url != "embedded":
        try:
            namespace = _namespace(url)
        except BadUrl as error:
            yield node.place.error("bad-url", str(error), error.remedy)
            return
        scheme = urlsplit(url).scheme
        yield from _one_namespace(broker, node, namespace)
        yield from _one_password(broker, node, urlsplit(url).password)
    for key, schemes in _GOES_WITH.items():
        companion = broker.get(key)
        if companion is not None and companion.value is not None and scheme not in schemes:
            message = f"broker.{key} has no meaning with {_form(scheme)}"
            remedy = f"remove it, or use {' or '.join(map(_form, schemes))}"
            yield broker.keys[key].error("exclusive-keys", message, remedy)
    tls = root.names("broker", "tls")
    given = [key for key in ("cert_file", "key_file") if broker.text("tls", key)]
    if len(given) == 1:
        remedy = "cert_file and key_file go together"
        yield tls[given[0]].error("missing-key", f"broker.tls.{given[0]} is alone", remedy)


def _namespace(url: str) -> str:
    """The namespace in a URL. Raises BadUrl if the URL cannot be used; it never quotes what may hold a password."""
    if any(char.isspace() or not char.isprintable() for char in url):
        raise BadUrl("the URL holds a space or a control character", "remove it, or write %20")
    scheme, separator, _ = url.partition("://")
    if not separator and (remedy := did_you_mean(url, ["embedded"])):
        raise BadUrl("the URL has no scheme", remedy)
    if separator and scheme not in SCHEMES:
        remedy = f"write {_SHORT[scheme]}://" if scheme in _SHORT else did_you_mean(scheme, SCHEMES) or _EXAMPLES
        raise BadUrl(f"{scheme[:30]}:// is not a broker", remedy)
    bare, namespace = split_namespace(url)
    endpoints(bare)
    return namespace


def _one_namespace(broker: Node, node: Node, namespace: str) -> Iterator[Problem]:
    """A namespace in the URL that is malformed, or differs from `broker.namespace`."""
    given = broker.text("namespace")
    if namespace and _NAMESPACE.fullmatch(namespace) is None:
        message = f"the URL's namespace is {namespace[:70]!r}"
        yield node.place.error("bad-url", message, "use 1 to 64 letters, digits, _.:-")
    elif namespace and given is not None and given != namespace:
        message = f"the URL says namespace={namespace}, and broker.namespace is {given}"
        yield broker.keys["namespace"].error("exclusive-keys", message, "remove one of them")


def _one_password(broker: Node, node: Node, password: str | None) -> Iterator[Problem]:
    if password and broker.text("password_file"):
        message = "the password is in the URL and in password_file"
        yield node.place.error("exclusive-keys", message, "remove it from the URL")
    elif password and password in node.raw:
        message = "the file has the password in plain text"
        yield node.place.warning("secret-in-clear", message, "use password_file, or ${REDIS_PASSWORD}")


def _form(scheme: str) -> str:
    return scheme if scheme == "embedded" else f"{scheme}://"
