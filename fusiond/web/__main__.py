"""The program of the dashboard: `python -m fusiond.web --snapshot PATH --runtime PATH`."""

from __future__ import annotations

import asyncio
import sys

from fusiond import logs
from fusiond.config.accepted.snapshot import read_snapshot
from fusiond.errors import FusionError
from fusiond.installed import not_installed
from fusiond.program import Link, parser_of, run_program


def main(link: Link) -> int:
    """Run the dashboard; returns the exit status. Raises FusionError."""
    arguments = parser_of("fusiond.web").parse_args()
    snapshot = read_snapshot(arguments.snapshot)
    logs.setup(snapshot.config.logging, link.name or "web", link.tail)
    if missing := not_installed("web"):
        raise FusionError(f"web: {', '.join(missing)} not installed; pip install 'fusiond[web]', or remove the key")
    from fusiond.web.serving import run

    asyncio.run(run(snapshot, link, arguments.runtime))
    return 0


def entry_point() -> int:
    """The program; returns the exit status."""
    return run_program(main)


if __name__ == "__main__":
    sys.exit(entry_point())
