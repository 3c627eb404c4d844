"""A daemon with an outbox: its rows run whatever becomes of the file, of the daemon and of the database."""

import contextlib
import sqlite3

from tests.support.fusiond_command import fusiond_here
from tests.support.outbox_tables import tables
from tests.support.running import run_down, until


class Shop:
    """A database with two outboxes, and the numbers of rows that were committed."""

    def __init__(self, daemon):
        self.daemon, self.path, self.committed = daemon, daemon.directory / "shop.db", []

    def create(self):
        with self._connected() as connection:
            for table in ("first", "second"):
                connection.executescript(tables(table=table))

    def body(self, outbox, workers="main: {processes: 2}"):
        """A file with these keys of an outbox; empty: with none."""
        lasting = "memory" if self.daemon.broker_url else "fsync"
        keys = f"tasks: [note], poll: 100ms, durability: {lasting}, {outbox}"
        return self.daemon.body(workers, more=f"outboxes: {{shop: {{{keys}}}}}\n" if outbox else "")

    def insert(self, table, count):
        """Rows of one transaction, each of which leaves a line when it runs."""
        numbers = range(len(self.committed), len(self.committed) + count)
        with self._connected() as connection:
            row = f"INSERT INTO {table} (task, args) VALUES ('note', json_array(?, 0, ?))"
            connection.executemany(row, [(number, str(self.daemon.runs)) for number in numbers])
            connection.commit()
        self.committed += numbers

    def left(self, table):
        """How many rows are not jobs yet."""
        with self._connected() as connection:
            return connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]

    def assert_each_ran_once(self):
        ran = lambda: self.daemon.runs.read_text().splitlines() if self.daemon.runs.exists() else []  # noqa: E731
        run_down(lambda: len(self.committed) - len(ran()), self.daemon.text)
        assert sorted(int(line.split()[0]) for line in ran()) == self.committed

    @contextlib.contextmanager
    def _connected(self):
        with contextlib.closing(sqlite3.connect(self.path, timeout=60)) as connection:
            yield connection


def test_rows_run_over_reloads_and_a_restart(daemon):
    """The outbox comes, gets another table and goes while a job runs, and no program of a group ends for that."""
    shop = Shop(daemon)
    shop.create()
    shop.insert("first", 3)
    daemon.start(shop.body(""))
    daemon.hold("long")
    worker = daemon.pid("worker:main@1")
    url = f"url: 'sqlite:///{shop.path}'"
    daemon.reload(shop.body(f"{url}, table: first"))
    shop.assert_each_ran_once()
    relay = daemon.pid("outbox:shop")
    shop.insert("second", 3)
    daemon.reload(shop.body(f"{url}, table: second"))
    shop.assert_each_ran_once()
    shop.insert("first", 2)
    daemon.reload(shop.body(""))
    until(lambda: "outbox:shop" not in daemon.names(), daemon.names)
    assert (shop.left("first"), daemon.pid("worker:main@1")) == (2, worker)
    daemon.reload(shop.body(f"{url}, table: first"))
    assert daemon.pid("outbox:shop") != relay
    shop.assert_each_ran_once()
    daemon.let_go("long")
    shop.insert("first", 2000)
    daemon.stop()
    shop.insert("first", 3)
    assert shop.left("first") >= 3
    daemon.start()
    shop.assert_each_ran_once()
    run_down(lambda: shop.left("first"), daemon.text)


def test_a_database_that_is_away_is_said_and_keeps_nothing_else_from_running(daemon):
    """The daemon is ready; status and health have a sentence; rows run once the address leads to the database."""
    shop, address = Shop(daemon), daemon.directory / "address"
    address.write_text(f"sqlite:///{shop.path}")
    daemon.start(shop.body(f"url_file: {address}, table: first"))
    daemon.enqueue_notes(1)
    daemon.assert_each_ran_once()
    daemon.runs.unlink()
    sentence = f"outbox 'shop' cannot hand over rows: {shop.path}: unable to open database file"

    def said(*words):
        done = fusiond_here(*words, "-c", daemon.file, cwd=daemon.directory)
        assert done.status == 0, done.err
        return done.out

    until(lambda: sentence in said("health", "--ready"), daemon.text)
    assert said("health", "--ready").startswith("ready\n")
    assert sentence in said("status")
    address.unlink()
    until(lambda: f"{address}: No such file or directory" in said("health", "--live"), daemon.text)
    shop.create()
    shop.insert("first", 2)
    address.write_text(f"sqlite:///{shop.path}")
    shop.assert_each_ran_once()
    until(lambda: said("health", "--ready") == "ready\n", daemon.text)
    daemon.kill(daemon.pid("outbox:shop"))
    shop.insert("first", 1)
    shop.assert_each_ran_once()
