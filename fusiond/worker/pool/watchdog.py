"""
Look after what a group's children run, as long as any does.

1. kill       past its hard timeout, its lease or a cancel; what speaks no protocol; what begins nothing
2. name       in the log, what was killed and has not ended
3. take back  what waits behind a long job, or behind many that turn out not to be quick; what a child does not begin
              although it runs nothing; what must not begin any more. It goes elsewhere
4. ask anew   for the leases where the look comes late: this process was frozen, or its host suspended, and maybe its
              children with it. Nobody loses a lease that is over before the answer has had time to come

Knows the children. What a death means, and where a job goes, others decide.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from fusiond.worker.pool.pool_reports import Late
from fusiond.worker.pool.run_times import PENDING
from fusiond.worker.runtime.wire import boot_ns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fusiond.worker.pool.children import Children
    from fusiond.worker.pool.slots import ChildHandle

#: s; how often running jobs are looked at, and how long a job may wait behind a running one
WATCH, STUCK = 0.1, 0.05
#: ns; for a child of one job to end after it, and for another one to tell of a job that it is past
LINGER = 1_000_000_000
#: ns; after which a killed child that has not ended is named
_UNKILLED = 5_000_000_000
#: ns; a look that comes so much later than the one before was held up by more than work
LATE = 1_000_000_000
#: ns; for Redis to say whether the leases hold, after a look that came late
ASKED = 1_000_000_000
#: s; how long an idle child may take to begin a job: at first, and at most. It doubles each time that a job was not
#: begun, since otherwise no job would run on a machine that is too busy, and is the first again once one begins sooner
BEGIN, LONGEST_BEGIN = 0.25, 8.0


class Watchdog:
    """Looks after the children of one pool."""

    def __init__(self, children: Children) -> None:
        self._children = children
        self._loop = asyncio.get_running_loop()
        self._on = False
        #: boot ns when the next look was asked for
        self._asked = 0
        #: monotonic ns until when the leases are being asked for, so that an old one that is over proves nothing
        self._asks_until = 0
        #: s; how long an idle child may take to begin a job, now
        self._begin = BEGIN

    def keep_on(self) -> None:
        """Look each WATCH seconds until nothing runs."""
        children = self._children.living.values()
        if not self._on and any(child.outstanding or child.owes or child.spent for child in children):
            self._on, self._asked = True, boot_ns()
            self._loop.call_later(WATCH, self._again)

    def _again(self) -> None:
        if boot_ns() - self._asked > LATE:
            self._asks_until = time.monotonic_ns() + ASKED
            self._children.report(Late())
        else:
            self.look()
        self._on = False
        self.keep_on()

    def look(self) -> None:
        """Look at once: a cancel or a lost lease was heard of."""
        now, boot = time.monotonic_ns(), boot_ns()
        for child in list(self._children.living.values()):
            if child.kill:
                # A fork server that does not answer just now has not killed it yet.
                if child.kill.at + _UNKILLED <= now and not child.server.silent:
                    self._children.name(child, child.kill)
            elif child.outstanding:
                self._look_at(child, now, boot)
            elif child.owes or child.spent:
                self._look_at_idle(child, now, boot)

    def _look_at(self, child: ChildHandle, now: int, boot: int) -> None:
        serial, asks = child.begun(), now < self._asks_until
        running = child.outstanding.get(serial)
        ran = child.ran(now)
        if running:
            reason = running.kill_reason(0 if asks else boot, ran)
            if reason:
                child.kill_for(reason, serial)
                return
        elif child.handed <= boot and not asks:
            child.broken = child.broken or _what_it_owes(child, now)
        if child.broken:
            self._children.kill_hostile(child)
            return
        if running is None:
            back = self._not_begun(child, now, boot)
        else:
            back = list(_not_to_begin(child, now, boot, stuck=ran > STUCK))
            if (now - running.handed_at) / 1e9 - ran < BEGIN:
                self._begin = BEGIN
        self._children.take_back(child, back)

    def _not_begun(self, child: ChildHandle, now: int, boot: int) -> list[int]:
        """Serials that wait in a child which runs nothing: all, where it has not begun the first in time."""
        waiting = child.waiting()
        if not waiting or child.outstanding[waiting[0]].handed_at + int(self._begin * 1e9) > now:
            return list(_not_to_begin(child, now, boot, stuck=False))
        self._begin = min(2 * self._begin, LONGEST_BEGIN)
        return waiting

    def _look_at_idle(self, child: ChildHandle, now: int, boot: int) -> None:
        """
        One that is to end after its job, or to say that it has passed over what was taken back.

        The latter is handed nothing before it has, and may be slow to for as long as its lease is trusted.
        """
        child.idle_since = child.idle_since or now
        if child.idle_since + LINGER <= now and (child.spent or child.handed <= boot):
            child.broken = "it lives on after its job" if child.spent else "it has not begun what it was handed"
            self._children.kill_hostile(child)


def _what_it_owes(child: ChildHandle, now: int) -> str:
    """What a child that runs nothing has not done in time; nothing, where it may be about to."""
    if child.begun() < next(iter(child.outstanding)):
        return "it has not begun what it was handed"
    # It has passed over what was taken back behind a long job. The outcome of that one may wait for 5 ms, and counts.
    return "it does not tell how its job has ended" if child.seen + LINGER <= now else ""


def _not_to_begin(child: ChildHandle, now: int, boot: int, *, stuck: bool) -> Iterator[int]:
    """Serials that wait and had better not: all of them behind a long job, and what has waited for too long."""
    old = now - int(PENDING * 1e9)
    behind = child.running is not None
    for serial in child.waiting():
        attempt = child.outstanding[serial]
        late = behind and attempt.claimed <= old
        if stuck or late or attempt.canceled or attempt.lost or min(attempt.lease, attempt.expires) <= boot:
            yield serial
        behind = True
