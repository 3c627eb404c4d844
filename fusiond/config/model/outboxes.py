"""Outboxes: tables of applications' databases, whose committed rows become jobs."""

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Annotated, Final, Literal

from fusiond.callbacks import WEBHOOK_TASK
from fusiond.config.kinds import Duration, FilePath, Key, Kind, Text, between, meanings, text

#: seconds that a receipt is kept beyond the longest `failure_ttl`, by default
RECEIPT_MARGIN: Final = 86400.0
_PATTERN: Final = "write the name of a task, or a pattern such as index_*"
TaskPattern = Annotated[str, text("task or pattern", r"^[A-Za-z0-9_.*?-]{1,100}$", _PATTERN)]
#: a name of the database that needs no quotes; PostgreSQL notifies under `<schema>.<table>`, 63 characters at most
_IDENTIFIER: Final = "write small letters, digits and _, at most 31 characters, such as fusion_outbox"
IDENTIFIER: Final = text("identifier", "^[a-z_][a-z0-9_]{0,30}$", _IDENTIFIER)
Identifier = Annotated[str, IDENTIFIER]
#: the table of an outbox, by default
TABLE: Final = "fusion_outbox"

Wake = Annotated[
    Literal["poll", "notify"],
    meanings(
        "looks for rows after each `poll`",
        "PostgreSQL tells it of new rows; needs a session, which PgBouncer's transaction mode does not give",
    ),
]
Durability = Annotated[
    Literal["fsync", "replica", "memory"],
    meanings(
        "Redis has written the jobs to its disk; needs `appendonly yes`",
        "as many replicas of Redis as `replicas` says have the jobs",
        "Redis has the jobs; if it is killed then, they are lost",
    ),
]


@dataclass(frozen=True, slots=True)
class Outbox:
    """A table in which an application inserts jobs, in its own transactions; a program of the daemon enqueues them."""

    #: Names and patterns of the tasks that a row may name. Any other row is refused.
    tasks: Annotated[
        tuple[TaskPattern, ...], Kind({"type": ["array"], "minItems": 1}), Key("Tasks", ["send_*"], in_place=True)
    ]
    #: The address of the database, as SQLAlchemy writes it: postgresql+psycopg:// or sqlite:////.
    url: Annotated[
        Text | None,
        Key("URL", "postgresql+psycopg://fusiond@db/shop", "sqlite:////srv/shop.db", either=True, in_place=True),
    ] = None
    #: A file that holds the address, with a password.
    url_file: Annotated[
        FilePath | None, Key("URL file", "/run/credentials/fusiond.service/shop-db", either=True, in_place=True)
    ] = None
    #: PostgreSQL: the schema of the tables. null: public.
    schema: Annotated[Identifier | None, Key("Schema", "shop", in_place=True)] = None
    #: The table.
    table: Annotated[Identifier, Key("Table", "shop_outbox", in_place=True)] = TABLE
    #: `poll`, or `notify`, for PostgreSQL: jobs begin sooner, and transactions that insert rows commit one by one.
    wake: Annotated[Wake, Key("Wake", "notify", in_place=True)] = "poll"
    #: How long it waits before it looks for rows again, if it found none; with `notify` 10s at least.
    poll: Annotated[Duration, Key("Poll", "200ms", in_place=True)] = 1.0
    #: What Redis must have done with a job before its row is deleted: `fsync`, `replica` or `memory`.
    durability: Annotated[Durability, Key("Durability", "replica", in_place=True)] = "fsync"
    #: durability: replica: how many replicas must have a job.
    replicas: Annotated[int, between(1, 9, title="number of replicas"), Key("Replicas", 2, in_place=True)] = 1
    #: How long a receipt is kept. null: a day longer than the longest `failure_ttl` of its tasks.
    receipt_ttl: Annotated[Duration | None, Key("Time to keep a receipt", "60d", in_place=True)] = None

    def matches(self, task: str) -> bool:
        """Whether a row may name this task. No pattern matches the task that signs requests to any URL."""
        return task in self.tasks or (task != WEBHOOK_TASK and any(fnmatchcase(task, each) for each in self.tasks))
