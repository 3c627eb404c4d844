"""
Notice programs that hang, and end them.

1. ask      each program whether it is alive, every ASK seconds and whenever `fusiond status` wants to know; it answers
            at once, and then says whether it can serve
2. judge    a program that leaves a question unanswered for SILENT seconds is killed; the supervisor starts it again
3. sweep    what was below it ends with it; what has not after SWEEP seconds is killed too
4. forgive  where this loop itself stood still, as after a suspend or SIGSTOP, it asks anew before it judges anyone
"""

from __future__ import annotations

import logging
import math
import time
from typing import TYPE_CHECKING

from supervisor.states import ProcessStates as State

from fusiond.supervise import tree
from fusiond.supervise.programs import REDIS

if TYPE_CHECKING:
    from collections.abc import Callable

    from fusiond.supervise.fleet import Fleet
    from fusiond.supervise.supervisord.process import Process

#: seconds between two questions
ASK = 5.0
#: seconds of silence after which a program is killed: a lease, `fusiond.worker.dispatcher.leases.LEASE`
SILENT = 15.0
#: the same for a program that has not answered since its start: it may still load its modules from a slow disk
SILENT_AT_START = 60.0
#: seconds by which a turn of the loop may be late
LATE = 1.0
#: seconds that a killed program's own processes have to end by themselves
SWEEP = 1.0
#: seconds that `status` waits for answers
SOON = 2.0
log = logging.getLogger(__name__)


class Liveness:
    """The questions to all programs of a fleet, and what follows from silence."""

    def __init__(self, fleet: Fleet, clock: Callable[[], float] = time.monotonic) -> None:
        self._fleet, self._clock = fleet, clock
        self._ask_at = clock()
        #: when this loop wants to be awake again, at the latest
        self._awake_by = math.inf
        #: what was below killed programs, and when it is looked at again
        self._left: list[tuple[float, frozenset[tree.Member]]] = []

    def tick(self) -> None:
        """Ask, judge and sweep, as far as it is time."""
        now = self._clock()
        late = now > self._awake_by + LATE
        if late:
            log.info("this loop was %.1f s late: each program is asked anew", now - self._awake_by)
        for process in self._fleet:
            if late:
                process.ask_anew(now)
            elif process.silent_for(now) > _patience(process):
                self._end(process, now)
        if late or now >= self._ask_at:
            self.ask()
        self._sweep(now)
        self._awake_by = now + self.due(now)

    def due(self, now: float) -> float:
        """Seconds until `tick` has something to do."""
        moments = [self._ask_at, *(moment for moment, _ in self._left)]
        moments += [now + _patience(process) - process.silent_for(now) for process in self._fleet]
        return max(0.0, min(moments) - now)

    def ask(self) -> None:
        """Ask each program now."""
        now = self._clock()
        self._ask_at = now + ASK
        for process in self._fleet:
            process.ask(now)

    def heard(self, asked_at: float) -> bool:
        """Whether each ready program has answered what it was asked at that time, or had SOON seconds to do so."""
        if self._clock() > asked_at + SOON:
            return True
        return all(process.checked >= process.asked for process in self._fleet if process.ready)

    def _end(self, process: Process, now: float) -> None:
        members = process.end_silent(now)
        self._left.append((now + SWEEP, members))

    def _sweep(self, now: float) -> None:
        due = [members for moment, members in self._left if moment <= now]
        self._left = [(moment, members) for moment, members in self._left if moment > now]
        for members in due:
            if still := tree.living(members):
                log.warning("%d processes outlive the program that was killed above them: killed", len(still))
                tree.kill(still)


def _patience(process: Process) -> float:
    """Seconds that the program may be silent."""
    if process.state == State.STOPPING and process.program.part == REDIS:
        # Its wrapper waits for the server alone, which writes its file; the stop has a deadline of its own.
        return math.inf
    return SILENT if process.answered or process.ready else SILENT_AT_START
