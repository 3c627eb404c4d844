"""Tasks, and what they use: queues, timeouts, retry policies."""

import json
from collections.abc import Mapping
from dataclasses import astuple, dataclass, field
from typing import Annotated, ClassVar, Final, Literal

from fusiond.callbacks import CALLBACKS, WEBHOOK_TASK
from fusiond.config.kinds import (
    NAME,
    SECONDS,
    WORD,
    Duration,
    Fields,
    FilePath,
    Key,
    Kind,
    Line,
    Name,
    Partial,
    PartOf,
    between,
    meanings,
    text,
)
from fusiond.config.model.commands import COMMAND, CommandWord, ExitStatus, Parameter, parts_of
from fusiond.config.model.limits import LIMIT, MOST_NEEDED, RATE_LIMIT, Argument, Limit, RateLimit
from fusiond.config.model.on_end import Callback, Url
from fusiond.config.units import DURATION, SHARE, seconds, share, written

#: the queue that always exists
DEFAULT_QUEUE = "default"
#: seconds from the soft timeout, an exception, to the hard one, SIGKILL
HARD_AFTER_SOFT: Final = 10.0
#: the built-in priorities; a higher one goes first
PRIORITIES: Mapping[str, int] = {"high": 2, "moderate": 1, "low": 0}

# -- how values are written -------------------------------------------------------------------------------------------

_FUNCTION: Final = "write the path of a function, such as package.module.function"
DottedPath = Annotated[str, text("dotted path", rf"^{WORD}(\.{WORD})+$", _FUNCTION)]
Keyword = Annotated[str, text("keyword", f"^{WORD}$", "write a Python name, such as job")]
ExceptionName = Annotated[
    str,
    text(
        "exception name",
        rf"^{WORD}(\.{WORD})*$",
        "write the name of an exception, such as ConnectionError or requests.exceptions.Timeout",
        examples=["ConnectionError", "requests.exceptions.Timeout"],
    ),
]
Priority = Annotated[
    int,
    text(
        "priority",
        NAME.schema["pattern"],
        "write a name of priorities, such as high, or a number from 0 to 255",
        # The number of a name is found in `config/build.py`, which knows the file's `priorities`.
        read=lambda value: value if isinstance(value, str) else int(value),
        type=["string", "integer"],
        minimum=0,
        maximum=255,
    ),
]
Until = Annotated[
    Literal["ended", "started"],
    meanings("until the job has ended, retries included", "until the job begins, so that the next one can wait"),
]
OnConflict = Annotated[
    Literal["skip", "replace", "refuse"],
    meanings(
        "the call returns the job that is there",
        "the job that waits ends as canceled, and the new one is stored; a job that runs is not replaced",
        "the call raises JobConflict",
    ),
]
Result = Annotated[
    Literal["keep", "ignore", "stdout", "stdout_json"],
    meanings(
        "what a function returns is stored as JSON for result_ttl; of a command nothing is",
        "it is dropped; the result is null",
        "of a command: the last 32 kB of its standard output, as text",
        "of a command: its standard output, which is JSON",
    ),
]
Stdin = Annotated[
    Literal["nothing", "arguments"],
    meanings("it is empty", '{"args": […], "kwargs": {…}}, the arguments of the call as JSON'),
]


def _timeout(value: str | Mapping[str, str | None]) -> dict[str, float]:
    """A duration is the soft timeout; the hard one follows."""
    soft, hard = (value, None) if isinstance(value, str) else (value["soft"], value.get("hard"))
    limit = seconds(str(soft))
    return {"soft": limit, "hard": limit + HARD_AFTER_SOFT if hard is None else seconds(hard)}


TIMEOUT: Final = text(
    "duration",
    DURATION,
    "write a duration with its unit, such as 30s, or a map such as {soft: 50m, hard: 1h}",
    _timeout,
    type=["string", "object"],
    defaultSnippets=[
        {
            "label": "soft and hard",
            "description": "an exception after the first, SIGKILL after the second",
            "body": {"soft": "50m", "hard": "1h"},
        }
    ],
)


def _backoff(value: str | list[str]) -> Fields:
    if isinstance(value, str):
        return Fields(backoff=value)
    return Fields(backoff="list", delays=tuple(map(seconds, value)))


BACKOFF: Final = Kind(
    {
        "anyOf": [
            {
                "title": "Back-off by name",
                "enum": ["fixed", "linear", "exponential"],
                "enumDescriptions": [
                    "the same delay each time",
                    "delay, 2 × delay, 3 × delay … up to max_delay",
                    "delay, 2 × delay, 4 × delay … up to max_delay",
                ],
            },
            {"title": "list of delays", "type": "array", "minItems": 1, "items": SECONDS.schema},
        ]
    },
    _backoff,
)


def _jitter(value: str) -> Fields:
    if value.endswith("%"):
        return Fields(jitter_share=share(value))
    return Fields(jitter_share=0.0, jitter=seconds(value))


_JITTER: Final = "write a share such as 25%, or a duration such as 5s"
JITTER: Final = text("share or duration", f"{SHARE}|{DURATION}", _JITTER, _jitter, written)

# -- the classes ------------------------------------------------------------------------------------------------------


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
    #: How the delay grows: `fixed`, `linear` or `exponential`; or the delays themselves, of which the last one repeats.
    backoff: Annotated[
        Literal["fixed", "linear", "exponential", "list"], BACKOFF, Key("Back-off", "fixed", ["10s", "1m", "10m"])
    ] = "exponential"
    #: The delay before the second attempt; not with a list of delays.
    delay: Annotated[Duration, Key("Delay", "10s")] = 2.0
    #: before each further attempt, of `backoff: list`
    delays: Annotated[tuple[Duration, ...], PartOf("backoff")] = ()
    #: The longest delay of a linear or exponential back-off, and of an exception's `retry_after`.
    max_delay: Annotated[Duration, Key("Longest delay", "1h")] = 600.0
    #: ± this share of the delay; either it or `jitter` is 0
    jitter_share: Annotated[float, Kind(show="{:.0%}".format), PartOf("jitter")] = 0.25
    #: By how much each delay may be shorter or longer: a share, or a duration.
    jitter: Annotated[float, JITTER, Key("Jitter", "10%", "5s", default="25%")] = 0.0
    #: Names of exceptions that are retried; a name matches subclasses, too. Empty: every exception.
    retry_on: Annotated[
        tuple[ExceptionName, ...], Key("Retry on", ["ConnectionError", "requests.exceptions.Timeout"])
    ] = ()
    #: Names of exceptions that are not retried; wins over `retry_on`.
    give_up_on: Annotated[tuple[ExceptionName, ...], Key("Give up on", ["ValueError"])] = ()
    #: Names of exceptions that say "not yet": the job comes back after `delay`, and no attempt is counted. Wins over
    #: `retry_on` and `give_up_on`.
    snooze_on: Annotated[tuple[ExceptionName, ...], Key("Snooze on", ["shop.NotReady"])] = ()
    #: A job fails that has been snoozed for so long, without an attempt in between that ended otherwise.
    max_snooze: Annotated[Duration, Key("Longest snooze", "1d")] = 86400.0
    #: A job whose child died more often than this (a signal, out of memory, the hard timeout) fails with
    #: WORKER_CRASHED, or TIMEOUT.
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


@dataclass(frozen=True, slots=True)
class Unique:
    """Which jobs of a task are the same, so that a queue has only one of them."""

    #: The arguments whose values make two jobs the same. Empty: all jobs of the task are.
    by: Annotated[tuple[Argument, ...], Key("Arguments", ["kwargs.user_id"])] = ()
    #: No second job is stored until the first has `ended`, or until it has `started`.
    until: Annotated[Until | None, Key("Until", "ended", "started", either=True)] = None
    #: No second job is stored for this time after the first was enqueued, even if that has ended since.
    for_: Annotated[Duration | None, Key("For", "10m", either=True)] = None
    #: What a second call does: `skip` returns the job that is there, `replace` cancels it if it still waits, and
    #: `refuse` raises JobConflict.
    on_conflict: Annotated[OnConflict, Key("On a conflict", "replace", "refuse")] = "skip"
    #: With `replace`: how long calls with a `delay` may put off the job, from the first of them on. null: for ever.
    max_wait: Annotated[Duration | None, Key("Longest wait", "5m")] = None

    def to_text(self) -> str:
        """As Redis is told: `<ended, started or ms>,<on_conflict>,<max_wait in ms or 0>,<argument>,…`."""
        rule = str(round((self.for_ or 0) * 1000)) if self.until is None else self.until
        return f"{rule},{self.on_conflict},{round((self.max_wait or 0) * 1000)},{','.join(self.by)}"


#: connection and time-out errors of the standard library and of the clients that most tasks use
TRANSIENT = (
    "ConnectionError",
    "TimeoutError",
    "requests.exceptions.ConnectionError",
    "requests.exceptions.Timeout",
    "httpx.TransportError",
    "aiohttp.ClientConnectionError",
    "botocore.exceptions.ConnectionError",
    "botocore.exceptions.ConnectionClosedError",
    "botocore.exceptions.ReadTimeoutError",
    "urllib3.exceptions.MaxRetryError",
    "urllib3.exceptions.NewConnectionError",
    "urllib3.exceptions.ProtocolError",
    "urllib3.exceptions.TimeoutError",
    "redis.exceptions.ConnectionError",
    "redis.exceptions.TimeoutError",
    "psycopg.OperationalError",
    "psycopg2.OperationalError",
    "sqlalchemy.exc.OperationalError",
)
RETRY_POLICIES: Mapping[str, RetryPolicy] = {
    "none": RetryPolicy(max_attempts=1, backoff="fixed", delay=0.0, jitter_share=0.0, max_crashes=0),
    "standard": RetryPolicy(retry_on=TRANSIENT),
}


@dataclass(frozen=True, slots=True)
class Task:
    """A plain function, or a command, and its policies."""

    name: str
    #: The dotted path of its function: package.module.function.
    run: Annotated[DottedPath, Key("Function", "shop.messaging.send_otp", own=True, either=True)] = ""
    #: Its program and the program's arguments, which no shell reads. `$(name)` is filled by the argument of that name,
    #: and `$$(` is a literal `$(`.
    command: Annotated[
        tuple[CommandWord, ...],
        COMMAND,
        Key("Command", ["pg_dump", "--file=/backup/$(day).sql", "shop"], own=True, either=True),
    ] = ()
    #: Of a command: what each of its placeholders accepts.
    parameters: Annotated[
        Mapping[Keyword, Parameter], Key("Parameters", {"database": {"enum": ["shop", "crm"]}}, own=True)
    ] = field(default_factory=dict)
    #: Of a command: what its exit statuses mean.
    exit_status: Annotated[ExitStatus, Key("Exit statuses", {"success": [0, 3], "retry": [75]})] = field(
        default_factory=ExitStatus
    )
    #: Of a command: where its program starts. null: in the directory of the group.
    directory: Annotated[FilePath | None, Key("Directory", "/srv/shop")] = None
    #: Of a command: what its program reads on standard input.
    stdin: Annotated[Stdin, Key("Standard input", "arguments")] = "nothing"
    #: Of a command: whether a line such as `::progress 0.4 half way` on its standard output says how far the job is.
    progress: Annotated[bool, Key("Progress lines", False)] = True
    #: The queue that its jobs wait in.
    queue: Annotated[Name, Key("Queue", "default", own=True)] = DEFAULT_QUEUE
    #: A name of `priorities`, or a number from 0 to 255; higher goes first.
    priority: Annotated[Priority, Key("Priority", "high", "moderate", "low", default="moderate")] = PRIORITIES[
        "moderate"
    ]
    #: How long one attempt may run. A duration is the soft timeout, an exception inside the task; the hard one,
    #: SIGKILL, follows 10 s later.
    timeout: Annotated[Timeout, TIMEOUT, Key("Timeout", "30s", default="180s")] = Timeout(
        180.0, 180.0 + HARD_AFTER_SOFT
    )
    #: The name of a policy of `retry_policies`, or `none`, or `standard`.
    retry: Annotated[Name, Key("Retry policy", "standard", "none")] = "standard"
    #: How long a finished job and its result are kept; for 60 s at least.
    result_ttl: Annotated[Duration, Key("Time to keep a result", "500s", "1d")] = 500.0
    #: How long a job is kept that failed or was canceled, with its error; for 60 s at least.
    failure_ttl: Annotated[Duration, Key("Time to keep a failure", "30d")] = 30 * 86400.0
    #: How long what its jobs print is kept, if the file has `job_output`. null: not at all, not even the end of what a
    #: failed attempt has printed; for a task that prints secrets.
    output_ttl: Annotated[Duration | None, Key("Time to keep output", "3d")] = 3 * 86400.0
    #: No attempt of a job begins later than this after its enqueue; a job that waits fails with EXPIRED when a worker
    #: group next claims it. null: it waits for ever.
    expires: Annotated[Duration | None, Key("Expiry", "5m")] = None
    #: Which of its jobs are the same, so that a queue has only one of them at a time.
    unique: Annotated[
        Unique | None, Key("Uniqueness", {"by": ["kwargs.user_id"], "until": "ended", "on_conflict": "skip"}, own=True)
    ] = None
    #: A word that is added to the log lines and events of its jobs.
    log_tag: Annotated[Line | None, Key("Log tag", "billing")] = None
    #: The keyword under which the function gets a dict about its job: id, round, attempt, deadline, key, meta,
    #: traceparent, and a method `progress`.
    pass_job: Annotated[Keyword | None, Key("Keyword for the job", "job")] = None
    #: Arguments whose values pages, API, commands, events and sinks show as `•••`: `kwargs.NAME`, or `args.N` of those
    #: that calls pass by position. What the function itself makes of them cannot be hidden.
    secret: Annotated[tuple[Argument, ...], Key("Secret arguments", ["kwargs.password", "args.1"])] = ()
    #: What is kept of what the function returns, or of what the command prints.
    result: Annotated[Result, Key("Result", "ignore")] = "keep"
    #: How many of its jobs may run at once, and begin in a time, on all hosts together.
    limit: Annotated[
        Limit | None, LIMIT, Key("Limit", {"max_running": 5, "rate_limit": "10/s"}, own=True, default=None)
    ] = None
    #: Slots of `pools` that each of its jobs holds while it runs, at most 1000 of one pool.
    pools: Annotated[
        Mapping[Name, Annotated[int, between(1, MOST_NEEDED, title="number of slots")]], Key("Pools", {"licence": 1})
    ] = field(default_factory=dict)
    #: The task or URL that is called when a job has finished.
    on_success: Annotated[Callback | None, Key("On success", {"task": "count"})] = None
    #: The task or URL that is called when a job has failed, after its last attempt. A cancel is not a failure.
    on_failure: Annotated[
        Callback | None, Key("On failure", {"webhook": "https://ops.example.com/failed"}, {"task": "page_someone"})
    ] = None
    #: Who answers for its jobs, for people: it is shown with them, and `job list --owner` finds them.
    owner: Annotated[Line | None, Key("Owner", "payments")] = None
    #: The page that says what to do if its jobs fail.
    runbook_url: Annotated[Url | None, Key("Runbook", "https://wiki.example.com/payments")] = None
    #: One line for people.
    description: Annotated[Line | None, Key("Description", "Sends a one-time password", own=True)] = None
    #: Former names of the task: jobs and calls under them run this function with these policies.
    aliases: Annotated[tuple[Name, ...], Key("Aliases", ["thumbnail"], own=True)] = ()
    #: true: its jobs are accepted and held, on all hosts, while the file of any living daemon says so.
    suspended: Annotated[bool, Key("Suspended", True, own=True)] = False

    @property
    def code(self) -> str:
        """What a child runs: the dotted path, or a command as JSON (worker/runtime/command.py has its keys)."""
        if not self.command:
            return self.run
        spec = {
            "task": self.name,
            "job": self.job_keyword,
            "words": [parts_of(word) for word in self.command],
            "parameters": {name: [*astuple(rule)] for name, rule in self.parameters.items()},
            "exit_status": astuple(self.exit_status),
            "directory": self.directory,
            "stdin": self.stdin == "arguments",
            "progress": self.progress,
            "result": self.result,
        }
        return json.dumps(spec)

    @property
    def job_keyword(self) -> str | None:
        """Under which it gets a dict about its job. That of commands is no Python name, so no call can have it."""
        return "::job" if self.command else self.pass_job

    @property
    def callbacks(self) -> Mapping[str, Callback]:
        """Its callbacks, by key."""
        return {key: said for key in ("on_success", "on_failure") if (said := getattr(self, key))}

    @property
    def limit_by(self) -> tuple[str, ...] | None:
        """The arguments that its limit counts by; None: it has no limit."""
        return self.limit.by if self.limit else None


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue; its `defaults` are already part of its tasks."""

    name: str
    #: Defaults of the queue's tasks, which win over `defaults.tasks`.
    defaults: ClassVar[Annotated[Partial[Task], Key("Defaults of its tasks", {"timeout": "15s"})]]
    #: Jobs that may wait; an enqueue beyond them is refused.
    max_length: Annotated[int | None, between(1, 1_000_000_000), Key("Longest length", 100000)] = None
    #: Jobs that may run at once, on all hosts together.
    max_running: Annotated[int | None, between(1, 1_000_000_000), Key("Running at once", 20)] = None
    #: How many jobs may begin in a period, on all hosts together.
    rate_limit: Annotated[RateLimit | None, RATE_LIMIT, Key("Rate limit", "100/s", default=None)] = None
    #: Arguments whose values name a tenant: within a priority, tenants take turns. Empty: jobs begin in the order in
    #: which they came.
    fair_by: Annotated[tuple[Argument, ...], Key("Fair by", ["kwargs.tenant"])] = ()
    #: Who answers for its jobs, where their task names nobody.
    owner: Annotated[Line | None, Key("Owner", "payments")] = None
    #: The page that says what to do if they fail.
    runbook_url: Annotated[Url | None, Key("Runbook", "https://wiki.example.com/payments")] = None
    #: Former names of the queue: the worker groups that serve it take jobs from these, too.
    aliases: Annotated[tuple[Name, ...], Key("Aliases", ["images"], own=True)] = ()
    #: true: jobs are accepted, and wait.
    suspended: Annotated[bool, Key("Suspended", True)] = False


#: what calls the URLs of callbacks
CALLS_URLS = Task(
    WEBHOOK_TASK,
    "fusiond.tasks.webhook",
    queue=CALLBACKS,
    timeout=Timeout(15.0, 15.0 + HARD_AFTER_SOFT),
    pass_job="job",  # noqa: S106 - no password
)
