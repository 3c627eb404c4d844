"""
The accepted configuration: frozen, every default resolved. Each key of the file stands here once.

A field's annotation says how its values are written (`config/kinds.py`); its Key has a title, examples and what a
change of it does; the `#:` comment above is its description. How the file is read, what `fusiond explain` shows and
what a reload does follow from these. `python -m tests.file_reference` writes schemas/fusion.schema.json and the tables
of docs/file.md from them.

A ClassVar is a key that only the file has: other fields of the Config have its effect. Seconds and bytes are plain
numbers; a `None` means "no limit" or "not set".

A Config that `to_json` writes into a snapshot is the same when `from_json` reads it.

Standard library only: every program reads its snapshot with this module, and needs no YAML.
"""

import dataclasses
import functools
import json
import types
import typing
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

from fusiond.config.kinds import (
    BACKOFF,
    HARD_AFTER_SOFT,
    JITTER,
    SERVED,
    TIMEOUT,
    Account,
    AsWritten,
    DottedPath,
    Duration,
    ExceptionName,
    FilePath,
    Key,
    Keyword,
    Kind,
    Line,
    Name,
    Namespace,
    Partial,
    PartOf,
    PathElsewhere,
    Priority,
    Processes,
    Share,
    Size,
    Text,
    Umask,
    Variable,
    VariableGlob,
    between,
    meanings,
)

#: the queue that always exists
DEFAULT_QUEUE = "default"
#: the built-in priorities; a higher one goes first
PRIORITIES: Mapping[str, int] = {"high": 2, "moderate": 1, "low": 0}

Order = Annotated[
    Literal["round_robin", "strict", "weighted"],
    meanings("takes from each queue in turn", "takes from a queue only while those before it are empty"),
]
Isolation = Annotated[
    Literal["fork", "process"],
    meanings("a fresh child for each job", "children are reused, which is much quicker for short jobs"),
]
Overlap = Annotated[
    Literal["skip", "allow"],
    meanings("no job while the job of the tick before has not ended", "each tick is a job"),
]
Missed = Annotated[
    Literal["skip", "last", "all"],
    meanings(
        "ticks that were missed are left out",
        "one job for the last tick that was missed",
        "a job for each tick that was missed",
    ),
]
Result = Annotated[
    Literal["keep", "ignore"],
    meanings("it is stored as JSON for result_ttl", "it is dropped; the result is null"),
]
Level = Annotated[
    Literal["debug", "info", "warning", "error"],
    meanings(
        "everything, for finding a fault",
        "what happens in normal operation",
        "what needs a look, and errors",
        "errors alone",
    ),
]
Format = Annotated[Literal["text", "json"], meanings("lines for people", "one JSON object on each line, for programs")]


@dataclass(frozen=True, slots=True)
class Tls:
    """Certificates for rediss://, rediss+sentinel:// and rediss+cluster://."""

    #: PEM certificates that sign the server's. null: the system's.
    ca_file: Annotated[FilePath | None, Key("CA file", "/etc/ssl/redis-ca.pem")] = None
    #: PEM certificate that is shown to the server.
    cert_file: Annotated[FilePath | None, Key("Certificate file", "/etc/ssl/fusiond.pem")] = None
    #: PEM key of the certificate.
    key_file: Annotated[FilePath | None, Key("Key file", "/etc/ssl/fusiond.key")] = None


@dataclass(frozen=True, slots=True)
class Broker:
    """Where the queues are."""

    #: `embedded`: the daemon runs a Redis of its own. Otherwise the address of a Redis: redis://, rediss:// or unix://;
    #: or several addresses: redis+sentinel:// or redis+cluster:// (with TLS: rediss+…).
    url: Annotated[
        Text,
        Key(
            "URL",
            "redis://localhost:6379/0",
            "unix:///run/redis/redis.sock?db=1",
            "redis+sentinel://one:26379,two:26379,three:26379/shop",
            "redis+cluster://one:6379,two:6379",
        ),
    ] = "embedded"
    #: Each key in Redis begins with it, so that several installations can share one Redis.
    namespace: Annotated[Namespace, Key("Namespace", "shop")] = "fusion"
    #: A file that holds the password, read at each connection.
    password_file: Annotated[FilePath | None, Key("Password file", "/run/credentials/fusiond.service/redis")] = None
    #: embedded: the redis-server or valkey-server to run, 7.0 or newer. null: one that can read the existing data; for
    #: an empty directory that of fusiond[embedded], otherwise one on PATH.
    server: Annotated[FilePath | None, Key("Server", "/usr/bin/redis-server")] = None
    #: embedded: the system group whose members may enqueue. null: the daemon's user alone.
    socket_group: Annotated[Account | None, Key("Socket group", "shop")] = None
    #: Certificates for rediss://, rediss+sentinel:// and rediss+cluster://.
    tls: Annotated[Tls, Key("TLS", {"ca_file": "/etc/ssl/redis-ca.pem"})] = Tls()


@dataclass(frozen=True, slots=True)
class Timeout:
    """How long one attempt may run: then an exception inside the task, then SIGKILL."""

    #: After this time an exception is raised inside the task.
    soft: Annotated[Duration, Key("Soft timeout", "50m")]
    #: After this time the child's process group is killed. null: 10 s after the soft one.
    hard: Annotated[Duration, Key("Hard timeout", "1h", default=None)]


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """What follows a failed attempt."""

    #: Attempts in all, including the first. Crashes are counted separately.
    max_attempts: Annotated[int, between(1, 1000), Key("Attempts", 5)] = 7
    #: How the delay grows: `fixed`, `linear`, `exponential`, or the delays themselves, of which the last one repeats.
    backoff: Annotated[
        Literal["fixed", "linear", "exponential", "list"], BACKOFF, Key("Back-off", "fixed", ["10s", "1m", "10m"])
    ] = "exponential"
    #: The delay before the second attempt; not with a list of delays.
    delay: Annotated[Duration, Key("Delay", "10s")] = 2.0
    #: before each further attempt, of `backoff: list`
    delays: Annotated[tuple[Duration, ...], PartOf("backoff")] = ()
    #: The longest delay of a linear or exponential back-off.
    max_delay: Annotated[Duration, Key("Longest delay", "1h")] = 600.0
    #: ± this share of the delay; either it or `jitter` is 0
    jitter_share: Annotated[Share, PartOf("jitter")] = 0.25
    #: By how much each delay may be shorter or longer, so that retries spread: a share, or a duration.
    jitter: Annotated[float, JITTER, Key("Jitter", "10%", "5s", default="25%")] = 0.0
    #: Names of exceptions that are retried; a name matches subclasses, too. Empty: every exception.
    retry_on: Annotated[
        tuple[ExceptionName, ...], Key("Retry on", ["ConnectionError", "requests.exceptions.Timeout"])
    ] = ()
    #: Names of exceptions that are not retried; wins over `retry_on`.
    give_up_on: Annotated[tuple[ExceptionName, ...], Key("Give up on", ["ValueError"])] = ()
    #: A job whose child died more often than this fails with WORKER_CRASHED, or TIMEOUT. 0 with `max_attempts: 1`: a
    #: job begins at most once.
    max_crashes: Annotated[int, between(0, 1000), Key("Crashes", 0)] = 2

    @property
    def at_most_once(self) -> bool:
        """Whether a job may begin only once: one attempt, and none after a crash."""
        return self.max_attempts == 1 and self.max_crashes == 0

    def delay_after(self, failures: int) -> float:
        """Seconds from the last of so many failures, 1 or more, to the next attempt, without jitter."""
        if self.backoff == "list":
            return self.delays[min(failures, len(self.delays)) - 1]
        if self.backoff == "fixed":
            return self.delay
        # Beyond 2**64 every delay is above every max_delay, and a float would overflow.
        growth = failures if self.backoff == "linear" else 2.0 ** min(failures - 1, 64)
        return min(self.delay * growth, self.max_delay)


#: connection and time-out errors of the standard library and of the clients that most tasks use
TRANSIENT = (
    "ConnectionError",
    "TimeoutError",
    "requests.exceptions.ConnectionError",
    "requests.exceptions.Timeout",
    "httpx.TransportError",
    "aiohttp.ClientConnectionError",
)
RETRY_POLICIES: Mapping[str, RetryPolicy] = {
    "none": RetryPolicy(max_attempts=1, backoff="fixed", delay=0.0, jitter_share=0.0, max_crashes=0),
    "standard": RetryPolicy(retry_on=TRANSIENT),
}


@dataclass(frozen=True, slots=True)
class Task:
    """A plain function and its policies."""

    name: str
    #: Its dotted path: package.module.function.
    run: Annotated[DottedPath, Key("Function", "shop.messaging.send_otp", own=True)]
    #: The queue that its jobs wait in.
    queue: Annotated[Name, Key("Queue", "default", own=True)] = DEFAULT_QUEUE
    #: Its place in the queue: a name of `priorities`, or a number from 0 to 255; higher goes first.
    priority: Annotated[Priority, Key("Priority", "high", "moderate", "low", default="moderate")] = PRIORITIES[
        "moderate"
    ]
    #: How long one attempt may run. A duration is the soft timeout, an exception inside the task; the hard one,
    #: SIGKILL, follows 10 s later. As a map, both are set.
    timeout: Annotated[Timeout, TIMEOUT, Key("Timeout", "30s", default="180s")] = Timeout(
        180.0, 180.0 + HARD_AFTER_SOFT
    )
    #: The name of a policy of `retry_policies`; `none` and `standard` are built in.
    retry: Annotated[Name, Key("Retry policy", "standard", "none")] = "standard"
    #: How long a finished job and its result are kept.
    result_ttl: Annotated[Duration, Key("Time to keep a result", "500s", "1d")] = 500.0
    #: How long a failed job and its error are kept.
    failure_ttl: Annotated[Duration, Key("Time to keep a failure", "30d")] = 30 * 86400.0
    #: A job that has not begun after this time fails with EXPIRED. null: it waits for ever.
    expires: Annotated[Duration | None, Key("Expiry", "5m")] = None
    #: A word that is added to the log lines and events of its jobs.
    log_tag: Annotated[Line | None, Key("Log tag", "billing")] = None
    #: The keyword under which the function gets a dict about its job: id, attempt, deadline, key, meta.
    pass_job: Annotated[Keyword | None, Key("Keyword for the job", "job")] = None
    #: Whether the value that the function returns is kept. An ignored value need not be JSON.
    result: Annotated[Result, Key("Result", "ignore")] = "keep"
    #: One line for people.
    description: Annotated[Line | None, Key("Description", "Sends a one-time password", own=True)] = None


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue; its `defaults` are already part of its tasks."""

    name: str
    #: Defaults of the queue's tasks: they win over `defaults.tasks`, and a task's own keys win over them.
    defaults: ClassVar[Annotated[Partial[Task], Key("Defaults of its tasks", {"timeout": "15s"})]]
    #: Jobs that may wait; an enqueue beyond them is refused. null: no limit.
    max_length: Annotated[int | None, between(1, 1_000_000_000), Key("Longest length", 100000)] = None
    #: true: jobs are accepted, and wait.
    suspended: Annotated[bool, Key("Suspended", True)] = False


@dataclass(frozen=True, slots=True)
class CronEntry:
    """A schedule that enqueues a task."""

    name: str
    #: The task that is enqueued.
    task: Annotated[Name, Key("Task", "nightly_report")]
    #: Five fields (minute, hour, day of month, month, day of week), or @hourly, @daily, @weekly, @monthly, @yearly.
    schedule: Annotated[Text | None, Key("Schedule", "0 2 * * *", "*/5 * * * *", "@daily", either=True)] = None
    #: The time between two ticks, at least 1s.
    every: Annotated[Duration | None, Key("Every", "90s", either=True)] = None
    #: The zone that `schedule` is read in, a name of the IANA database.
    timezone: Annotated[Text, Key("Time zone", "Europe/Berlin")] = "UTC"
    #: Positional arguments of each job.
    args: Annotated[tuple[Any, ...], Key("Arguments", ["eu"])] = ()
    #: Keyword arguments of each job.
    kwargs: Annotated[Mapping[str, Any], Key("Keyword arguments", {"region": "eu"})] = field(default_factory=dict)
    #: `skip`: no job while the one of the tick before has not ended. `allow`: always one.
    overlap: Annotated[Overlap, Key("Overlap", "allow")] = "skip"
    #: Ticks that were due while no daemon ran: `skip` them, run the `last` one, or run `all`. Ticks from before the
    #: entry was first seen never run.
    missed: Annotated[Missed, Key("Missed ticks", "last")] = "skip"
    #: How late a tick may still run. null: 1m with `missed: skip`, else no limit.
    starting_deadline: Annotated[Duration | None, Key("Starting deadline", "6h")] = None
    #: By how much, at most, a tick's job is delayed.
    jitter: Annotated[Duration, Key("Jitter", "30s")] = 0.0
    #: true: its ticks are skipped.
    suspended: Annotated[bool, Key("Suspended", True)] = False


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
    #: How many children, so how many jobs at once. `auto`: as many as the CPU quota allows.
    processes: Annotated[Processes, Key("Processes", 4, "auto", in_place=True)] = 1
    #: `fork`: a fresh child for each job. `process`: children are reused, which is much quicker for short jobs.
    isolation: Annotated[Isolation, Key("Isolation", "process")] = "fork"
    #: The system user that the group's task code runs as; only root can change it. null: the daemon's own.
    user: Annotated[Account | None, Key("User", "shop")] = None
    #: The working directory of children, which is also put on sys.path; symlinks are resolved when the group starts. A
    #: relative path starts at the file that holds it: `.` is the file's own directory.
    directory: Annotated[FilePath, Key("Directory", "/srv/shop", ".")] = "/"
    #: The interpreter that runs the task code, CPython 3.9 or newer. A relative path starts at `directory`. null: the
    #: daemon's own.
    python: Annotated[PathElsewhere | None, Key("Python", ".venv/bin/python")] = None
    #: Variables that children get, beside PATH, LANG, TZ, HOME and USER. A number or boolean is passed on as it is
    #: written.
    environment: Annotated[
        Mapping[Variable, AsWritten], Key("Environment", {"APP_ENV": "production", "WORKERS": 4})
    ] = field(default_factory=dict)
    #: Files of NAME=VALUE lines, read when the group starts; a later file wins, and `environment` wins over all. A
    #: relative path starts at the file that holds it.
    environment_file: Annotated[tuple[FilePath, ...], Key("Environment files", ["/etc/shop.env"])] = ()
    #: Names, or globs, of the daemon's own variables that children get.
    pass_environment: Annotated[tuple[VariableGlob, ...], Key("Variables to pass on", ["DB_*", "SENTRY_DSN"])] = ()
    #: The umask of children, octal and in quotes. null: the daemon's own.
    umask: Annotated[Umask | None, Key("File mode mask", "027")] = None
    #: How long running jobs may take at shutdown before they are killed and given back. A reload waits without this
    #: limit.
    drain_timeout: Annotated[Duration, Key("Time to drain", "30s", "1h", in_place=True)] = 30.0
    #: A child is replaced after so many jobs. null: no limit.
    max_jobs: Annotated[int | None, between(1, 1_000_000_000), Key("Jobs per child", 10000, in_place=True)] = None
    #: A child whose resident memory is above this is replaced between two jobs. null: no limit.
    max_memory: Annotated[Size | None, Key("Memory per child", "512MiB", in_place=True)] = None


@dataclass(frozen=True, slots=True)
class Control:
    """Who may use the control socket: the daemon's own user, and this system group."""

    #: The system group whose members may use the control socket. null: nobody else.
    group: Annotated[Account | None, Key("Group", "ops")] = None


@dataclass(frozen=True, slots=True)
class Logging:
    """How the daemon and its programs log."""

    #: Lines of this level and above are written.
    level: Annotated[Level, Key("Level", "debug", in_place=True)] = "info"
    #: `text` for people, `json` for programs.
    format: Annotated[Format, Key("Format", "json")] = "text"
    #: Where lines are appended. null: standard output.
    file: Annotated[FilePath | None, Key("File", "/var/log/fusiond.log")] = None
    #: Whether each job that succeeds or is canceled leaves a line at its end; one that fails always does.
    jobs: Annotated[bool, Key("Jobs", False, in_place=True)] = True


@dataclass(frozen=True, slots=True)
class Defaults:
    """Defaults of tasks and groups; in a Config they are already part of them."""

    #: Defaults of tasks. A queue's `defaults` win over them, and the task's own keys over both.
    tasks: ClassVar[Annotated[Partial[Task], Key("Defaults of tasks", {"timeout": "30s"})]]
    #: Defaults of worker groups. A group's own keys win; maps and lists are replaced whole.
    workers: ClassVar[
        Annotated[
            Partial[WorkerGroup],
            Key("Defaults of worker groups", {"directory": "/srv/shop", "python": ".venv/bin/python"}),
        ]
    ]


@dataclass(frozen=True, slots=True)
class Config:
    """One accepted file, its includes and defaults resolved."""

    #: The version of this format.
    version: ClassVar[Annotated[Literal[1], Key("Version", 1)]]
    #: Where the queues are.
    broker: Annotated[
        Broker,
        Key(
            "Broker",
            {"url": "embedded"},
            {"url": "redis://redis.example.com:6379/0", "password_file": "/run/credentials/redis"},
        ),
    ] = Broker()
    #: Further files, or globs of them, read in alphabetical order. A relative path starts at this file. The same name
    #: declared twice is an error, and an included file includes no further ones.
    include: ClassVar[Annotated[tuple[FilePath, ...], Key("Include", ["/etc/fusion.d/*.yaml"])]] = ()
    #: Names for priorities, 0 to 255, higher goes first. They replace the built-in names.
    priorities: Annotated[
        Mapping[Name, Annotated[int, between(0, 255, title="priority")]],
        Kind({"minProperties": 1}),
        Key("Priorities", {"urgent": 10, "moderate": 5, "whenever": 0}, in_place=True),
    ] = field(default_factory=lambda: dict(PRIORITIES))
    #: Defaults of every task and every worker group.
    defaults: ClassVar[
        Annotated[Defaults, Key("Defaults", {"tasks": {"timeout": "30s"}, "workers": {"directory": "/srv/shop"}})]
    ]
    #: What follows a failed attempt, by name. `none` and `standard` are built in.
    retry_policies: Annotated[
        Mapping[Name, RetryPolicy],
        Key("Retry policies", {"patient": {"max_attempts": 7, "delay": "10s"}}, in_place=True),
    ] = field(default_factory=lambda: dict(RETRY_POLICIES))
    #: The queues, by name. `default` always exists.
    queues: Annotated[
        Mapping[Name, Queue], Key("Queues", {"reports": {}, "email": {"max_length": 10000}}, in_place=True)
    ] = field(default_factory=lambda: {DEFAULT_QUEUE: Queue(DEFAULT_QUEUE)})
    #: Plain functions that jobs may run, by name.
    tasks: Annotated[
        Mapping[Name, Task],
        Key("Tasks", {"send_otp": {"run": "shop.messaging.send_otp", "priority": "high"}}, in_place=True),
    ] = field(default_factory=dict)
    #: What is enqueued at which times, by name.
    cron: Annotated[
        Mapping[Name, CronEntry],
        Key("Schedules", {"nightly": {"task": "nightly_report", "schedule": "0 2 * * *"}}, in_place=True),
    ] = field(default_factory=dict)
    #: Which processes serve which queues, by name.
    workers: Annotated[
        Mapping[Name, WorkerGroup], Key("Worker groups", {"main": {"queues": ["default"], "processes": 4}})
    ] = field(default_factory=dict)
    #: Who may use the control socket, beside the daemon's own user and root.
    control: Annotated[Control, Key("Control", {"group": "ops"})] = Control()
    #: How the daemon and its programs log.
    logging: Annotated[Logging, Key("Logging", {"level": "debug", "format": "json"})] = Logging()
    #: Where snapshots and the embedded broker's data are kept. null: $STATE_DIRECTORY, otherwise /var/lib/fusiond for
    #: /etc/fusion.yaml, otherwise a directory of this file's own below the user's.
    state_directory: Annotated[FilePath | None, Key("State directory", "/var/lib/fusiond")] = None
    #: Where the sockets are. null: $RUNTIME_DIRECTORY, otherwise /run/fusiond for /etc/fusion.yaml, otherwise a
    #: directory of this file's own below the user's.
    runtime_directory: Annotated[FilePath | None, Key("Runtime directory", "/run/fusiond")] = None
    #: Whether the daemon reloads by itself when the file is saved. false: only on request, such as `fusiond reload` or
    #: `systemctl reload`.
    watch: Annotated[bool, Key("Watch", False, in_place=True)] = True

    def to_json(self) -> str:
        """The snapshot's text: equal for equal Configs, so that it can be hashed."""
        return json.dumps(dataclasses.asdict(self), sort_keys=True, ensure_ascii=False)

    @staticmethod
    def from_json(text: str | bytes) -> "Config":
        """The Config that `to_json` wrote. Raises ValueError, KeyError or TypeError on anything else."""
        return Config.from_dict(json.loads(text))

    @staticmethod
    def from_dict(content: Mapping[str, Any]) -> "Config":
        """The Config of such a text that is already decoded. Raises as `from_json`."""
        return typing.cast("Config", rebuild(Config, content))


def serves(queues: Collection[str], queue: str) -> bool:
    """Whether worker groups with these `queues` take jobs from this one."""
    return "*" in queues or queue in queues


@functools.cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def rebuild(hint: Any, value: Any) -> Any:
    """`value` from JSON as its type hint says: a dataclass of plain fields, a tuple, a map. Raises as `from_json`."""
    if dataclasses.is_dataclass(hint):
        hints = _hints(typing.cast("type", hint))
        return hint(**{name: rebuild(hints[name], item) for name, item in value.items()})  # type: ignore[operator]
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple:
        return tuple(rebuild(args[0], item) for item in value)
    if origin is Mapping:
        return {key: rebuild(args[1], item) for key, item in value.items()}
    if origin in (types.UnionType, typing.Union) and value is not None:
        return rebuild(next(arm for arm in args if arm is not types.NoneType), value)
    return value
