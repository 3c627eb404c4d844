"""
What an enqueue waits for before it is acknowledged.

    memory    nothing more: Redis has the job
    fsync     the disk: WAITAOF, or nothing where Redis syncs before each reply (`appendfsync always`)
    replica   so many replicas: WAIT
"""

from __future__ import annotations

from typing import Final, Literal, get_args

from fusiond.broker.call import Call, Plan, as_is, plain
from fusiond.broker.redis.server_requirements import info_call, version_of
from fusiond.errors import BrokerUnavailable, BrokerUnfit

Durability = Literal["memory", "fsync", "replica"]
DURABILITIES: Final[tuple[str, ...]] = get_args(Durability)

#: ms that the disk, or a replica, may take to confirm
CONFIRM_MS = 3000
_WAITAOF_SINCE = (7, 2)


def confirmation(durability: Durability, replicas: int) -> Plan[Call[int] | None]:
    """
    The Call to send behind each enqueue: its reply is 0 if it was not confirmed in time; None: nothing to wait for.

    The plan raises BrokerUnfit, before anything is stored, if this Redis cannot do it, and BrokerUnavailable while that
    is not known. `replicas`: how many of them are to have it.
    """
    if durability == "memory":
        return None
    if durability == "replica":
        return plain(lambda reply: int(reply >= replicas), "WAIT", replicas, CONFIRM_MS)
    info = yield info_call()
    if info.get("loading") == "1":  # INFO is answered meanwhile, and says there is no such file
        raise BrokerUnavailable("Redis is loading its data")
    if info.get("aof_enabled") != "1":
        raise BrokerUnfit("durability='fsync': this Redis has no append-only file; set `appendonly yes`")
    if version_of(info) >= _WAITAOF_SINCE:
        return plain(lambda reply: int(reply[0]), "WAITAOF", 1, 0, CONFIRM_MS)
    policy = yield plain(as_is, "CONFIG", "GET", "appendfsync")
    if policy[1:] != [b"always"]:
        raise BrokerUnfit("durability='fsync' needs Redis or Valkey 7.2, or `appendfsync always`")
    return None
