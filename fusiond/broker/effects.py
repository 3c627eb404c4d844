"""
Bring what the end of a job means for other queues to these queues, which may be on other nodes of a Cluster.

1. read     the oldest entries that a queue's effects have for one other queue
2. deliver  them there; that queue remembers the highest number that it has taken, and does nothing twice
3. remove   them up to that number, and read the next ones

Whoever settles does this, and each sweep. Two may do it at the same time, and one that was frozen in the middle may go
on at any time: what it delivers was taken before.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from fusiond.broker.call import Plan, fields, nothing, plain, scripted, texts
from fusiond.broker.keys import VerbGroup, is_name
from fusiond.errors import BrokerError

#: pages of entries that one call delivers, at most; and one for which a producer waits: what it has just written is
#: mostly in the first ones
PAGES, FEW_PAGES = 100, 4


class Deliveries(NamedTuple):
    """What was delivered."""

    entries: int
    #: queues that have runs of flows which can go on now
    to_advance: list[str]


class EffectVerbs(VerbGroup):
    """The verb that delivers effects."""

    def deliver(self, queue: str, *, pages: int = PAGES) -> Plan[int]:
        """As `delivery`; how many entries were delivered."""
        delivered = yield from self.delivery(queue, pages=pages)
        return delivered.entries

    def delivery(self, queue: str, *, pages: int = PAGES) -> Plan[Deliveries]:
        """
        Deliver the effects of the queue, and those that its targets get by that.

        Returns:
            what was delivered. Behind `pages` pages it ends; the dispatchers of the queues are told that there may be
            more, and the next sweep finds it in any case.
        """
        queues, count, source = [queue], 0, queue
        to_advance: dict[str, None] = {}
        while queues and pages > 0:
            source = queues.pop()
            done: tuple[bytes | str, bytes | str] = "", ""
            while pages > 0 and (page := (yield scripted("effects", self.keys.root(source), done, texts))):
                pages -= 1
                target, *entries = page
                taken, has_more, can_advance = yield from self._deliver(source, target, entries)
                done = target, taken
                count += len(entries)
                if can_advance:
                    to_advance[target.decode()] = None
                if has_more and target.decode() not in queues:
                    queues.append(target.decode())
        if pages <= 0:
            yield [plain(nothing, "PUBLISH", self.keys.of(name, "wake"), "effects") for name in {source, *queues}]
        return Deliveries(count, [*to_advance])

    def _deliver(self, source: str, target: bytes, entries: list[bytes]) -> Plan[tuple[bytes, int, int]]:
        """The highest number taken, whether the other queue has effects now, and whether its runs can go on."""
        name = target.decode(errors="replace")
        if not is_name(name):
            raise BrokerError(f"queue '{source}': its effects are for {name!r}, which is not a name of a queue")
        return (yield scripted("deliver", self.keys.root(name), (source, *entries), _delivered))  # type: ignore[no-any-return]


def _delivered(reply: Any) -> tuple[bytes, int, int]:
    taken, has_more, can_advance = fields(reply, bytes, int, int)
    return taken, has_more, can_advance
