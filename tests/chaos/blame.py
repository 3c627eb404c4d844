"""Which fault explains that a job ran again, or that a lease ran out. By pid, so that ten thousand are not a burden."""

import itertools
from bisect import bisect_left
from collections import defaultdict

from tests.chaos.faults import AWAY, CUT
from tests.chaos.package import LEASE, MARGIN, RENEW
from tests.chaos.plant import REDIS, WRAPPER

#: s; a chain that is dying may still begin a job
DYING = 1.0
#: s; between two clocks' readings
SKEW = 0.05
#: s; in which an outcome has reached Redis, where nothing holds it up
SETTLED = 2.0


class Blame:
    """The faults of one trial."""

    def __init__(self, ledger, *, lease=LEASE, margin=MARGIN, renew=RENEW):
        #: `patience`: s without a renewal after which a lease may be lost
        self._lease, self._patience = lease, lease - margin - renew
        self._kills, self._stops = defaultdict(list), defaultdict(list)
        for fault in ledger.faults:
            for pid in {fault.pid} | fault.takes if fault.ends else ():
                self._kills[pid].append(fault)
            if fault.stopped:
                self._stops[fault.pid].append(fault)
        #: dispatcher → supervisor
        self._above = {run.dispatcher: run.supervisor for run in itertools.chain(*ledger.runs.values())}
        away = [fault for fault in ledger.faults if fault.stopped and fault.kind == REDIS]
        self._away = _ByTime(away + [fault for fault in ledger.outages if fault.kind == AWAY])
        self._hurt = _ByTime(fault for fault in ledger.faults if fault.kind in (REDIS, WRAPPER, CUT))
        self._killed = _ByTime(fault for fault in ledger.faults if fault.kind in (REDIS, WRAPPER))

    def rerun(self, run, after):
        """The fault because of which a job ran again, or None."""
        for pid in run.chain:
            for fault in self._kills[pid]:
                if run.began - DYING <= fault.at <= after.began + SKEW and self._cut_off(run, fault):
                    return fault
        return self.lost(run.dispatcher, run.began, after.began)

    def lost(self, dispatcher, began, until):
        """The fault because of which a lease that this dispatcher took at `began` was lost by `until`, or None."""
        for fault in self._kills[dispatcher] + self._kills[self._above.get(dispatcher, 0)]:
            if began - DYING <= fault.at <= until + SKEW:
                return fault
        # Stopped for so long, a dispatcher, or every one with Redis, has lost its leases. A stopped child costs none.
        stops = [stop for stop in self._stops[dispatcher] if stop.at <= until and stop.until >= began - self._lease]
        frozen = stops + self._away.between(began - self._lease - 30.0, until)
        frozen = [fault for fault in frozen if fault.until >= began - self._lease]
        if sum(fault.stopped for fault in frozen) >= self._patience:
            return max(frozen, key=lambda fault: fault.stopped)
        # Redis may die twice in a row, and so be away for longer than a lease lasts.
        killed = self._killed.between(began - self._lease, until)
        return next((two for one, two in itertools.pairwise(killed) if two.at - one.at < self._lease), None)

    def _cut_off(self, run, fault):
        """Whether the fault came before the run's outcome can have reached Redis."""
        if run.ended is None or fault.at <= run.ended + SETTLED:
            return True
        held_up = self._hurt.between(run.ended - SETTLED, fault.at) + self._away.between(run.ended - 30.0, fault.at)
        stops = [stop for stop in self._stops[run.dispatcher] if stop.at <= fault.at and stop.until >= run.ended]
        return bool(stops) or any(each.until >= run.ended - SETTLED for each in held_up)

    def could_not_know(self, run, others):
        """Whether its child was stopped, maybe between its look at the lease and its first line: one run for a stop."""
        stops = [stop for stop in self._stops[run.child] if stop.at < run.began]
        return any(not any(stop.until < other < run.began for other in others) for stop in stops)

    def last_breath(self, run):
        """Epoch s of the first kill of what the run depends on, the child apart, or None."""
        kills = [fault.at for pid in run.chain - {run.child} for fault in self._kills[pid] if fault.kills]
        return min((at for at in kills if at >= run.began - DYING), default=None)

    def thaw(self, run, at):
        """When those who could end the run were last continued, of those stopped at `at` or later; else `at`."""
        stops = [stop for pid in (run.dispatcher, run.server) for stop in self._stops[pid]]
        return max((stop.until for stop in stops if stop.until >= at and stop.at <= run.ended), default=at)


class _ByTime:
    """Faults in their order."""

    def __init__(self, faults):
        self._faults = sorted(faults, key=lambda fault: fault.at)
        self._at = [fault.at for fault in self._faults]

    def between(self, since, until):
        """Those that began then."""
        return self._faults[bisect_left(self._at, since) : bisect_left(self._at, until)]
