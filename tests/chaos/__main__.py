"""
`python -m tests.chaos`: a calm without faults, a storm, and the situations of I10 to I26; status 1 where a job came to
harm.

`--full`: what is published, 100,000 jobs under 10,000 kills. `--bugs` instead: each seeded bug must be found.
"""

import argparse
import sys
import time
from pathlib import Path

from tests.chaos import hunt, report, verdict
from tests.chaos.bugs import BUGS
from tests.chaos.faults import LONG, WEIGHTS
from tests.chaos.load import FULL
from tests.chaos.trial import Plan, carry_out

#: jobs, seconds, kills
SHORT, WHOLE = (2_000, 60.0, 200), (100_000, 1_080.0, 10_000)
#: what 93 jobs/s leave room for: six children a group, and one job in 250 that is longer than its lease
WHOLE_MIX = FULL._replace(long=0.004, short=0.15)


def main():
    given = _arguments()
    print(f"seed {given.seed}", flush=True)
    if given.bugs is not None:
        return hunt.hunt(given.bugs or list(BUGS), given.times, given.seed, print if given.markdown else None)
    calm = Plan(max(100, given.jobs // 50), max(5.0, given.seconds / 50), 0, seed=given.seed)
    trials = {} if given.no_control else {"control, no faults": calm}
    trials[f"storm, {given.kills:,} kills in {given.seconds:g} s"] = Plan(
        given.jobs, given.seconds, given.kills, given.stops, seed=given.seed, log=given.log,
        weights=LONG if given.kills > 500 else WEIGHTS, mix=WHOLE_MIX, processes=6,
    )  # fmt: skip
    trials["storm over children of many jobs at once"] = Plan(
        min(given.jobs, SHORT[0]), min(given.seconds, SHORT[1]), min(given.kills, SHORT[2]), given.stops,
        seed=given.seed, many=True,
    )  # fmt: skip
    harmed = sum(trial(title, plan) for title, plan in trials.items()) > 0
    if not given.no_situations:
        print("\nsituations of their own", flush=True)
        harmed = bool(hunt.situations(given.seed, given.times)) or harmed
    return 1 if harmed else 0


def _arguments():
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--seconds", type=float, help="how long jobs come in")
    parser.add_argument("--kills", type=int, help="within that time")
    parser.add_argument("--stops", type=float, default=0.1, help="the share of faults that stop a process, not kill it")
    parser.add_argument("--full", action="store_true", help="100,000 jobs, 10,000 kills, half an hour")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--no-control", action="store_true", help="leave out the run without faults")
    parser.add_argument("--no-situations", action="store_true", help="leave out the situations of I10 to I26")
    parser.add_argument("--log", type=Path, help="keep the daemon's log there")
    parser.add_argument("--markdown", action="store_true", help="print a table of the seeded bugs too")
    parser.add_argument("--bugs", nargs="*", metavar="BUG", help="find the seeded bugs, these or all")
    parser.add_argument("--times", type=int, default=1, help="how often each bug, or each situation, is tried")
    given = parser.parse_args()
    jobs, seconds, kills = WHOLE if given.full else SHORT
    given.jobs, given.seconds, given.kills = given.jobs or jobs, given.seconds or seconds, given.kills or kills
    return given


def trial(title, plan):
    """Carry it out and print its figures; returns how many violations there are."""
    ledger = carry_out(plan, say=lambda line: print("  " + line, flush=True))
    began = time.monotonic()
    violations = verdict.judge(ledger)
    ledger.seconds["verdict"] = time.monotonic() - began
    print(*report.markdown(title, report.summary(ledger, violations)), sep="\n")
    for violation in violations[:50]:
        print("  ✗ " + violation)
    print(f"  {len(violations)} violations" if violations else "  ✓ I1 to I9 hold", flush=True)
    return len(violations)


if __name__ == "__main__":
    sys.exit(main())
