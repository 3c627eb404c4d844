"""
The verb of pools: limits that tasks share, over all queues and hosts.

They live in a slot of their own of a Redis Cluster, so that one script can ask several at once; see lua/pools.lua.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from fusiond.broker.call import Call, Plan, Word, decoded, nothing, plain, scripted
from fusiond.broker.keys import VerbGroup
from fusiond.config.model import Config
from fusiond.config.model.limits import SharedPool

#: stands for `max_running` of the file; no pool can have this name
ALL_JOBS = "(max_running)"


class PoolAction(NamedTuple):
    """What is asked of pools: as lua/pools.lua has it."""

    what: str
    #: `<token> <job>`, if it is for an attempt
    who: bytes
    #: `<pool>=<slots>=<under which name it waits> …`
    needs: str = ""


class PoolUse(NamedTuple):
    """How much of a pool is taken."""

    #: as the file says that was published last; None: no limit
    slots: int | None
    held: int
    #: s since when the first of the waiters waits
    oldest: float
    #: tasks that were refused; for `max_running` dispatchers, as `<host>.<pid>`
    waiters: tuple[str, ...]

    def sentence(self, name: str) -> str:
        """Why jobs wait for it."""
        if name == ALL_JOBS:
            return f"max_running is reached: {self.held:,} of {self.slots or 0:,} jobs run, or have been claimed"
        if self.slots is None:
            return f"pool {name!r} has too little room: its rate is used up"
        left = "; the others are left to who has waited for longer" if self.held < self.slots else ""
        return f"pool {name!r} has too little room: {self.held:,} of {self.slots:,} slots are held{left}"


def pools_of(config: Config) -> dict[str, SharedPool]:
    """The pools of a file, that of `max_running` among them."""
    whole = {} if config.max_running is None else {ALL_JOBS: SharedPool(ALL_JOBS, config.max_running)}
    return {**config.pools, **whole}


class PoolVerbs(VerbGroup):
    """The verb of dispatchers, and of those that show pools."""

    @property
    def _pools_root(self) -> str:
        return f"{self.keys.namespace}:{{/pools}}"

    def pools(self, pools: Mapping[str, SharedPool], ms: int, actions: Sequence[PoolAction]) -> Call[list[Any]]:
        """Do these in their order; `ms`: until slots that are not renewed are free again. A reply for each."""
        words: list[Word] = [ms, len(pools)]
        for name, pool in pools.items():
            rate = pool.rate_limit
            words += (name, pool.slots or "", rate.every_ms if rate else "", rate.burst if rate else "")
        for action in actions:
            words += action

        def parse(reply: Any) -> list[Any]:
            if type(reply) is not list or len(reply) != len(actions):
                raise ValueError(f"not {len(actions)} replies")
            return reply

        return scripted("pools", self._pools_root, words, parse)

    def declare_pools(self, config: Config) -> Iterator[Call[None]]:
        """Say for `pool_uses` which pools there are."""
        key = f"{self._pools_root}:conf"
        yield plain(nothing, "DEL", key)
        for name, pool in pools_of(config).items():
            yield plain(nothing, "HSET", key, name, pool.slots or "")

    def pool_uses(self) -> Plan[dict[str, PoolUse]]:
        """How much of each pool is taken."""
        [found] = yield self.pools({}, 1, [PoolAction("show", b"")])
        return {
            decoded(name): PoolUse(int(slots) if slots else None, held, ms / 1000, tuple(sorted(map(decoded, waiters))))
            for name, slots, held, ms, waiters in found
        }
