"""`fusiond outbox init`: what it prints makes the tables, on a real SQLite and a real PostgreSQL, by each way."""

import re
import subprocess
import sys
import time
from uuid import uuid4

import psycopg
import pytest
import sqlalchemy as sa

from fusiond.config.model import Outbox
from fusiond.errors import ConfigError
from fusiond.outbox.migrations import FORMS, migration

TABLES = {"fusion_outbox", "fusion_receipts"}
#: what each application has that runs migrations of Django
DJANGO = """
import sys
import django
from django.conf import settings
from django.core.management import call_command
settings.configure(INSTALLED_APPS=["shop"], DATABASES={"default": %r}, USE_TZ=True)
django.setup()
call_command("migrate", "shop", *sys.argv[1:], verbosity=0)
"""
ENVIRONMENT = """
from alembic import context
with context.config.attributes["engine"].connect() as connection:
    context.configure(connection=connection)
    with context.begin_transaction():
        context.run_migrations()
"""


@pytest.fixture(params=["sqlite", "postgresql"])
def engine(request, tmp_path):
    """An empty database."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path}/shop.db"
    else:
        url = request.getfixturevalue("postgres").url(request.getfixturevalue("database"))
    engine = sa.create_engine(url)
    yield engine
    engine.dispose()


def is_postgresql(engine):
    return engine.dialect.name == "postgresql"


def text_of(engine, form, wake="poll", **roles):
    outbox = Outbox(("a",), url="x", wake=wake if is_postgresql(engine) else "poll")
    return migration(outbox, form, is_postgresql=is_postgresql(engine), **roles)


def run_sql(engine, text):
    """As psql and sqlite3 do."""
    with engine.connect() as connection:
        raw = connection.connection.driver_connection
        if is_postgresql(engine):
            raw.execute(text)
        else:
            raw.executescript(text)


def run_each(engine, statements):
    with engine.begin() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


def by_sql(engine, text, _directory):
    run_sql(engine, text)
    yield
    run_sql(engine, text)  # again, which changes nothing
    yield
    run_each(engine, [f"DROP TABLE {table}" for table in TABLES])


def by_rails(engine, text, _directory):
    """What stands for Ruby is that a quoted text `<<~'SQL'` is taken as it stands, without its indentation."""
    quoted = re.compile(r"    execute <<~'SQL'\n(.*?)\n    SQL\n", re.DOTALL)
    head = "# db/migrate/<time>_create_fusion_outbox.rb class CreateFusionOutbox < ActiveRecord::Migration[7.0]"
    assert " ".join(quoted.sub("", text).split()) == f"{head} def up end def down end end"
    up, down = map(quoted.findall, text.split("def down"))
    run_each(engine, up)
    yield
    run_each(engine, down)


def by_django(engine, text, directory):
    migrations = directory / "shop" / "migrations"
    migrations.mkdir(parents=True)
    for path in (migrations.parent / "__init__.py", migrations / "__init__.py"):
        path.touch()
    (migrations / "0001_outbox.py").write_text(text)
    url, server = engine.url, {}
    if is_postgresql(engine):
        server = {"USER": url.username, "HOST": url.query["host"], "PORT": url.query["port"]}
    kind = "postgresql" if is_postgresql(engine) else "sqlite3"
    place = {"ENGINE": f"django.db.backends.{kind}", "NAME": url.database, **server}

    def migrate(*words):
        subprocess.run([sys.executable, "-c", DJANGO % place, *words], cwd=directory, check=True)

    migrate()
    yield
    migrate("zero")


def by_alembic(engine, text, directory):
    from alembic import command, config

    (directory / "alembic" / "versions").mkdir(parents=True)
    (directory / "alembic" / "env.py").write_text(ENVIRONMENT)
    (directory / "alembic" / "versions" / "outbox.py").write_text(text)
    settings = config.Config()
    settings.set_main_option("script_location", str(directory / "alembic"))
    settings.attributes["engine"] = engine
    command.upgrade(settings, "head")
    yield
    command.downgrade(settings, "base")


def tables(engine):
    return TABLES & {*sa.inspect(engine).get_table_names()}


@pytest.mark.parametrize("form", FORMS)
def test_what_it_prints_makes_the_tables_as_it_stands(form, engine, tmp_path):
    """Each form, on each database, with a trigger where there can be one; and it can be undone."""
    for _ in globals()[f"by_{form}"](engine, text_of(engine, form, wake="notify"), tmp_path):
        with engine.begin() as connection:
            connection.exec_driver_sql("INSERT INTO fusion_outbox (task) VALUES ('send')")
            connection.exec_driver_sql("INSERT INTO fusion_receipts (id, round) VALUES ('a', 1)")
            [row] = connection.exec_driver_sql("SELECT * FROM fusion_outbox").mappings()
            moments = [
                *connection.exec_driver_sql("SELECT created_at FROM fusion_receipts").scalars(),
                row["created_at"],
            ]
            connection.exec_driver_sql("DELETE FROM fusion_outbox")
            connection.exec_driver_sql("DELETE FROM fusion_receipts")
        assert re.fullmatch("[0-9a-f-]{32,36}", row["id"])
        said = [row[name] for name in ("task", "args", "kwargs", "options", "queue", "refused_at", "refused_because")]
        assert said == ["send", "[]", "{}", "{}", "", None, None]
        seconds = [each.timestamp() if is_postgresql(engine) else each for each in moments]
        assert all(abs(each - time.time()) < 60 for each in seconds)
        indexes = sa.inspect(engine).get_indexes("fusion_outbox")
        assert sorted(each["column_names"] for each in indexes) == [["queue", "created_at", "id"], ["refused_at"]]
    assert tables(engine) == set()


@pytest.mark.parametrize(
    ("column", "text"), [("args", "{}"), ("args", "[1"), ("kwargs", "[]"), ("kwargs", ""), ("options", "null")]
)
def test_a_row_that_is_no_json_is_refused_where_it_is_inserted(column, text, engine):
    """The application's own transaction fails, with its place in the code."""
    run_sql(engine, text_of(engine, "sql"))
    with pytest.raises(sa.exc.DBAPIError), engine.begin() as connection:
        connection.execute(sa.text(f"INSERT INTO fusion_outbox (task, {column}) VALUES ('a', :text)"), {"text": text})


@pytest.fixture
def roles(postgres, database):
    """The roles of an application and of a relay, made for the tables of a schema; a connection of each."""
    application, relay = (f"{name} {uuid4().hex[:8]}" for name in ("The App", "relay"))
    outbox = Outbox(("a",), url="x", schema="shop", table="order", wake="notify")
    with postgres.connect(database) as admin:
        admin.execute(f'CREATE SCHEMA shop; CREATE ROLE "{application}" LOGIN; CREATE ROLE "{relay}" LOGIN')
        admin.execute(migration(outbox, "sql", is_postgresql=True, application=application, relay=relay))
    with postgres.connect(database, application) as app, postgres.connect(database, relay) as of_relay:
        yield app, of_relay


def test_the_application_may_insert_and_the_relay_may_carry_and_neither_more(roles):
    """In a schema of its own, in a table with the name of a keyword."""
    app, relay = roles
    [id] = app.execute("""SELECT shop.fusion_enqueue('send', '[1, "a:b"]', options => '{"delay": 5}')""").fetchone()
    again = 'INSERT INTO shop."order" (id, task) VALUES (%s, %s) ON CONFLICT DO NOTHING'
    assert app.execute(again, (id, "send")).rowcount == 0
    receipt = "INSERT INTO shop.fusion_receipts (id, round) VALUES (%s, 1) ON CONFLICT DO NOTHING"
    assert [app.execute(receipt, (id,)).rowcount for _ in range(2)] == [1, 0]
    row = relay.execute('SELECT task, args, kwargs, options FROM shop."order"').fetchone()
    assert row == ("send", '[1, "a:b"]', "{}", '{"delay": 5}')
    for connection, forbidden in (
        (app, 'DELETE FROM shop."order"'),
        (app, 'SELECT args FROM shop."order"'),
        (app, "INSERT INTO shop.\"order\" (task, queue) VALUES ('a', 'q')"),
        (app, "DELETE FROM shop.fusion_receipts"),
        (relay, "INSERT INTO shop.\"order\" (task) VALUES ('a')"),
        (relay, "UPDATE shop.\"order\" SET task = 'b'"),
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(forbidden)
    relay.execute('SELECT FROM shop."order" FOR UPDATE SKIP LOCKED')
    relay.execute("UPDATE shop.\"order\" SET queue = 'q', refused_at = now(), refused_because = 'x'")
    assert relay.execute('DELETE FROM shop."order"').rowcount == 1
    assert relay.execute("DELETE FROM shop.fusion_receipts WHERE created_at < now()").rowcount == 1


def test_a_commit_wakes_the_relay_once(roles):
    """However many rows it has; a transaction that is rolled back wakes nobody."""
    app, relay = roles
    relay.execute('LISTEN "shop.order"')
    for task, end in (("lost", "ROLLBACK"), ("kept", "COMMIT")):
        app.execute("BEGIN")
        app.execute('INSERT INTO shop."order" (task) SELECT %s FROM generate_series(1, 3)', (task,))
        app.execute(f"SELECT shop.fusion_enqueue('{task}')")
        app.execute(end)
    app.execute("SELECT pg_notify('shop.order', 'last')")
    heard = []
    for notice in relay.notifies(timeout=30):
        heard.append(notice.payload)
        if heard[-1] == "last":
            break
    assert heard == ["", "last"]


@pytest.mark.parametrize("role", ['a"b', "a\nb", "a'b", "a{b}", "a\\b"])
def test_a_role_that_would_break_the_text_is_refused(role):
    """Its rights are granted by a person."""
    with pytest.raises(ConfigError, match="grant its rights yourself"):
        migration(Outbox(("a",), url="x"), "rails", is_postgresql=True, application=role)
