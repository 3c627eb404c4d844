"""A worker group's program: `python -m fusiond.worker --snapshot PATH --group NAME [--held]`."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

from fusiond import logs
from fusiond.config.snapshot import read_snapshot
from fusiond.errors import FusionError
from fusiond.program import Link
from fusiond.worker.group import EX_CONFIG, run


def main() -> int:
    """Run the group; returns the exit status."""
    parser = argparse.ArgumentParser(prog="fusiond.worker")
    parser.add_argument("--snapshot", type=Path, required=True)
    parser.add_argument("--group", required=True)
    parser.add_argument("--held", action="store_true")
    arguments = parser.parse_args()
    link = Link.from_environment()
    try:
        settings = read_snapshot(arguments.snapshot).config.logging
        logs.setup(settings, link.name or f"worker:{arguments.group}", link.tail)
        return asyncio.run(run(arguments.snapshot, arguments.group, link, held=arguments.held))
    except FusionError as error:
        link.say(**{"is": "failed", "reason": str(error)})
        print(error, file=sys.stderr)
        return EX_CONFIG
    finally:
        logs.stop()


if __name__ == "__main__":
    sys.exit(main())
