"""`fusiond outbox`: the tables in which applications insert jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fusiond.cli import arguments
from fusiond.cli.find import entry, file
from fusiond.cli.terminal.text import tell

if TYPE_CHECKING:
    from fusiond.config.model import Outbox

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


def _init(options: arguments.Options) -> None:
    """
    Print what makes the tables of an outbox: SQL, or a migration.

    Reads only the file, connects to nothing and changes nothing.
    """
    from fusiond.outbox.migrations import migration

    outbox = entry("outbox", file.config(options.config).outboxes, options.name)
    is_postgresql, user = _database(outbox)
    roles = {"application": options.application, "relay": user if options.relay is None else options.relay}
    for name, role in roles.items() if is_postgresql else ():
        if not role:
            tell(f"no rights are granted: name the role by --{name}, unless it owns the tables")
    print(migration(outbox, options.format, is_postgresql=is_postgresql, **roles), end="")


def _database(outbox: Outbox) -> tuple[bool, str]:
    """Whether it is PostgreSQL, and the role that the address names; without one if only the daemon may read it."""
    from fusiond.config.database_url import database_url

    try:
        url = database_url(outbox)
    except OSError as error:
        tell(f"{outbox.url_file} cannot be read ({error.strerror}): this is for PostgreSQL")
        return True, ""
    return url.is_postgresql, url.user
