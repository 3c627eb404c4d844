"""`python -m tests.soak [--seconds 1200]`: status 1 where something has grown, or a job did not run once."""

import argparse
import sys

from tests.soak.soak import Plan, fifths, soaked


def main():
    """Soak, print, and say so by the status."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=Plan().seconds)
    seconds = parser.parse_args().seconds
    fifth = seconds / 5
    # Of a shorter soak, each fifth has a few of each.
    plan = Plan(seconds, sample=min(10, fifth / 3), window=min(60, fifth / 2))
    soak, wrong = soaked(plan)
    print(f"\n{seconds:g} s, {sum(lane.sent for lane in soak.lanes):,} jobs, reloads: {dict(soak.reloads)}\n")
    print("| | second fifth | last fifth | allowed |\n|---|--:|--:|--:|")
    for name, limit in plan.limits().items():
        early, late = fifths(soak.series[name])
        print(f"| {name} | {early:,.0f} | {late:,.0f} | {early * (1 + limit.share) + limit.slack:,.0f} |")
    print(
        "\n".join(["", *(f"✗ {each}" for each in wrong)] if wrong else ["", "✓ nothing has grown, each job ran once"])
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
