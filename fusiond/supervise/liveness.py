"""
Notice programs that hang, and end them.

1. ask      each program whether it is alive, every ASK seconds and whenever `fusiond status` wants to know; it answers
            at once, and then says whether it can serve
2. judge    a program that leaves a question unanswered for SILENT seconds is killed; the supervisor starts it again
3. sweep    the processes below it end with it; those that still live after SWEEP seconds are killed too
4. repeat   if this loop itself stood still, as after a suspend or SIGSTOP, ask each program again before judging any
"""

from __future__ import annotations

import logging
import math
import time

from supervisor.states import ProcessStates as State

from fusiond.supervise import tree
from fusiond.supervise.process_table import ProcessTable
from fusiond.supervise.supervisord.process import Process
from fusiond.supervise.wanted_programs import REDIS

#: seconds between two questions
ASK = 5.0
#: seconds of silence after which a program is killed: a lease, `fusiond.worker.dispatcher.claims.leases.LEASE`
SILENT = 15.0
#: the same for a program that has not answered since its start: it may still load its modules from a slow disk
SILENT_AT_START = 60.0
#: seconds by which a turn of the loop may be late
LATE = 1.0
#: seconds in which the processes below a killed program may end by themselves
SWEEP = 1.0
#: seconds that `status` waits for answers
SOON = 2.0
log = logging.getLogger(__name__)


class Liveness:
    """The questions to all programs, and what follows from silence."""

    def __init__(self, processes: ProcessTable) -> None:
        self._processes = processes
        self._ask_at = time.monotonic()
        #: the latest time at which this loop wants to be awake again
        self._awake_by = math.inf
        #: when to kill which processes that were below killed programs
        self._sweeps: list[tuple[float, frozenset[tree.Member]]] = []

    def tick(self) -> None:
        """Ask, judge and sweep, as far as it is time."""
        now = time.monotonic()
        late = now > self._awake_by + LATE
        if late:
            log.info("this loop was %.1f s late: each program is asked again", now - self._awake_by)
        for process in self._processes:
            if late:
                process.ask_again(now)
            elif process.silent_for(now) > _patience(process):
                self._sweeps.append((now + SWEEP, process.kill_silent(now)))
        if late or now >= self._ask_at:
            self.ask()
        self._sweep(now)
        self._awake_by = now + self.due(now)

    def due(self, now: float) -> float:
        """Seconds until `tick` has something to do."""
        times = [self._ask_at, *(at for at, _ in self._sweeps)]
        times += [now + _patience(process) - process.silent_for(now) for process in self._processes]
        return max(0.0, min(times) - now)

    def ask(self) -> None:
        """Ask each program now."""
        now = time.monotonic()
        self._ask_at = now + ASK
        for process in self._processes:
            process.ask(now)

    def answered(self, asked_at: float) -> bool:
        """Whether each ready program has answered the questions of that time, or had SOON seconds to do so."""
        if time.monotonic() > asked_at + SOON:
            return True
        return all(process.checked >= process.asked for process in self._processes if process.ready)

    def _sweep(self, now: float) -> None:
        due = [members for at, members in self._sweeps if at <= now]
        self._sweeps = [(at, members) for at, members in self._sweeps if at > now]
        for members in due:
            if still := tree.living(members):
                log.warning("killed %d processes that outlived the killed program above them", len(still))
                tree.kill(still)


def _patience(process: Process) -> float:
    """Seconds that the program may be silent."""
    if process.state == State.STOPPING and process.program.part == REDIS:
        # It waits for the server, which writes its file, and for nothing else; the stop has its own deadline.
        return math.inf
    return SILENT if process.answered or process.ready else SILENT_AT_START
