"""
The verbs of operators on many jobs at once: page after page, each of a bounded size.

Whoever is killed between two pages has done the pages before; the same verb again does the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from fusiond.broker.call import Call, Plan, nothing, number, plain, scripted, texts
from fusiond.broker.event_verbs import EventVerbs
from fusiond.broker.jobs import JobVerbs
from fusiond.broker.maintenance.operator import OperatorVerbs

#: jobs of one page
PAGE: Final = 200
#: in this order, so that no job is passed over that gets its turn meanwhile
_WAITING: Final = ("deferred", "scheduled", "held", "queue")


class BulkVerbs(JobVerbs, OperatorVerbs, EventVerbs):
    """Verbs that go through a whole queue."""

    def purge(self, queue: str, canceled: Callable[[int], None] = nothing, *, who: str = "") -> Plan[int]:
        """
        Cancel the jobs of a queue that wait, also those in its inbox; how many. Jobs that run are left alone.

        `canceled`: is told how many, after each page; `who`: asks, for the events.
        """
        total = 0
        while True:
            yield self.rescue(queue)
            before = total
            for name in _WAITING:
                stay = 0
                while ids := (yield plain(texts, "ZRANGE", self.keys.of(queue, name), stay, stay + PAGE - 1)):
                    replies = yield [self.cancel(queue, id_.decode(errors="replace"), who=who) for id_ in ids]
                    total += replies.count("canceled")
                    stay += len(ids) - replies.count("canceled")
                    canceled(total)
            left = yield plain(number, "LLEN", self.keys.of(queue, "inbox"))
            if total == before or not left:
                break
        yield self.record_event(queue, "purged", who, [("m", f"{total} jobs were canceled")])
        return total

    def requeue_broken(self, queue: str, entries: Sequence[bytes], *, who: str = "") -> Call[int]:
        """Put bodies that were put aside back into the inbox; how many of them were still there."""
        return scripted("requeue_broken", self.keys.root(queue), (who, *entries), number)

    def drop_broken(self, queue: str, entry: bytes, *, who: str = "") -> Call[int]:
        """Delete a body that was put aside; 0: it was no longer there."""
        return scripted("drop_broken", self.keys.root(queue), (who, entry), number)
