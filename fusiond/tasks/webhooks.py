"""
Call a URL as a job.

1. check    the URL: http or https, a host that is allowed
2. resolve  it, once; addresses that are not public are refused. Only these addresses are connected to: a name that
            resolves to something else a moment later gains nothing
3. sign     time, id and body with HMAC-SHA256, in the headers of standardwebhooks.com
4. send     without redirects and proxies; only the head of the response is read
5. judge    2xx is a success; 408, 425, 429, 5xx and a connection that fails may be tried again; all else is final

Anyone who may enqueue a job chooses its arguments. FUSION_WEBHOOK_HOSTS in the group's `environment:` limits the hosts.
The jobs of callbacks run here, too: the daemon gives their group the secret of `webhooks`, and the hosts that the file
names in `on_success` and `on_failure`, which are allowed, and may be private.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping, Sequence

#: bytes of a response that are read
KEPT = 64 * 1024
#: environment variable: a comma-separated list of host patterns, set by the operator; no other host is called
HOSTS = "FUSION_WEBHOOK_HOSTS"
#: the same, set by the daemon: hosts of callbacks in the file, and the secret of callbacks
CALLBACK_HOSTS, SECRET = "FUSION_WEBHOOK_CALLBACKS", "FUSION_WEBHOOK_SECRET"
_PORTS = {"http": 80, "https": 443}
#: characters with a meaning in a path, and the one that begins an escape
_AS_IT_IS = "/%:@!$&'()*+,;=~"
_WORTH_A_RETRY = frozenset({408, 425, 429})
_OURS = frozenset({"host", "content-length", "transfer-encoding", "connection"})


class WebhookUnavailable(ConnectionError):
    """
    The host was not reached, or answered that it cannot serve now: the standard policy tries again.

    Attributes:
        retry_after: seconds after which the host wants to be asked again, from its header Retry-After; or None.
    """

    retry_after: float | None = None


class WebhookRefused(Exception):
    """The URL is not allowed, or the host refused the request: another attempt would not help."""

    #: that the host answered; 0: it was not asked, or the connection was refused here
    status = 0


class _Target(NamedTuple):
    """A URL, taken apart."""

    scheme: str
    host: str
    port: int
    #: path and query
    path: str


def webhook(
    url: str,
    body: Any = None,
    *,
    method: str = "POST",
    headers: Mapping[str, str] | None = None,
    timeout: float = 15,
    secret_file: str | None = None,
    secret_env: str | None = None,
    allow_private: bool = False,
    allow_hosts: Sequence[str] | None = None,
    job: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """
    Send `body` as JSON to `url`.

    Args:
        url: http:// or https://, without user and password.
        body: any JSON; None: none is sent.
        method: of the request.
        headers: in addition.
        timeout: seconds for each step: connection, request, response.
        secret_file: signs with the content of this file; `whsec_…` is base64, as standardwebhooks.com has it.
        secret_env: signs with this environment variable. Without either, the secret of `webhooks` signs, if the file
            has one, and the group serves the queue `callbacks`.
        allow_private: also call addresses that are not public: private, loopback, link-local. It counts only if
            FUSION_WEBHOOK_HOSTS or a callback of the file names the host: a job cannot allow itself what its operator
            has not.
        allow_hosts: patterns such as `*.example.com`; the host must match one.
        job: given by `pass_job: job`; its id is sent, so that the receiver recognizes a repeat.

    Returns:
        {"status": 200, "body": text, its first 64 KiB}.

    Raises:
        WebhookUnavailable: no connection, no answer in time, 408, 425, 429 or 5xx.
        WebhookRefused: not allowed, or another answer than 2xx, a redirect included.
    """
    from fusiond.written_text import json_bytes

    target = _target(url)
    _check_host(target.host, allow_hosts)
    content = b"" if body is None else json_bytes(body)
    sent = _headers(headers or {}, content) | _identity(job, content, _secret(secret_file, secret_env))
    may_be_private = HOSTS in os.environ or _is_named(target.host)
    addresses = _resolve(target, allow_private=allow_private and may_be_private)
    return _judged(target, *_exchange(target, addresses, method.upper(), content, sent, timeout=timeout))


# --- the request


def _target(url: str) -> _Target:
    from urllib.parse import quote, urlsplit

    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise WebhookRefused(f"{url!r} is not a URL: {error}") from None
    if parts.scheme not in _PORTS or not host:
        raise WebhookRefused(f"{url!r}: use http://host/… or https://host/…")
    if parts.username is not None:
        raise WebhookRefused(f"the URL for {host} holds a user or password; send them in a header")
    path = quote(parts.path or "/", safe=_AS_IT_IS)
    if parts.query:
        path += "?" + quote(parts.query, safe=_AS_IT_IS + "?")
    return _Target(parts.scheme, host, port or _PORTS[parts.scheme], path)


def _is_named(host: str) -> bool:
    """Whether a callback of the file names the host."""
    return host in os.environ.get(CALLBACK_HOSTS, "").split(",")


def _check_host(host: str, allow_hosts: Sequence[str] | None) -> None:
    from fnmatch import fnmatchcase

    by_operator = None if _is_named(host) else os.environ.get(HOSTS)
    lists = {
        f"the group's {HOSTS}": None if by_operator is None else [word.strip() for word in by_operator.split(",")],
        "allow_hosts": allow_hosts,
    }
    for name, patterns in lists.items():
        if patterns is not None and not any(fnmatchcase(host, pattern.lower()) for pattern in patterns):
            raise WebhookRefused(f"{host} is not in {name}")


def _headers(headers: Mapping[str, str], content: bytes) -> dict[str, str]:
    for name in headers:
        if name.lower() in _OURS or name.lower().startswith("webhook-"):
            raise WebhookRefused(f"header {name} is set by the webhook itself")
    return {"User-Agent": "fusiond", **({"Content-Type": "application/json"} if content else {}), **headers}


def _secret(secret_file: str | None, secret_env: str | None) -> bytes | None:
    """The key of the signature; an empty one is an error, not an unsigned request."""
    import base64
    from pathlib import Path

    if secret_file is None and secret_env is None:
        if not os.environ.get(SECRET):
            return None
        secret_env = SECRET
    text = Path(secret_file).read_text().strip() if secret_file is not None else os.environ.get(secret_env or "", "")
    if not text:
        where = secret_file if secret_file is not None else f"${secret_env}"
        raise WebhookRefused(f"the secret in {where} is empty or not set")
    return base64.b64decode(text[6:]) if text.startswith("whsec_") else text.encode()


def _identity(job: Mapping[str, Any] | None, content: bytes, secret: bytes | None) -> dict[str, str]:
    """Headers that name the request, and sign it."""
    import base64
    import hashlib
    import hmac
    import time

    ident = (job or {}).get("id") or os.environ.get("FUSION_JOB_ID") or os.urandom(16).hex()
    moment = str(int(time.time()))
    signed = {"webhook-id": ident, "webhook-timestamp": moment}
    if secret is not None:
        digest = hmac.new(secret, f"{ident}.{moment}.".encode() + content, hashlib.sha256).digest()
        signed["webhook-signature"] = f"v1,{base64.b64encode(digest).decode()}"
    return signed


# --- the connection


def _resolve(target: _Target, *, allow_private: bool) -> list[str]:
    """The addresses of the host, each of them allowed."""
    import socket

    try:
        found = socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise WebhookUnavailable(f"{target.host} cannot be resolved: {error}") from error
    except UnicodeError as error:
        raise WebhookRefused(f"{target.host!r} is not a host name") from error
    addresses = [str(info[4][0]) for info in found]
    for address in addresses:
        if not allow_private and not is_public(address):
            raise WebhookRefused(
                f"{target.host} is at {address}, which is not a public address;"
                f" name it in {HOSTS} of the group's environment, and give allow_private"
            )
    return addresses


def is_public(address: str) -> bool:
    """Whether an address is public, and so is each IPv4 address that is embedded in it."""
    import ipaddress

    ip = ipaddress.ip_address(address.partition("%")[0])
    inside: list[ipaddress.IPv4Address | None] = []
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.ipv4_mapped:
            return is_public(str(ip.ipv4_mapped))
        inside += [ip.sixtofour, *(ip.teredo or ())]
        if ip in ipaddress.ip_network("64:ff9b::/96"):  # NAT64
            inside.append(ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF))
        if ip.is_site_local:
            return False
    return all(each.is_global and not each.is_multicast for each in [ip, *filter(None, inside)])


def _exchange(
    target: _Target, addresses: list[str], method: str, content: bytes, headers: dict[str, str], *, timeout: float
) -> tuple[int, bytes, str]:
    """The status, the head of the body, and the header Retry-After or ""."""
    import http.client
    import ssl

    connection = http.client.HTTPConnection(target.host, target.port, timeout=timeout)
    connection.auto_open = 0  # it would resolve the name again
    connection.default_port = _PORTS[target.scheme]  # decides whether the Host header names the port
    try:
        connection.sock = _connect(target, addresses, timeout)
        connection.request(method, target.path, content or None, headers)
        response = connection.getresponse()
        return response.status, response.read(KEPT), response.getheader("Retry-After", "")
    except ssl.SSLCertVerificationError as error:
        raise WebhookRefused(f"the certificate of {target.host} is not trusted: {error.verify_message}") from error
    except (http.client.InvalidURL, ValueError) as error:  # a path, header or method that HTTP does not allow
        raise WebhookRefused(f"not a request: {error}") from error
    except (OSError, http.client.HTTPException) as error:
        reason = str(error) or type(error).__name__
        raise WebhookUnavailable(f"{target.host}:{target.port} did not answer: {reason}") from error
    finally:
        connection.close()


def _connect(target: _Target, addresses: list[str], timeout: float) -> socket.socket:
    """A connection to the first address that takes it."""
    connected = _first_open(addresses, target.port, timeout)
    if target.scheme == "http":
        return connected
    import ssl

    return ssl.create_default_context().wrap_socket(connected, server_hostname=target.host)


def _first_open(addresses: list[str], port: int, timeout: float) -> socket.socket:
    import socket

    failure = OSError("it has no address")
    for address in addresses:
        try:
            return socket.create_connection((address, port), timeout)
        except OSError as error:
            failure = error
    raise failure


def _judged(target: _Target, status: int, body: bytes, retry_after: str) -> dict[str, Any]:
    text = body.decode(errors="replace")
    if 200 <= status < 300:
        return {"status": status, "body": text}
    sentence = f"{target.host} answered {status}: {' '.join(text[:200].split())}"
    if status >= 500 or status in _WORTH_A_RETRY:
        unavailable = WebhookUnavailable(sentence)
        # The other form, a date, depends on the clock of the host.
        unavailable.retry_after = float(retry_after) if retry_after.isdecimal() else None
        raise unavailable
    if 300 <= status < 400:
        sentence = f"{target.host} answered {status}; redirects are not followed"
    refused = WebhookRefused(sentence)
    refused.status = status
    raise refused
