"""The figures of a trial, as a page."""

import itertools
from collections import Counter

from tests.chaos.blame import Blame
from tests.chaos.faults import CUT, TERM
from tests.chaos.package import LEASE, MARGIN, RENEW
from tests.chaos.plant import KINDS
from tests.chaos.verdict import by_invariant


def summary(ledger, violations):
    """All figures; times in s."""
    verbs = Counter(step.verb for steps in ledger.steps.values() for step in steps)
    again = recoveries(ledger)
    return {
        "jobs": len(ledger.acks),
        "ticks": sum(len(ticks) for ticks in ledger.ticks.values()),
        "longer_than_a_lease": sum(ack.seconds > LEASE for ack in ledger.acks),
        "steps": {verb: count for verb, count in sorted(verbs.items()) if verb != "tick"},
        "runs": sum(len(runs) for runs in ledger.runs.values()),
        "kills": sum(fault.kills for fault in ledger.faults),
        "stops": sum(fault.stopped > 0 for fault in ledger.faults),
        "faults": {kind: _of_kind(ledger, kind, again.get(kind, [])) for kind in (*KINDS, TERM, CUT)},
        "seconds": {part: round(seconds, 1) for part, seconds in ledger.seconds.items()},
        "violations": by_invariant(violations),
    }


def _of_kind(ledger, kind, again):
    faults = [fault for fault in ledger.faults if fault.kind == kind]
    stops = sum(fault.stopped > 0 for fault in faults)
    return {"done": len(faults) - stops, "stops": stops, "reruns": len(again), **_quantiles(again)}


def _quantiles(values):
    if not values:
        return {}
    values = sorted(values)
    high = values[min(len(values) - 1, int(len(values) * 0.99))]
    named = {"median": values[len(values) // 2], "p99": high, "max": values[-1]}
    return {name: round(value, 3) for name, value in named.items()}


def markdown(title, figures):
    """The summary as a page."""
    yield f"## {title}\n"
    yield "| | |\n|---|---|"
    yield f"| jobs acknowledged | {figures['jobs']:,} |"
    yield f"| of them longer than a lease ({LEASE:g} s) | {figures['longer_than_a_lease']:,} |"
    yield f"| jobs of cron ticks | {figures['ticks']:,} |"
    yield from (f"| steps in Redis: {verb} | {count:,} |" for verb, count in figures["steps"].items())
    yield f"| runs | {figures['runs']:,} |"
    yield f"| kills · stops | {figures['kills']:,} · {figures['stops']:,} |"
    yield from (f"| {part}, s | {seconds:,} |" for part, seconds in figures["seconds"].items())
    yield "\n| fault | killed, or done | stopped | runs cut off | run again after, s: median | p99 | max |"
    yield "|---|---|---|---|---|---|---|"
    for kind, each in figures["faults"].items():
        times = " | ".join(str(each.get(name, "")) for name in ("median", "p99", "max"))
        yield f"| {kind} | {each['done']:,} | {each['stops']:,} | {each['reruns']:,} | {times} |"
    yield "\n| invariant | violations |\n|---|---|"
    yield from (f"| {name} | {count} |" for name, count in figures["violations"].items())
    yield ""


def recoveries(ledger, lease=LEASE, patience=LEASE - MARGIN - RENEW):
    """Kind of fault → seconds from a kill until each job that it cut off ran again."""
    found = {kind: [] for kind in KINDS}
    blame = Blame(ledger, lease=lease, margin=0.0, renew=lease - patience)
    for runs in ledger.runs.values():
        for run, after in itertools.pairwise(runs):
            fault = blame.rerun(run, after)
            if fault and fault.kills:
                found[fault.kind].append(max(0.0, after.began - fault.at))
    return found
