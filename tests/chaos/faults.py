"""
Kills and stops, each noted before it is done.

A fault names the process that it hit, so that a second run of a job can be mapped to the fault that explains it.
"""

import contextlib
import os
import random
import signal
import threading
import time
from typing import NamedTuple

from tests.chaos.plant import CHILD, DISPATCHER, REDIS, SCHEDULER, SERVER, SUPERVISOR, WRAPPER


class Fault(NamedTuple):
    """One fault."""

    #: of plant.py
    kind: str
    pid: int
    #: epoch s
    at: float
    #: s that the process was stopped; 0: it was killed
    stopped: float = 0.0

    @property
    def until(self):
        """Epoch s."""
        return self.at + self.stopped


#: how often each kind is hit
WEIGHTS = {CHILD: 60, SERVER: 10, DISPATCHER: 10, SCHEDULER: 6, REDIS: 5, WRAPPER: 3, SUPERVISOR: 3}
#: the same, for bugs that show only where leases are lost
HUNT = WEIGHTS | {CHILD: 30, DISPATCHER: 40}
#: a stop is short, or longer than a lease of package.py
STOPS = (0.1, 0.3, 1.0, 4.5)


def kill(plant, kind, pid, faults):
    """SIGKILL; a supervisor gets a successor on the same state."""
    plant.remember()
    fault = Fault(kind, pid, time.time())
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
        faults.append(fault)
    if kind == SUPERVISOR:
        plant.process.wait()
        plant.start_up()


def stop(kind, pid, seconds, faults, over):
    """SIGSTOP, and SIGCONT after so many seconds, or when `over` is set."""
    fault = Fault(kind, pid, time.time(), seconds)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)
        faults.append(fault)
        over.wait(seconds)
        os.kill(pid, signal.SIGCONT)


class Injector(threading.Thread):
    """Faults at random, at a rate, until `count` were done or `end()` was called."""

    def __init__(self, plant, count, rate, *, stops=0.15, weights=None, seed=0):
        """`stops`: the share of faults that stop a process in place of killing it; `weights`: in place of WEIGHTS."""
        super().__init__(daemon=True)
        self._plant, self._count, self._rate, self._stops = plant, count, rate, stops
        self._weights = weights or WEIGHTS
        self._rand = random.Random(seed)
        self._over = threading.Event()
        self._stopping = []
        self.faults = []
        self.failure = None

    def run(self):
        began = time.monotonic()
        try:
            for number in range(self._count):
                if self._over.wait(max(0.0, began + (number + 1) / self._rate - time.monotonic())):
                    return
                self._strike()
        except BaseException as error:
            self.failure = error

    def _strike(self):
        kind = self._rand.choices(list(self._weights), list(self._weights.values()))[0]
        pids = self._plant.pids(kind)
        if not pids:
            return
        pid = self._rand.choice(pids)
        if kind != SUPERVISOR and self._rand.random() < self._stops:
            seconds = self._rand.choice(STOPS)
            thread = threading.Thread(target=stop, args=(kind, pid, seconds, self.faults, self._over))
            thread.start()
            self._stopping.append(thread)
        else:
            kill(self._plant, kind, pid, self.faults)

    def end(self):
        """No more faults; what is stopped goes on."""
        self._over.set()
        self.join(60)
        for thread in self._stopping:
            thread.join()
        if self.failure:
            raise self.failure
