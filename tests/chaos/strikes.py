"""Strikes under load, one after the other: what came of them, and the command of a module that has such scenarios."""

import argparse
import sys
import time
from pathlib import Path
from typing import NamedTuple

from tests.chaos import ledger

HEAD = (
    "| what | times | jobs | runs beyond one | faults | violations | its end → a job begins, s: median | longest |\n"
    "|---|--:|--:|--:|--:|--:|--:|--:|"
)


class Finding(NamedTuple):
    """What came of a scenario."""

    ledger: ledger.Ledger
    violations: list
    text: str
    #: s of each strike from its end until a job began, where that is measured
    back: tuple = ()


def row(name, times, finding):
    """A line of the table."""
    jobs = len(finding.ledger.acks)
    runs = sum(len(finding.ledger.runs.get(ack.id, ())) for ack in finding.ledger.acks)
    back = sorted(finding.back)
    cells = [name, times, jobs, runs - jobs, len(finding.ledger.faults), len(finding.violations)]
    cells += [f"{back[len(back) // 2]:.2f}", f"{back[-1]:.2f}"] if back else ["", ""]
    return "| " + " | ".join(map(str, cells)) + " |"


def main(name, doc, scenarios, carry_out, missing=lambda _: ""):
    """
    Carry out each scenario, and print a line for it; the exit status, 1 where anything was wrong.

    `name`: of the module; `doc`: its text; `carry_out`: of a scenario, how often and a seed, gives the Finding;
    `missing`: what this machine lacks for the scenario of a name, or nothing.
    """
    parser = argparse.ArgumentParser(prog=f"python -m tests.chaos.{name}", description=doc.split("\n\n")[0])
    parser.add_argument("--only", nargs="*", choices=scenarios, metavar="NAME", help=", ".join(scenarios))
    parser.add_argument("--times", type=int, help="how often each is done")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--log", type=Path, help="keep the daemon's log there")
    given = parser.parse_args()
    print(f"seed {given.seed}\n\n{HEAD}", flush=True)
    failed = False
    for each in given.only or scenarios:
        if why := missing(each):
            print(f"| {each} | left out: {why} | | | | | | |", flush=True)
            continue
        times = given.times or scenarios[each].times
        finding = carry_out(scenarios[each], times, given.seed)
        if given.log:
            given.log.write_text(finding.text)
        print(row(each, times, finding), flush=True)
        for violation in finding.violations[:20]:
            print(f"  ✗ {violation}", file=sys.stderr, flush=True)
        failed = failed or bool(finding.violations)
    return int(failed)
