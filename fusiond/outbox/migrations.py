"""
What makes the tables of an outbox: SQL, or a migration of Django, Alembic or Rails that runs the same SQL.

1. tables   the outbox and its receipts
2. more     on PostgreSQL: `fusion_enqueue`, the trigger of `wake: notify`, settings of autovacuum, rights of roles
3. undo     what a migration does when it is reversed

Text goes out, nothing is run. Each statement can be run again where SQL has words for that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from textwrap import indent
from typing import Final

from fusiond.config.model import Outbox
from fusiond.errors import ConfigError

#: what the tables have in both dialects; `{{}}` is an empty object of JSON
_TABLES: Final = (
    """\
CREATE TABLE IF NOT EXISTS {table} (
    id text NOT NULL PRIMARY KEY DEFAULT ({id}),
    task text NOT NULL,
    args text NOT NULL DEFAULT '[]' CHECK ({args}),
    kwargs text NOT NULL DEFAULT '{{}}' CHECK ({kwargs}),
    options text NOT NULL DEFAULT '{{}}' CHECK ({options}),
    created_at {moment} NOT NULL DEFAULT ({now}),
    queue text NOT NULL DEFAULT '',
    refused_at {moment},
    refused_because text
)""",
    """\
CREATE INDEX IF NOT EXISTS {index} ON {table} (queue, created_at, id)
    WHERE refused_at IS NULL""",
    "CREATE INDEX IF NOT EXISTS {refused} ON {table} (refused_at) WHERE refused_at IS NOT NULL",
    """\
CREATE TABLE IF NOT EXISTS {receipts} (
    id text NOT NULL,
    round integer NOT NULL,
    created_at {moment} NOT NULL DEFAULT ({now}),
    PRIMARY KEY (id, round)
)""",
)
_POSTGRESQL: Final = {
    "id": "gen_random_uuid()::text",
    "moment": "timestamptz",
    "now": "clock_timestamp()",
    "args": "json_typeof(args::json) = 'array'",
    "kwargs": "json_typeof(kwargs::json) = 'object'",
    "options": "json_typeof(options::json) = 'object'",
}
_SQLITE: Final = {
    "id": "lower(hex(randomblob(16)))",
    "moment": "real",
    "now": "(julianday('now') - 2440587.5) * 86400.0",
    "args": "json_valid(args) AND json_type(args) = 'array'",
    "kwargs": "json_valid(kwargs) AND json_type(kwargs) = 'object'",
    "options": "json_valid(options) AND json_type(options) = 'object'",
}
# Each row leaves two dead ones: when its queue is noted, and when it is deleted.
_OF_POSTGRESQL: Final = (
    """\
ALTER TABLE {table} SET (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
)""",
    """\
CREATE OR REPLACE FUNCTION {enqueue}(
    task text, args json DEFAULT '[]', kwargs json DEFAULT '{{}}', options json DEFAULT '{{}}'
) RETURNS text LANGUAGE sql AS $$
    INSERT INTO {table} (task, args, kwargs, options)
    VALUES ($1, $2::text, $3::text, $4::text) RETURNING id
$$""",
)
_NOTIFY: Final = (
    """\
CREATE OR REPLACE FUNCTION {notify}() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('{channel}', '');
    RETURN NULL;
END
$$""",
    "DROP TRIGGER IF EXISTS {trigger} ON {table}",
    """\
CREATE TRIGGER {trigger} AFTER INSERT ON {table}
    FOR EACH STATEMENT EXECUTE FUNCTION {notify}()""",
)
_OF_APPLICATION: Final = (
    "GRANT INSERT (id, task, args, kwargs, options), SELECT (id) ON {table}",
    "GRANT INSERT (id, round), SELECT (id, round) ON {receipts}",
)
_OF_RELAY: Final = (
    "GRANT SELECT, UPDATE (queue, refused_at, refused_because), DELETE ON {table}",
    "GRANT SELECT, DELETE ON {receipts}",
)
_USAGE: Final = "GRANT USAGE ON SCHEMA {schema}"
_UNDO: Final = ("DROP TABLE IF EXISTS {table}", "DROP TABLE IF EXISTS {receipts}")
_UNDO_ENQUEUE: Final = "DROP FUNCTION IF EXISTS {enqueue}(text, json, json, json)"
_UNDO_NOTIFY: Final = "DROP FUNCTION IF EXISTS {notify}()"
#: of a role that a text of Python or Ruby can have as it is
_ROLE: Final = re.compile(r"[\w.@$ -]+")


def migration(outbox: Outbox, form: str, *, is_postgresql: bool, application: str = "", relay: str = "") -> str:
    """
    The text of a migration that makes the tables of the outbox.

    Args:
        outbox: says the names.
        form: a key of FORMS.
        is_postgresql: whether its database is PostgreSQL; otherwise it is SQLite.
        application: the role of the application, which is given the rights to enqueue; "": none is.
        relay: the role as which the program of the outbox connects; "": none is given rights.

    Raises:
        ConfigError: a role has a character that the text of a migration cannot have.
    """
    names = _names(outbox, "" if not is_postgresql else f'"{outbox.schema or "public"}".')
    do, undo = [*_TABLES], [*_UNDO]
    if is_postgresql:
        do += [*_OF_POSTGRESQL, *_grants(outbox, application, relay)]
        undo += [_UNDO_ENQUEUE]
    if outbox.wake == "notify":
        do, undo = [*do, *_NOTIFY], [*undo, _UNDO_NOTIFY]
    names |= _POSTGRESQL if is_postgresql else _SQLITE
    return FORMS[form](outbox.table, [each.format(**names) for each in do], [each.format(**names) for each in undo])


def _names(outbox: Outbox, at: str) -> dict[str, str]:
    """What the statements call things: quoted, since a table may have the name of a keyword. `at`: the schema."""
    return {
        "schema": f'"{outbox.schema}"',
        "table": f'{at}"{outbox.table}"',
        "index": f'"{outbox.table}_waiting"',
        "refused": f'"{outbox.table}_refused"',
        "receipts": f'{at}"fusion_receipts"',
        "enqueue": f'{at}"fusion_enqueue"',
        "trigger": f'"{outbox.table}_notify"',
        "notify": f'{at}"{outbox.table}_notify"',
        "channel": f"{outbox.schema or 'public'}.{outbox.table}",
    }


def _grants(outbox: Outbox, application: str, relay: str) -> Iterator[str]:
    for role, rights in ((application, _OF_APPLICATION), (relay, _OF_RELAY)):
        if role and not _ROLE.fullmatch(role):
            message = f"the role {role!r} has a character that a migration cannot have"
            raise ConfigError(f"{message}; leave it out, and grant its rights yourself")
        # Everyone may use the schema `public`.
        needed = (*([_USAGE] if outbox.schema else ()), *rights) if role else ()
        yield from (f'{each} TO "{role}"' for each in needed)


# -- forms ------------------------------------------------------------------------------------------------------------


def _sql(_table: str, do: Sequence[str], _undo: Sequence[str]) -> str:
    return ";\n\n".join(["BEGIN", *do, "COMMIT"]) + ";\n"


def _django(_table: str, do: Sequence[str], undo: Sequence[str]) -> str:
    lists = ("[\n" + "".join(indent(f"{_python(each)},\n", " " * 4) for each in part) + "],\n" for part in (do, undo))
    return f"""\
from django.db import migrations


class Migration(migrations.Migration):
    # If the app has migrations already, name the last one: [("shop", "0007_orders")].
    dependencies = []

    operations = [
        migrations.RunSQL(
{indent("".join(lists), " " * 12)}        ),
    ]
"""


def _alembic(table: str, do: Sequence[str], undo: Sequence[str]) -> str:
    upgrade, downgrade = (
        "".join(indent(f"op.execute({_python(each)})\n", " " * 4) for each in part) for part in (do, undo)
    )
    return f"""\
from alembic import op

revision = "{table}"
# If there are revisions already, write the last one.
down_revision = None


def upgrade():
{upgrade}

def downgrade():
{downgrade}"""


def _rails(table: str, do: Sequence[str], undo: Sequence[str]) -> str:
    up, down = (
        "\n".join(f"    execute <<~'SQL'\n{indent(each, ' ' * 6)}\n    SQL\n" for each in part) for part in (do, undo)
    )
    name = "".join(word.capitalize() for word in table.split("_"))
    return f"""\
# db/migrate/<time>_create_{table}.rb
class Create{name} < ActiveRecord::Migration[7.0]
  def up
{up}  end

  def down
{down}  end
end
"""


def _python(statement: str) -> str:
    """The statement as a text of Python."""
    return f'"""\n{indent(statement, "    ")}\n"""'


#: the form of a migration → what writes it: of a table, the statements that make it, and those that undo that
FORMS: Final[Mapping[str, Callable[[str, Sequence[str], Sequence[str]], str]]] = {
    "sql": _sql,
    "django": _django,
    "alembic": _alembic,
    "rails": _rails,
}
