"""
Turn errors of Redis, and of the way to it, into errors that a caller can act on.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Sequence
from typing import Any, Final

from redis.exceptions import AuthenticationError, RedisError, ResponseError
from redis.exceptions import ConnectionError as NoConnection

from fusiond.broker.call import decoded
from fusiond.errors import BrokerError, BrokerFull, BrokerUnavailable, BrokerUnfit

#: what redis-py and the kernel raise where a connection does not come about, or does not last
LOST = (RedisError, OSError)

# Not the one to be asked, or not yet: another connection may lead to one that is.
_ELSEWHERE = ("READONLY", "LOADING", "MASTERDOWN", "UNBLOCKED")
# A server in one of these states will, or may, do what was asked a little later.
_PASSING = (*_ELSEWHERE, "CLUSTERDOWN", "TRYAGAIN", "NOREPLICAS", "MISCONF", "BUSY")

#: what a server says to who has no password, or a wrong one
_NOT_LET_IN = (
    "WRONGPASS", "NOAUTH", "invalid password", "username-password", "AUTH <password> called without", "log-in refused",
)  # fmt: skip
#: of redis-py's exceptions from a Sentinel, by class: what is wrong with it
_KINDS = {"AuthenticationError": "log-in refused", "TimeoutError": "no answer in time"}
#: the end of the name by which the daemon's own server is shown
EMBEDDED = " (embedded)"
_NO_TLS = ("CERTIFICATE_VERIFY_FAILED", "certificate verify failed", "[SSL", "SSL:")

#: of a key, its queue: what Cluster takes a slot from
_QUEUE: Final = re.compile(r":\{([^{}]+)\}")


def in_its_place(error: ResponseError) -> ResponseError:
    """The error as a reply. Raises BrokerUnavailable if the server says that it is not the one to be asked."""
    if _begins(text := said(error), _ELSEWHERE):
        raise BrokerUnavailable(f"Redis cannot take commands now: {text}")
    return error.with_traceback(None)


def said(error: RedisError) -> str:
    """The text of Redis' error, with the first word that redis-py has taken off."""
    return f"{error.status_code} {error}" if error.status_code else str(error)


def refused(error: RedisError, words: Sequence[Any]) -> BrokerError:
    """The error of ours for an error with which Redis answered a command."""
    text = said(error)
    if "WRONGTYPE" in text:
        queue = _QUEUE.search(key := _key(words))
        subject = f"queue {queue[1]!r}: a key of it" if queue else f"key {key!r}"
        remedy = "fusiond fsck names it, and fusiond fsck --repair moves it aside"
        return BrokerError(f"{subject} is of another type than ours; {remedy}")
    # 6.2 puts a script's error into a sentence of its own, so the word may be anywhere
    if "OOM command not allowed" in text or "used memory >" in text:
        return BrokerFull("Redis is at its maxmemory and takes no new jobs; raise maxmemory or let the queues drain")
    if _begins(text, _PASSING):
        return BrokerUnavailable(f"Redis cannot take commands now: {text}")
    return BrokerError(f"Redis refused: {text}")


def _key(words: Sequence[Any]) -> str:
    """The first key of a command; a script has it behind its digest and the number of its keys."""
    key = next(iter(words[3 if words[0] in (b"EVAL", b"EVALSHA") else 1 :]), "")
    return decoded(key) if isinstance(key, bytes) else str(key)


def _begins(text: str, words: Sequence[str]) -> bool:
    return any(word in text[:200] for word in words)


def no_primary(service: str, sentinels: Sequence[Any], error: Exception) -> NoConnection:
    """What redis-py raises where no Sentinel names a primary, as a sentence without the words of its objects."""
    # Of one that is asked twice, with a password and without, the second time counts.
    said_of = {sentinel_name(one): str(error).partition(f"{one} - ")[2].partition(",")[0] for one in sentinels}
    problems = [
        f"{name}: {_KINDS.get(kind.rpartition(':')[2], 'it cannot be reached') if kind else 'it knows none that is up'}"
        for name, kind in said_of.items()
    ]
    return NoConnection(f"no Sentinel names a primary of the service {service!r}: {'; '.join(problems)}")


def sentinel_name(client: Any) -> str:
    """`host:port` of redis-py's client of a Sentinel."""
    options = client.connection_pool.connection_kwargs
    return f"{options['host']}:{options['port']}"


def no_map(shown: str, error: Exception) -> BrokerError:
    """The error of ours for a Cluster whose map no node told."""
    cause = error.__cause__ or error
    if isinstance(cause, BrokerError):
        return cause
    if "Cluster mode is not enabled" in str(cause):
        return BrokerUnfit(f"Redis at {shown} is no node of a Cluster; write redis:// in broker.url")
    return unavailable(shown, cause if isinstance(cause, Exception) else error)


def unavailable(shown: str, error: Exception) -> BrokerUnavailable:
    """The error of ours for a connection to what is `shown` that did not come about or did not last."""
    reason = (said(error) if isinstance(error, RedisError) else str(error)).rstrip(".") or "no answer in time"
    if isinstance(error, AuthenticationError) or _begins(reason, _NOT_LET_IN):
        remedy = "check the user and the password, in broker.url or broker.password_file"
        return BrokerUnavailable(f"Redis at {shown} does not accept the log-in: {reason}; {remedy}")
    cause = error.__cause__ or error.__context__ or error
    if isinstance(cause, ssl.SSLError) or _begins(reason, _NO_TLS):
        remedy = "check ca_file, cert_file and key_file in broker.tls, and that the server speaks TLS at this port"
        return BrokerUnavailable(f"Redis at {shown} cannot be reached over TLS: {reason}; {remedy}")
    if isinstance(cause, PermissionError) and shown.startswith("unix:"):
        remedy = "be the user of the server, or in the group of its socket; embedded: broker.socket_group"
        return BrokerUnavailable(f"Redis at {shown}: this user may not connect to the socket; {remedy}")
    question = "is it running, and is broker.url right?"
    if shown.endswith(EMBEDDED):
        question = "is the daemon running? `fusiond run` starts the daemon and this server"
    elif shown.startswith("rediss"):
        question = "is it running, and does it speak TLS at this port?"
    return BrokerUnavailable(f"Redis at {shown} cannot be reached: {reason}; {question}")
