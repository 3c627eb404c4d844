"""`python -m benchmarks [NAME …] [--json] [--scale N] [--strict]`."""

from __future__ import annotations

import argparse
import importlib
import json
import signal
import sys

from benchmarks.figures import Figure, machine
from benchmarks.server import describe_server

#: in the order in which they run where none is named
MEASURES = ("drain", "joblog", "latency", "enqueue", "idle", "commands", "startup", "saved", "concurrent", "programs")
#: take minutes, or need root
NAMED_ONLY = ("scripts", "hosts", "distance", "shards", "outbox", "simulation")


def main() -> None:
    """Run the measures and print each figure as it comes."""
    parser = argparse.ArgumentParser(prog="benchmarks", description="What it does in a second, beside the gates.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(MEASURES + NAMED_ONLY))
    parser.add_argument("--json", action="store_true", help="one document at the end")
    parser.add_argument("--scale", type=float, default=1.0, help="a share of the jobs, for trying out")
    parser.add_argument("--strict", action="store_true", help="end with 1 where a gate is missed")
    options = parser.parse_args()
    if unknown := set(options.names) - {*MEASURES, *NAMED_ONLY}:
        parser.error(f"no measure {', '.join(sorted(unknown))}; there are {', '.join(MEASURES + NAMED_ONLY)}")
    # As Ctrl-C, so that daemons and namespaces are ended.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    where = machine(describe_server())
    if not options.json:
        print(where)
    figures: list[Figure] = []
    for name in options.names or MEASURES:
        for figure in importlib.import_module(f"benchmarks.{name}").measure(options.scale):
            figures.append(figure)
            if not options.json:
                print(figure.line(), flush=True)
    if options.json:
        print(json.dumps({"machine": where, "figures": [figure.to_dict() for figure in figures]}, indent=1))
    if options.strict and any(figure.gate and not figure.gate.kept for figure in figures):
        sys.exit(1)


if __name__ == "__main__":
    main()
