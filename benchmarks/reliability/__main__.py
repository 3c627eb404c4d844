"""
`python -m benchmarks.reliability [NAME …]`: what each runner loses under the same kills; prints a table, or markdown.

Redis is not killed here: what is counted is what runners lose of jobs that Redis has.
"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.figures import machine
from benchmarks.peers.environment import PYTHON, Missing, pypi
from benchmarks.reliability.runners import RUNNERS, Runner
from benchmarks.reliability.schedule import schedule
from benchmarks.reliability.trial import carry_out

if TYPE_CHECKING:
    from benchmarks.reliability.tally import Tally

HEADS = ("acknowledged", "never run", "begun, never ended", "ended more than once", "begun more than once", "kills")


def main() -> int:
    """Try each in turn; status 1 where fusiond has lost a job."""
    # What was started is stopped.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    given = _arguments()
    plan = schedule(given.jobs, given.kills, given.seconds, given.seed)
    lines = [
        (
            f"{given.jobs} jobs and {given.kills} kills in {given.seconds:g} s, seed {given.seed};"
            f" counted {given.wait:g} s after none waited any more."
        ),
        machine("Redis as `broker: {url: embedded}` runs it, unix socket") + ".",
        "",
        f"| | {' | '.join(HEADS)} | still known to it |",
        f"|---|{'--:|' * len(HEADS)}---|",
    ]
    print("\n".join(lines), flush=True)
    lost, chosen = 0, _chosen(given.names)
    for runner in chosen:
        try:
            name = f"{runner.name} ({pypi(runner.package)})" if runner.package else runner.name
        except Missing as why:
            print(f"{runner.name} is left out: {why}.")
            continue
        found = carry_out(runner, plan, given.wait, PYTHON)
        lines.append(_row(name, found))
        print(lines[-1], flush=True)
        lost += 0 if runner.package else found.lost
    settings = ["", *(f"- {runner.name}: {runner.settings} set." for runner in chosen)]
    print("\n".join(settings))
    lines += settings
    if given.markdown:
        given.markdown.write_text("\n".join(lines) + "\n")
    return 1 if lost else 0


def _row(name: str, found: Tally) -> str:
    left = ", ".join(f"{count} {what}" for what, count in found.left.items()) or "–"
    kills = f"{found.kills}" + (f" ({found.missed} found nobody)" if found.missed else "")
    numbers = (found.acknowledged, found.never_run, found.never_ended, found.ended_again, found.begun_again, kills)
    return f"| {name} | {' | '.join(map(str, numbers))} | {left} |"


def _chosen(names: list[str]) -> list[Runner]:
    """Those whose name holds one of these words; all where there are none."""
    return [runner for runner in RUNNERS if not names or any(name.lower() in runner.name.lower() for name in names)]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reliability", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="a part of a runner's name; default: all")
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--seconds", type=float, default=60.0, help="in which both come")
    # Celery looks each 100 s for what was unacknowledged for 30 s; RQ's abandoned jobs are due after 65 s.
    parser.add_argument(
        "--wait", type=float, default=150.0, help="s after no job waits any more, before they are counted"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--markdown", type=Path, help="write the table there as well")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
