"""Which events are kept, and for how long: what becomes of jobs, and what operators and daemons do; who gets them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final, Literal

from fusiond.config.kinds import FilePath, Key, Name, between, meanings, text
from fusiond.config.model.on_end import Url

_PATTERN: Final = "write the name of an event, such as failed, or a pattern such as cron.*"
EventName = Annotated[str, text("event", r"^[a-z.*?]{1,40}$", _PATTERN)]

INDEX: Final = text(
    "index", r"^[a-z0-9][a-z0-9._-]{0,199}$", "write the name of an index: small letters, digits, . _ and -"
)
SinkKind = Annotated[
    Literal["file", "webhook", "elasticsearch", "otlp", "load"],
    meanings(
        "a file with an event in each line, as JSON",
        "a URL that gets a signed request for each event",
        "an index of Elasticsearch; needs fusiond[elasticsearch]",
        "a collector of OpenTelemetry, which gets a span for each attempt; needs fusiond[otlp]",
        "a file with a line for each arrival and each attempt, without arguments",
    ),
]


@dataclass(frozen=True, slots=True)
class Sink:
    """Where events are delivered: a program of the daemon, with its own place in the streams."""

    #: What it delivers to: `file`, `webhook`, `elasticsearch`, or `otlp`, a collector of OpenTelemetry. `load` records
    #: what `fusiond simulate` replays.
    kind: Annotated[SinkKind, Key("Kind", "file", in_place=True)]
    #: file, load: where lines are appended. It may be rotated: if it was renamed, a new one is begun.
    path: Annotated[FilePath | None, Key("Path", "/var/log/fusiond/events.jsonl", in_place=True)] = None
    #: webhook, elasticsearch, otlp: the address; otlp adds /v1/traces. Its host may be private.
    url: Annotated[Url | None, Key("URL", "https://hooks.example.com/fusiond", in_place=True)] = None
    #: webhook: a file whose content signs each request.
    secret_file: Annotated[
        FilePath | None, Key("Secret file", "/run/credentials/fusiond.service/events", in_place=True)
    ] = None
    #: elasticsearch: the index, or data stream.
    index: Annotated[str, INDEX, Key("Index", "active-fusion-logs", in_place=True)] = "active-fusion-logs"
    #: elasticsearch: a file that holds the API key.
    api_key_file: Annotated[
        FilePath | None, Key("API key file", "/run/credentials/fusiond.service/elastic", in_place=True)
    ] = None
    #: Names and patterns of the events that it delivers; not with load. Empty: all.
    only: Annotated[tuple[EventName, ...], Key("Only", ["failed", "cron.*"], in_place=True)] = ()


#: kind → the keys that it needs, and the further keys that it has
SINK_KEYS: Final[Mapping[str, tuple[str, frozenset[str]]]] = {
    "file": ("path", frozenset({"only"})),
    "webhook": ("url", frozenset({"secret_file", "only"})),
    "elasticsearch": ("url", frozenset({"index", "api_key_file", "only"})),
    "otlp": ("url", frozenset({"only"})),
    "load": ("path", frozenset()),
}


@dataclass(frozen=True, slots=True)
class Events:
    """Events of jobs, queues and daemons, kept in Redis for `fusiond events`."""

    #: Events that each queue keeps, the newest ones. 100,000 take about 15 MB.
    max_length: Annotated[
        int, between(1000, 10_000_000, title="number of events"), Key("Longest stream", 100000, in_place=True)
    ] = 100_000
    #: Whether they have the first 4 kB of the arguments and of the result of a job.
    payload: Annotated[bool, Key("Payload", True, in_place=True)] = False
    #: Where events are delivered, by name; each is a program of the daemon.
    sinks: Annotated[
        Mapping[Name, Sink],
        Key("Sinks", {"audit": {"kind": "file", "path": "/var/log/fusiond/events.jsonl"}}, in_place=True),
    ] = field(default_factory=dict)

    def wanted(self) -> str:
        """As Redis has it."""
        return f"{self.max_length} {int(self.payload)}"
