"""
The accepted configuration: frozen, every default resolved.

All defaults live here and nowhere else. Seconds and bytes are plain numbers; a `None` means "no limit" or "not set".
`to_json` and `from_json` carry a Config over the snapshot file unchanged.

Standard library only: every program reads its snapshot through this module, none needs YAML.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Order = Literal["round_robin", "strict", "weighted"]
Isolation = Literal["fork", "process"]
Backoff = Literal["fixed", "linear", "exponential", "list"]
Overlap = Literal["skip", "allow"]
Missed = Literal["skip", "last", "all"]

#: the queue that always exists
DEFAULT_QUEUE = "default"
#: the built-in priorities, more first
PRIORITIES: Mapping[str, int] = {"high": 2, "moderate": 1, "low": 0}
#: seconds from the soft timeout, an exception, to the hard one, SIGKILL
HARD_AFTER_SOFT = 10.0


@dataclass(frozen=True, slots=True)
class Tls:
    """How to trust and be trusted over rediss://, rediss+sentinel://, rediss+cluster://."""

    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None


@dataclass(frozen=True, slots=True)
class Broker:
    """Where the queues are."""

    #: `embedded`, or redis:// rediss:// unix:// redis+sentinel:// redis+cluster://
    url: str = "embedded"
    #: the head of each key
    namespace: str = "fusion"
    #: a file that holds the password, read at each connection
    password_file: str | None = None
    #: embedded: absolute path of the redis-server or valkey-server to run; None: one that reads the data
    server: str | None = None
    #: embedded: the system group that may enqueue
    socket_group: str | None = None
    tls: Tls = Tls()


@dataclass(frozen=True, slots=True)
class Timeout:
    """How long one attempt may run, in seconds: then an exception inside the task, then SIGKILL."""

    soft: float = 180.0
    hard: float = 180.0 + HARD_AFTER_SOFT


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """What follows a failed attempt."""

    #: attempts in all, the first included; crashes count apart
    max_attempts: int = 7
    backoff: Backoff = "exponential"
    #: seconds before the second attempt (fixed, linear, exponential)
    delay: float = 2.0
    #: seconds before each further attempt, the last one repeats (list)
    delays: tuple[float, ...] = ()
    #: seconds, the cap of linear and exponential
    max_delay: float = 600.0
    #: ± this share of the delay, 0 to 1
    jitter_share: float = 0.25
    #: ± so many seconds; only one of the two is above 0
    jitter: float = 0.0
    #: exception names that are retried; empty: every exception
    retry_on: tuple[str, ...] = ()
    #: exception names that are not; wins over retry_on
    give_up_on: tuple[str, ...] = ()
    #: a job whose child crashed more often than this has failed
    max_crashes: int = 2

    @property
    def at_most_once(self) -> bool:
        """Whether a job may begin once only, whatever befalls it: one attempt, and no crash is forgiven."""
        return self.max_attempts == 1 and self.max_crashes == 0


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
class Queue:
    """A queue; what its `defaults` said is already in the tasks that live in it."""

    name: str
    #: jobs that may wait; None: no limit
    max_length: int | None = None
    on_full: Literal["reject"] = "reject"
    suspended: bool = False


@dataclass(frozen=True, slots=True)
class Task:
    """A plain function and its policies."""

    name: str
    #: dotted path of the function, `package.module.function`
    run: str
    queue: str = DEFAULT_QUEUE
    #: 0 to 255, more first
    priority: int = PRIORITIES["moderate"]
    timeout: Timeout = Timeout()
    #: the name of a retry policy
    retry: str = "standard"
    #: seconds that a result is kept
    result_ttl: float = 500.0
    #: seconds that a failed job is kept
    failure_ttl: float = 30 * 86400.0
    #: seconds after which a job that has not begun is failed with EXPIRED
    expires: float | None = None
    #: the word that marks the task's lines and events
    log_tag: str | None = None
    description: str | None = None
    #: the keyword under which the function is handed a dict about its job
    pass_job: str | None = None
    #: whether the value that the function returns is stored
    result: Literal["keep", "ignore"] = "keep"


@dataclass(frozen=True, slots=True)
class CronEntry:
    """A schedule that enqueues a task."""

    name: str
    task: str
    #: five fields or @daily and the like; exactly one of schedule and every is set
    schedule: str | None = None
    #: seconds between ticks, counted from the epoch
    every: float | None = None
    timezone: str = "UTC"
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    overlap: Overlap = "skip"
    missed: Missed = "skip"
    #: seconds: a tick that is later than this counts as missed and gone
    starting_deadline: float | None = None
    #: seconds, at most, by which a tick's job is delayed
    jitter: float = 0.0
    suspended: bool = False


@dataclass(frozen=True, slots=True)
class WorkerGroup:
    """One dispatcher, one fork server, `processes` children."""

    name: str
    #: names of queues; `*` stands for all, those still to come too
    queues: tuple[str, ...] = ("*",)
    order: Order = "round_robin"
    #: queue → share, for order `weighted`
    weights: Mapping[str, int] = field(default_factory=dict)
    processes: int = 1
    isolation: Isolation = "fork"
    user: str | None = None
    #: absolute; where children start and what is put on sys.path
    directory: str = "/"
    #: absolute path of the interpreter; None: the daemon's own
    python: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    environment_file: tuple[str, ...] = ()
    #: names or globs of the daemon's own variables that children get
    pass_environment: tuple[str, ...] = ()
    umask: int | None = None
    #: seconds that running jobs may take at shutdown
    drain_timeout: float = 30.0
    #: a new child after so many jobs
    max_jobs: int | None = None
    #: bytes of resident memory above which a child is replaced between jobs
    max_memory: int | None = None


@dataclass(frozen=True, slots=True)
class Control:
    """Who may use the control socket: the daemon's own user, and this system group."""

    group: str | None = None


@dataclass(frozen=True, slots=True)
class Logging:
    """How the daemon and its programs log."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["text", "json"] = "text"
    #: absolute; None: standard output
    file: str | None = None
    #: a line at the end of each job that succeeded or was canceled; one that failed always has its line
    jobs: bool = True


@dataclass(frozen=True, slots=True)
class Config:
    """One accepted file, its includes and defaults resolved."""

    broker: Broker = Broker()
    priorities: Mapping[str, int] = field(default_factory=lambda: dict(PRIORITIES))
    retry_policies: Mapping[str, RetryPolicy] = field(default_factory=lambda: dict(RETRY_POLICIES))
    queues: Mapping[str, Queue] = field(default_factory=lambda: {DEFAULT_QUEUE: Queue(DEFAULT_QUEUE)})
    tasks: Mapping[str, Task] = field(default_factory=dict)
    cron: Mapping[str, CronEntry] = field(default_factory=dict)
    workers: Mapping[str, WorkerGroup] = field(default_factory=dict)
    control: Control = Control()
    logging: Logging = Logging()
    #: absolute; None: systemd's, else the file's own: `fusiond/paths.py`
    state_directory: str | None = None
    runtime_directory: str | None = None
    #: whether a saved file is taken by itself; else by a reload that somebody asks for
    watch: bool = True

    def to_json(self) -> str:
        """The snapshot's text: the same Config gives the same text, so that it can be hashed."""
        return json.dumps(dataclasses.asdict(self), sort_keys=True, ensure_ascii=False)

    @staticmethod
    def from_json(text: str | bytes) -> Config:
        """The Config that `to_json` wrote. Raises ValueError, KeyError or TypeError on anything else."""
        return Config.from_dict(json.loads(text))

    @staticmethod
    def from_dict(content: Mapping[str, Any]) -> Config:
        """The Config of such a text, decoded already. Raises as `from_json`."""
        return typing.cast("Config", rebuild(Config, content))


@functools.cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def rebuild(hint: Any, value: Any) -> Any:
    """`value`, out of JSON, as what the type hint says: a frozen dataclass of plain fields, tuples, maps."""
    if dataclasses.is_dataclass(hint):
        hints = _hints(typing.cast("type", hint))
        return hint(**{name: rebuild(hints[name], item) for name, item in value.items()})  # type: ignore[operator]
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple:
        return tuple(rebuild(args[0], item) for item in value)
    if origin is Mapping:
        return {key: rebuild(args[1], item) for key, item in value.items()}
    if origin is types.UnionType and value is not None:
        return rebuild(next(arm for arm in args if arm is not types.NoneType), value)
    return value
