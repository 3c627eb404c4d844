"""For how long the processes of daemons wait for a processor: a machine that is busy delays all that they do."""

import contextlib
import math
import threading
import time
from pathlib import Path

from tests.support.running import descendants


class Lag(threading.Thread):
    """Notes for how long processes waited for a processor, since an idle child that gets none takes no job."""

    def __init__(self, stalled):
        """`stalled`: gives the seconds of waiting so far."""
        super().__init__(daemon=True)
        self._stalled, self._over = stalled, threading.Event()
        #: (when, s of waiting since the one before)
        self.found = []

    def run(self):
        before, stalled = time.time(), self._stalled()
        while not self._over.wait(0.02):
            now, more = time.time(), self._stalled()
            late = now - before - 0.02
            self.found.append((before, max(late if late > 0.05 else 0.0, more - stalled)))
            before, stalled = now, more

    def end(self):
        self._over.set()
        self.join(10)

    def within(self, began, ended):
        """The seconds of waiting from one time to another."""
        return sum(waited for at, waited in self.found if began <= at < ended)


class OursStalled:
    """
    Seconds that the daemons' processes have waited, all together.

    It knows new processes LOOK seconds late, forked children mostly not at all. The waiting of other programs does not
    count: on a busy machine it would excuse any delay.
    """

    LOOK = 0.5

    def __init__(self, roots):
        """`roots`: pids, whose descendants count too."""
        self._roots, self._pids, self._looked = roots, [], -math.inf
        #: pid → s of waiting
        self._waited = {}

    def __call__(self):
        if time.monotonic() - self._looked > self.LOOK:
            self._looked = time.monotonic()
            self._pids = [pid for root in self._roots for pid in (root, *(pid for pid, _ in descendants(root)))]
        for pid in self._pids:
            # proc(5): time on the processor, time in the run queue, ns
            with contextlib.suppress(OSError, IndexError):
                self._waited[pid] = int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
        return sum(self._waited.values())
