"""The program of a sink: `python -m fusiond.sinks --snapshot PATH --runtime PATH --sink NAME`."""

from __future__ import annotations

import asyncio
import sys

from fusiond import logs
from fusiond.config.accepted.snapshot import read_snapshot
from fusiond.program import Link, parser_of, run_program


def main(link: Link) -> int:
    """Deliver until told to end; returns the exit status. Raises FusionError."""
    parser = parser_of("fusiond.sinks")
    parser.add_argument("--sink", required=True)
    arguments = parser.parse_args()
    snapshot = read_snapshot(arguments.snapshot)
    logs.setup(snapshot.config.logging, link.name or f"sink:{arguments.sink}", link.tail)
    from fusiond.sinks.delivery import run

    asyncio.run(run(snapshot, arguments.sink, link, arguments.runtime))
    return 0


def entry_point() -> int:
    """The program; returns the exit status."""
    return run_program(main)


if __name__ == "__main__":
    sys.exit(entry_point())
