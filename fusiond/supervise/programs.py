"""
What must run for a configuration: pure, a Config in, frozen programs out.

A *part* is what the file names: `redis`, `scheduler`, `worker:main`. A *program* is a part as it was started at one
generation. A worker group's program carries that generation in its name, `worker:main@3`, because while a replaced
group drains there are two of it.
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
#: seconds after `drain_timeout` that a dispatcher has to kill what still runs, and to settle it
SETTLE = 15.0
#: seconds from SIGTERM to SIGKILL; a server writes its append-only file out meanwhile
STOP_SCHEDULER, STOP_REDIS = 10.0, 30.0


@dataclass(frozen=True, slots=True)
class Program:
    """One process that the supervisor keeps alive."""

    #: as the supervisor shows it, `group:process`: `worker:main@3`
    name: str
    #: as the file means it: `worker:main`
    part: str
    #: full command; a candidate's gets `--held` in addition
    argv: tuple[str, ...]
    #: generation of the snapshot that it reads as it starts
    reads: int
    #: whether it can be started with its claims held
    holdable: bool = False
    #: jobs that it may run at once
    slots: int = 0
    #: seconds from SIGTERM to SIGKILL
    stop_seconds: float = STOP_SCHEDULER
    #: for `supervisorctl tail`
    tail: Path | None = None


@dataclass(frozen=True, slots=True)
class Places:
    """What programs are told beside their configuration."""

    state: Path
    runtime: Path
    #: the redis-server or valkey-server to run; "" where the broker is not embedded
    server: str = ""
    #: names of groups, or `scheduler`, that run on this host; empty: all
    only: AbstractSet[str] = frozenset()
    #: whether it is `fusiond dev`
    development: bool = False

    def runs(self, name: str) -> bool:
        """Whether `--only` leaves the part in."""
        return not self.only or name in self.only


def part_of(group: str) -> str:
    """The part's name of a worker group."""
    return f"{WORKER}:{group}"


def programs(snapshot: Snapshot, births: Mapping[str, int], places: Places) -> dict[str, Program]:
    """
    All that must run, by program name, in start order.

    Args:
        snapshot: what they read as they start.
        births: part → the generation at which its process was started; a worker group missing there is a KeyError.
        places: the daemon's directories.
    """
    config = snapshot.config
    found = []
    if config.broker.url == "embedded":
        found.append(_redis(snapshot, places))
    found.append(_scheduler(snapshot, places) if places.runs(SCHEDULER) else _publisher(snapshot, places))
    found += [
        _worker(snapshot, group, births[part_of(group.name)], places)
        for group in config.workers.values()
        if places.runs(group.name)
    ]
    return {program.name: program for program in found}


def _redis(snapshot: Snapshot, places: Places) -> Program:
    script = Path(__file__).parent.parent / "broker" / "redis" / "embedded.py"
    state, socket = paths.redis_state(places.state), paths.redis_socket(places.runtime)
    socket_group = snapshot.config.broker.socket_group
    group = ("--group", socket_group) if socket_group else ()
    log = ("--json",) if snapshot.config.logging.format == "json" else ()
    # fmt: off
    argv = (
        sys.executable, "-I", "-S", str(script), "--state", str(state), "--socket", str(socket), *group, *log,
        "--server", places.server,
    )
    # fmt: on
    return Program(
        REDIS, REDIS, argv, snapshot.generation, stop_seconds=STOP_REDIS, tail=paths.tail_file(places.state, REDIS)
    )


def _scheduler(snapshot: Snapshot, places: Places) -> Program:
    return _of_the_schedule(SCHEDULER, snapshot, places)


def _publisher(snapshot: Snapshot, places: Places) -> Program:
    """Producers must know the tasks of a host whose cron entries another host ticks."""
    return _of_the_schedule(PUBLISHER, snapshot, places, "--publish-only")


def _of_the_schedule(name: str, snapshot: Snapshot, places: Places, *options: str) -> Program:
    argv = (*_python(SCHEDULER_MODULE), "--snapshot", str(snapshot.path), "--runtime", str(places.runtime), *options)
    return Program(name, name, argv, snapshot.generation, tail=paths.tail_file(places.state, name))


def _worker(snapshot: Snapshot, group: WorkerGroup, generation: int, places: Places) -> Program:
    part = part_of(group.name)
    name = f"{part}@{generation}"
    where = ("--snapshot", str(snapshot.path), "--runtime", str(places.runtime))
    return Program(
        name,
        part,
        (*_python(WORKER_MODULE), *where, "--group", group.name),
        snapshot.generation,
        holdable=True,
        slots=group.processes,
        stop_seconds=group.drain_timeout + SETTLE,
        tail=paths.tail_file(places.state, name),
    )


def _python(module: str) -> tuple[str, ...]:
    """-P: the working directory, which may be a user's, never shadows a module."""
    return (sys.executable, "-P", "-m", module)
