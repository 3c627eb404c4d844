"""
Whether a Redis can be worked with: its version, its eviction policy, the layout that it holds.

INFO alone is asked: hosted servers forbid CONFIG.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fusiond.broker.call import Call, Plan, nothing, plain, raw
from fusiond.broker.keys import LAYOUT, Keys
from fusiond.errors import BrokerUnfit

if TYPE_CHECKING:
    from collections.abc import Mapping

#: the oldest Redis and Valkey that have what the scripts use
OLDEST = (6, 2)


def judge(info: Mapping[str, str], address: str, *, cluster: bool) -> None:
    """Raise BrokerUnfit with the remedy if the server that says this about itself cannot be worked with."""
    problem = unfit(info) or _other_mode(info, cluster=cluster)
    if problem:
        raise BrokerUnfit(f"Redis at {address} {problem}")


def layout(keys: Keys, address: str) -> Plan[None]:
    """Raise BrokerUnfit with the remedy, or mark the layout as ours where there is none yet."""
    found = yield plain(raw, "HGET", keys.meta, "layout")
    if problem := _other_layout(keys, found):
        raise BrokerUnfit(f"Redis at {address} {problem}")
    if found is None:
        yield plain(nothing, "HSETNX", keys.meta, "layout", LAYOUT)


def unfit(info: Mapping[str, str]) -> str | None:
    """What is wrong with a server that says this about itself, and the remedy."""
    version = info.get("redis_version", "unknown")
    if version_of(info) < OLDEST:
        return f"is version {version}; fusiond needs 6.2 or newer, of Redis or Valkey"
    policy = info.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        return f"evicts keys ({policy}), so it would lose jobs; set `maxmemory-policy noeviction`"
    return None


def _other_mode(info: Mapping[str, str], *, cluster: bool) -> str | None:
    mode = info.get("server_mode") or info.get("redis_mode")  # Valkey's word, Redis' word
    if mode == "sentinel":
        return "is a Sentinel; write redis+sentinel://host:26379/service in broker.url"
    if mode == "cluster" and not cluster:
        return "is a node of a Cluster; write redis+cluster:// in broker.url"
    return None


def _other_layout(keys: Keys, layout: bytes | None) -> str | None:
    if layout is None or (layout.isdigit() and int(layout) <= LAYOUT):
        return None
    return (
        f"holds layout {layout.decode(errors='replace')} under {keys.namespace!r}, this fusiond knows {LAYOUT}; "
        "upgrade fusiond or use another namespace"
    )


def info_call() -> Call[dict[str, str]]:
    """What the server says about itself."""
    return plain(_info, "INFO")


def version_of(info: Mapping[str, str]) -> tuple[int, ...]:
    """The version; of Valkey the Redis that it stands in for."""
    return tuple(int(part) if part.isdigit() else 0 for part in info.get("redis_version", "0").split("."))


def _info(reply: bytes) -> dict[str, str]:
    lines = (line.partition(":") for line in reply.decode(errors="replace").splitlines())
    return {name: value for name, colon, value in lines if colon}
