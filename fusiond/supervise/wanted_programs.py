"""
Which programs must run for a configuration: a Snapshot in, frozen programs out. Starts and reads nothing.

A *part* is what the file names: `redis`, `scheduler`, `web`, `worker:main`. A *program* is a part as it was started at
one generation. The program of a worker group has that generation in its name, `worker:main@3`: while a replaced group
drains, there are two programs of the part.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path

from fusiond import paths
from fusiond.config.accepted.snapshot import Snapshot
from fusiond.config.model import Config, WorkerGroup
from fusiond.redis_server import Server

REDIS, SCHEDULER, PUBLISHER, WORKER, WEB, SINK = "redis", "scheduler", "publisher", "worker", "web", "sink"
SCHEDULER_MODULE, WORKER_MODULE = "fusiond.schedule.__main__", "fusiond.worker.__main__"
WEB_MODULE, SINK_MODULE = "fusiond.web.__main__", "fusiond.sinks.__main__"
#: what programs need, whatever the file says: modules, and functions to call
LOADED = (
    "fusiond.broker.redis.embedded",
    "fusiond.broker.script:load_all",
    "fusiond.config.model:load_hints",
    "fusiond.logs:set_usual_level",
    SCHEDULER_MODULE,
    WORKER_MODULE,
    "fusiond.worker.dispatcher.group",
    "fusiond.worker.pool.fork_server.bundle:load_sources",
)
#: end of a broker's scheme → what programs need besides
_LOADED_FOR = {
    "+sentinel": ("fusiond.broker.redis.discovery.sentinels",),
    "+cluster": ("fusiond.broker.redis.cluster", "fusiond.broker.redis.discovery.cluster_map"),
}
#: seconds after `drain_timeout` in which a dispatcher kills the jobs that still run, and settles them
SETTLE = 15.0
#: seconds from SIGTERM to SIGKILL; meanwhile a server writes its append-only file
STOP_SCHEDULER, STOP_REDIS, STOP_WEB, STOP_SINK = 10.0, 30.0, 10.0, 20.0


@dataclass(frozen=True, slots=True)
class Program:
    """One process that the supervisor keeps alive."""

    #: as supervisorctl shows it, `group:process`: `worker:main@3`
    name: str
    #: as the file names it: `worker:main`
    part: str
    #: module:function, which the program server calls; and what a new interpreter is given to do the same
    entry: str
    command: tuple[str, ...]
    arguments: tuple[str, ...]
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
    #: the server to run; None unless the broker is embedded
    server: Server | None = None
    #: names of groups, `scheduler`, `web` or `sink:<name>`, that run on this host; empty: all
    only: AbstractSet[str] = frozenset()
    #: whether it is `fusiond dev`
    development: bool = False
    #: the name of this host
    host: str = ""

    def runs(self, name: str) -> bool:
        """Whether `--only` permits this group, `scheduler` or `web`."""
        return not self.only or name in self.only

    def is_host_of(self, group: WorkerGroup) -> bool:
        """Whether the group's `hosts` permit it here."""
        return self.development or group.runs_on(self.host)


def loaded_for(config: Config) -> list[str]:
    """What programs need besides LOADED, as this file says."""
    scheme = config.broker.url.partition("://")[0]
    found = [name for end, names in _LOADED_FOR.items() if scheme.endswith(end) for name in names]
    if any(entry.schedule for entry in config.cron.values()):
        found.append("croniter")
    return found


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
    if config.web is not None and options.runs(WEB):
        found.append(_web(snapshot, options))
    found += [_sink(snapshot, name, options) for name in sinks_of(config) if options.runs(f"{SINK}:{name}")]
    found += [
        _worker(snapshot, group, generations[part_of(group.name)], options)
        for group in config.workers.values()
        if options.runs(group.name) and options.is_host_of(group)
    ]
    return {program.name: program for program in found}


def _redis(snapshot: Snapshot, options: RunOptions) -> Program:
    script = Path(__file__).parent.parent / "broker" / "redis" / "embedded.py"
    config = snapshot.config
    # fmt: off
    arguments = (
        "--state", str(paths.redis_state(options.state)), "--socket", str(paths.redis_socket(options.runtime)),
        "--server", options.server.path if options.server else "",
        *(("--group", config.broker.socket_group) if config.broker.socket_group else ()),
        *(("--json",) if config.logging.format == "json" else ()),
    )
    # fmt: on
    entry, command = "fusiond.broker.redis.embedded:entry_point", (sys.executable, "-I", "-S", str(script))
    tail = paths.tail_file(options.state, REDIS)
    return Program(REDIS, REDIS, entry, command, arguments, snapshot.generation, STOP_REDIS, tail)


def _scheduler(snapshot: Snapshot, options: RunOptions) -> Program:
    """
    The scheduler; where `--only` leaves it out, a program that only publishes the tasks.

    Another host runs the cron entries then, but producers must still know the tasks of this host.
    """
    ticks = options.runs(SCHEDULER)
    name = SCHEDULER if ticks else PUBLISHER
    arguments = (*_where(snapshot, options), *(() if ticks else ("--publish-only",)))
    tail = paths.tail_file(options.state, name)
    return Program(name, name, *_run(SCHEDULER_MODULE), arguments, snapshot.generation, STOP_SCHEDULER, tail)


def _web(snapshot: Snapshot, options: RunOptions) -> Program:
    tail = paths.tail_file(options.state, WEB)
    return Program(WEB, WEB, *_run(WEB_MODULE), _where(snapshot, options), snapshot.generation, STOP_WEB, tail)


def _worker(snapshot: Snapshot, group: WorkerGroup, generation: int, options: RunOptions) -> Program:
    part = part_of(group.name)
    name = f"{part}@{generation}"
    arguments = (*_where(snapshot, options), "--group", group.name)
    stop, tail = group.drain_timeout + SETTLE, paths.tail_file(options.state, name)
    run = _run(WORKER_MODULE)
    return Program(name, part, *run, arguments, snapshot.generation, stop, tail, slots=group.slots)


def sinks_of(config: Config) -> tuple[str, ...]:
    """The names of the sinks."""
    return tuple(config.events.sinks) if config.events else ()


def is_sink(program: Program) -> bool:
    """Whether it delivers events."""
    return program.part.startswith(f"{SINK}:")


def _sink(snapshot: Snapshot, name: str, options: RunOptions) -> Program:
    part = f"{SINK}:{name}"
    arguments = (*_where(snapshot, options), "--sink", name)
    tail = paths.tail_file(options.state, part)
    return Program(part, part, *_run(SINK_MODULE), arguments, snapshot.generation, STOP_SINK, tail)


def _run(module: str) -> tuple[str, tuple[str, ...]]:
    """
    The entry point and the command of a module that `python -m` runs.

    With -P, a file in the working directory, which may be a user's, never shadows a module.
    """
    return f"{module}:entry_point", (sys.executable, "-P", "-m", module)


def _where(snapshot: Snapshot, options: RunOptions) -> tuple[str, ...]:
    return ("--snapshot", str(snapshot.path), "--runtime", str(options.runtime))
