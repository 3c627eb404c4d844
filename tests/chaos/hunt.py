"""The hunt: each seeded bug must be found, and under the same load and faults the right code must stand."""

import time
from collections import Counter
from dataclasses import replace

from tests.chaos import verdict
from tests.chaos.bugs import BUGS, PLANS
from tests.chaos.trial import NoRest, carry_out


def find(name, seed=0):
    """What the verdict finds of this bug; empty: nothing."""
    bug = BUGS[name]
    return _violations(replace(PLANS[bug.plan], seed=seed, edits=tuple(bug.edits)))


def stand(plan, seed=0):
    """What the verdict finds in the right code."""
    return _violations(replace(PLANS[plan], seed=seed))


def _violations(plan):
    try:
        return verdict.judge(carry_out(plan))
    except NoRest as error:
        return [f"I1 it does not come to rest: {str(error).splitlines()[0]}"]


def hunt(names, times, seed, write):
    """Each bug, and what its plan does to the right code, so many times; 1: one was not found, or was where none is."""
    failed = 0
    for plan in dict.fromkeys(BUGS[name].plan for name in names):
        for number in range(times):
            began = time.monotonic()
            found = stand(plan, seed + number)
            failed += bool(found)
            _say(f"(the right code) {plan}", found, time.monotonic() - began, good=not found)
    write("| bug | in | what it does | found under | by | found | seconds, most |\n|---|---|---|---|---|---|---|")
    for name in names:
        kinds, hits, slowest = Counter(), 0, 0.0
        for number in range(times):
            began = time.monotonic()
            found = find(name, seed + number)
            took = time.monotonic() - began
            hits, slowest = hits + bool(found), max(slowest, took)
            kinds.update({violation.split()[0] for violation in found})
            _say(name, found, took, good=bool(found))
        failed += hits < times
        bug, by = BUGS[name], " ".join(sorted(kinds))
        write(f"| {name} | {bug.where} | {bug.what} | {bug.plan} | {by} | {hits} of {times} | {slowest:.0f} |")
    return 1 if failed else 0


def _say(name, found, seconds, *, good):
    first = f"{len(found)} violations, as {found[0]}" if found else "nothing found"
    print(f"{'✓' if good else '✗'} {name:40} {seconds:5.1f} s  {first[:150]}", flush=True)
