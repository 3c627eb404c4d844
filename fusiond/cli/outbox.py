"""`fusiond outbox`: the tables in which applications insert jobs."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from fusiond.broker.event_records import DAEMONS
from fusiond.cli import arguments
from fusiond.cli.exits import OK, REFUSED
from fusiond.cli.find import broker, entry, file
from fusiond.cli.terminal.confirm import confirm
from fusiond.cli.terminal.table import table
from fusiond.cli.terminal.text import count, span, tell, when
from fusiond.errors import FusionError
from fusiond.installed import not_installed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fusiond.config.model import Outbox
    from fusiond.outbox.table import Table

#: s for which a command waits for a lock of another transaction
_LOCKED: Final = 10
_FORMATS: Final = ("sql", "django", "alembic", "rails")


def register(subparsers: Any) -> None:
    """Add the commands."""
    commands = arguments.commands_below(subparsers, "outbox", "The tables in which applications insert jobs.")
    init = arguments.command(commands, "init", _init)
    init.add_argument("name", metavar="NAME", help="of the outbox")
    init.add_argument("--format", choices=_FORMATS, default="sql", help="default: sql")
    init.add_argument("--application", default="", metavar="ROLE", help="the role that inserts; it is granted rights")
    init.add_argument("--relay", metavar="ROLE", help="the role that the daemon uses; default: that of the address")
    arguments.add_file(init)
    listing = arguments.command(commands, "list", _list)
    listing.add_argument("name", metavar="NAME", nargs="?", help="of the outbox whose refused rows are wanted")
    listing.add_argument(
        "--limit", type=arguments.positive_number, default=20, metavar="N", help="how many rows; default: 20"
    )
    retry, drop = arguments.command(commands, "retry", _retry), arguments.command(commands, "drop", _drop)
    for each in (retry, drop):
        each.add_argument("name", metavar="NAME", help="of the outbox")
        each.add_argument("ids", metavar="ID", nargs="*", help="of a refused row; default: all of them")
    arguments.add_yes(drop)
    for each in (listing, retry, drop):
        arguments.add_broker(each)


def _init(options: arguments.Options) -> None:
    """
    Print what makes the tables of an outbox: SQL, or a migration.

    Reads only the file, connects to nothing and changes nothing.
    """
    from fusiond.outbox.migrations import migration

    outbox = entry("outbox", file.config(options.config).outboxes, options.name)
    is_postgresql, user = _database(outbox)
    roles = {"application": options.application, "relay": user if options.relay is None else options.relay}
    for name, whose in (("application", "the application"), ("relay", "the daemon")) if is_postgresql else ():
        if not roles[name]:
            tell(f"{whose} is granted no rights: name its role by --{name}, unless it owns the tables")
    print(migration(outbox, options.format, is_postgresql=is_postgresql, **roles), end="")


def _list(options: arguments.Options) -> None:
    """[broker] List outboxes: how many rows wait and were refused; of one, its refused rows, the newest first."""
    if options.name is not None:
        _list_rows(options)
        return
    from fusiond.inspecting.outbox_states import outbox_documents, outbox_sentences, outbox_states

    with broker.session(options) as session:
        states = session.run(outbox_states(session.verbs, session.run(session.verbs.files_in_force())))
    now, rows = time.time(), []
    for name, state in states.items():
        oldest = span(state.oldest) if state.waiting else ""
        notes = " ".join(outbox_sentences(name, state, now, span))
        rows.append((name, state.waiting, state.refused, oldest, state.host, notes))
    heads = ("OUTBOX", "WAITING", "REFUSED", "OLDEST", "HOST", "NOTES")
    arguments.answer(options, outbox_documents(states), lambda: table(heads, rows, right="waiting refused"))


def _list_rows(options: arguments.Options) -> None:
    with _opened(options) as found:
        rows = found.count((), shown=options.limit).rows
    now = time.time() * 1000
    shown = ((row.id, row.task, when(row.at * 1000, now), row.because) for row in rows)
    document = [row._asdict() for row in rows]
    arguments.answer(options, document, lambda: table(("ROW", "TASK", "REFUSED", "BECAUSE"), shown))


def _retry(options: arguments.Options) -> int:
    """
    [broker] Have refused rows tried again, once the file or the rows are corrected.

    The address of the database must be readable for you, as it is for the daemon.
    """
    with _opened(options) as found:
        return _tell(options, found.retry(ids=options.ids), "retried", "tried again")


def _drop(options: arguments.Options) -> int:
    """[broker] Delete refused rows. Rows that wait are not touched."""
    with _opened(options) as found:
        if not options.ids:
            refused = found.count((), shown=0).refused
            if refused:
                confirm(f"delete {count(refused, 'refused row')} of outbox '{options.name}'", options)
        return _tell(options, found.drop(options.ids), "dropped", "deleted")


def _tell(options: arguments.Options, rows: int, event: str, done: str) -> int:
    """Say what was done, and note in the audit who has done it; the exit status."""
    if rows:
        with broker.session(options) as session:
            words = [("o", options.name), ("m", count(rows, "row"))]
            session.run(session.verbs.record_event(DAEMONS, f"outbox.{event}", session.who, words))
    arguments.answer(options, {event: rows}, lambda: f"{count(rows, 'row')} {done}")
    return OK if rows >= len(options.ids) else REFUSED


@contextmanager
def _opened(options: arguments.Options) -> Iterator[Table]:
    """The table of the outbox that is named. Raises FusionError."""
    if missing := not_installed("outbox"):
        raise FusionError(f"{missing[0]} is not installed; pip install 'fusiond[outbox]'")
    from fusiond.outbox.table import Table

    outbox = entry("outbox", file.config(options.config).outboxes, options.name)
    found = Table(outbox, connections=1, lock_timeout=_LOCKED)
    try:
        yield found
    finally:
        found.close()


def _database(outbox: Outbox) -> tuple[bool, str]:
    """Whether it is PostgreSQL, and the role that the address names; without one if only the daemon may read it."""
    from fusiond.config.database_url import database_url

    try:
        url = database_url(outbox)
    except OSError as error:
        tell(f"{outbox.url_file} cannot be read ({error.strerror}): this is for PostgreSQL")
        return True, ""
    return url.is_postgresql, url.user
