"""
Insert a row by the connection that an application has, whatever library that is of.

1. recognize  the connection, by the packages of its classes; none is imported for it
2. insert     one row in its transaction; a row that is there already stays
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from typing import Any

#: (table, column → value) → how many rows are new, 0 or 1; -1: the library does not say
Inserter = Callable[[str, Mapping[str, Any]], int]

#: how a library marks a parameter, by its `paramstyle`
_MARKS = {"qmark": "?", "format": "%s", "pyformat": "%s"}
_KNOWN = (
    "a connection or cursor of psycopg, psycopg2 or sqlite3, a Connection or Session of SQLAlchemy, or Django's"
    " `connection`"
)


def inserter(connection: Any) -> Inserter:
    """How to insert a row by this connection or cursor, which is not used yet. Raises TypeError."""
    packages = _packages(connection)
    if hasattr(connection.__class__, "__aenter__") or any(
        name.startswith("sqlalchemy.ext.asyncio") for name in packages
    ):
        raise TypeError(
            f"{_kind(connection)} is asynchronous, and this function is not: use"
            " `await connection.run_sync(enqueue, task, …)` of SQLAlchemy, or execute the INSERT as plain SQL"
        )
    # An Engine has no `rollback`: it would insert the row in a transaction of its own.
    if "sqlalchemy" in packages and hasattr(connection, "execute") and hasattr(connection, "rollback"):
        return partial(_by_sqlalchemy, connection)
    # A cursor of its own leaves the rows alone that the caller's has yet to read.
    owner = connection if _has_cursors(connection) else getattr(connection, "connection", None)
    if (mark := _mark(owner)) and _has_cursors(owner):
        return partial(_by_cursor, owner, mark)
    raise TypeError(f"{_kind(connection)} is no connection that is known here: pass {_KNOWN}")


def _has_cursors(connection: Any) -> bool:
    return callable(getattr(connection, "cursor", None))


def _packages(connection: Any) -> list[str]:
    """The modules of its classes, and their packages; `__class__` of a proxy is that of what it stands for."""
    modules = [each.__module__ for each in connection.__class__.__mro__]
    return [*modules, *(name.partition(".")[0] for name in modules)]


def _mark(connection: Any) -> str | None:
    """What marks a parameter in its statements; None: it is of no library that is known."""
    packages = _packages(connection)
    if "django" in packages:
        return "%s"
    styles = (getattr(sys.modules.get(name), "paramstyle", None) for name in packages)
    return next((_MARKS[style] for style in styles if style in _MARKS), None)


def _by_sqlalchemy(connection: Any, table: str, row: Mapping[str, Any]) -> int:
    from sqlalchemy import text

    statement = text(_insert(table, row, [f":{name}" for name in row]))
    # Without this option SQLAlchemy counts the rows of UPDATE and DELETE only.
    done = connection.execute(statement, dict(row), execution_options={"preserve_rowcount": True})
    return int(done.rowcount)


def _by_cursor(connection: Any, mark: str, table: str, row: Mapping[str, Any]) -> int:
    with closing(connection.cursor()) as cursor:
        cursor.execute(_insert(table, row, [mark] * len(row)), tuple(row.values()))
        return int(cursor.rowcount)


def _insert(table: str, row: Mapping[str, Any], marks: list[str]) -> str:
    """The statement. A conflict that names no columns, and no RETURNING: a role that may only INSERT can run it."""
    return f"INSERT INTO {table} ({', '.join(row)}) VALUES ({', '.join(marks)}) ON CONFLICT DO NOTHING"  # noqa: S608 - names that the caller has checked


def _kind(connection: Any) -> str:
    kind = connection.__class__
    return f"{kind.__module__}.{kind.__qualname__}"
