"""
One outbox's table, as the relay and the commands see it: each method is one short transaction. By SQLAlchemy Core.

    new_rows · queued_rows     read what waits
    assign                     write into rows which queue they go to
    delete · refuse            end them
    retry · drop               what becomes of refused ones
    present · count            look

Each method raises OutboxError. They run in threads: nothing here waits for Redis.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, bindparam, create_engine, make_url, text
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from fusiond.broker.call import decoded
from fusiond.broker.outbox_verbs import RefusedRow
from fusiond.config.database_url import database_url
from fusiond.config.model.outboxes import Outbox
from fusiond.enqueue_options import MOST_BYTES
from fusiond.errors import ConfigError, FusionError

#: the receipts of jobs, beside each outbox
RECEIPTS: Final = "fusion_receipts"
#: bytes of JSON that a row may have, since that may be longer than what is stored of it
MOST_OF_ROW: Final = 4 * MOST_BYTES
#: bytes of JSON that are read with their row; the text of a larger one is read alone, so many at once
_SMALL, _LARGE_AT_ONCE = 16_384, 8
#: characters of a task's name that are read
_NAME = 1000
#: rows that are counted; refused rows that are shown; characters of a reason
_COUNTED, _SHOWN, _REASON = 100_000, 20, 1000
#: the longest age of a row, s or ms
_LONGEST: Final = 1e13
#: s; to connect, and without an answer from a host that may be gone
_CONNECT, _GONE = 5, 15
#: the columns of JSON
_TEXTS: Final = ("args", "kwargs", "options")
_COLUMNS: Final = "id, task, args, kwargs, options, created_at, queue, refused_at, refused_because"


class OutboxError(FusionError):
    """The database did not do what was asked."""


class Row(NamedTuple):
    """One row that waits."""

    id: str
    task: str
    #: JSON; None: the row has more than MOST_OF_ROW
    args: str | None
    kwargs: str
    options: str
    #: the queue that it was assigned to; empty: none yet
    queue: str
    #: for how long it has been there, ms
    age_ms: int
    #: its place among the others; only the database knows its type
    created_at: Any


class Counted(NamedTuple):
    """How an outbox stands."""

    waiting: int
    refused: int
    #: s for which the oldest row waits
    oldest: float
    rows: tuple[RefusedRow, ...]


class Table:
    """The table of an outbox."""

    def __init__(self, outbox: Outbox, *, connections: int = 3, lock_timeout: int = 0) -> None:
        """
        Connects to nothing yet.

        Args:
            outbox: says where the table is.
            connections: how many it may have.
            lock_timeout: s for which it waits for another transaction of PostgreSQL; 0: for as long as that takes.

        Raises:
            OutboxError: the URL is of no use.
        """
        url = _url_of(outbox)
        self.is_sqlite = url.get_backend_name() == "sqlite"
        self._engine, self._lock_timeout = _engine(url, connections), lock_timeout
        #: for people; without what may hold a password
        self._where = "/".join(filter(None, (url.host, url.database)))
        quoted = self._engine.dialect.identifier_preparer.quote
        schema = "" if self.is_sqlite else quoted(outbox.schema or "public") + "."
        self.name, self._receipts = schema + quoted(outbox.table), schema + RECEIPTS
        #: on which the trigger of `wake: notify` tells of new rows
        self.channel = f"{outbox.schema or 'public'}.{outbox.table}"
        if self.is_sqlite:
            self._now, self._epoch = "((julianday('now') - 2440587.5) * 86400.0)", "{0}"
            self._place, size = ("created_at", ":at"), "length(CAST({0} AS BLOB))"
        else:
            self._now, self._epoch = "clock_timestamp()", "extract(epoch from {0})::float8"
            # As text: what a timestamp may be is more than Python knows, such as infinity.
            self._place, size = ("created_at::text", "CAST(:at AS timestamp with time zone)"), "octet_length({0})"
        self._size = " + ".join(map(size.format, _TEXTS))

    def close(self) -> None:
        """End its connections."""
        self._engine.dispose()

    def check(self) -> None:
        """Raise OutboxError where the rows cannot be read, or not be deleted."""
        with self._begin() as connection:
            if not self.is_sqlite and connection.scalar(text("SELECT pg_is_in_recovery()")):
                raise OutboxError(f"{self._where} is a replica, which takes no write; give the URL of its primary")
            connection.execute(text(f"SELECT {_COLUMNS} FROM {self.name} WHERE false"))
            # No row: what is tried is the right to do it, and whether the database takes a write at all.
            connection.execute(text(f"UPDATE {self.name} SET queue = '', refused_at = NULL WHERE false"))
            connection.execute(text(f"DELETE FROM {self.name} WHERE false"))

    def new_rows(self, limit: int) -> list[Row]:
        """The oldest rows that are assigned to no queue yet."""
        with self._begin() as connection:
            return self._rows(connection, "queue = ''", {}, limit)

    def queued_rows(self, queue: str, behind: Row | None, limit: int) -> list[Row]:
        """The oldest rows of the queue behind that row; None: from the first one."""
        place = {"at": behind.created_at, "id": behind.id} if behind else {}
        where = "queue = :queue" + (f" AND (created_at, id) > ({self._place[1]}, :id)" if behind else "")
        with self._begin() as connection:
            return self._rows(connection, where, {"queue": queue, **place}, limit)

    def queues(self) -> list[str]:
        """The queues to which rows are assigned."""
        # One after the other, since so the index has the answer at once, however many rows there are.
        following = text(f"SELECT min(queue) FROM {self.name} WHERE queue > :queue AND refused_at IS NULL")
        found: list[str] = []
        with self._begin() as connection:
            while queue := connection.scalar(following, {"queue": found[-1] if found else ""}):
                found.append(queue)
        return found

    def assign(self, queues: dict[str, list[str]]) -> None:
        """Write into rows, given by queue, which queue they go to; it stays that one for good."""
        statement = self._of_ids("UPDATE {0} SET queue = :queue WHERE queue = '' AND id IN :ids")
        with self._begin() as connection:
            for queue, ids in queues.items():
                connection.execute(statement, {"queue": queue, "ids": ids})

    def delete(self, ids: Sequence[str]) -> None:
        """Delete rows. Raises OutboxError where they stay: their jobs would begin again when their markers are gone."""
        with self._begin() as connection:
            gone = connection.execute(self._of_ids("DELETE FROM {0} WHERE id IN :ids"), {"ids": ids}).rowcount
        if gone < len(ids) and (left := self.present(ids)):
            remedy = "look for a trigger, a rule or a policy of row security"
            raise OutboxError(f"{self._where}: {len(left)} rows of {self.name} stay when they are deleted; {remedy}")

    def refuse(self, reasons: dict[str, str]) -> None:
        """Pass these rows over from now on: id → why."""
        said = [{"id": id_, "because": because[:_REASON].replace("\0", "")} for id_, because in reasons.items()]
        statement = f"UPDATE {self.name} SET refused_at = {self._now}, refused_because = :because WHERE id = :id"
        with self._begin() as connection:
            connection.execute(text(statement), said)

    def retry(self, *, ids: Sequence[str] = (), tasks: Sequence[str] = ()) -> int:
        """Have refused rows tried again: those of these ids or tasks, or all; how many there were."""
        return self._change_refused("UPDATE {0} SET refused_at = NULL, refused_because = NULL", ids, tasks)

    def drop(self, ids: Sequence[str] = ()) -> int:
        """Delete refused rows: those of these ids, or all; how many there were."""
        return self._change_refused("DELETE FROM {0}", ids)

    def _change_refused(self, statement: str, ids: Sequence[str], tasks: Sequence[str] = ()) -> int:
        what, chosen = ("id", ids) if ids else ("task", tasks)
        only = f" AND {what} IN :ids" if chosen else ""
        whole = f"{statement} WHERE refused_at IS NOT NULL{only}"
        with self._begin() as connection:
            if not chosen:
                return connection.execute(text(whole.format(self.name))).rowcount
            return connection.execute(self._of_ids(whole), {"ids": chosen}).rowcount

    def present(self, ids: Sequence[str]) -> set[str]:
        """Those of the ids that are in the table."""
        with self._begin() as connection:
            return {*connection.scalars(self._of_ids("SELECT id FROM {0} WHERE id IN :ids"), {"ids": ids})}

    def count(self, queues: Sequence[str], shown: int = _SHOWN) -> Counted:
        """How it stands. `queues`: those to which rows that wait may be assigned; `shown`: refused rows."""
        waits, age = "refused_at IS NULL", f"{self._epoch.format(self._now)} - {self._epoch.format('min(created_at)')}"
        with self._begin() as connection:
            waiting = connection.scalar(text(self._limited(waits)), {"most": _COUNTED})
            refused = connection.scalar(text(self._limited("refused_at IS NOT NULL")), {"most": _COUNTED})
            # For each queue, since only so the index has the answer at once, however many rows there are.
            oldest = text(f"SELECT {age} FROM {self.name} WHERE queue = :queue AND {waits}")
            ages = [connection.scalar(oldest, {"queue": queue}) for queue in ("", *queues)] if waiting else []
            rows = connection.execute(text(self._newest_refused()), {"most": shown}) if refused and shown else ()
            found = tuple(RefusedRow(*row) for row in rows)
        return Counted(waiting or 0, refused or 0, max([0.0, *map(_age, ages)]), found)

    def prune_receipts(self, seconds: float) -> int:
        """Delete the receipts that are older; how many there were. A table that is not there has none."""
        old = f"{self._epoch.format('created_at')} < {self._epoch.format(self._now)} - :seconds"
        try:
            with self._begin() as connection:
                return connection.execute(
                    text(f"DELETE FROM {self._receipts} WHERE {old}"), {"seconds": seconds}
                ).rowcount
        except NoTableError:
            return 0

    def connect(self) -> Connection:
        """A connection on which each statement is a transaction, for LISTEN."""
        with told(self._where):
            return self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")

    def tells(self) -> bool:
        """Whether PostgreSQL has a trigger that an INSERT into the table sets off."""
        inserts = "NOT tgisinternal AND tgenabled <> 'D' AND tgtype & 4 = 4"
        statement = text(f"SELECT count(*) FROM pg_trigger WHERE tgrelid = to_regclass(:name) AND {inserts}")
        with self._begin() as connection:
            return bool(connection.scalar(statement, {"name": self.name}))

    def _rows(self, connection: Connection, where: str, values: dict[str, Any], limit: int) -> list[Row]:
        age = f"({self._epoch.format(self._now)} - {self._epoch.format('created_at')}) * 1000"
        texts = ", ".join(f"CASE WHEN {self._size} <= {_SMALL} THEN {name} END" for name in _TEXTS)
        statement = (
            f"SELECT id, substr(task, 1, {_NAME}), {texts}, queue, {age}, {self._place[0]} AS place, {self._size}"
            f" FROM {self.name} WHERE refused_at IS NULL AND {where} ORDER BY created_at, id LIMIT :limit"
        )
        found: list[Row] = []
        large = 0
        for *words, age_ms, at, size in connection.execute(text(statement), {**values, "limit": limit}):
            row = Row._make((*words, int(_age(age_ms)), at))
            if size > _SMALL:
                large += 1
                if large > _LARGE_AT_ONCE:
                    break  # they are the first ones the next time
                row = self._with_texts(connection, row) if size <= MOST_OF_ROW else row
            found.append(row)
        return found

    def _with_texts(self, connection: Connection, row: Row) -> Row:
        statement = text(f"SELECT {', '.join(_TEXTS)} FROM {self.name} WHERE id = :id")
        args, kwargs, options = connection.execute(statement, {"id": row.id}).one_or_none() or (None, "", "")
        return row._replace(args=args, kwargs=kwargs, options=options)

    def _limited(self, where: str) -> str:
        """Counts no further than to :most."""
        return f"SELECT count(*) FROM (SELECT 1 FROM {self.name} WHERE {where} LIMIT :most) AS counted"

    def _newest_refused(self) -> str:
        at = self._epoch.format("refused_at")
        return (
            f"SELECT id, task, coalesce(refused_because, ''), {at} FROM {self.name} WHERE refused_at IS NOT NULL"
            " ORDER BY refused_at DESC, id LIMIT :most"
        )

    def _of_ids(self, statement: str) -> Any:
        return text(statement.format(self.name)).bindparams(bindparam("ids", expanding=True))

    @contextmanager
    def _begin(self) -> Iterator[Connection]:
        with told(self._where), self._engine.begin() as connection:
            if self._lock_timeout and not self.is_sqlite:
                connection.execute(text(f"SET LOCAL lock_timeout = '{self._lock_timeout}s'"))
            yield connection


def _age(found: float | None) -> float:
    """An age that can be shown and counted with, whatever time the row claims to be from."""
    return max(0.0, min(float(found or 0), _LONGEST))


class NoTableError(OutboxError):
    """The table is not there, or lacks a column."""


@contextmanager
def told(where: str) -> Iterator[None]:
    """An error of the database as a sentence. `where`: the database, for people."""
    try:
        yield
    except SQLAlchemyError as error:
        cause = getattr(error, "orig", None) or error
        # PostgreSQL quotes the statement in lines of its own.
        lines = str(cause).partition("\nLINE ")[0].splitlines()
        said = "; ".join(filter(None, map(str.strip, lines))) or type(cause).__name__
        if getattr(cause, "sqlstate", "") in ("42P01", "42703") or "no such table" in said or "no such column" in said:
            raise NoTableError(f"{where}: {said}; `fusiond outbox init` prints what makes the tables") from None
        raise OutboxError(f"{where}: {said}") from None


def _url_of(outbox: Outbox) -> URL:
    """The address, with the driver that the extra `outbox` installs. Raises OutboxError."""
    try:
        return make_url(database_url(outbox).text)
    except OSError as error:
        raise OutboxError(f"{outbox.url_file}: {error.strerror or error}") from None
    except (ConfigError, ArgumentError) as error:
        raise OutboxError(str(error) if isinstance(error, ConfigError) else "the address cannot be used") from None


def _sqlite(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, uri=True, timeout=_CONNECT, check_same_thread=False)
    # A text that is no UTF-8 must not keep back other rows.
    connection.text_factory = decoded
    return connection


def _engine(url: URL, connections: int) -> Engine:
    if url.get_backend_name() == "sqlite":
        # A file that is not there must not be made: it would be empty, and the daemon's.
        creator = partial(_sqlite, f"file:{quote(url.database or '')}?mode=rw")
        # Opened for each transaction: a connection that is kept would go on in a file that was deleted and made again.
        return create_engine("sqlite://", creator=creator, poolclass=NullPool)
    # Without prepared statements it works through a PgBouncer that gives each transaction another session.
    arguments = {
        "connect_timeout": _CONNECT, "tcp_user_timeout": _GONE * 1000, "keepalives_idle": _GONE,
        "prepare_threshold": None, "application_name": "fusiond",
    }  # fmt: skip
    return create_engine(
        url, connect_args=arguments, pool_size=connections, max_overflow=0, isolation_level="READ COMMITTED"
    )
