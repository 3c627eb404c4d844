"""What an application does with an outbox: rows and receipts in its own transactions, on SQLite."""

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
import types
import warnings
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy
from django.conf import settings as django_settings
from django.db.utils import ConnectionHandler
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import orm
from sqlalchemy.ext.asyncio import create_async_engine

from fusiond import Client, EnqueueError, UnknownTask, outbox
from fusiond.enqueue_options import Options, encoded_options
from fusiond.job import id_of_key
from fusiond.outbox.application_side import stored_options
from fusiond.testing import recorded
from tests.support.outbox_tables import SQLITE

FILE = "version: 1\ntasks: {send: {run: shop.send}}\nworkers: {main: {}}\n"
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def path(tmp_path):
    """A database with the tables."""
    found = tmp_path / "shop.db"
    with closing(sqlite3.connect(found)) as connection:
        connection.executescript(SQLITE.format(table="fusion_outbox"))
    return found


@pytest.fixture
def connection(path):
    with closing(sqlite3.connect(path)) as connection:
        yield connection


@pytest.fixture
def row(connection):
    """Enqueue, and read the row."""

    def row(task, *args, by=outbox, **kwargs):
        id_ = by.enqueue(connection, task, *args, **kwargs)
        columns = "task, args, kwargs, options"
        found = connection.execute(f"SELECT {columns} FROM fusion_outbox WHERE id = ?", [id_]).fetchone()
        return (id_, found[0], *map(json.loads, found[1:]))

    return row


# Each connection that an application may have


@contextmanager
def of_sqlite(path):
    with closing(sqlite3.connect(path)) as connection:
        yield connection, connection.commit, connection.rollback


@contextmanager
def cursor_of_sqlite(path):
    with of_sqlite(path) as (connection, commit, rollback):
        yield connection.cursor(), commit, rollback


@contextmanager
def of_sqlalchemy(path):
    engine = sqlalchemy.create_engine(f"sqlite:///{path}")
    with engine.connect() as connection:
        yield connection, connection.commit, connection.rollback
    engine.dispose()


@contextmanager
def session_of_sqlalchemy(path):
    engine = sqlalchemy.create_engine(f"sqlite:///{path}")
    with orm.Session(engine) as session:
        yield session, session.commit, session.rollback
    engine.dispose()


@contextmanager
def scoped_session_of_sqlalchemy(path):
    engine = sqlalchemy.create_engine(f"sqlite:///{path}")
    session = orm.scoped_session(orm.sessionmaker(engine))
    yield session, session.commit, session.rollback
    session.remove()
    engine.dispose()


@contextmanager
def of_django(path):
    if not django_settings.configured:
        django_settings.configure()
    own = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(path), "AUTOCOMMIT": False}
    connection = ConnectionHandler({"default": own})["default"]
    with warnings.catch_warnings(category=RuntimeWarning, action="ignore"):  # no application of Django's is loaded
        yield connection, connection.commit, connection.rollback
    connection.close()


@contextmanager
def cursor_of_django(path):
    with of_django(path) as (connection, commit, rollback):
        yield connection.cursor(), commit, rollback


KINDS = [of_sqlite, cursor_of_sqlite, of_sqlalchemy, session_of_sqlalchemy, scoped_session_of_sqlalchemy, of_django,
         cursor_of_django]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_is_part_of_the_transaction(kind, path, connection):
    """It is there once that is committed, and never if that is rolled back."""
    with kind(path) as (own, commit, rollback):
        outbox.enqueue(own, "send", 1)
        rollback()
        id_ = outbox.enqueue(own, "send", "é%s:x?", number=2)
        assert connection.execute("SELECT * FROM fusion_outbox").fetchall() == []
        commit()
    found = connection.execute("SELECT id, task, args, kwargs, options, queue FROM fusion_outbox").fetchall()
    assert found == [(id_, "send", '["\\u00e9%s:x?"]', '{"number": 2}', "{}", "")]


@pytest.mark.parametrize("kind", KINDS)
def test_a_receipt_is_part_of_the_transaction(kind, path):
    """It is new until a transaction has committed it, in each round."""
    with kind(path) as (own, commit, rollback):
        assert outbox.once(own, "a")
        assert not outbox.once(own, "a")
        rollback()
        assert outbox.once(own, "a", 1)
        commit()
        assert [outbox.once(own, "a"), outbox.once(own, "a", 2), outbox.once(own, "b")] == [False, True, True]


def test_a_cursor_keeps_its_rows(connection):
    """What the application has yet to read is still there."""
    cursor = connection.execute("SELECT 1 UNION SELECT 2")
    outbox.enqueue(cursor, "send")
    assert cursor.fetchall() == [(1,), (2,)]


def test_an_asynchronous_session_runs_it(path):
    """By its own run_sync; given directly, it is refused with the way to do it."""

    async def insert():
        engine = create_async_engine(f"sqlite+aiosqlite:///{path}")
        async with engine.begin() as connection:
            with pytest.raises(TypeError, match="run_sync"):
                outbox.enqueue(connection, "send")
            id_ = await connection.run_sync(outbox.enqueue, "send", 1)
            assert await connection.run_sync(outbox.once, id_)
        await engine.dispose()
        return id_

    id_ = asyncio.run(insert())
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT id FROM fusion_outbox").fetchall() == [(id_,)]


@pytest.mark.parametrize("wrong", [None, "shop.db", sqlalchemy.create_engine("sqlite://"), object(), sqlite3])
def test_what_is_no_connection_is_refused(wrong):
    """Also an Engine, which would insert the row in a transaction of its own."""
    with pytest.raises(TypeError, match="no connection that is known here: pass a connection or cursor of psycopg"):
        outbox.enqueue(wrong, "send")


# Options


def test_what_a_row_has_of_its_call(row):
    """Times are seconds, jobs are names, and each is as Client.options takes it."""
    at = datetime(2030, 1, 31, tzinfo=UTC)
    job = types.SimpleNamespace(name="q/parent")
    writer = outbox.options(delay="5m", expires=timedelta(hours=1)).options(
        at=at, after=(each for each in [job]), key=None
    )
    id_, task, args, kwargs, options = row("send", 1, by=writer.options(priority="high", meta={"a": [1]}), x=None)
    assert (task, args, kwargs, len(id_)) == ("send", [1], {"x": None}, 22)
    assert options == {
        "delay": 300, "expires": 3600, "at": at.timestamp(), "after": ["q/parent"], "priority": "high",
        "meta": {"a": [1]},
    }  # fmt: skip


def test_id_and_key_make_the_id_of_the_row(row, connection):
    """The ids that a client makes; a row that is there stays."""
    assert row("send", by=outbox.options(id="order-7"))[::4] == ("order-7", {})
    by = outbox.options(key="order-7")
    for number in (1, 2):
        id_, _, args, _, options = row("send", number, by=by)
        assert (id_, args, options) == (id_of_key("send", "order-7"), [1], {"key": "order-7"})


def test_the_table_may_have_another_name(connection):
    """In a schema, too; a name that the file does not allow is refused before any SQL."""
    connection.executescript(SQLITE.replace("CREATE TABLE fusion_receipts", "CREATE TABLE more").format(table="own"))
    id_ = outbox.options(table="own", schema="main").options(delay=1).enqueue(connection, "send")
    assert connection.execute("SELECT id FROM own").fetchall() == [(id_,)]
    assert outbox.once(connection, "a", schema="main")
    for wrong in ({"table": 'a"; DROP'}, {"schema": "Shop"}, {"table": "x" * 32}):
        with pytest.raises(ValueError, match="is not the name of a table or schema"):
            outbox.options(**wrong)


def test_the_current_trace_is_kept(row, monkeypatch):
    """That of the job which enqueues, unless the call names another."""
    monkeypatch.setenv("FUSION_JOB_ID", "a")
    monkeypatch.setenv("TRACEPARENT", TRACE)
    assert row("send")[4] == {"traceparent": TRACE}
    other = TRACE.replace("b7", "c7")
    assert row("send", by=outbox.options(traceparent=other))[4] == {"traceparent": other}


TIMES = st.sampled_from([1, 0.5, "5m", timedelta(minutes=2)])
TEXTS = st.text("aé", min_size=1, max_size=5)
OPTIONS = st.fixed_dictionaries({}, optional={
    **dict.fromkeys(("delay", "expires", "timeout", "result_ttl", "failure_ttl"), TIMES),
    **dict.fromkeys(("key", "log_tag", "description", "retry", "queue"), TEXTS),
    "at": st.sampled_from([datetime(2030, 1, 1, tzinfo=UTC), "2030-01-31T02:00+01:00", 1.9e9]),
    "priority": st.sampled_from(["high", 0, 255]), "meta": st.dictionaries(TEXTS, TEXTS), "traceparent": st.just(TRACE),
    "after": st.just(["q/a", "q/b"]), "on_success": st.sampled_from([{"task": "x"}, {}, {"webhook": "https://a.b/"}]),
})  # fmt: skip


@given(OPTIONS)
def test_the_daemon_reads_the_options_that_were_given(said):
    """What a row keeps means to Redis what the call meant."""
    options = Options(**said)
    read = Options(**json.loads(json.dumps(stored_options(options))))
    assert encoded_options(read) == encoded_options(options)
    kept = ("priority", "queue", "on_success")
    assert [getattr(read, name) for name in kept] == [getattr(options, name) for name in kept]


# What is refused


WRONG = [
    {"delay": -1}, {"delay": "soon"}, {"expires": 0}, {"at": datetime(2030, 1, 1)}, {"at": 1e12},  # noqa: DTZ001
    {"timeout": "0s"}, {"result_ttl": "11y"}, {"key": ""}, {"log_tag": "x" * 256}, {"description": 7},
    {"meta": []}, {"meta": {"a": object()}}, {"traceparent": "x"}, {"after": "q/a"}, {"after": [7]}, {"join": "any"},
    {"after": ["q/a"], "on_parent_failure": "wait"}, {"id": "a b"}, {"id": "a", "key": "b"}, {"queue": ""},
    {"on_success": {"page": "x"}}, {"on_failure": {"webhook": "ftp://x"}}, {"on_failure": []},
]  # fmt: skip


@pytest.fixture
def refusals(tmp_path, connection):
    """The words in which a client and an outbox refuse a call."""
    (tmp_path / "fusion.yaml").write_text(FILE)

    def refusals(options, *call):
        with recorded(tmp_path / "fusion.yaml"), pytest.raises(EnqueueError) as by_client:
            Client().options(**options).enqueue(*call)
        with pytest.raises(type(by_client.value)) as by_outbox:
            outbox.options(**options).enqueue(connection, *call)
        assert connection.execute("SELECT * FROM fusion_outbox").fetchall() == []
        return str(by_client.value), str(by_outbox.value)

    return refusals


@pytest.mark.parametrize("options", WRONG, ids=str)
def test_it_refuses_the_options_that_a_client_refuses(refusals, options):
    """With the client's own words; no row is inserted."""
    by_client, by_outbox = refusals(options, "send", 1)
    assert by_outbox == by_client


@pytest.mark.parametrize(
    "argument", [object(), float("nan"), "\ud800", "x" * (1 << 20)], ids=["object", "nan", "surrogate", "large"]
)
def test_it_refuses_the_arguments_that_a_client_refuses(refusals, argument):
    """What is not JSON or too large."""
    by_client, by_outbox = refusals({}, "send", argument)
    assert by_outbox == by_client


@pytest.mark.parametrize("priority", [-1, 256, 1.5])
def test_it_refuses_a_number_that_is_no_priority(connection, priority):
    """A name is looked up by the daemon."""
    with pytest.raises(EnqueueError, match="is neither a name nor a number from 0 to 255"):
        outbox.options(priority=priority).enqueue(connection, "send")


def test_a_task_is_named(connection):
    """A function cannot be looked up without a daemon; an option that a client has not is an error in Python."""
    with pytest.raises(UnknownTask, match="pass the name that the daemon's file has"):
        outbox.enqueue(connection, test_a_task_is_named)
    with pytest.raises(EnqueueError, match="task: ''"):
        outbox.enqueue(connection, "")
    with pytest.raises(TypeError, match="dealy"):
        outbox.options(dealy=1)


def test_a_module_that_is_loaded_inserts_nothing(connection, monkeypatch):
    """As with a client: `validate --imports` makes no row."""
    monkeypatch.setitem(sys.modules, "_fusiond_loading", types.SimpleNamespace(pid=os.getpid(), refused=[]))
    with pytest.raises(EnqueueError, match="enqueue inside a function"):
        outbox.enqueue(connection, "send")


def test_importing_it_loads_no_library_of_a_database():
    """Nor one of Redis, nor the client."""
    script = "import sys, fusiond.outbox; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert not {"sqlalchemy", "psycopg", "sqlite3", "redis", "hiredis", "fusiond.client", "asyncio"} & set(loaded)
