"""An outbox in a real database, SQLite and PostgreSQL, and the relays that hand over its rows to a real Redis."""

import asyncio
import contextlib
import dataclasses
import json
import sqlite3
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from fusiond.config.model import Broker, Config, Outbox, Queue, Task
from fusiond.job import JobStatus
from fusiond.outbox.migrations import migration
from fusiond.outbox.relay import Relay
from fusiond.program import Link
from fusiond.schedule.publishing import catalogue


class Station:
    """A database with the tables of an outbox, and a namespace in which a daemon has published its tasks."""

    def __init__(self, run, broker, server, directory, url, connect):
        self.run, self.broker, self.server, self.directory = run, broker, server, directory
        self.connect = connect
        self.outbox = Outbox(tasks=("echo", "uni*"), url=url, poll=0.05, durability="memory")
        self.tasks = {"echo": Task("echo", "a.b"), "other": Task("other", "a.c"), "late": Task("late", "a.d")}
        self.execute(migration(self.outbox, "sql", is_postgresql=url.startswith("postgresql")))
        self.relays = []

    def execute(self, script):
        """Some statements, as a person would run them."""
        with contextlib.closing(self.connect()) as connection:
            getattr(connection, "executescript", connection.execute)(script)
            connection.commit()

    def insert(self, *rows, **row):
        """Commit rows, each a dict of columns; values that are no text become JSON."""
        with contextlib.closing(self.connect()) as connection:
            for each in rows or (row,):
                self.insert_with(connection, **each)
            connection.commit()

    def insert_with(self, connection, **row):
        row = {"task": "echo"} | row
        words = [each if isinstance(each, str) else json.dumps(each) for each in row.values()]
        mark = "?" if isinstance(connection, sqlite3.Connection) else "%s"
        statement = f"INSERT INTO fusion_outbox ({', '.join(row)}) VALUES ({', '.join([mark] * len(row))})"
        connection.execute(statement, words)

    def rows(self, where="1 = 1"):
        """What is in the table: id → (queue, why it was refused)."""
        with contextlib.closing(self.connect()) as connection:
            found = connection.execute(f"SELECT id, queue, refused_because FROM fusion_outbox WHERE {where}")
            return {id_: (queue, because) for id_, queue, because in found.fetchall()}

    def config(self):
        settings = Broker(url=f"unix://{self.server.path}", namespace="test")
        queues = {"default": Queue("default"), "second": Queue("second")}
        return Config(broker=settings, tasks=self.tasks, queues=queues, outboxes={"shop": self.outbox})

    def publish(self):
        """What the scheduler of a daemon does."""
        config = self.config()
        self.run(self.broker.declare(config.queues))
        self.run(catalogue(self.broker, SimpleNamespace(config=config, hash="h"), "daemon"))

    def relay(self, name="one"):
        """A relay that serves, in a thread of its own, until `close`."""
        relay = RelayThread(self, name)
        self.relays.append(relay)
        return relay

    def queued(self, queue="default"):
        """The ids of jobs that wait."""
        return self.run(self.broker.ids(queue, JobStatus.QUEUED))

    def state(self):
        return self.run(self.broker.outboxes()).get("shop")

    def close(self):
        for relay in self.relays:
            relay.close()


class RelayThread:
    """One relay of a daemon of its own."""

    def __init__(self, station, name):
        directory = station.directory / name
        directory.mkdir(exist_ok=True)
        self.station, self._path = station, directory / "snapshot.json"
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._thread.start()
        assert self._ready.wait(30)

    async def _serve(self):
        self.relay = Relay(self._snapshot(), "shop", Link(), Path("/"))
        self.loop = asyncio.get_running_loop()
        self._ready.set()
        await self.relay.serve()

    def _snapshot(self):
        return SimpleNamespace(config=self.station.config(), path=self._path)

    def apply(self):
        """The file of the station as it is now."""

        def take():
            self.relay._next_config = self.station.config()
            self.relay._changed.set()

        self.loop.call_soon_threadsafe(take)

    def close(self):
        if self._thread.is_alive():
            self.loop.call_soon_threadsafe(self.relay.end)
            self._thread.join(30)
            assert not self._thread.is_alive()


@pytest.fixture(params=["sqlite", "postgresql"])
def station(request, run, broker, redis_server, tmp_path):
    """With an outbox `shop`; the file of its daemon allows `echo` and what begins with `uni`."""
    if request.param == "sqlite":
        path = tmp_path / "shop.db"
        sqlite3.connect(path).close()
        url, connect = f"sqlite:///{path}", lambda: sqlite3.connect(path, timeout=20)
    else:
        server, name = request.getfixturevalue("postgres"), request.getfixturevalue("database")
        url, connect = server.url(name), lambda: server.connect(name, autocommit=False)
    station = Station(run, broker, redis_server, tmp_path, url, connect)
    station.publish()
    yield station
    station.close()


@pytest.fixture
def allow(station):
    """Change the outbox of the file."""

    def allow(**keys):
        station.outbox = dataclasses.replace(station.outbox, **keys)

    return allow
