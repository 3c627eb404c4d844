"""
The scheduler's program: `python -m fusiond.schedule --snapshot PATH --runtime PATH`.

With `--publish-only` it is the publisher's.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

from fusiond import logs
from fusiond.config.accepted.snapshot import read_snapshot
from fusiond.errors import FusionError
from fusiond.program import EX_CONFIG, EX_SOFTWARE, Link, tell_failure
from fusiond.schedule.scheduler import run


def main() -> int:
    """Run the scheduler; returns the exit status."""
    parser = argparse.ArgumentParser(prog="fusiond.schedule")
    parser.add_argument("--snapshot", type=Path, required=True)
    parser.add_argument("--runtime", type=Path, required=True)
    parser.add_argument("--publish-only", action="store_true")
    arguments = parser.parse_args()
    link = Link.from_environment()
    try:
        logs.setup(read_snapshot(arguments.snapshot).config.logging, link.name or "scheduler", link.tail)
        asyncio.run(run(arguments.snapshot, link, arguments.runtime, ticks=not arguments.publish_only))
    except FusionError as error:
        link.say(**{"is": "failed", "reason": str(error)})
        print(error, file=sys.stderr)
        return EX_CONFIG
    except Exception as error:  # noqa: BLE001 - told, and tried again by the supervisor
        tell_failure(link, error)
        return EX_SOFTWARE
    finally:
        logs.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
