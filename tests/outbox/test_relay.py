"""Rows of a real database become jobs in a real Redis: each committed row one job, whatever fails in between."""

import contextlib
import json
import re
import shutil
import socket
import sqlite3
import subprocess
import time

import pytest

from fusiond.broker.event_records import DAEMONS
from fusiond.broker.records import NewJob
from fusiond.cli.terminal.text import span
from fusiond.config.model import Task
from fusiond.config.model.tasks import Unique
from fusiond.errors import BrokerUnavailable
from fusiond.job import JobStatus
from fusiond.outbox import relay, row_carrier
from fusiond.outbox.migrations import migration
from fusiond.outbox.table import OutboxError, Table
from tests.support.replicas import free_port
from tests.support.running import end_with_parent, until


def test_a_committed_row_becomes_a_job(station):
    """With its id, arguments and options; the row is gone, and a row that was rolled back leaves nothing."""
    options = {"delay": 3600, "key": "k", "meta": {"a": 1}, "priority": 9, "on_success": {"task": "echo"}}
    with contextlib.closing(station.connect()) as connection:
        station.insert_with(connection, id="never")
        connection.rollback()
    station.insert({"id": "plain", "args": ["ä", 1.5], "kwargs": {"x": None}}, {"id": "odd", "options": options})
    station.relay()
    until(lambda: not station.rows())
    assert station.queued() == ["plain"]
    job = station.run(station.broker.job("default", "plain"))
    assert (job.task, json.loads(job.args)) == ("echo", [["ä", 1.5], {"x": None}])
    job = station.run(station.broker.job("default", "odd"))
    assert (job.status, job.key, json.loads(job.meta)) == (JobStatus.SCHEDULED, "k", {"a": 1})
    assert station.run(station.broker.job("default", "never")) is None


def test_times_count_from_when_the_row_was_made(station):
    """A row that has waited for an hour is late by an hour."""
    station.insert({"id": "due", "options": {"delay": 3000}}, {"id": "soon", "options": {"delay": 4000}})
    station.insert({"id": "expired", "options": {"expires": 3000}})
    hour = "interval '1 hour'" if "postgresql" in station.outbox.url else "3600"
    station.execute(f"UPDATE fusion_outbox SET created_at = created_at - {hour}")
    station.relay()
    until(lambda: not station.rows())
    assert "due" in station.queued()
    page = station.run(station.broker.job("default", "soon"))
    assert 390 < page.due_at / 1000 - time.time() < 401
    job = station.run(station.broker.job("default", "expired"))
    assert job.expires_at / 1000 < time.time() + 1


BAD = {
    "forbidden": ({"task": "other"}, r"add it to `outboxes.shop.tasks`"),
    "callback": ({"options": {"on_success": {"task": "other"}}}, r"'other' may not.* add it to `outboxes.shop.tasks`"),
    "webhook": ({"options": {"on_failure": {"webhook": "https://h/x"}}}, r"task 'fusiond.webhook' may not"),
    "neither": ({"options": {"on_failure": "echo"}}, r"on_failure: 'echo' is neither"),
    "unknown": ({"task": "unify"}, r"in no daemon's file"),
    "broken": ({"args": "[1"}, r"args: this is not JSON"),
    "object": ({"args": "{}"}, r"args: this is no array"),
    "array": ({"kwargs": "[]"}, r"kwargs: this is no object"),
    "deep": ({"args": "[" * 5000 + "]" * 5000}, r"args: |nested"),
    "nan": ({"args": "[NaN]"}, r"cannot be stored as JSON"),
    "option": ({"options": {"dely": 3}}, r"there is no 'dely'.*delay"),
    "value": ({"options": {"delay": "soon"}}, r"delay: "),
    "strange": ({"options": {"after": 3}}, r"after: "),
    "no id!": ({}, r"job id 'no id!'"),
    "large": ({"args": ["x" * 1_100_000]}, r"at most 1048576 are allowed"),
    "larger": ({"args": ["x" * 4_300_000]}, r"more than 4194304 bytes"),
    "meta": ({"options": {"meta": {"a": "x" * 1_100_000}}}, r"meta .*at most 1048576 are allowed"),
    "name": ({"task": "x" * 100_000}, r"task '?x+…?.* may not be enqueued"),
}


def test_a_row_of_which_there_can_be_no_job_keeps_back_no_other(station):
    """It stays, with the reason; the log, the events and the state of the outbox tell."""
    # as a table of one's own may be, without the checks of ours
    station.execute(LOOSE)
    station.run(station.broker.keep_events(DAEMONS, "1000 0"))
    station.insert(*({"id": id_} | row for id_, (row, _) in BAD.items()))
    if "sqlite" in station.outbox.url:
        station.execute("UPDATE fusion_outbox SET args = CAST(X'5B22FF225D' AS TEXT) WHERE id = 'forbidden'")
    station.insert(id="good")
    station.relay()
    until(lambda: "good" in station.queued())
    until(lambda: (state := station.state()) and state.refused == len(BAD))
    for id_, (_, because) in BAD.items():
        assert re.search(because, station.rows()[id_][1]), (id_, station.rows()[id_])
    assert {row.id for row in station.state().rows} == BAD.keys()
    told = [event.name for event in station.run(station.broker.events_before(DAEMONS, None, 99)).events]
    assert "outbox.refused" in told


LOOSE = """
    DROP TABLE fusion_outbox;
    CREATE TABLE fusion_outbox (
        id text, task text, args text DEFAULT '[]', kwargs text DEFAULT '{}', options text DEFAULT '{}',
        created_at timestamp with time zone DEFAULT CURRENT_TIMESTAMP, queue text DEFAULT '',
        refused_at timestamp with time zone, refused_because text, more text
    )
"""


def test_a_row_may_be_from_any_time(station):
    """However strange, it keeps back no other, also in a queue that was full; and its age can be shown."""
    strange = ("infinity", "-infinity", "20000-01-01", "4713-01-01 BC")
    values = strange if "postgresql" in station.outbox.url else (9e999, -9e999, "x", b"x")
    station.run(station.broker.configure("default", tasks={}, max_length=1))
    with contextlib.closing(station.connect()) as connection:
        for number, at in enumerate(values):
            mark = "%s" if "postgresql" in station.outbox.url else "?"
            connection.execute(
                f"INSERT INTO fusion_outbox (id, task, created_at) VALUES ('{number}', 'echo', {mark})", [at]
            )
        connection.commit()
    station.insert(id="a")
    station.relay()
    until(lambda: len(station.rows()) == 4)
    until(lambda: (state := station.state()) and state.oldest > 10**9 and span(state.oldest))
    station.run(station.broker.configure("default", tasks={}))
    until(lambda: not station.rows())
    assert {*station.queued()} == {*"0123a"}


def test_rows_that_stay_when_they_are_deleted_are_told(station, run, broker):
    """A trigger, a rule or row security holds them back. Their markers stay, so that the jobs are not stored again."""
    rule = "RULE stay AS ON DELETE TO fusion_outbox DO INSTEAD NOTHING"
    trigger = "TRIGGER stay BEFORE DELETE ON fusion_outbox BEGIN SELECT RAISE(IGNORE); END"
    is_postgresql = "postgresql" in station.outbox.url
    station.execute(f"CREATE {rule if is_postgresql else trigger}")
    station.insert(id="a")
    station.relay()
    until(lambda: (state := station.state()) and "1 rows of" in state.failing)
    assert run(broker.pending_handed("default", "shop", 0)) == ["a"]
    station.execute("DROP RULE stay ON fusion_outbox" if is_postgresql else "DROP TRIGGER stay")
    until(lambda: not station.rows())
    assert station.queued() == ["a"]


def test_a_changed_file_tries_refused_rows_again(station, allow):
    """What it permits now becomes a job; the rest stays refused."""
    station.insert({"id": "a", "task": "other"}, {"id": "b", "task": "nothing"})
    relay = station.relay()
    until(lambda: len(station.rows("refused_because IS NOT NULL")) == 2)
    allow(tasks=("echo", "other"))
    relay.apply()
    until(lambda: station.queued() == ["a"])
    until(lambda: [*station.rows("refused_because IS NOT NULL")] == ["b"])


def test_a_task_that_is_not_published_yet_waits(station):
    """Between a reload and the catalogue that follows it, a row is not refused."""
    station.tasks["unit"] = Task("unit", "a.e")
    station.insert({"id": "early", "task": "unit"}, {"id": "a"})
    station.relay()
    until(lambda: station.queued() == ["a"])
    until(lambda: station.rows() == {"early": ("", None)})
    station.publish()
    until(lambda: station.queued() == ["a", "early"])


def test_a_full_queue_keeps_back_its_own_rows_only(station):
    """They keep their order, and become jobs as there is room."""
    station.tasks["uniform"] = Task("uniform", "a.f", queue="second")
    station.publish()
    station.run(station.broker.configure("default", tasks={}, max_length=3))
    station.insert(*({"id": f"a{number}"} for number in range(8)))
    station.relay()
    until(lambda: len(station.rows()) == 5)
    station.insert({"id": "a8"}, {"id": "other", "task": "uniform"})
    until(lambda: station.queued("second") == ["other"])
    assert station.queued() == ["a0", "a1", "a2"]
    station.run(station.broker.configure("default", tasks={}))
    until(lambda: not station.rows())
    assert station.queued() == [f"a{number}" for number in range(9)]


def test_a_row_keeps_its_queue_over_a_change_of_the_file(station, monkeypatch):
    """It was assigned, and not stored; then the task moves to another queue. The job is in one of them."""
    monkeypatch.setattr(row_carrier.RowCarrier, "_store", gone)
    station.insert(id="a")
    first = station.relay("first")
    until(lambda: station.rows() == {"a": ("default", None)})
    first.close()
    monkeypatch.undo()
    station.tasks["echo"] = Task("echo", "a.b", queue="second")
    station.publish()
    station.relay("second")
    until(lambda: not station.rows())
    assert (station.queued(), station.queued("second")) == (["a"], [])


async def gone(*_):
    """What a program does that is killed here: nothing more."""
    raise BrokerUnavailable("killed")


@pytest.mark.parametrize("step", ["_confirm", "_delete"])
def test_a_row_that_was_stored_and_not_deleted_is_not_stored_again(station, redis, monkeypatch, step):
    """The job may have ended and be forgotten by then: the marker tells."""
    monkeypatch.setattr(row_carrier.RowCarrier, step, gone)
    station.insert(id="a")
    first = station.relay("first")
    until(lambda: station.queued() == ["a"])
    first.close()
    redis("DEL", "test:{default}:job:a", "test:{default}:queue")
    monkeypatch.undo()
    station.relay("second")
    until(lambda: not station.rows())
    assert station.queued() == []


def test_markers_without_a_row_end(station, run, broker, redis):
    """A program was killed between its DELETE and the end of the markers."""
    now, _ = run(broker.confirm_handed("default", "shop", ()))
    for id_ in ("gone", "there"):
        run(broker.enqueue_handed("default", "shop", [NewJob(id_, "echo", b"[[],{}]")], now + 9999))
    station.insert({"id": "there"})
    station.relay()
    until(lambda: not station.rows())
    until(lambda: not run(broker.pending_handed("default", "shop", 0)))
    assert {*redis("ZRANGE", "test:{default}:handed:shop", 0, -1)} == {b"gone", b"there"}


def test_a_redis_that_has_lost_the_jobs_gets_them_again(station, redis, monkeypatch):
    """It was started from an older file between the enqueue and the confirmation: rows are still there."""
    confirm = row_carrier.RowCarrier._confirm

    async def lose(carrier, parts):
        monkeypatch.undo()
        redis("DEL", "test:{default}:handed:shop", "test:{default}:job:a", "test:{default}:queue")
        return await confirm(carrier, parts)

    monkeypatch.setattr(row_carrier.RowCarrier, "_confirm", lose)
    station.insert(id="a")
    station.relay()
    until(lambda: not station.rows())
    assert station.queued() == ["a"]


def test_a_transaction_that_commits_late_is_not_passed_over(station):
    """Its rows are older than many that were handed over before."""
    if "sqlite" in station.outbox.url:
        pytest.skip("SQLite has one writer at a time")
    with contextlib.closing(station.connect()) as late:
        station.insert_with(late, id="late")
        station.insert(*({"id": f"a{number}"} for number in range(5)))
        station.relay()
        until(lambda: len(station.queued()) == 5)
        late.commit()
        until(lambda: len(station.queued()) == 6)


def test_one_of_two_daemons_hands_over(station):
    """The other one takes its place when it ends."""
    first = station.relay("first")
    until(station.state)
    second = station.relay("second")
    station.insert(id="a")
    until(lambda: station.queued() == ["a"])
    assert first.relay._holds
    assert not second.relay._holds
    first.close()
    station.insert(id="b")
    until(lambda: station.queued() == ["a", "b"])
    assert second.relay._holds


def test_a_relay_that_rarely_looks_keeps_its_lease(station, allow, monkeypatch):
    """And says of its rows what is so, however long `poll` is."""
    monkeypatch.setattr(relay, "HOLD", 0.05)
    monkeypatch.setattr(relay, "_COUNT", 0.1)
    allow(poll=600.0)
    station.insert(id="a")
    station.relay()
    until(lambda: station.queued() == ["a"] and not station.rows())
    until(lambda: not station.state().waiting)
    at = station.state().at
    until(lambda: station.state().at > at + 0.5)


def test_rows_that_another_relay_has_left_are_handed_over(station, redis, monkeypatch):
    """A relay that was frozen assigns rows to a queue, and stores none of them, after another one has begun."""
    monkeypatch.setattr(relay, "_COUNT", 0.05)
    station.insert(id="first")
    station.relay()
    until(lambda: not station.rows())
    station.insert(id="left", queue="default")
    until(lambda: not station.rows())
    assert station.queued() == ["first", "left"]
    # and new rows do not wait behind it any more
    carrier = station.relays[0].relay._carrier
    until(lambda: carrier.queues_left == [])


def test_a_relay_that_was_frozen_begins_again(station, monkeypatch):
    """Another one may have had the lease, and have left rows that this one knows nothing of."""
    monkeypatch.setattr(relay, "_COUNT", 3600.0)
    frozen = station.relay()
    station.insert(id="first")
    until(lambda: not station.rows())
    known = frozen.relay._carrier
    station.insert(id="left", queue="default")
    frozen.loop.call_soon_threadsafe(setattr, frozen.relay, "_held_until", 0.0)
    until(lambda: not station.rows())
    assert frozen.relay._carrier is not known


def test_a_database_that_is_away_delays_rows(station, tmp_path, allow):
    """It is told once, and that it works again; nothing else depends on it."""
    url, path = station.outbox.url, tmp_path / "url"
    station.run(station.broker.keep_events(DAEMONS, "1000 0"))
    path.write_text(url.replace("shop.db", "none.db") if "sqlite" in url else url.replace("postgres@", "nobody@"))
    allow(url=None, url_file=str(path))
    station.relay()
    until(lambda: (state := station.state()) and state.failing)
    station.insert(id="a")
    (tmp_path / "fresh").write_text(url)
    (tmp_path / "fresh").replace(path)  # whole at once, as a password that was changed
    until(lambda: station.queued() == ["a"])
    until(lambda: not station.state().failing)
    told = [event.name for event in station.run(station.broker.events_before(DAEMONS, None, 99)).events]
    assert told == ["outbox.fails", "outbox.delivers"]


def test_a_table_that_is_not_there_is_named(station):
    """With the command that prints it."""
    station.execute("DROP TABLE fusion_outbox")
    station.relay()
    until(lambda: (state := station.state()) and "`fusiond outbox init` prints" in state.failing)
    said = station.state().failing
    assert ("fusion_outbox" in said, "LINE" in said) == (True, False)


def test_a_new_file_of_sqlite_takes_the_place_of_the_old_one(station, tmp_path):
    """In development it is deleted and made again, while the relay runs."""
    if "postgresql" in station.outbox.url:
        pytest.skip("a database of PostgreSQL is no file that could be replaced")
    station.relay()
    station.insert(id="a")
    until(lambda: not station.rows())
    (tmp_path / "shop.db").unlink()
    sqlite3.connect(tmp_path / "shop.db").close()
    station.execute(migration(station.outbox, "sql", is_postgresql=False))
    station.insert(id="b")
    until(lambda: station.queued() == ["a", "b"])


def test_bytes_where_a_text_is_meant_are_refused(station):
    """SQLite stores them as they are."""
    if "postgresql" in station.outbox.url:
        pytest.skip("PostgreSQL has no bytes in a text")
    station.execute("INSERT INTO fusion_outbox (id, task) VALUES (x'61', x'6563686f'), ('b', x'6563686f')")
    station.insert(id="good")
    station.relay()
    until(lambda: station.queued() == ["good"])
    until(lambda: (state := station.state()) and state.refused == 2)


def test_a_database_that_takes_no_write_is_told(station):
    """Before a row is handed over that could not be deleted."""
    if "sqlite" in station.outbox.url:
        pytest.skip("a file of SQLite that cannot be written is written by root all the same")
    name = station.connect().info.dbname
    with contextlib.closing(station.connect()) as connection:
        connection.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
        connection.commit()
    station.relay()
    until(lambda: (state := station.state()) and "read-only" in state.failing)


def test_many_rows_are_handed_over_a_few_at_a_time(station):
    """Large ones, too: some at a time are in memory."""
    big = {"args": ["x" * 200_000]}
    station.insert(*({"id": f"a{number}"} for number in range(1200)), *({"id": f"b{n}"} | big for n in range(20)))
    station.relay()
    until(lambda: not station.rows())
    assert len(station.queued()) == 1220
    job = station.run(station.broker.job("default", "b0"))
    assert len(job.args) > 200_000


def test_a_unique_job_that_exists_stands_for_the_row(station):
    """As a client's call would return it; where that is an error, the row is refused."""
    station.tasks["unique"] = Task("unique", "a.b", unique=Unique(("kwargs.u",), "ended"))
    station.tasks["unite"] = Task("unite", "a.b", unique=Unique(("kwargs.u",), "ended", on_conflict="refuse"))
    station.publish()
    station.insert(
        *({"id": f"{task}{n}", "task": task, "kwargs": {"u": 1}} for task in ("unique", "unite") for n in "12")
    )
    station.insert(id="a")
    station.relay()
    until(lambda: len(station.queued()) == 3)
    until(lambda: len(station.rows()) == 1)
    assert "exists already" in station.rows()["unite2"][1]


def test_a_row_may_wait_for_another_job(station):
    """`after` brings the callback of the job that it waits for."""
    station.insert({"id": "first"})
    station.insert({"id": "second", "options": {"after": ["default/first"]}})
    station.relay()
    until(lambda: not station.rows())
    assert station.run(station.broker.job("default", "second")).status is JobStatus.DEFERRED
    assert station.run(station.broker.job("default", "first")).status is JobStatus.QUEUED


def test_a_notification_wakes_the_relay(station, allow):
    """Long before it would look by itself; a connection that is ended is replaced."""
    if "sqlite" in station.outbox.url:
        pytest.skip("SQLite notifies nobody")
    allow(wake="notify", poll=600.0)
    station.execute(migration(station.outbox, "sql", is_postgresql=True))
    relay = station.relay()
    until(lambda: relay.relay._listener is not None)
    station.insert(id="a")
    until(lambda: station.queued() == ["a"])
    with contextlib.closing(station.connect()) as connection:
        connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'")
        connection.commit()
    until(lambda: relay.relay._listener is not None and not relay.relay._listener.is_lost)
    station.insert(id="b")
    until(lambda: station.queued() == ["a", "b"])


def test_a_table_that_notifies_nobody_is_polled(station, allow, caplog):
    """The file says `wake: notify`, and the trigger was not made. A trigger that is made later counts."""
    if "sqlite" in station.outbox.url:
        pytest.skip("SQLite notifies nobody")
    allow(wake="notify")
    relay = station.relay()
    station.insert(id="a")
    until(lambda: not station.rows())
    assert caplog.text.count("has no trigger for `wake: notify`") == 1
    station.execute(migration(station.outbox, "sql", is_postgresql=True))
    until(lambda: relay.relay._listener is not None)


def test_behind_a_pooler_rows_are_polled(station, request, allow, caplog, monkeypatch):
    """In transaction mode PgBouncer passes on no notification."""
    if "sqlite" in station.outbox.url:
        pytest.skip("SQLite has no pooler")
    monkeypatch.setattr(relay, "_LISTENING", 600.0)
    allow(wake="notify")
    station.execute(migration(station.outbox, "sql", is_postgresql=True))
    with pooled(request.getfixturevalue("postgres"), request.getfixturevalue("database")) as url:
        allow(url=url)
        running = station.relay()
        until(lambda: running.relay._listener is not None)
        station.insert(id="a")
        until(lambda: station.queued() == ["a"])
        running.close()
    assert "leads to a pooler" in caplog.text


@contextlib.contextmanager
def pooled(server, name):
    """The address of a PgBouncer in front of the database."""
    program, port = shutil.which("pgbouncer", path="/usr/sbin:/usr/bin"), free_port()
    if program is None:
        pytest.skip("this machine has no pgbouncer; install it")
    file = server.directory / f"pgbouncer-{port}.ini"
    file.write_text(
        f"[databases]\n{name} = host={server.directory} port={server.port} user=postgres\n"
        "[pgbouncer]\nauth_type = any\n"
        f"listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\npool_mode = transaction\n"
    )
    with subprocess.Popen([program, "-q", file], preexec_fn=end_with_parent, **server._as) as process:  # noqa: PLW1509
        until(lambda: socket.socket().connect_ex(("127.0.0.1", port)) == 0)
        yield f"postgresql+psycopg://postgres@127.0.0.1:{port}/{name}"
        process.terminate()


def test_a_command_waits_for_a_lock_no_longer_than_it_says(station):
    """Somebody else has a transaction open that holds the table."""
    if "sqlite" in station.outbox.url:
        pytest.skip("SQLite waits for its one writer for 5 s")
    with contextlib.closing(station.connect()) as other:
        other.execute("LOCK TABLE fusion_outbox")
        with pytest.raises(OutboxError, match="lock timeout"):
            Table(station.outbox, lock_timeout=1).retry()


def test_old_receipts_are_deleted(station, allow):
    """When they are older than `receipt_ttl`."""
    allow(receipt_ttl=60.0)
    station.execute("INSERT INTO fusion_receipts (id, round) VALUES ('new', 1), ('old', 1)")
    hour = "interval '1 hour'" if "postgresql" in station.outbox.url else "3600"
    station.execute(f"UPDATE fusion_receipts SET created_at = created_at - {hour} WHERE id = 'old'")
    station.relay()

    def left():
        with contextlib.closing(station.connect()) as connection:
            return connection.execute("SELECT id FROM fusion_receipts").fetchall()

    until(lambda: left() == [("new",)])


def test_jobs_that_redis_cannot_store_keep_back_no_others(station, redis):
    """A key of their queue is of another type: each row is refused with the reason, and other queues go on."""
    redis("SET", "test:{default}:queue", "not a set")
    station.tasks["uniform"] = Task("uniform", "a.f", queue="second")
    station.publish()
    station.insert({"id": "a"}, {"id": "b"}, {"id": "c"}, {"id": "other", "task": "uniform"})
    station.relay()
    until(lambda: station.queued("second") == ["other"])
    until(lambda: len(station.rows("refused_because LIKE '%of another type than ours%'")) == 3)


def test_rows_are_deleted_once_the_disk_has_their_jobs(station, redis, allow, monkeypatch):
    """A Redis without an append-only file takes none; with one, the row stays until it is written."""
    allow(durability="fsync")
    station.insert(id="a")
    station.relay()
    until(lambda: (state := station.state()) and "append-only" in state.failing)
    assert station.queued() == []
    try:
        redis("CONFIG", "SET", "appendonly", "yes", "appendfsync", "everysec")
        until(lambda: not station.rows())
        assert station.queued() == ["a"]
    finally:
        redis("CONFIG", "SET", "appendonly", "no", "appendfsync", "no")
