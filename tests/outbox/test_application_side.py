"""What an application does with an outbox: rows and receipts in its own transactions."""

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
import types
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta

import psycopg
import psycopg2
import pytest
import sqlalchemy
from django.conf import settings as django_settings
from django.db.utils import ConnectionHandler
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import orm
from sqlalchemy.ext.asyncio import create_async_engine
from werkzeug.local import LocalProxy

from fusiond import Client, EnqueueError, FusionError, UnknownTask, outbox
from fusiond.enqueue_options import Options, encoded_options
from fusiond.job import id_of_key
from fusiond.outbox.application_side import stored_options
from fusiond.testing import recorded
from tests.support.outbox_tables import tables
from tests.support.running import until

FILE = "version: 1\ntasks: {send: {run: shop.send}}\nworkers: {main: {}}\n"
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def connection(sqlite_shop):
    with closing(sqlite3.connect(sqlite_shop.path)) as connection:
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


# Each connection that an application may have: itself, and its transaction


@contextmanager
def of_sqlite(shop):
    with closing(sqlite3.connect(shop.path)) as connection:
        yield connection, connection


@contextmanager
def of_psycopg(shop):
    with closing(psycopg.connect(**shop.words)) as connection:
        yield connection, connection


@contextmanager
def of_psycopg2(shop):
    with closing(psycopg2.connect(**shop.words)) as connection:
        yield connection, connection


@contextmanager
def of_sqlalchemy(shop):
    engine = sqlalchemy.create_engine(shop.url)
    with engine.connect() as connection:
        yield connection, connection
    engine.dispose()


@contextmanager
def session_of_sqlalchemy(shop):
    engine = sqlalchemy.create_engine(shop.url)
    with orm.Session(engine) as session:
        yield session, session
    engine.dispose()


@contextmanager
def scoped_session_of_sqlalchemy(shop):
    engine = sqlalchemy.create_engine(shop.url)
    session = orm.scoped_session(orm.sessionmaker(engine))
    yield session, session
    session.remove()
    engine.dispose()


@contextmanager
def of_django(shop):
    if not django_settings.configured:
        django_settings.configure()
    connection = ConnectionHandler({"default": {**shop.django, "AUTOCOMMIT": False}})["default"]
    with warnings.catch_warnings(category=RuntimeWarning, action="ignore"):  # no application of Django's is loaded
        yield connection, connection
    connection.close()


def cursor(kind):
    """A cursor in place of the connection."""

    @contextmanager
    def cursor(shop):
        with kind(shop) as (connection, transaction):
            yield connection.cursor(), transaction

    return cursor


EVERYWHERE = [of_sqlalchemy, session_of_sqlalchemy, scoped_session_of_sqlalchemy, of_django, cursor(of_django)]
KINDS = {
    "sqlite_shop": [of_sqlite, cursor(of_sqlite), *EVERYWHERE],
    "postgres_shop": [of_psycopg, cursor(of_psycopg), of_psycopg2, cursor(of_psycopg2), *EVERYWHERE],
}


@pytest.fixture(
    params=[pytest.param((at, kind), id=f"{at}-{n}") for at, kinds in KINDS.items() for n, kind in enumerate(kinds)]
)
def every(request):
    """A database, and a connection to it."""
    at, kind = request.param
    shop = request.getfixturevalue(at)
    with kind(shop) as (own, transaction):
        yield shop, own, transaction


def test_a_row_is_part_of_the_transaction(every):
    """It is there once that is committed, and never if that is rolled back; a role that may only insert can do it."""
    shop, own, transaction = every
    outbox.enqueue(own, "send", 1)
    transaction.rollback()
    id_ = outbox.enqueue(own, "send", "é%s:x?", number=2)
    assert outbox.options(id=id_).enqueue(own, "send", 3) == id_
    assert shop.rows("SELECT * FROM fusion_outbox") == []
    transaction.commit()
    found = shop.rows("SELECT id, task, args, kwargs, options, queue FROM fusion_outbox")
    assert found == [(id_, "send", '["\\u00e9%s:x?"]', '{"number": 2}', "{}", "")]


def test_a_receipt_is_part_of_the_transaction(every):
    """It is new until a transaction has committed it, in each round."""
    _, own, transaction = every
    assert outbox.once(own, "a")
    assert not outbox.once(own, "a")
    transaction.rollback()
    assert outbox.once(own, "a", 1)
    transaction.commit()
    assert [outbox.once(own, "a"), outbox.once(own, "a", 2), outbox.once(own, "b")] == [False, True, True]


@pytest.mark.parametrize("ends", ["commit", "rollback"])
def test_of_two_receipts_at_once_one_waits(postgres_shop, ends):
    """Until the other transaction has ended, and it is new only if that was rolled back."""
    with (
        of_psycopg(postgres_shop) as (first, _),
        of_psycopg(postgres_shop) as (second, _),
        ThreadPoolExecutor() as pool,
    ):
        assert outbox.once(first, "a")
        found = pool.submit(outbox.once, second, "a")
        until(lambda: postgres_shop.rows("SELECT 1 FROM pg_locks WHERE NOT granted"))
        getattr(first, ends)()
        assert found.result(timeout=60) == (ends == "rollback")


def test_a_receipt_is_not_taken_for_old_where_nobody_says_so(postgres_shop):
    """In a pipeline the answer comes later: the work must not be left out for that."""
    with (
        of_psycopg(postgres_shop) as (connection, _),
        connection.pipeline(),
        pytest.raises(FusionError, match="outside of a pipeline"),
    ):
        outbox.once(connection, "a")


def test_a_proxy_is_what_it_stands_for(connection):
    """Such as those of Flask, which have the methods of each class."""
    id_ = outbox.enqueue(LocalProxy(lambda: connection), "send")
    assert connection.execute("SELECT id FROM fusion_outbox").fetchall() == [(id_,)]


def test_a_cursor_keeps_its_rows(connection):
    """What the application has yet to read is still there."""
    cursor = connection.execute("SELECT 1 UNION SELECT 2")
    outbox.enqueue(cursor, "send")
    assert cursor.fetchall() == [(1,), (2,)]


def test_an_asynchronous_session_runs_it(sqlite_shop):
    """By its own run_sync; given directly, it is refused with the way to do it."""

    async def insert():
        engine = create_async_engine(f"sqlite+aiosqlite:///{sqlite_shop.path}")
        async with engine.begin() as connection:
            with pytest.raises(TypeError, match="run_sync"):
                outbox.enqueue(connection, "send")
            id_ = await connection.run_sync(outbox.enqueue, "send", 1)
            assert await connection.run_sync(outbox.once, id_)
        await engine.dispose()
        return id_

    id_ = asyncio.run(insert())
    assert sqlite_shop.rows("SELECT id FROM fusion_outbox") == [(id_,)]


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
    connection.executescript(tables(table="own"))
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


@pytest.mark.parametrize("options", WRONG, ids="-".join)
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
