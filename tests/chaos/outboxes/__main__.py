"""
`python -m tests.chaos.outboxes`: each story once; `--full`: 100,000 transactions in a storm, then a storm of failovers
and one on SQLite. Status 1 where a row came to harm.

`--bugs` instead: each mistake must be found.
"""

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path

from tests.chaos.outboxes.bugs import MISTAKES
from tests.chaos.outboxes.stories import STORIES, judge, tell
from tests.support.postgres import missing

#: transactions of a storm, with a failover, and on SQLite
WHOLE, OVER, SMALL = 100_000, 600, 1_000
#: further tries for a mistake: some need a fault at the right moment
AGAIN = 3


def main():
    given = _arguments()
    if why := missing():
        print(why, file=sys.stderr)
        return 2
    if given.bugs is not None:
        return _hunt(given.bugs or [*MISTAKES], given.seed)
    harmed = [
        name for name, story, where in _chosen(given) if _carried_out(name, story, given.seed, given.log, **where)
    ]
    return int(bool(harmed))


def _chosen(given):
    """Name, story, and where it takes place."""
    if not given.full:
        yield from ((name, STORIES[name], {}) for name in given.only or STORIES)
        return
    storm = STORIES["storm"]
    yield "storm", replace(storm, transactions=given.transactions, applications=4, pause=0.005), {}
    # Failovers take long: so that one does not meet all the transactions, these come slowly.
    yield "storm of failovers", replace(storm, transactions=OVER, pause=0.1), {"redis": "sentinel"}
    yield "storm on SQLite", replace(storm, transactions=SMALL, slowest=0.2), {"kind": "sqlite"}


def _arguments():
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.outboxes", description=__doc__)
    parser.add_argument("--full", action="store_true", help="what is published")
    parser.add_argument("--transactions", type=int, default=WHOLE, help="of the storm, with --full")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--log", type=Path, help="write the log there where something was wrong")
    parser.add_argument("--only", nargs="+", choices=[*STORIES], help="these stories")
    parser.add_argument("--bugs", nargs="*", choices=[*MISTAKES], help="find the mistakes, these or all")
    return parser.parse_args()


def _carried_out(name, story, seed, log, **where):
    """Whether anything was wrong."""
    began = time.monotonic()
    account = tell(story, seed=seed, **where)
    found = [*judge(account)]
    runs = sum(map(len, account.runs.values()))
    print(f"{'✗' if found else '✓'} {name}, seed {seed}: {len(account.committed)} committed rows, {runs} runs,"
          f" {len(account.losses)} losses of Redis, {time.monotonic() - began:.0f} s", flush=True)  # fmt: skip
    print(*(f"    {count:5} {what}" for what, count in sorted(account.done.items())), sep="\n")
    print(*(f"  ✗ {violation}" for violation in found), sep="\n", flush=True)
    if found and log:
        log.write_text(account.text)
    return bool(found)


def _hunt(names, seed):
    failed = False
    for name in names:
        for number in range(1 + AGAIN):
            began = time.monotonic()
            found = [*judge(tell(STORIES[MISTAKES[name].story], MISTAKES[name].edits, seed + number))]
            print(f"{'✓' if found else '✗'} {name} {time.monotonic() - began:.1f} s {found[:1]}", flush=True)
            if found:
                break
        failed = failed or not found
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
