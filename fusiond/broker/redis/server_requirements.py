"""
What fusiond requires of a Redis: that it is new enough, evicts nothing, lets this user do what fusiond does, and holds
keys in a layout that is known here.

Only INFO is asked, since hosted servers forbid CONFIG.
"""

from __future__ import annotations

from collections.abc import Mapping

from fusiond.broker.call import Call, Plan, decoded, nothing, plain, scripted, texts
from fusiond.broker.keys import LAYOUT, Keys
from fusiond.broker.layout import layout_of, refuse_other
from fusiond.errors import BrokerUnfit

#: the oldest Redis and Valkey that have what the scripts use
OLDEST = (6, 2)


def check_server(info: Mapping[str, str], address: str, *, cluster: bool) -> None:
    """Raise BrokerUnfit with the remedy if the server with this INFO cannot be used."""
    if problem := _problem(info, cluster=cluster):
        raise BrokerUnfit(f"Redis at {address} {problem}")


def check_layout(keys: Keys, address: str) -> Plan[None]:
    """Raise BrokerUnfit with the remedy if keys of another layout are there; note our layout if none is noted."""
    found = yield layout_of(keys)
    if found is None:
        # A daemon of another version may be quicker.
        _, found = yield [plain(nothing, "HSETNX", keys.meta, "layout", LAYOUT), layout_of(keys)]
    refuse_other(found, keys, f"Redis at {address}")


def check_rights(keys: Keys, address: str) -> Plan[None]:
    """
    Raise BrokerUnfit with what is missing if the user of this connection may not do all that fusiond does.

    Also the question whether Redis takes a write: a replica, or a server that cannot save, would answer a PING.
    """
    denied = yield scripted("rights", keys.rights, (keys.rights,), texts)
    if denied:
        missing = " ".join(right + f"{keys.namespace}:*" * (right in "~&") for right in map(decoded, denied))
        raise BrokerUnfit(f"Redis at {address} denies its user {missing}; grant it with ACL SETUSER")


def _problem(info: Mapping[str, str], *, cluster: bool) -> str:
    if version_of(info) < OLDEST:
        version = info.get("redis_version", "unknown")
        return f"is version {version}; fusiond needs 6.2 or newer, of Redis or Valkey"
    policy = info.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        return f"evicts keys ({policy}), so it would lose jobs; set `maxmemory-policy noeviction`"
    mode = info.get("server_mode") or info.get("redis_mode")  # the field's name in Valkey, in Redis
    if mode == "sentinel":
        return "is a Sentinel; write redis+sentinel://host:26379/service in broker.url"
    if mode == "cluster" and not cluster:
        return "is a node of a Cluster; write redis+cluster:// in broker.url"
    return ""


def info_call() -> Call[dict[str, str]]:
    """INFO: field → value."""
    return plain(_info, "INFO")


def version_of(info: Mapping[str, str]) -> tuple[int, ...]:
    """The version; Valkey says which version of Redis it is compatible with."""
    return tuple(int(part) if part.isdigit() else 0 for part in info.get("redis_version", "0").split("."))


def _info(reply: bytes) -> dict[str, str]:
    lines = (line.partition(":") for line in reply.decode(errors="replace").splitlines())
    return {name: value for name, colon, value in lines if colon}
