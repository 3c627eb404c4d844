"""
The accepted configuration: frozen, with every default filled in. Each key of the file is declared once.

1. here               the whole file, the broker, logging, the control socket
2. tasks.py           tasks, and their queues, timeouts and retry policies
3. commands.py        programs that tasks run in place of functions
4. cron_entries.py    the schedules of tasks
5. on_end.py          what is called at the end of a job
6. limits.py          limits that hold for all hosts together
7. flow_steps.py      graphs of steps over tasks
8. worker_groups.py   worker groups
9. web_face.py        the dashboard
10. event_log.py      events
11. outboxes.py       tables of databases whose rows become jobs
12. file_policies.py  what the file demands of its own entries

The annotation of a field says how its values are written (`config/kinds.py`). Its Key has a title, examples, and what
a change of the key does. The `#:` comment above the field is the key's description. The reading of the file,
`fusiond explain` and the plan of a reload follow from these. `python -m tests.file_reference` generates
schemas/fusion.schema.json and the tables of docs/file/ from them.

A ClassVar is a key that is in the file only: other fields of the Config hold its effect, if it has one. Durations are
seconds and sizes are bytes; `None` means "no limit" or "not set".

`Config.from_json` returns a Config that is equal to the one that `to_json` wrote.

Standard library only: every program reads its snapshot with this package, and needs no YAML.
"""

import dataclasses
import functools
import json
import types
import typing
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Final, Literal

from fusiond.argument_values import names_to_bind
from fusiond.callbacks import WEBHOOK_TASK
from fusiond.config.kinds import (
    BYTES,
    Account,
    Duration,
    FilePath,
    Key,
    Kind,
    Name,
    Partial,
    Text,
    between,
    meanings,
    text,
)
from fusiond.config.model.cron_entries import Calendar, CronEntry
from fusiond.config.model.event_log import Events
from fusiond.config.model.file_policies import Policy
from fusiond.config.model.flow_steps import Flow
from fusiond.config.model.limits import MOST_SLOTS, SharedPool
from fusiond.config.model.on_end import Webhooks
from fusiond.config.model.outboxes import RECEIPT_MARGIN, Outbox
from fusiond.config.model.tasks import DEFAULT_QUEUE, PRIORITIES, RETRY_POLICIES, Queue, RetryPolicy, Task
from fusiond.config.model.web_face import Web
from fusiond.config.model.worker_groups import WorkerGroup
from fusiond.owners import Owner

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


NAMESPACE: Final = text(
    "name", "^[A-Za-z0-9_.:-]{1,64}$", "write a name of letters, digits, _ . : and -, at most 64 characters"
)


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
    #: or several addresses: redis+sentinel:// or redis+cluster:// (with TLS: rediss+…). Options follow a question mark:
    #: `db` is the database; with TLS, `ssl_cert_reqs=none` accepts any certificate, `ssl_check_hostname=false` one for
    #: another host.
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
    namespace: Annotated[str, NAMESPACE, Key("Namespace", "shop")] = "fusion"
    #: A file that holds the password, read at each connection.
    password_file: Annotated[FilePath | None, Key("Password file", "/run/credentials/fusiond.service/redis")] = None
    #: embedded: the redis-server or valkey-server to run, 7.0 or newer. null: that of fusiond[embedded], otherwise one
    #: on PATH; where there is data, one that can read it.
    server: Annotated[FilePath | None, Key("Server", "/usr/bin/redis-server")] = None
    #: embedded: the system group whose members may enqueue. null: the daemon's user alone.
    socket_group: Annotated[Account | None, Key("Socket group", "shop")] = None
    #: Certificates for rediss://, rediss+sentinel:// and rediss+cluster://.
    tls: Annotated[Tls, Key("TLS", {"ca_file": "/etc/ssl/redis-ca.pem"})] = Tls()


@dataclass(frozen=True, slots=True)
class Control:
    """Who may use the control socket: the daemon's own user, and this system group."""

    #: The system group whose members may use the control socket. null: nobody else.
    group: Annotated[Account | None, Key("Group", "ops")] = None


@dataclass(frozen=True, slots=True)
class Logging:
    """How the daemon and its programs log."""

    #: `debug`, `info`, `warning` or `error`: lines of this level and above are written.
    level: Annotated[Level, Key("Level", "debug", in_place=True)] = "info"
    #: `text` for people, `json` for programs.
    format: Annotated[Format, Key("Format", "json")] = "text"
    #: Where lines are appended. null: standard output.
    file: Annotated[FilePath | None, Key("File", "/var/log/fusiond.log")] = None
    #: Whether each job that succeeds or is canceled leaves a line at its end; one that fails always does.
    jobs: Annotated[bool, Key("Jobs", False, in_place=True)] = True


@dataclass(frozen=True, slots=True)
class UnknownTasks:
    """Jobs of tasks that no living worker group of their queue can run: they are held."""

    #: How long such a job is held before it fails. Only the time counts in which a worker group serves the queue.
    fail_after: Annotated[Duration, Key("Fail after", "1h", in_place=True)] = 86400.0


@dataclass(frozen=True, slots=True)
class JobOutput:
    """What jobs print is kept on the host on which they run, for `fusiond job logs` and the dashboard."""

    #: How much is kept of one attempt: what it prints first.
    max_per_attempt: Annotated[int, BYTES, Key("Most per attempt", "256KiB", in_place=True, default="1MiB")] = 1 << 20
    #: How much is kept on each host. Beyond it the oldest output is deleted.
    max_total: Annotated[int, BYTES, Key("Most in all", "2GiB", in_place=True, default="10GiB")] = 10 << 30


@dataclass(frozen=True, slots=True)
class Defaults:
    """Defaults of tasks and groups; in a Config they are already part of them."""

    #: Defaults of all tasks.
    tasks: ClassVar[Annotated[Partial[Task], Key("Defaults of tasks", {"timeout": "30s"})]]
    #: Defaults of all worker groups.
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
    #: Further files, or globs of them, read in alphabetical order. An included file includes no further ones.
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
    #: The queues, by name: their lengths, limits and rates. `default` always exists.
    queues: Annotated[
        Mapping[Name, Queue], Key("Queues", {"reports": {}, "email": {"max_length": 10000}}, in_place=True)
    ] = field(default_factory=lambda: {DEFAULT_QUEUE: Queue(DEFAULT_QUEUE)})
    #: The functions that jobs may run, by name: timeouts, retries, limits, what is called at the end.
    tasks: Annotated[
        Mapping[Name, Task],
        Key("Tasks", {"send_otp": {"run": "shop.messaging.send_otp", "priority": "high"}}, in_place=True),
    ] = field(default_factory=dict)
    #: Limits that tasks share, over all hosts, by name.
    pools: Annotated[
        Mapping[Name, SharedPool],
        Key("Pools", {"openai": {"slots": 40, "rate_limit": "500/1m"}, "licence": {"slots": 5}}, in_place=True),
    ] = field(default_factory=dict)
    #: Jobs that may run at once, of all queues and on all hosts together. Each job costs one more question to Redis
    #: then.
    max_running: Annotated[int | None, between(1, MOST_SLOTS), Key("Running at once, in all", 200, in_place=True)] = (
        None
    )
    #: What becomes of jobs whose task no living worker group of their queue can run.
    unknown_tasks: Annotated[UnknownTasks, Key("Unknown tasks", {"fail_after": "1h"}, in_place=True)] = UnknownTasks()
    #: Graphs of steps over tasks, by name.
    flows: Annotated[
        Mapping[Name, Flow],
        Key(
            "Flows",
            {"etl": {"steps": {"extract": {"task": "extract"}, "load": {"task": "load", "after": ["extract"]}}}},
            in_place=True,
        ),
    ] = field(default_factory=dict)
    #: What is enqueued at which times, by name.
    cron: Annotated[
        Mapping[Name, CronEntry],
        Key("Schedules", {"nightly": {"task": "nightly_report", "schedule": "0 2 * * *"}}, in_place=True),
    ] = field(default_factory=dict)
    #: Days that cron entries leave out, by name: holidays, weekends, single dates.
    calendars: Annotated[
        Mapping[Name, Calendar],
        Key(
            "Calendars",
            {"de": {"country": "DE", "subdivision": "BY"}, "closed": {"dates": ["2026-12-24"]}},
            in_place=True,
        ),
    ] = field(default_factory=dict)
    #: Which processes serve which queues, by name: how many, as which user, in which Python.
    workers: Annotated[
        Mapping[Name, WorkerGroup], Key("Worker groups", {"main": {"queues": ["default"], "processes": 4}})
    ] = field(default_factory=dict)
    #: What each task, queue or other entry must keep to: a file that breaks one is refused.
    policies: ClassVar[
        Annotated[tuple[Policy, ...], Key("Policies", [{"every": "task", "key": "timeout.hard", "at_most": "2h"}])]
    ] = ()
    #: How URLs are called at the end of jobs, by `on_success` and `on_failure`.
    webhooks: Annotated[
        Webhooks, Key("Webhooks", {"secret_file": "/run/credentials/fusiond.service/webhooks"}, in_place=True)
    ] = field(default_factory=Webhooks)
    #: The dashboard and its API, in a program of the daemon.
    web: Annotated[Web | None, Key("Web", {}, {"listen": "127.0.0.1:8321", "read_only": True}, in_place=True)] = None
    #: Whether Redis counts how many jobs of each task finished, failed or were canceled, and how long they waited and
    #: ran. With `web` it always does.
    metrics: Annotated[bool, Key("Metrics", True, in_place=True)] = False
    #: Events of jobs, queues and daemons, for `fusiond events` and for sinks, such as files and webhooks. null: Redis
    #: keeps none.
    events: Annotated[Events | None, Key("Events", {"max_length": 100000}, in_place=True)] = None
    #: Tables in databases of applications, by name: each row that a transaction commits becomes a job.
    outboxes: Annotated[
        Mapping[Name, Outbox],
        Key(
            "Outboxes",
            {"shop": {"url": "postgresql+psycopg://fusiond@db/shop", "tasks": ["send_receipt"]}},
            in_place=True,
        ),
    ] = field(default_factory=dict)
    #: What jobs print is kept on the host on which they run. null: only the end of what a failed attempt has printed is
    #: kept, in Redis.
    job_output: Annotated[
        JobOutput | None, Key("Job output", {}, {"max_per_attempt": "1MiB", "max_total": "10GiB"}, in_place=True)
    ] = None
    #: Who may use the control socket, in addition to the daemon's own user and root.
    control: Annotated[Control, Key("Control", {"group": "ops"})] = Control()
    #: How the daemon and its programs log.
    logging: Annotated[Logging, Key("Logging", {"level": "debug", "format": "json"})] = Logging()
    #: Where snapshots and the embedded broker's data are kept. null: $STATE_DIRECTORY, otherwise a directory of this
    #: file's own.
    state_directory: Annotated[FilePath | None, Key("State directory", "/var/lib/fusiond")] = None
    #: Where the sockets are. null: $RUNTIME_DIRECTORY, otherwise a directory of this file's own.
    runtime_directory: Annotated[FilePath | None, Key("Runtime directory", "/run/fusiond")] = None
    #: Whether the daemon reloads when the file is saved. false: only on request, such as by `fusiond reload`.
    watch: Annotated[bool, Key("Watch", False, in_place=True)] = True

    def to_json(self) -> str:
        """The snapshot's text: equal for equal Configs, so that it can be hashed."""
        return json.dumps(dataclasses.asdict(self), sort_keys=True, ensure_ascii=False)

    @property
    def owners(self) -> dict[str, Owner]:
        """Who answers for what."""
        kinds: dict[str, Mapping[str, Task | Queue | CronEntry | Flow]]
        kinds = {"task": self.tasks, "queue": self.queues, "cron": self.cron, "flow": self.flows}
        return {
            f"{kind} {name}": Owner(each.owner or "", each.runbook_url or "")
            for kind, named in kinds.items()
            for name, each in named.items()
            if each.owner or each.runbook_url
        }

    @property
    def counts_jobs(self) -> bool:
        """Whether what becomes of jobs is counted."""
        return self.metrics or self.web is not None

    @property
    def cron_by_name(self) -> dict[str, CronEntry]:
        """The cron entries by their names, and by their former ones."""
        return {name: entry for entry in self.cron.values() for name in (entry.name, *entry.aliases)}

    def work_of(self, entry: CronEntry) -> Task:
        """The task of a cron entry; of one that starts a flow, a stand-in with the name and queue of that."""
        return Task(entry.flow, queue=self.flows[entry.flow].queue) if entry.flow else self.tasks[entry.task]

    def tasks_of(self, outbox: Outbox) -> dict[str, Task]:
        """The tasks that a row of the outbox may name, under their former names, too."""
        matching = [task for task in self.tasks.values() if outbox.matches(task.name)]
        return {name: self.tasks[name] for task in matching for name in (task.name, *task.aliases)}

    def least_receipt_ttl(self, outbox: Outbox) -> float:
        """Seconds for which a receipt should be kept: a day longer than a failed job of the outbox is kept."""
        return max((task.failure_ttl for task in self.tasks_of(outbox).values()), default=0.0) + RECEIPT_MARGIN

    def receipt_ttl(self, outbox: Outbox) -> float:
        """Seconds for which a receipt of the outbox is kept."""
        return self.least_receipt_ttl(outbox) if outbox.receipt_ttl is None else outbox.receipt_ttl

    def to_name(self, names: Mapping[str, str]) -> dict[str, str]:
        """Task → the names that calls by position are to have, where the file names an argument of the task."""
        found = {}
        for task in [self.tasks[name] for name in names if name in self.tasks]:
            queue = self.queues.get(task.queue, Queue(task.queue))
            by = (*(task.limit_by or ()), *(task.unique.by if task.unique else ()), *queue.fair_by)
            if said := names_to_bind(names[task.name], by, task.secret):
                found[task.name] = said
        return found

    @staticmethod
    def from_json(text: str | bytes) -> "Config":
        """The Config that `to_json` wrote. Raises ValueError, KeyError or TypeError on anything else."""
        return typing.cast("Config", rebuild(Config, json.loads(text)))


def serves(queues: Collection[str], queue: str) -> bool:
    """Whether worker groups with these `queues` take jobs from this one."""
    return "*" in queues or queue in queues


def calls_urls(config: Config, group: WorkerGroup) -> bool:
    """Whether the group runs the jobs that call the URLs of callbacks."""
    return WEBHOOK_TASK in config.tasks and serves(group.queues, config.tasks[WEBHOOK_TASK].queue)


def callback_hosts(config: Config) -> set[str]:
    """The hosts of the URLs that callbacks of the file call."""
    entries: list[Task | Flow] = [*config.tasks.values(), *config.flows.values()]
    return {said.host for entry in entries for said in entry.callbacks.values() if said.host}


@functools.cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def load_hints() -> None:
    """Look up the hints of a Config now: what is forked later shares them, and the memory that this takes."""
    left: list[Any] = [Config]
    for hint in left:
        is_class = dataclasses.is_dataclass(hint)
        left += _hints(typing.cast("type", hint)).values() if is_class else typing.get_args(hint)


def rebuild(hint: Any, value: Any, *, more: bool = False) -> Any:
    """
    `value` from JSON as its type hint says: a dataclass of plain fields, a tuple, a map. Raises as `from_json`.

    `more`: whether fields that are not known here are left out, as a newer version may have written them.
    """
    if dataclasses.is_dataclass(hint):
        hints = _hints(typing.cast("type", hint))
        pairs = ((name, item) for name, item in value.items() if name in hints or not more)
        return hint(**{name: rebuild(hints[name], item, more=more) for name, item in pairs})  # type: ignore[operator]
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple:
        return tuple(rebuild(args[0], item, more=more) for item in value)
    if origin in (Mapping, dict):
        return {key: rebuild(args[1], item, more=more) for key, item in value.items()}
    if origin in (types.UnionType, typing.Union) and value is not None:
        return rebuild(next(arm for arm in args if arm is not types.NoneType), value, more=more)
    return value
