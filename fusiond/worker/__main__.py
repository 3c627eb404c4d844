"""
A worker group's program: `python -m fusiond.worker --snapshot PATH --runtime PATH --group NAME [--held]`.

1. launch   the fork server, which loads the tasks in a process of its own
2. load     what speaks to Redis, meanwhile: it takes as long
3. run      the group
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from fusiond import logs
from fusiond.config.accepted.snapshot import read_snapshot
from fusiond.errors import FusionError
from fusiond.program import EX_CONFIG, EX_SOFTWARE, Link, tell_failure
from fusiond.worker.pool.launch import launch

if TYPE_CHECKING:
    from fusiond.config.accepted.snapshot import Snapshot
    from fusiond.worker.pool.launch import Launched


class _Begun(NamedTuple):
    """A group whose fork server loads the tasks."""

    snapshot: Snapshot
    runtime: Path
    group: str
    held: bool
    launched: Launched | None


def main() -> int:
    """Run the group; returns the exit status."""
    link = Link.from_environment()
    try:
        begun = _begin(sys.argv[1:], link)

        import asyncio

        from fusiond.worker.dispatcher.group import run

        program = run(begun.snapshot, begun.group, link, begun.launched, runtime=begun.runtime, held=begun.held)
        return asyncio.run(program)
    except FusionError as error:
        link.say(**{"is": "failed", "reason": str(error)})
        print(error, file=sys.stderr)
        return EX_CONFIG
    except Exception as error:  # noqa: BLE001 - told, and tried again by the supervisor
        tell_failure(link, error)
        return EX_SOFTWARE
    finally:
        logs.stop()


def _begin(words: list[str], link: Link) -> _Begun:
    """Launch what the command line says. Raises ConfigError."""
    parser = argparse.ArgumentParser(prog="fusiond.worker")
    parser.add_argument("--snapshot", type=Path, required=True)
    parser.add_argument("--runtime", type=Path, required=True)
    parser.add_argument("--group", required=True)
    parser.add_argument("--held", action="store_true")
    arguments = parser.parse_args(words)
    snapshot = read_snapshot(arguments.snapshot)
    logs.setup(snapshot.config.logging, link.name or f"worker:{arguments.group}", link.tail)
    return _Begun(snapshot, arguments.runtime, arguments.group, arguments.held, _launch(snapshot, arguments.group))


def _launch(snapshot: Snapshot, group: str) -> Launched | None:
    """The group's fork server; None where it cannot be started, which the pool's own try will tell with its reason."""
    try:
        return launch(snapshot.config, snapshot.config.workers[group])
    except (OSError, LookupError):
        return None


if __name__ == "__main__":
    sys.exit(main())
