"""
`python -m tests.chaos`: a calm without faults, a storm, and the verdict; status 1 where a job came to harm.

`--bugs` instead: each seeded bug must be found; status 1 where one is not.
"""

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path

from tests.chaos import report, verdict
from tests.chaos.bugs import BUGS, QUIET
from tests.chaos.faults import HUNT
from tests.chaos.trial import Plan, carry_out


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--jobs", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long jobs come in")
    parser.add_argument("--kills", type=int, default=200, help="faults within that time")
    parser.add_argument(
        "--stops", type=float, default=0.15, help="the share of faults that stop a process, not kill it"
    )
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--no-control", action="store_true", help="leave out the run without faults")
    parser.add_argument("--log", type=Path, help="keep the daemon's log there")
    parser.add_argument("--bugs", nargs="*", metavar="BUG", help="find the seeded bugs, these or all")
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    if given.bugs is not None:
        return hunt(given.bugs or list(BUGS), given.seed)
    violations = [] if given.no_control else control(Plan(given.jobs // 4, given.seconds / 4, 0, seed=given.seed))
    storm = Plan(given.jobs, given.seconds, given.kills, given.stops, seed=given.seed, log=given.log)
    violations += trial(f"storm: {given.kills} faults in {given.seconds:g} s", storm)[1]
    return 1 if violations else 0


def control(plan):
    """Without faults there are exactly as many runs as jobs."""
    ledger, violations = trial("control: no faults", plan)
    runs = sum(len(each) for each in ledger.runs.values())
    if runs != len(ledger.acks):
        violations.append(f"I6 {len(ledger.acks)} jobs ran {runs} times")
        print(violations[-1])
    return violations


def hunt(names, seed):
    """Which of the bugs the verdict finds in a short storm, and by what."""
    missed = []
    for name in names:
        began = time.monotonic()
        plan = Plan(400, 20, 60, stops=0.5, weights=HUNT, seed=seed, edits=tuple(BUGS[name]), peace=20)
        if name in QUIET:
            plan = replace(plan, faults=5, stops=0.0, weights={QUIET[name]: 1})
        try:
            found = verdict.judge(carry_out(plan))
        except AssertionError as error:
            found = [f"it does not come to rest: {str(error).splitlines()[0]}"]
        if not found:
            missed.append(name)
        first = f"✓ {len(found)} violations, as {found[0]}" if found else "✗ not found"
        print(f"{name:40} {time.monotonic() - began:5.0f} s  {first[:120]}", flush=True)
    return 1 if missed else 0


def trial(title, plan):
    print(f"\n{title}", flush=True)
    ledger = carry_out(plan, say=lambda line: print("  " + line, flush=True))
    for line in report.figures(ledger):
        print("  " + line)
    violations = verdict.judge(ledger)
    for violation in violations[:50]:
        print("  ✗ " + violation)
    print(f"  {len(violations)} violations" if violations else "  ✓ I1 to I8 hold", flush=True)
    return ledger, violations


if __name__ == "__main__":
    sys.exit(main())
