"""The scheduler's program: `python -m fusiond.schedule --snapshot PATH`."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

from fusiond import logs
from fusiond.config.snapshot import read_snapshot
from fusiond.errors import FusionError
from fusiond.program import Link
from fusiond.schedule.scheduler import run

#: the exit status after which nobody should try again: the configuration is wrong (sysexits.h)
EX_CONFIG = 78


def main() -> int:
    """Run the scheduler; returns the exit status."""
    parser = argparse.ArgumentParser(prog="fusiond.schedule")
    parser.add_argument("--snapshot", type=Path, required=True)
    arguments = parser.parse_args()
    link = Link.from_environment()
    try:
        logs.setup(read_snapshot(arguments.snapshot).config.logging, link.name or "scheduler", link.tail)
        asyncio.run(run(arguments.snapshot, link))
    except FusionError as error:
        link.say(**{"is": "failed", "reason": str(error)})
        print(error, file=sys.stderr)
        return EX_CONFIG
    finally:
        logs.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
