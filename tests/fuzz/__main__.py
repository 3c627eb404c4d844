"""`python -m tests.fuzz [TARGET …]`: status 1 where a promise was broken."""

import argparse
import importlib
import sys
import time

from tests.fuzz.run import fuzz

TARGETS = ("body", "client", "control", "replies", "wire")


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"{', '.join(TARGETS)}; default: each in turn")
    parser.add_argument("--seconds", type=float, default=600, help="for each target")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    given = parser.parse_args()
    if unknown := set(given.targets) - set(TARGETS):
        parser.error(f"there is no target {', '.join(sorted(unknown))}; there are {', '.join(TARGETS)}")
    broken = []
    for name in given.targets or TARGETS:
        print(f"\n{name}", flush=True)
        broken += fuzz(importlib.import_module(f"tests.fuzz.{name}").Fuzz, given.seconds, given.seed)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
