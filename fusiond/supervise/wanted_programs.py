"""
Which programs must run for a configuration: a Snapshot in, frozen programs out. Starts and reads nothing.

A *part* is what the file names: `redis`, `scheduler`, `worker:main`. A *program* is a part as it was started at one
generation. The program of a worker group has that generation in its name, `worker:main@3`: while a replaced group
drains, there are two programs of the part.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fusiond import paths

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

    from fusiond.config.accepted.snapshot import Snapshot
    from fusiond.config.model import WorkerGroup

REDIS, SCHEDULER, PUBLISHER, WORKER = "redis", "scheduler", "publisher", "worker"
SCHEDULER_MODULE, WORKER_MODULE = "fusiond.schedule", "fusiond.worker"
#: seconds after `drain_timeout` in which a dispatcher kills the jobs that still run, and settles them
SETTLE = 15.0
#: seconds from SIGTERM to SIGKILL; meanwhile a server writes its append-only file
STOP_SCHEDULER, STOP_REDIS = 10.0, 30.0


@dataclass(frozen=True, slots=True)
class Program:
    """One process that the supervisor keeps alive."""

    #: as supervisorctl shows it, `group:process`: `worker:main@3`
    name: str
    #: as the file names it: `worker:main`
    part: str
    argv: tuple[str, ...]
    #: generation of the snapshot that it reads when it starts
    reads: int
    #: seconds from SIGTERM to SIGKILL
    stop_seconds: float
    #: where it keeps the last lines of its log, for `supervisorctl tail`
    tail: Path
    #: of a worker group: jobs that it may run at once; it can be started with `--held`, to claim nothing yet. Else 0
    slots: int = 0


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What a daemon knows beside its configuration: its directories and how it was started."""

    state: Path
    runtime: Path
    #: the redis-server or valkey-server to run; "" unless the broker is embedded
    server: str = ""
    #: names of groups, or `scheduler`, that run on this host; empty: all
    only: AbstractSet[str] = frozenset()
    #: whether it is `fusiond dev`
    development: bool = False

    def runs(self, name: str) -> bool:
        """Whether `--only` permits this group or `scheduler`."""
        return not self.only or name in self.only


def part_of(group: str) -> str:
    """The part's name of a worker group."""
    return f"{WORKER}:{group}"


def wanted_programs(snapshot: Snapshot, generations: Mapping[str, int], options: RunOptions) -> dict[str, Program]:
    """
    All programs that must run, by name, in the order of their start.

    Args:
        snapshot: what they read when they start.
        generations: part → the generation at which its program was started, for each worker group.
        options: how the daemon was started.
    """
    config = snapshot.config
    found = [_redis(snapshot, options)] if config.broker.url == "embedded" else []
    found.append(_scheduler(snapshot, options))
    found += [
        _worker(snapshot, group, generations[part_of(group.name)], options)
        for group in config.workers.values()
        if options.runs(group.name)
    ]
    return {program.name: program for program in found}


def _redis(snapshot: Snapshot, options: RunOptions) -> Program:
    script = Path(__file__).parent.parent / "broker" / "redis" / "embedded.py"
    config = snapshot.config
    # fmt: off
    argv = (
        sys.executable, "-I", "-S", str(script), "--state", str(paths.redis_state(options.state)),
        "--socket", str(paths.redis_socket(options.runtime)), "--server", options.server,
        *(("--group", config.broker.socket_group) if config.broker.socket_group else ()),
        *(("--json",) if config.logging.format == "json" else ()),
    )
    # fmt: on
    return Program(REDIS, REDIS, argv, snapshot.generation, STOP_REDIS, paths.tail_file(options.state, REDIS))


def _scheduler(snapshot: Snapshot, options: RunOptions) -> Program:
    """
    The scheduler; where `--only` leaves it out, a program that only publishes the tasks.

    Another host runs the cron entries then, but producers must still know the tasks of this host.
    """
    ticks = options.runs(SCHEDULER)
    name = SCHEDULER if ticks else PUBLISHER
    argv = (*_command(SCHEDULER_MODULE, snapshot, options), *(() if ticks else ("--publish-only",)))
    return Program(name, name, argv, snapshot.generation, STOP_SCHEDULER, paths.tail_file(options.state, name))


def _worker(snapshot: Snapshot, group: WorkerGroup, generation: int, options: RunOptions) -> Program:
    part = part_of(group.name)
    name = f"{part}@{generation}"
    argv = (*_command(WORKER_MODULE, snapshot, options), "--group", group.name)
    stop, tail = group.drain_timeout + SETTLE, paths.tail_file(options.state, name)
    return Program(name, part, argv, snapshot.generation, stop, tail, slots=group.processes)


def _command(module: str, snapshot: Snapshot, options: RunOptions) -> tuple[str, ...]:
    """With -P, a file in the working directory, which may be a user's, never shadows a module."""
    where = ("--snapshot", str(snapshot.path), "--runtime", str(options.runtime))
    return (sys.executable, "-P", "-m", module, *where)
