"""The figures of a trial, as a table."""

import itertools
from collections import Counter

from tests.chaos.package import LEASE, MARGIN, RENEW
from tests.chaos.plant import KINDS
from tests.chaos.verdict import explanation


def figures(ledger):
    """Lines: jobs, runs, faults by kind, and how soon a cut-off job ran again."""
    runs = sum(len(each) for each in ledger.runs.values())
    yield f"jobs acknowledged {len(ledger.acks)}, runs {runs}, faults {len(ledger.faults)}"
    kills = Counter(fault.kind for fault in ledger.faults if not fault.stopped)
    stops = Counter(fault.kind for fault in ledger.faults if fault.stopped)
    again = recoveries(ledger)
    yield f"{'':12} {'kills':>6} {'stops':>6} {'reruns':>7}   rerun after, s: median   p99   max"
    for kind in KINDS:
        line = f"{kind:12} {kills[kind]:6} {stops[kind]:6} {len(again[kind]):7}"
        yield line + (f"   {_quantiles(again[kind])}" if again[kind] else "")


def recoveries(ledger, lease=LEASE, patience=LEASE - MARGIN - RENEW):
    """Kind of fault → seconds from a kill until each job that it cut off ran again."""
    found = {kind: [] for kind in KINDS}
    for runs in ledger.runs.values():
        for run, after in itertools.pairwise(runs):
            fault = explanation(run, after, ledger.faults, lease, patience)
            if fault and not fault.stopped:
                found[fault.kind].append(max(0.0, after.began - fault.at))
    return found


def resumptions(ledger):
    """Kind of fault → seconds from each kill until a job began that was enqueued after it."""
    found = {kind: [] for kind in KINDS}
    for fault in ledger.faults:
        fresh = [ledger.runs[ack.id][0].began for ack in ledger.acks if ack.at > fault.at and ledger.runs.get(ack.id)]
        if fresh and not fault.stopped:
            found[fault.kind].append(min(fresh) - fault.at)
    return found


def _quantiles(values):
    values = sorted(values)
    median, high = values[len(values) // 2], values[min(len(values) - 1, int(len(values) * 0.99))]
    return f"{'':14}{median:7.3f} {high:7.3f} {values[-1]:7.3f}"
