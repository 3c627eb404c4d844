"""
Watch the children of a group while any of them has a job.

0. stop       a job of a child that has others too, if it is canceled or its lease is over
1. kill       a child whose job is past its hard timeout or its lease, or is canceled; one that breaks the protocol; one
              that begins nothing
2. name       in the log, each child that was killed and has not ended
3. take       the outcomes that a child keeps while it runs a long job
4. take back  jobs that wait behind a long one, jobs that an idle child does not begin, and jobs that must not begin any
              more; other children get them
5. renew      all leases if a look comes late: this process was frozen, or its host suspended, maybe with the children.
              No child is killed for a lease that is over before Redis has had time to answer

Knows the children. Other modules decide what a death means and where a job goes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

from fusiond.worker.pool.attempt import KillReason
from fusiond.worker.pool.children import Children
from fusiond.worker.pool.pool_reports import Late
from fusiond.worker.pool.run_times import PENDING
from fusiond.worker.pool.slots import ChildHandle, Running
from fusiond.worker.runtime.wire import boot_ns

#: s; between two looks at the running jobs; and how long a job may wait behind a running one
WATCH, STUCK = 0.1, 0.05
#: ns; for a one-job child to end after its job, and for another child to report a job that it has ended
LINGER = 1_000_000_000
#: ns; for a job to end that was told that its lease is over: another dispatcher may have it 1 s after that
_LOST_LINGER = 500_000_000
#: ns; after this time a killed child that has not ended is named
_UNKILLED = 5_000_000_000
#: ns; if a look comes so much later than the one before, this process was frozen
LATE = 1_000_000_000
#: ns; for Redis to say whether the leases hold, after a look that came late
ASKED = 1_000_000_000
#: s; how long an idle child may take to begin a job: at first, and at most. The time doubles whenever a job was not
#: begun, since otherwise no job would run on a machine that is too busy; it is the first again once a job begins sooner
BEGIN, LONGEST_BEGIN = 0.25, 8.0


class Watchdog:
    """Looks after the children of one pool."""

    def __init__(self, children: Children) -> None:
        self._children = children
        self._loop = asyncio.get_running_loop()
        self._on = False
        #: boot ns when the next look was asked for
        self._asked = 0
        #: monotonic ns until when the leases are being renewed: until then one that seems to be over may still hold
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
        self._on = False
        if boot_ns() - self._asked > LATE:
            self._asks_until = time.monotonic_ns() + ASKED
            self._children.report(Late())
        else:
            self.look()
        self.keep_on()

    def look(self) -> None:
        """Look at once: a job was canceled, or a lease was lost."""
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
        """Of many jobs that run at once, one that must not go on is stopped, and the others go on."""
        many, asks = child.slot.kind.is_concurrent, now < self._asks_until
        if not many and len(child.outstanding) > 1:
            self._children.take_kept(child)
            if not child.outstanding:
                return
        running = child.all_running(now)
        for each in running:
            if kill := self._stop_or_kill(child, each, now, 0 if asks else boot):
                child.kill_for(*kill)
                return
        if not running and child.handed <= boot and not asks:
            child.broken = child.broken or _what_it_owes(child, now)
        if child.broken:
            self._children.kill_hostile(child)
            return
        if not running:
            back = self._not_begun(child, now, boot)
        else:
            _, first, ran = running[0]
            stuck = child.lags(now, STUCK) if many else ran > STUCK
            back = list(_not_to_begin(child, now, boot, stuck=stuck))
            if not many and (now - first.handed_at) / 1e9 - ran < BEGIN:
                self._begin = BEGIN
        self._children.take_back(child, back)

    @staticmethod
    def _stop_or_kill(child: ChildHandle, running: Running, now: int, boot: int) -> tuple[KillReason, int] | None:
        """Why, and for which job, the child must be killed; None: it need not be, or its job is asked to end first."""
        attempt = running.attempt
        reason = attempt.kill_reason(boot, running.ran)
        if reason is None:
            return None
        if not child.slot.kind.is_concurrent:
            return reason, running.serial
        if running.ran > attempt.hard_timeout and reason is not KillReason.LOST:
            return child.culprit(running.serial, now) if reason is KillReason.TIMEOUT else (reason, running.serial)
        if not attempt.stopped:
            child.stop(running)
        # What a canceled job may do until its hard timeout, a job may not whose lease another one may have soon.
        is_over = reason is KillReason.LOST and attempt.stopped and attempt.stopped + _LOST_LINGER < now
        return (reason, running.serial) if is_over else None

    def _not_begun(self, child: ChildHandle, now: int, boot: int) -> list[int]:
        """Serials that wait in a child which runs nothing: all, where it has not begun the first in time."""
        waiting = child.waiting()
        if not waiting or child.outstanding[waiting[0]].handed_at + int(self._begin * 1e9) > now:
            return list(_not_to_begin(child, now, boot, stuck=False))
        self._begin = min(2 * self._begin, LONGEST_BEGIN)
        return waiting

    def _look_at_idle(self, child: ChildHandle, now: int, boot: int) -> None:
        """
        Kill a child that does not end after its only job, or does not report that it has passed over a job.

        The latter gets no job before it has reported, and has time for that while its lease is trusted.
        """
        child.idle_since = child.idle_since or now
        if child.idle_since + LINGER <= now and (child.spent or child.handed <= boot):
            child.broken = "it lives on after its job" if child.spent else "it has not begun what it was handed"
            self._children.kill_hostile(child)


def _what_it_owes(child: ChildHandle, now: int) -> str:
    """What a child that runs nothing has not done in time; empty: it may still do it."""
    if child.begun() < next(iter(child.outstanding)):
        return "it has not begun what it was handed"
    # It has passed over the jobs that were taken back behind a long one. It may be about to send that one's outcome.
    return "it does not tell how its job has ended" if child.seen + LINGER <= now else ""


def _not_to_begin(child: ChildHandle, now: int, boot: int, *, stuck: bool) -> Iterator[int]:
    """Serials that are to be taken back: all of them behind a long job, and those that have waited for too long."""
    old = now - int(PENDING * 1e9)
    behind = bool(child.all_running(now))
    for serial in child.waiting():
        attempt = child.outstanding[serial]
        late = behind and attempt.claimed <= old
        if stuck or late or attempt.canceled or attempt.lost or min(attempt.lease, attempt.expires) <= boot:
            yield serial
        behind = True
