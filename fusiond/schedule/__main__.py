"""
The scheduler's program: `python -m fusiond.schedule --snapshot PATH --runtime PATH`.

With `--publish-only` it is the publisher's.
"""

from __future__ import annotations

import asyncio
import sys

from fusiond import logs
from fusiond.config.accepted.snapshot import read_snapshot
from fusiond.program import Link, parser_of, run_program
from fusiond.schedule.scheduler import run

# Made before the program is forked: otherwise each program would have half a megabyte copied for it.
_PARSER = parser_of("fusiond.schedule")
_PARSER.add_argument("--publish-only", action="store_true")


def main(link: Link) -> int:
    """Run the scheduler; returns the exit status. Raises FusionError."""
    arguments = _PARSER.parse_args()
    snapshot = read_snapshot(arguments.snapshot)
    logs.setup(snapshot.config.logging, link.name or "scheduler", link.tail)
    asyncio.run(run(snapshot, link, arguments.runtime, ticks=not arguments.publish_only))
    return 0


def entry_point() -> int:
    """The program; returns the exit status."""
    return run_program(main)


if __name__ == "__main__":
    sys.exit(entry_point())
