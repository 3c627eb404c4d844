"""
From what Redis, or the way to it, complains of to the errors that a caller can act on.
"""

from __future__ import annotations

import re
import ssl
from typing import TYPE_CHECKING, Any, Final

from redis.exceptions import AuthenticationError, RedisError, ResponseError
from redis.exceptions import ConnectionError as NoConnection

from fusiond.broker.call import decoded
from fusiond.errors import BrokerError, BrokerFull, BrokerUnavailable, BrokerUnfit

if TYPE_CHECKING:
    from collections.abc import Sequence

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
_NO_TLS = ("CERTIFICATE_VERIFY_FAILED", "certificate verify failed", "[SSL", "SSL:")

#: of a key, its queue: what Cluster takes a slot from
_QUEUE: Final = re.compile(r":\{([^{}]+)\}")
#: the keys that belong to no queue, which fsck looks at
_NAMESPACE: Final = re.compile(r":(meta|queues|workers|daemons|catalog|cron)$")


class Spoilt(BrokerError):  # noqa: N818 - as its siblings
    """A key of a queue is of another type, by somebody's hand; the other queues can be read."""


def in_its_place(error: ResponseError) -> ResponseError:
    """The error as a reply. Raises BrokerUnavailable if the server says that it is not the one to be asked."""
    if _begins(text := said(error), _ELSEWHERE):
        raise BrokerUnavailable(f"Redis cannot take commands now: {text}")
    return error.with_traceback(None)


def said(error: RedisError) -> str:
    """What Redis complained of, with the word that redis-py has taken off."""
    return f"{error.status_code} {error}" if error.status_code else str(error)


def refused(error: RedisError, words: Sequence[Any]) -> BrokerError:
    """The error of ours that Redis' own complaint about a command amounts to."""
    text = said(error)
    if queue := "WRONGTYPE" in text and _queue(words):
        remedy = "fusiond fsck names it, and fusiond fsck --repair moves it aside"
        return Spoilt(f"queue {queue!r}: a key of it is of another type than ours; {remedy}")
    if "WRONGTYPE" in text and _NAMESPACE.search(key := _key(words)):
        remedy = "fusiond fsck names it, and fusiond fsck --repair moves it aside"
        return BrokerError(f"key {key!r} is of another type than ours; {remedy}")
    # 6.2 puts a script's error into a sentence of its own, so the word may be anywhere
    if "OOM command not allowed" in text or "used memory >" in text:
        return BrokerFull("Redis is at its maxmemory and takes no new jobs; raise maxmemory or let the queues drain")
    if _begins(text, _PASSING):
        return BrokerUnavailable(f"Redis cannot take commands now: {text}")
    return BrokerError(f"Redis refused: {text}")


def _queue(words: Sequence[Any]) -> str:
    """The queue that a command is about; empty where it is about none."""
    keys = (decoded(word) if isinstance(word, bytes) else str(word) for word in words[1:4])
    return next((found[1] for found in map(_QUEUE.search, keys) if found), "")


def _key(words: Sequence[Any]) -> str:
    """The first key of a command; of a script that is behind its digest and the number of its keys."""
    name = decoded(words[0]) if isinstance(words[0], bytes) else str(words[0])
    key = words[3 if name.startswith("EVAL") else 1]
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
    if isinstance(error.__cause__ or error.__context__ or error, ssl.SSLError) or _begins(reason, _NO_TLS):
        remedy = "check ca_file, cert_file and key_file in broker.tls, and that the server speaks TLS at this port"
        return BrokerUnavailable(f"Redis at {shown} cannot be reached over TLS: {reason}; {remedy}")
    return BrokerUnavailable(f"Redis at {shown} cannot be reached: {reason}; is it running, and is broker.url right?")
