"""
A worker group's program: `python -m fusiond.worker --snapshot PATH --runtime PATH --group NAME [--held]`.

1. launch   the fork server, which loads the tasks in a process of its own
2. load     what speaks to Redis, meanwhile: it takes as long
3. run      the group
"""

from __future__ import annotations

import sys

from fusiond import logs
from fusiond.config.accepted.snapshot import Snapshot, read_snapshot
from fusiond.program import Link, parser_of, run_program
from fusiond.worker.pool.fork_server.launch import Launched, launch

# Made before the program is forked: otherwise each program would have half a megabyte copied for it.
_PARSER = parser_of("fusiond.worker")
_PARSER.add_argument("--group", required=True)
_PARSER.add_argument("--held", action="store_true")


def main(link: Link) -> int:
    """Run the group; returns the exit status. Raises FusionError."""
    arguments = _PARSER.parse_args()
    snapshot = read_snapshot(arguments.snapshot)
    logs.setup(snapshot.config.logging, link.name or f"worker:{arguments.group}", link.tail)
    launched = _launch(snapshot, arguments.group)

    import asyncio

    from fusiond.worker.dispatcher.group import run

    program = run(snapshot, arguments.group, link, launched, runtime=arguments.runtime, held=arguments.held)
    return asyncio.run(program)


def _launch(snapshot: Snapshot, group: str) -> Launched | None:
    """The group's fork server; None where it cannot be started, which the pool's own try will tell with its reason."""
    try:
        return launch(snapshot.config, snapshot.config.workers[group])
    except (OSError, LookupError):
        return None


def entry_point() -> int:
    """The program; returns the exit status."""
    return run_program(main)


if __name__ == "__main__":
    sys.exit(entry_point())
