"""
Look after what a group's children run, as long as any does.

1. kill       past its hard timeout, its lease or a cancel; what speaks no protocol; what begins nothing
2. take back  what waits behind a long job, or behind many that turn out not to be quick; what a child does not begin
              although it runs nothing; what must not begin any more. It goes elsewhere
3. doubt      when the look comes late: this process was frozen, or its host suspended, and maybe its children with it.
              The leases are asked for anew, and nobody loses one that is over before the answer has had time to come

Knows the slots. What a death means, and where a job goes, others decide.
"""

from __future__ import annotations

import asyncio
import math
import time
from typing import TYPE_CHECKING

from fusiond.worker.pool.batching import PENDING
from fusiond.worker.pool.slots import State
from fusiond.worker.runtime.wire import boot_ns

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from fusiond.worker.pool.attempt import Attempt, KillReason
    from fusiond.worker.pool.slots import Slot

#: s; how often running jobs are looked at, and how long a job may wait behind a running one
WATCH, STUCK = 0.1, 0.05
#: ns; for a child of one job to end after it, and for another one to tell of a job that it is past
LINGER = 1_000_000_000
#: s; from taking a job back to the look at the child's mark (see wire.py)
TAKE_BACK = 0.002
#: ns; a look that comes so much later than the one before was held up by more than work
LATE = 1_000_000_000
#: ns; for Redis to say whether the leases hold, after a look that came late
ASKED = 1_000_000_000
#: s; how long an idle child may take to begin a job: at first, and at most. It doubles each time that a job was not
#: begun, since otherwise no job would run on a machine that is too busy, and is the first again once one begins sooner
BEGIN, LONGEST_BEGIN = 0.25, 8.0


class Watchdog:
    """Over the slots of one pool."""

    def __init__(
        self,
        slots: Mapping[int, Slot],
        kill: Callable[[Slot, KillReason, int], None],
        kill_hostile: Callable[[Slot], None],
        on_back: Callable[[list[Attempt]], None],
        on_late: Callable[[], None],
    ) -> None:
        """
        A watch that has nothing to look at yet.

        Args:
            slots: of the pool.
            kill: ends a slot's child for a job.
            kill_hostile: ends the child of a slot that says why it is `broken`.
            on_back: takes what was never begun.
            on_late: has the leases asked for anew.
        """
        self._slots, self._kill, self._kill_hostile, self._on_back = slots, kill, kill_hostile, on_back
        self._on_late = on_late
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
        if not self._on and self._busy():
            self._on, self._asked = True, boot_ns()
            self._loop.call_later(WATCH, self._again)

    def look(self) -> None:
        """Look at once: a cancel or a lost lease was heard of."""
        now, boot = time.monotonic_ns(), boot_ns()
        for slot in list(self._slots.values()):
            if slot.state != State.READY:
                continue
            if slot.outstanding:
                self._look_at(slot, now, boot)
            elif slot.owes:
                self._look_at_owing(slot, now, boot)
            elif slot.spent:
                self._look_at_spent(slot, now)

    def take_back(self, tasks: Collection[bytes] | None = None) -> None:
        """Forbid every job of these tasks that has not begun; None: of all tasks."""
        for slot in self._slots.values():
            waiting = slot.waiting()
            serials = [serial for serial in waiting if tasks is None or slot.outstanding[serial].task in tasks]
            if serials:
                self._take_back(slot, serials)

    def _again(self) -> None:
        if boot_ns() - self._asked > LATE:
            self._asks_until = time.monotonic_ns() + ASKED
            self._on_late()
        else:
            self.look()
        self._on = False
        self.keep_on()

    def _busy(self) -> bool:
        return any(slot.outstanding or slot.owes or slot.spent for slot in self._slots.values())

    def _look_at(self, slot: Slot, now: int, boot: int) -> None:
        running = slot.running()
        ran = slot.ran(now)
        asks = now < self._asks_until
        if running:
            serial, attempt = running
            kill_reason = attempt.kill_reason(0 if asks else boot, ran)
            if kill_reason:
                self._kill(slot, kill_reason, serial)
                return
        elif slot.handed <= boot and not asks:
            slot.broken = slot.broken or _what_it_owes(slot, now)
        if slot.broken:
            self._kill_hostile(slot)
            return
        if running is None:
            back = self._not_begun(slot, now, boot)
        else:
            back = list(_not_to_begin(slot, now, boot, stuck=ran > STUCK))
            if (now - running[1].handed_at) / 1e9 - ran < BEGIN:
                self._begin = BEGIN
        if back:
            self._take_back(slot, back)

    def _not_begun(self, slot: Slot, now: int, boot: int) -> list[int]:
        """Serials that wait in a child which runs nothing: all, where it has not begun the first in time."""
        waiting = slot.waiting()
        if not waiting or slot.outstanding[waiting[0]].handed_at + int(self._begin * 1e9) > now:
            return list(_not_to_begin(slot, now, boot, stuck=False))
        self._begin = min(2 * self._begin, LONGEST_BEGIN)
        return waiting

    def _look_at_owing(self, slot: Slot, now: int, boot: int) -> None:
        """Its child may be slow to pass over what was taken back; it is handed nothing before it has."""
        slot.spent_at = slot.spent_at or now
        if slot.spent_at + LINGER <= now and slot.handed <= boot:
            slot.broken = "it has not begun what it was handed"
            self._kill_hostile(slot)

    def _look_at_spent(self, slot: Slot, now: int) -> None:
        slot.spent_at = slot.spent_at or now
        if slot.spent_at + LINGER <= now:
            slot.broken = "it lives on after its job"
            self._kill_hostile(slot)

    def _take_back(self, slot: Slot, serials: list[int]) -> None:
        """Forbid these to begin; those that then have not begun are given back."""
        for serial in serials:
            slot.page.allow(serial, 0)
        self._loop.call_later(TAKE_BACK, self._taken_back, slot, serials)

    def _taken_back(self, slot: Slot, serials: list[int]) -> None:
        begun = slot.begun() if slot.number in self._slots else math.inf
        back = [attempt for serial in serials if serial > begun and (attempt := slot.end(serial))]
        if back:
            self._on_back(back)


def _what_it_owes(slot: Slot, now: int) -> str:
    """What a child that runs nothing has not done in time; nothing, where it may be about to."""
    if slot.begun() < next(iter(slot.outstanding)):
        return "it has not begun what it was handed"
    # It has passed over what was taken back behind a long job. The outcome of that one may wait for 5 ms, and counts.
    return "it does not tell how its job has ended" if slot.seen + LINGER <= now else ""


def _not_to_begin(slot: Slot, now: int, boot: int, *, stuck: bool) -> Iterable[int]:
    """Serials that wait and had better not: all of them behind a long job, and what has waited for too long."""
    old = now - int(PENDING * 1e9)
    behind = slot.running() is not None
    for serial in slot.waiting():
        attempt = slot.outstanding[serial]
        late = behind and attempt.claimed <= old
        if stuck or late or attempt.canceled or attempt.lost or min(attempt.lease, attempt.expires) <= boot:
            yield serial
        behind = True
