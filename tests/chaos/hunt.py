"""The hunt: each seeded bug must be found, and under the same load and faults the right code must stand."""

import time
from collections import Counter
from dataclasses import replace

from tests.chaos import verdict
from tests.chaos.bugs import BUGS, PLANS
from tests.chaos.situations import SITUATIONS
from tests.chaos.trial import NoRest, carry_out


def find(name, seed=0):
    """What is found of this bug; empty: nothing."""
    return _violations(BUGS[name].plan, seed, tuple(BUGS[name].edits))


def stand(plan, seed=0):
    """What is found in the right code."""
    return _violations(plan, seed, ())


def _violations(plan, seed, edits):
    if plan in SITUATIONS:
        return SITUATIONS[plan](edits=edits, seed=seed)
    try:
        return verdict.judge(carry_out(replace(PLANS[plan], seed=seed, edits=edits)))
    except NoRest as error:
        return [f"I1 it does not come to rest: {str(error).splitlines()[0]}"]


def situations(seed, times=1):
    """Each situation with the right code, so many times; how many showed a violation."""
    failed = 0
    for name in SITUATIONS:
        for number in range(times):
            began = time.monotonic()
            found = stand(name, seed + number)
            failed += bool(found)
            _say(name, found, time.monotonic() - began, good=not found)
            for violation in found[1:20]:
                print(f"  ✗ {violation}", flush=True)
    return failed


#: further tries for a bug that is not found: some need a fault within a millisecond or two
AGAIN = 3


def hunt(names, times, seed, write):
    """Find each bug that many times, and nothing in the right code; 1: one was not found, or was where none is."""
    failed = 0
    for plan in dict.fromkeys(BUGS[name].plan for name in names):
        for number in range(times):
            began = time.monotonic()
            found = stand(plan, seed + number)
            failed += bool(found)
            _say(f"(the right code) {plan}", found, time.monotonic() - began, good=not found)
    write = write or (lambda _: None)
    write("| bug | in | what it does | found under | by | found | seconds, most |\n|---|---|---|---|---|---|---|")
    for name in names:
        kinds, hits, tries, slowest = Counter(), 0, 0, 0.0
        while hits < times and tries < times + AGAIN:
            began = time.monotonic()
            found = find(name, seed + tries)
            took = time.monotonic() - began
            hits, tries, slowest = hits + bool(found), tries + 1, max(slowest, took)
            kinds.update({violation.split()[0] for violation in found})
            _say(name, found, took, good=bool(found))
        failed += hits < times
        bug, by = BUGS[name], " ".join(sorted(kinds))
        write(f"| {name} | {bug.where} | {bug.what} | {bug.plan} | {by} | {hits} of {tries} | {slowest:.0f} |")
    return 1 if failed else 0


def _say(name, found, seconds, *, good):
    first = f"{len(found)} violations, as {found[0]}" if found else "nothing found"
    print(f"{'✓' if good else '✗'} {name:40} {seconds:5.1f} s  {first[:150]}", flush=True)
