"""
Look after what a group's children run, as long as any does.

1. kill       past its hard timeout, its lease or a cancel; what speaks no protocol; what begins nothing
2. take back  what waits behind a long job, or must not begin any more: it goes elsewhere

Knows the slots. What a death means, and where a job goes, others decide.
"""

from __future__ import annotations

import asyncio
import math
import time
from typing import TYPE_CHECKING

from fusiond.worker.slots import State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from fusiond.worker.slots import Attempt, Doom, Slot

#: s; how often running jobs are looked at, and how long a job may wait behind a running one
WATCH, STUCK = 0.1, 0.05
#: ns; for a child of one job to end after it, and for another one to tell of a job that it is past
LINGER = 1_000_000_000
#: s; from taking a job back to the look at the child's mark (see wire.py)
TAKE_BACK = 0.002


class Watch:
    """Over the slots of one pool."""

    def __init__(
        self,
        slots: Mapping[int, Slot],
        kill: Callable[[Slot, Doom, int], None],
        kill_hostile: Callable[[Slot], None],
        on_back: Callable[[list[Attempt]], None],
    ) -> None:
        """`kill_hostile`: of a slot that says why it is `broken`; `on_back`: takes what was never begun."""
        self._slots, self._kill, self._kill_hostile, self._on_back = slots, kill, kill_hostile, on_back
        self._loop = asyncio.get_running_loop()
        self._on = False

    def keep_on(self) -> None:
        """Look each WATCH seconds until nothing runs."""
        if not self._on and self._busy():
            self._on = True
            self._loop.call_later(WATCH, self._again)

    def look(self) -> None:
        """Look at once: a cancel or a lost lease was heard of."""
        now = time.monotonic_ns()
        for slot in list(self._slots.values()):
            if slot.outstanding and slot.state == State.READY:
                self._look_at(slot, now)
            elif slot.spent:
                self._look_at_spent(slot, now)

    def take_all_back(self) -> None:
        """Forbid every job that has not begun."""
        for slot in self._slots.values():
            self._take_back(slot, slot.waiting())

    def _again(self) -> None:
        self.look()
        self._on = False
        self.keep_on()

    def _busy(self) -> bool:
        return any(slot.outstanding or slot.spent for slot in self._slots.values())

    def _look_at(self, slot: Slot, now: int) -> None:
        running = slot.running()
        ran = slot.ran(now)
        if running:
            serial, attempt = running
            doom = attempt.doom(now, ran)
            if doom:
                self._kill(slot, doom, serial)
                return
        elif slot.handed <= now:
            slot.broken = slot.broken or _what_it_owes(slot, now)
        if slot.broken:
            self._kill_hostile(slot)
            return
        back = list(_not_to_begin(slot, now, stuck=ran > STUCK))
        if back:
            self._take_back(slot, back)

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


def _not_to_begin(slot: Slot, now: int, *, stuck: bool) -> Iterable[int]:
    """Serials that wait and had better not: all of them behind a long job."""
    for serial in slot.waiting():
        attempt = slot.outstanding[serial]
        if stuck or attempt.canceled or attempt.lost or attempt.lease <= now:
            yield serial
