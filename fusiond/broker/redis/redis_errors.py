"""
Turn errors of Redis, and of the way to it, into errors that a caller can act on.
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Sequence
from typing import Any, Final

from fusiond.broker.call import decoded
from fusiond.errors import BrokerError, BrokerFull, BrokerUnavailable, BrokerUnfit


class ReplyError(Exception):
    """An error with which Redis answered, as it said it: `NOSCRIPT No matching script.`"""

    @property
    def kind(self) -> str:
        """The first word."""
        return str(self).partition(" ")[0]


#: what is raised where a connection does not come about, or does not last; UnicodeError: a host's name is malformed
LOST = (OSError, ReplyError, UnicodeError)

# Not the one to be asked, or not yet: another connection may lead to one that is.
_ELSEWHERE = ("READONLY", "LOADING", "MASTERDOWN", "UNBLOCKED")
# A server in one of these states will, or may, do what was asked a little later.
_PASSING = (*_ELSEWHERE, "CLUSTERDOWN", "TRYAGAIN", "NOREPLICAS", "MISCONF", "BUSY")

#: what a server says before it closes a connection
_FULL = "ERR max number of clients reached"
#: what a server says to who has no password, or a wrong one
_NOT_LET_IN = (
    "WRONGPASS", "NOAUTH", "invalid password", "username-password", "AUTH <password> called without", "log-in refused",
)  # fmt: skip
#: the end of the name by which the daemon's own server is shown
EMBEDDED = " (embedded)"
_NO_TLS = ("CERTIFICATE_VERIFY_FAILED", "certificate verify failed", "[SSL", "SSL:")
#: what asyncio says of each address of a host
_NUMBER: Final = re.compile(r"\[Errno (\d+)\]")

#: of a key, its queue: what Cluster takes a slot from
_QUEUE: Final = re.compile(r":\{([^{}]+)\}")


def in_its_place(reply: Any) -> Any:
    """
    The reply, which may be an error.

    Raises:
        BrokerUnavailable: the error says that the server is not the one to be asked.
        ReplyError: the error refuses the connection, not the command.
    """
    if isinstance(reply, ReplyError):
        if _contains(str(reply), _ELSEWHERE):
            raise BrokerUnavailable(f"Redis cannot take commands now: {reply}")
        if reply.kind == "NOAUTH" or str(reply) == _FULL:
            raise reply
    return reply


def refused(error: ReplyError, words: Sequence[Any]) -> BrokerError:
    """The error of ours for an error with which Redis answered a command."""
    text = str(error)
    if "WRONGTYPE" in text:
        queue = _QUEUE.search(key := _key(words))
        subject = f"queue {queue[1]!r}: a key of it" if queue else f"key {key!r}"
        remedy = "rename or delete it, the daemons write it again, and fusiond fsck --repair finds its jobs"
        return BrokerError(f"{subject} is of another type than ours; {remedy}")
    # 6.2 puts a script's error into a sentence of its own, so the word may be anywhere
    if "OOM command not allowed" in text or "used memory >" in text:
        return BrokerFull("Redis is at its maxmemory and takes no new jobs; raise maxmemory or let the queues drain")
    if "NOPERM" in text or "ACL failure" in text:
        return BrokerUnfit(f"Redis denies this user what it was asked for: {text}; grant it with ACL SETUSER")
    if _contains(text, _PASSING):
        return BrokerUnavailable(f"Redis cannot take commands now: {text}")
    return BrokerError(f"Redis refused: {text}")


def _key(words: Sequence[Any]) -> str:
    """The first key of a command; a script has it behind its digest and the number of its keys."""
    key = next(iter(words[3 if words[0] in (b"EVAL", b"EVALSHA") else 1 :]), "")
    return decoded(key) if isinstance(key, bytes) else str(key)


def _contains(text: str, words: Sequence[str]) -> bool:
    return any(word in text[:200] for word in words)


def unavailable(shown: str, error: Exception) -> BrokerUnavailable:
    """The error of ours for a connection to what is `shown` that did not come about or did not last."""
    reason = _reason(error)
    if _contains(reason, _NOT_LET_IN):
        remedy = "check the user and the password, in broker.url or broker.password_file"
        return BrokerUnavailable(f"Redis at {shown} does not accept the log-in: {reason}; {remedy}")
    if isinstance(error, ssl.SSLError) or _contains(reason, _NO_TLS):
        remedy = "check ca_file, cert_file and key_file in broker.tls, and that the server speaks TLS at this port"
        return BrokerUnavailable(f"Redis at {shown} cannot be reached over TLS: {reason}; {remedy}")
    if isinstance(error, PermissionError) and shown.startswith("unix:"):
        remedy = "be the user of the server, or in the group of its socket; embedded: broker.socket_group"
        return BrokerUnavailable(f"Redis at {shown}: this user may not connect to the socket; {remedy}")
    question = "is it running, and is broker.url right?"
    if shown.endswith(EMBEDDED):
        question = "is it running? `fusiond run` starts this server together with the daemon"
    elif shown.startswith("rediss"):
        question = "is it running, and does it speak TLS at this port?"
    return BrokerUnavailable(f"Redis at {shown} cannot be reached: {reason}; {question}")


def _reason(error: Exception) -> str:
    """The error's own words, without numbers and addresses where there is a word for the number."""
    if isinstance(error, TimeoutError) and not error.errno:
        return "no answer in time"
    if isinstance(error, OSError) and not isinstance(error, ssl.SSLError):
        numbers = [error.errno] if error.errno else map(int, _NUMBER.findall(str(error)))
        if words := dict.fromkeys(os.strerror(number) for number in numbers if number > 0):
            return ", ".join(words)
        return (error.strerror or str(error)).rstrip(".") or "the connection was ended"
    return "the host's name is malformed" if isinstance(error, UnicodeError) else str(error).rstrip(".")
