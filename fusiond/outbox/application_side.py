"""
The application's side of an outbox.

    outbox.enqueue(connection, "send_receipt", order.id)
    outbox.options(delay="5m", key=f"receipt-{order.id}").enqueue(connection, "send_receipt", order.id)
    if outbox.once(connection, job["id"], job["round"]): …

1. check   what a client checks, as far as that needs no daemon
2. insert  one row in the caller's transaction

Nothing is opened and nothing committed here.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from fusiond.config.model.outboxes import IDENTIFIER, TABLE
from fusiond.enqueue_options import (
    NO_OPTIONS,
    Options,
    callback_target,
    duration,
    encoded,
    encoded_options,
    job_id,
    moment,
    names_of,
    priority_number,
    safe_repr,
    text,
)
from fusiond.errors import FusionError, UnknownTask
from fusiond.outbox.insertion import Inserter, inserter
from fusiond.producer.loading_guard import refuse_while_loading
from fusiond.producer.tracing import traceparent

#: the table of the receipts
RECEIPTS: Final = "fusion_receipts"
#: what the file allows as the name of a table or schema
_NAME: Final = re.compile(IDENTIFIER.schema["pattern"])
#: options that are times
_SECONDS: Final = ("delay", "expires", "timeout", "result_ttl", "failure_ttl")


@dataclass(frozen=True, slots=True)
class OutboxWriter:
    """Inserts rows into one table; its calls have these options."""

    call: Options = NO_OPTIONS
    table: str = TABLE
    #: None: the database finds the table, on PostgreSQL by its `search_path`
    schema: str | None = None

    def options(self, *, table: str | None = None, schema: str | None = None, **options: Any) -> Self:
        """
        The same writer, whose calls have these options.

        Args:
            table: the table; `fusion_outbox` by default.
            schema: the schema of the table; by default the one in which the database finds the table.
            options: those of `Client.options`, and what they mean there.

        Raises:
            ValueError: it is not the name of a table or schema.
            TypeError: there is no such option.
        """
        if isinstance(after := options.get("after"), Iterable):
            options["after"] = tuple(after)
        said = {name: value for name, value in options.items() if value is not None}
        writer = dataclasses.replace(
            self,
            call=dataclasses.replace(self.call, **said),
            table=table or self.table,
            schema=schema or self.schema,
        )
        _qualified(writer.table, writer.schema)
        return writer

    def enqueue(self, connection: Any, task: str, /, *args: Any, **kwargs: Any) -> str:
        """
        Insert a row, which becomes a job of this task once the transaction is committed.

        A row of this id, and so of this `key`, that is there already stays as it is.

        Args:
            connection: the one whose transaction the row is to be part of: a connection or cursor of psycopg, psycopg2
                or sqlite3, a Connection or Session of SQLAlchemy, or Django's `connection`. With an AsyncSession or
                AsyncConnection: `await session.run_sync(outbox.enqueue, "send_receipt", order.id)`.
            task: the name of a task.
            args: what the function gets by position: JSON.
            kwargs: what it gets by name: JSON.

        Returns:
            The id of the row, which the job will have.

        Raises:
            EnqueueError: the call cannot become a job; nothing was inserted.
            TypeError: the connection is asynchronous, or of a library that is not known.
            Exception: what the library of the database raises, for example that there is no such table.
        """
        refuse_while_loading()
        if not isinstance(task, str):
            raise UnknownTask(f"{safe_repr(task)} is not the name of a task: pass the name that the daemon's file has")
        return self.store(inserter(connection), task, args, kwargs)

    def store(self, insert: Inserter, task: str, args: Sequence[Any], kwargs: dict[str, Any]) -> str:
        """Insert the row; its id. In tests that record jobs, `fusiond.testing` takes the place of this method."""
        text("task", task)
        encoded(task, args, kwargs)
        row: dict[str, Any] = {"args": args, "kwargs": kwargs, "options": stored_options(self.call)}
        # JSON in ASCII fits into a database of any encoding.
        texts = {name: json.dumps(value) for name, value in row.items()}
        id_ = job_id(self.call, task)
        insert(_qualified(self.table, self.schema), {"id": id_, "task": task, **texts})
        return id_


def stored_options(options: Options) -> dict[str, Any]:
    """
    What a row keeps of the options: those that are set, as JSON, without `id`.

    Times are seconds, moments epoch seconds, and jobs their full names, so that `Options(**found)` is the same again.
    `traceparent` is the current one, unless the call names another.

    Raises:
        EnqueueError: one of them has a wrong value.
    """
    encoded_options(options)
    text("queue", options.queue)
    for key in ("on_success", "on_failure"):
        callback_target(key, getattr(options, key))
    if not isinstance(options.priority, (str, type(None))):
        priority_number(options.priority, {})
    found = options.given()
    found.pop("id", None)
    found |= {name: duration(name, found[name]) for name in _SECONDS if name in found}
    if "at" in found:
        found["at"] = moment("at", found["at"])
    if "after" in found:
        found["after"] = names_of(found["after"])
    trace = traceparent()
    return {"traceparent": trace} | found if trace else found


def once(connection: Any, id: str, round: int = 1, *, schema: str | None = None) -> bool:
    """
    Note in the caller's transaction that a job does its work; False: a transaction that was committed has done it.

        with connection.transaction():
            if once(connection, job["id"], job["round"]):
                book(order)

    A job may run twice. What it changes in this database happens once for each round, as the receipt is committed
    together with it, or not at all. If another transaction notes the same at this moment, this one waits for its end.

    Args:
        connection: as for `enqueue`.
        id: the job's id, `job["id"]` of a task with `pass_job: job`.
        round: the job's round, `job["round"]`: after `fusiond requeue` the work is done again.
        schema: the schema of the table `fusion_receipts`; None: the one in which the database finds it.

    Raises:
        TypeError: as by `enqueue`.
        ValueError: the schema is not a name of one.
        FusionError: the connection does not say whether the receipt is new, as in psycopg's pipeline mode.
    """
    count = inserter(connection)(_qualified(RECEIPTS, schema), {"id": id, "round": round})
    if count < 0:
        raise FusionError("the connection does not say whether the receipt is new; call `once` outside of a pipeline")
    return count > 0


def _qualified(table: str, schema: str | None) -> str:
    """The table as SQL names it. Raises ValueError."""
    names = [name for name in (schema, table) if name is not None]
    if wrong := next((name for name in names if not _NAME.fullmatch(name)), None):
        raise ValueError(f"{wrong!r} is not the name of a table or schema: {IDENTIFIER.schema['errorMessage']}")
    return ".".join(f'"{name}"' for name in names)


_WRITER = OutboxWriter()
enqueue, options = _WRITER.enqueue, _WRITER.options
