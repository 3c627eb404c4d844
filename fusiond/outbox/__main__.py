"""The program of an outbox: `python -m fusiond.outbox --snapshot PATH --runtime PATH --outbox NAME`."""

from __future__ import annotations

import asyncio
import sys

from fusiond import hook, logs
from fusiond.config.accepted.snapshot import read_snapshot
from fusiond.errors import FusionError
from fusiond.installed import not_installed
from fusiond.program import Link, parser_of, run_program


def main(link: Link) -> int:
    """Hand over rows until told to end; returns the exit status. Raises FusionError."""
    parser = parser_of("fusiond.outbox")
    parser.add_argument("--outbox", required=True)
    arguments = parser.parse_args()
    snapshot = read_snapshot(arguments.snapshot)
    logs.setup(snapshot.config.logging, link.name or f"outbox:{arguments.outbox}", link.tail)
    if missing := not_installed("outbox"):
        remedy = "pip install 'fusiond[outbox]', or remove `outboxes`"
        raise FusionError(f"outboxes: {missing[0]} is not installed; {remedy}")
    from fusiond.outbox.relay import run

    hook.run("relay", arguments.outbox)
    asyncio.run(run(snapshot, arguments.outbox, link, arguments.runtime))
    return 0


def entry_point() -> int:
    """The program; returns the exit status."""
    return run_program(main)


if __name__ == "__main__":
    sys.exit(entry_point())
