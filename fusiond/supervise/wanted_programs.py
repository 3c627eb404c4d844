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
from functools import partial
from pathlib import Path

from fusiond import paths
from fusiond.config.accepted.snapshot import Snapshot
from fusiond.config.model import Config, WorkerGroup
from fusiond.redis_server import Server

REDIS, SCHEDULER, PUBLISHER, WORKER, WEB = "redis", "scheduler", "publisher", "worker", "web"
SCHEDULER_MODULE, WORKER_MODULE = "fusiond.schedule.__main__", "fusiond.worker.__main__"
WEB_MODULE = "fusiond.web.__main__"
#: kind of program that carries something to or from Redis, one for each name → its module; `--KIND NAME` follows
CARRIERS = {"sink": "fusiond.sinks.__main__", "outbox": "fusiond.outbox.__main__"}
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
STOP_SCHEDULER, STOP_REDIS, STOP_WEB, STOP_CARRIER = 10.0, 30.0, 10.0, 20.0


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

    @property
    def tail_before(self) -> Path:
        """Where the last lines of the program are that it has replaced, another generation of the part."""
        return self.tail.with_name(f"{self.part}.log")


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What a daemon knows beside its configuration: its directories and how it was started."""

    state: Path
    runtime: Path
    #: the server to run; None unless the broker is embedded
    server: Server | None = None
    #: names of groups, `scheduler`, `web`, `sink:<name>` or `outbox:<name>`, that run on this host; empty: all
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
    of = partial(_of_module, snapshot, options)
    if options.runs(SCHEDULER):
        found.append(of(SCHEDULER_MODULE, SCHEDULER, STOP_SCHEDULER))
    else:
        # Another host runs the cron entries then, but producers must still know the tasks of this host.
        found.append(of(SCHEDULER_MODULE, PUBLISHER, STOP_SCHEDULER, "--publish-only"))
    if config.web is not None and options.runs(WEB):
        found.append(of(WEB_MODULE, WEB, STOP_WEB))
    for part in filter(options.runs, carriers_of(config)):
        kind, _, name = part.partition(":")
        found.append(of(CARRIERS[kind], part, STOP_CARRIER, f"--{kind}", name))
    for group in config.workers.values():
        if options.runs(group.name) and options.is_host_of(group):
            part, stop = part_of(group.name), group.drain_timeout + SETTLE
            name = f"{part}@{generations[part]}"
            found.append(of(WORKER_MODULE, part, stop, "--group", group.name, name=name, slots=group.slots))
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


def carriers_of(config: Config) -> list[str]:
    """The parts of sinks and outboxes, such as `sink:audit` and `outbox:shop`."""
    names = {"sink": config.events.sinks if config.events else {}, "outbox": config.outboxes}
    return [f"{kind}:{name}" for kind, entries in names.items() for name in entries]


def is_carrier(program: Program) -> bool:
    """Whether it is that of a sink or an outbox, without which jobs run."""
    return program.part.partition(":")[0] in CARRIERS


def _of_module(
    snapshot: Snapshot, options: RunOptions, module: str, part: str, stop: float, *more: str, name: str = "",
    slots: int = 0,
) -> Program:  # fmt: skip
    """
    The program of a module that `python -m` runs; `more`: arguments of its own.

    With -P, a file in the working directory, which may be a user's, never shadows a module.
    """
    name = name or part
    entry, command = f"{module}:entry_point", (sys.executable, "-P", "-m", module)
    arguments = ("--snapshot", str(snapshot.path), "--runtime", str(options.runtime), *more)
    tail = paths.tail_file(options.state, name)
    return Program(name, part, entry, command, arguments, snapshot.generation, stop, tail, slots)
