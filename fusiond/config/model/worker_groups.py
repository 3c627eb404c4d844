"""Worker groups: which processes serve which queues, and as whom."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Annotated, Any, Final, Literal

from fusiond.config.kinds import (
    A_NAME,
    AS_WRITTEN,
    BYTES,
    NAME,
    PATH_ELSEWHERE,
    WORD,
    Account,
    Duration,
    Fields,
    FilePath,
    Key,
    PartOf,
    between,
    meanings,
    text,
)
from fusiond.config.model.tasks import DottedPath
from fusiond.config.units import seconds

Order = Annotated[
    Literal["round_robin", "strict", "weighted"],
    meanings("takes from each queue in turn", "takes from a queue only while those before it are empty"),
]
Isolation = Annotated[
    Literal["fork", "process"],
    meanings(
        "a fresh child for each function",
        "children are reused, which is much quicker for short jobs",
        message="write fork or process; for jobs in threads, write isolation: process and executor: thread",
    ),
]
Executor = Annotated[
    Literal["sync", "thread", "asyncio"],
    meanings(
        "one job after the other",
        "each job in a thread of its own",
        "coroutines in one event loop, plain functions in its threads",
    ),
]
Variable = Annotated[str, text("variable name", f"^{WORD}$", "write the name of a variable, such as APP_ENV")]
VariableGlob = Annotated[
    str,
    text(
        "variable name or glob",
        r"^[A-Za-z0-9_*?\[\]!-]{1,200}$",
        "write the name of a variable; * and ? are wildcards, such as DB_*",
        examples=["DB_*"],
    ),
]
HostGlob = Annotated[
    str,
    text(
        "host name or glob",
        r"^[A-Za-z0-9_.*?\[\]!-]{1,253}$",
        "write the name of a host; * and ? are wildcards, such as batch-*",
        examples=["batch-*"],
    ),
]
_OCTAL: Final = 'write three octal digits in quotes, such as "027"'
Umask = Annotated[int, text("umask", "^0?[0-7]{3}$", _OCTAL, lambda digits: int(digits, 8), "{:03o}".format)]


def _number(value: str | float) -> int:
    from fusiond.config.quota import cpu_quota

    return int(value) if value != "auto" else cpu_quota()


_MOST_PROCESSES: Final = 1024
_OR_AUTO: Final = text(
    "",
    "^auto$",
    "write a number from 1 up, or auto",
    _number,
    type=["integer", "string"],
    minimum=1,
    maximum=_MOST_PROCESSES,
)
#: seconds
TARGET_LATENCY: Final = 5.0


@dataclass(frozen=True, slots=True)
class Scaling:
    """How many children a group has that follows its load."""

    #: The lowest number of children.
    min: Annotated[int, between(1, _MOST_PROCESSES), Key("Least", 2, default=1)]
    #: The highest number of children, those of the former generation during a reload included. `auto`: as many as the
    #: CPU quota allows.
    max: Annotated[int, _OR_AUTO, Key("Most", 16, "auto")]
    #: Children are added once a job has waited for so long, or as soon as the waiting jobs need longer than that at the
    #: present rate. They end after a minute in which they were not needed.
    target_latency: Annotated[Duration, Key("Longest wait", "5s")] = TARGET_LATENCY


def _processes(value: str | float | dict[str, Any]) -> int | Fields:
    """A number, or a range; of a range the number is the most."""
    if not isinstance(value, dict):
        return _number(value)
    least, latency = int(value.get("min") or 1), value.get("target_latency")
    # `auto` is not below `min`: whether the file is right must not depend on the machine.
    most = max(least, _number("auto")) if value["max"] == "auto" else int(value["max"])
    return Fields(processes=most, scaling=Scaling(least, most, seconds(latency) if latency else TARGET_LATENCY))


PROCESSES: Final = text(
    "",
    "^auto$",
    "write a number from 1 up, auto, or a map such as {min: 2, max: 16}",
    _processes,
    type=["integer", "string", "object"],
    defaultSnippets=[
        {
            "label": "as many as the load needs",
            "description": "2 to 16 children: more while jobs wait for longer than 5 s",
            "body": {"min": 2, "max": 16, "target_latency": "5s"},
        }
    ],
    minimum=1,
    maximum=_MOST_PROCESSES,
)


def _served(value: str | list[str] | dict[str, int]) -> Fields:
    """The queues of a group: a list, a map of weights, or `*`."""
    if isinstance(value, dict):
        weights = {name: int(weight) for name, weight in value.items()}
        return Fields(queues=tuple(weights), weights=weights, order="weighted")
    return Fields(queues=tuple(value))


SERVED: Final = text(
    "",
    r"^\*$",
    'write a list of queues, a map of queues and weights, or "*" for all queues',
    _served,
    type=["array", "object", "string"],
    minItems=1,
    uniqueItems=True,
    items=text("name", rf"^(\*|{A_NAME})$", "write a name of a declared queue", examples=["reports"]).schema,
    minProperties=1,
    propertyNames=NAME.schema,
    additionalProperties=between(1, 1000, title="weight", examples=[3]).schema,
    defaultSnippets=[
        {
            "label": "queues by weight",
            "description": "more jobs from a queue of more weight",
            "body": {"sms": 3, "email": 1},
        }
    ],
)


@dataclass(frozen=True, slots=True)
class WorkerGroup:
    """One dispatcher, one fork server, `processes` children."""

    name: str
    #: A list of queues; a map of queues and their weights; or "*", all queues.
    queues: Annotated[
        tuple[str, ...], SERVED, Key("Queues", ["sms", "email"], "*", in_place=True, own=True, default="*")
    ] = ("*",)
    #: `round_robin` takes from each queue in turn; `strict` takes from a queue only while those before it are empty.
    order: Annotated[Order, Key("Order of the queues", "strict", in_place=True)] = "round_robin"
    #: queue → share, for order `weighted`
    weights: Annotated[Mapping[str, int], PartOf("queues")] = field(default_factory=dict)
    #: Names or globs of the hosts that the group runs on, as `hostname` prints them. Empty: all hosts. `fusiond dev`
    #: runs it on any host.
    hosts: Annotated[tuple[HostGlob, ...], Key("Hosts", ["batch-*"])] = ()
    #: How many children. Each runs one job at a time, or `concurrency` jobs with an `executor`. `auto`: as many as the
    #: CPU quota allows. A map: as many as the load needs.
    processes: Annotated[int, PROCESSES, Key("Processes", 4, "auto", in_place=True)] = 1
    #: how the number follows the load, up to `processes`; None: it does not
    scaling: Annotated[Scaling | None, PartOf("processes")] = None
    #: `fork`: a fresh child for each function. `process`: children are reused, which is much quicker for short jobs.
    isolation: Annotated[Isolation, Key("Isolation", "process")] = "fork"
    #: How a child runs its jobs: `sync` one after the other, `thread` each in a thread, `asyncio` coroutines in one
    #: event loop and plain functions in threads. The last two need `isolation: process`.
    executor: Annotated[Executor, Key("Executor", "asyncio")] = "sync"
    #: How many jobs one child runs at once, with `executor: thread` or `asyncio`, at most 1000.
    concurrency: Annotated[int, between(1, 1000), Key("Jobs at once in a child", 50)] = 1
    #: A function that each child calls once before it takes jobs, to open a connection pool, say. If it raises, the
    #: child has failed to start.
    on_start: Annotated[DottedPath | None, Key("Start function", "shop.startup")] = None
    #: 0 to 19, added to the daemon's own niceness: the higher, the more the children give way to other processes.
    nice: Annotated[int, between(0, 19), Key("Niceness", 5)] = 0
    #: The system user that the group's task code runs as; only root can change it. null: the daemon's own.
    user: Annotated[Account | None, Key("User", "shop")] = None
    #: The working directory of children, which is also put on sys.path. Symlinks are resolved when the group starts.
    #: `.` is the directory of this file.
    directory: Annotated[FilePath, Key("Directory", "/srv/shop", ".")] = "/"
    #: Paths such as the symlink that a deployment switches. The group loads its code again when one of them leads to
    #: another directory, or when the file that it leads to is replaced or touched.
    reload_on: Annotated[tuple[FilePath, ...], Key("Reload on", ["/srv/shop/current"], in_place=True)] = ()
    #: The interpreter that runs the task code, CPython 3.9 or newer. A relative path starts at `directory`. null: the
    #: daemon's own.
    python: Annotated[str | None, PATH_ELSEWHERE, Key("Python", ".venv/bin/python")] = None
    #: Variables that children get. A number or boolean is passed on as it is written.
    environment: Annotated[
        Mapping[Variable, Annotated[str, AS_WRITTEN]], Key("Environment", {"APP_ENV": "production", "WORKERS": 4})
    ] = field(default_factory=dict)
    #: Files of NAME=VALUE lines, read as systemd reads an `EnvironmentFile=` when the group starts; a later file wins,
    #: and `environment` wins over all.
    environment_file: Annotated[tuple[FilePath, ...], Key("Environment files", ["/etc/shop.env"])] = ()
    #: Names, or globs, of the daemon's own variables that children get.
    pass_environment: Annotated[tuple[VariableGlob, ...], Key("Variables to pass on", ["DB_*", "SENTRY_DSN"])] = ()
    #: A variable that has another value in each child, a number from 0 to `processes` - 1, such as that of a device. A
    #: change of `processes` then replaces the group.
    slot_variable: Annotated[Variable | None, Key("Variable for a number", "CUDA_VISIBLE_DEVICES")] = None
    #: The umask of children, octal and in quotes. null: the daemon's own.
    umask: Annotated[Umask | None, Key("File mode mask", "027")] = None
    #: How long running jobs may take at shutdown before they are killed and given back. A reload waits without this
    #: limit.
    drain_timeout: Annotated[Duration, Key("Time to drain", "30s", "1h", in_place=True)] = 30.0
    #: A child is replaced after so many jobs.
    max_jobs: Annotated[int | None, between(1, 1_000_000_000), Key("Jobs per child", 10000, in_place=True)] = None
    #: A child whose resident memory is above this is replaced between two jobs.
    max_memory: Annotated[int | None, BYTES, Key("Memory per child", "512MiB", in_place=True)] = None
    #: A child older than this is replaced between two jobs, one child at a time.
    max_age: Annotated[Duration | None, Key("Age of a child", "1h", in_place=True)] = None

    @property
    def is_bounded(self) -> bool:
        """Whether `processes` bounds all its children: those that end, and those of a former generation, too."""
        return bool(self.scaling or self.slot_variable)

    @property
    def slots(self) -> int:
        """How many jobs it runs at once, at most."""
        return self.processes * self.concurrency

    def runs_on(self, host: str) -> bool:
        """Whether the group runs on the host of this name."""
        return not self.hosts or any(fnmatchcase(host.lower(), glob.lower()) for glob in self.hosts)
