"""
What makes the tables of an outbox: SQL, or a migration of Django, Alembic or Rails that runs the same SQL.

1. tables   the outbox and its receipts
2. more     on PostgreSQL: `fusion_enqueue`, settings of autovacuum, the trigger of `wake: notify`, rights of roles
3. undo     what a migration does when it is reversed

Text goes out, nothing is run. Each statement can be run again where SQL has words for that. An empty line separates
statements.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from textwrap import indent
from typing import Final

from fusiond.config.model import Outbox
from fusiond.errors import ConfigError

# `{{}}` is an empty object of JSON.
_TABLES: Final = """\
CREATE TABLE IF NOT EXISTS {at}"{name}" (
    id text NOT NULL PRIMARY KEY DEFAULT ({id}),
    task text NOT NULL,
    args text NOT NULL DEFAULT '[]' CHECK ({type}(args{json}) = 'array'),
    kwargs text NOT NULL DEFAULT '{{}}' CHECK ({type}(kwargs{json}) = 'object'),
    options text NOT NULL DEFAULT '{{}}' CHECK ({type}(options{json}) = 'object'),
    created_at {moment} NOT NULL DEFAULT ({now}),
    queue text NOT NULL DEFAULT '',
    refused_at {moment},
    refused_because text
);

CREATE INDEX IF NOT EXISTS "{name}_waiting" ON {at}"{name}" (queue, created_at, id) WHERE refused_at IS NULL;

CREATE INDEX IF NOT EXISTS "{name}_refused" ON {at}"{name}" (refused_at) WHERE refused_at IS NOT NULL;

CREATE TABLE IF NOT EXISTS {at}"fusion_receipts" (
    id text NOT NULL,
    round integer NOT NULL,
    created_at {moment} NOT NULL DEFAULT ({now}),
    PRIMARY KEY (id, round)
);
"""
# SQLite's json_type raises where a text is not JSON, as the cast of PostgreSQL does.
_SQLITE: Final = {
    "id": "lower(hex(randomblob(16)))", "moment": "real", "now": "(julianday('now') - 2440587.5) * 86400.0",
    "type": "json_type", "json": "",
}  # fmt: skip
_POSTGRESQL: Final = {
    "id": "gen_random_uuid()::text", "moment": "timestamptz", "now": "clock_timestamp()",
    "type": "json_typeof", "json": "::json",
}  # fmt: skip
# Each row leaves two dead ones: when its queue is noted, and when it is deleted.
_OF_POSTGRESQL: Final = """
CREATE INDEX IF NOT EXISTS "fusion_receipts_age" ON {at}"fusion_receipts" USING brin (created_at);

ALTER TABLE {at}"{name}" SET (autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0);

CREATE OR REPLACE FUNCTION {at}"fusion_enqueue"(
    task text, args json DEFAULT '[]', kwargs json DEFAULT '{{}}', options json DEFAULT '{{}}'
) RETURNS text LANGUAGE sql AS $$
    INSERT INTO {at}"{name}" (task, args, kwargs, options)
    VALUES ($1, $2::text, $3::text, $4::text) RETURNING id
$$;
"""
# Before version 14 there is no CREATE OR REPLACE TRIGGER.
_NOTIFY: Final = """
CREATE OR REPLACE FUNCTION {at}"{name}_notify"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('{schema}.{name}', '');
    RETURN NULL;
END
$$;

DROP TRIGGER IF EXISTS "{name}_notify" ON {at}"{name}";

CREATE TRIGGER "{name}_notify" AFTER INSERT ON {at}"{name}"
    FOR EACH STATEMENT EXECUTE FUNCTION {at}"{name}_notify"();
"""
_USAGE: Final = """
GRANT USAGE ON SCHEMA "{schema}" TO "{role}";
"""
_OF_APPLICATION: Final = """
GRANT INSERT (id, task, args, kwargs, options), SELECT (id) ON {at}"{name}" TO "{role}";

GRANT INSERT (id, round), SELECT (id, round) ON {at}"fusion_receipts" TO "{role}";
"""
_OF_RELAY: Final = """
GRANT SELECT, UPDATE (queue, refused_at, refused_because), DELETE ON {at}"{name}" TO "{role}";

GRANT SELECT, DELETE ON {at}"fusion_receipts" TO "{role}";
"""
_UNDO: Final = """\
DROP TABLE IF EXISTS {at}"{name}";

DROP TABLE IF EXISTS {at}"fusion_receipts";
"""
_UNDO_OF_POSTGRESQL: Final = """
DROP FUNCTION IF EXISTS {at}"fusion_enqueue"(text, json, json, json);

DROP FUNCTION IF EXISTS {at}"{name}_notify"();
"""
#: how a statement stands in a migration
_PYTHON: Final = '"""\n{}\n"""'
_RUBY: Final = "execute <<~'SQL'\n{}\nSQL"
#: of a role that a text of Python or Ruby can have as it is
_ROLE: Final = re.compile(r"[\w.@$ -]*")


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
    schema, do, undo = outbox.schema or "public", _TABLES, _UNDO
    # Quoted, since a table may have the name of a keyword.
    names = {**_SQLITE, "at": "", "name": outbox.table}
    if is_postgresql:
        names |= {**_POSTGRESQL, "at": f'"{schema}".', "schema": schema}
        do += _OF_POSTGRESQL + (_NOTIFY if outbox.wake == "notify" else "")
        undo += _UNDO_OF_POSTGRESQL
    do = do.format(**names)
    for role, rights in ((application, _OF_APPLICATION), (relay, _OF_RELAY)) if is_postgresql else ():
        if not _ROLE.fullmatch(role):
            message = f"the role {role!r} has a character that a migration cannot have"
            raise ConfigError(f"{message}; leave it out, and grant its rights yourself")
        # Everyone may use the schema `public`.
        do += ((_USAGE if outbox.schema else "") + rights).format(**names, role=role) if role else ""
    return FORMS[form](outbox.table, do, undo.format(**names))


# -- forms ------------------------------------------------------------------------------------------------------------


def _sql(_table: str, do: str, _undo: str) -> str:
    return f"BEGIN;\n\n{do}\nCOMMIT;\n"


def _django(_table: str, do: str, undo: str) -> str:
    return f"""\
from django.db import migrations


class Migration(migrations.Migration):
    # If the app has migrations already, name the last one: [("orders", "0001_initial")].
    dependencies = []

    operations = [
        migrations.RunSQL(
            [
{_each(do, _PYTHON + ",", 16)}            ],
            [
{_each(undo, _PYTHON + ",", 16)}            ],
        ),
    ]
"""


def _alembic(table: str, do: str, undo: str) -> str:
    return f"""\
from alembic import op

revision = "{table}"
# If there are revisions already, write the last one.
down_revision = None


def upgrade():
{_each(do, f"op.execute({_PYTHON})", 4)}

def downgrade():
{_each(undo, f"op.execute({_PYTHON})", 4)}"""


def _rails(table: str, do: str, undo: str) -> str:
    return f"""\
# db/migrate/<time>_create_{table}.rb
class Create{"".join(word.capitalize() for word in table.split("_"))} < ActiveRecord::Migration[7.0]
  def up
{_each(do, _RUBY, 4)}  end

  def down
{_each(undo, _RUBY, 4)}  end
end
"""


def _each(script: str, form: str, column: int) -> str:
    """Each statement of the script in this form, at the column."""
    statements = script.removesuffix(";\n").split(";\n\n")
    return "".join(indent(form.replace("{}", indent(each, "    ")) + "\n", " " * column) for each in statements)


#: the form of a migration → what writes it: of a table, the script that makes it, and the one that undoes that
FORMS: Final[Mapping[str, Callable[[str, str, str], str]]] = {
    "sql": _sql, "django": _django, "alembic": _alembic, "rails": _rails,
}  # fmt: skip
