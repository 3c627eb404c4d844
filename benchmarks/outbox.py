"""
How quickly committed rows of PostgreSQL become jobs, and what the program of an outbox takes without rows.

Named only, as it needs PostgreSQL's programs. The database has the settings of `initdb`, the embedded Redis its own.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg

from benchmarks.daemon import PATIENCE, QUEUE, Daemon, group
from benchmarks.figures import Figure, percentile
from benchmarks.peers.postgres import Postgres, programs
from fusiond.config.model import Outbox
from fusiond.outbox.migrations import migration

if TYPE_CHECKING:
    from collections.abc import Iterator

#: s between two commits
_APART = 0.03


def measure(scale: float = 1.0) -> Iterator[Figure]:
    """Rows/s from a backlog into a suspended queue; commit → start of 200 rows; CPU over 30 s without rows."""
    if programs() is None:
        raise SystemExit("outbox: this machine has no PostgreSQL; install its server")
    with Postgres() as postgres, psycopg.connect(postgres.url, autocommit=True) as connection:
        for wake in ("notify", "poll"):
            outbox = Outbox(("noop", "mark"), url=postgres.url, wake=wake)
            for table in ("fusion_outbox", "fusion_receipts"):
                connection.execute(f"DROP TABLE IF EXISTS {table}".encode())
            connection.execute(migration(outbox, "sql", is_postgresql=True).encode())
            text = f"outboxes:\n  shop: {{url: '{postgres.url}', tasks: [noop, mark], wake: {wake}}}\n"
            with Daemon(group("process", 2), text) as daemon:
                if wake == "notify":
                    yield _backlog(daemon, connection, int(100_000 * scale))
                yield from _starts(connection, wake, int(200 * scale))
                yield _idle(daemon, wake, 30 * scale)


def _backlog(daemon: Daemon, connection: psycopg.Connection, rows: int) -> Figure:
    """Rows/s, from the commit of all until the last one is deleted."""
    daemon.suspend(on=True)
    arguments = "json_build_array('+49301234567', '4711')::text"
    connection.execute(
        f"INSERT INTO fusion_outbox (task, args) SELECT 'noop', {arguments} FROM generate_series(1, {rows})".encode()
    )
    began = time.monotonic()
    while connection.execute("SELECT EXISTS (SELECT 1 FROM fusion_outbox)").fetchone() == (True,):
        if time.monotonic() - began > PATIENCE:
            raise SystemExit("rows are left")
        time.sleep(0.02)
    seconds = time.monotonic() - began
    queued = daemon.connection.run(daemon.broker.counts(QUEUE)).queued
    daemon.connection.run(daemon.broker.purge(QUEUE))
    daemon.suspend(on=False)
    return Figure("outbox, backlog", rows / seconds, "rows/s", note=f"{queued} jobs")


def _starts(connection: psycopg.Connection, wake: str, rows: int) -> Iterator[Figure]:
    """Milliseconds from before the commit to the first line of the function."""
    with tempfile.NamedTemporaryFile(prefix="fb", dir="/tmp") as file:
        for _ in range(rows):
            words = (f'[{time.monotonic()}, "{file.name}"]',)
            connection.execute("INSERT INTO fusion_outbox (task, args) VALUES ('mark', %s)", words)
            time.sleep(_APART)
        began = time.monotonic()
        while len(waits := Path(file.name).read_text().split()) < rows:
            if time.monotonic() - began > PATIENCE:
                raise SystemExit("rows are left")
            time.sleep(0.02)
    for share, percent in ((0.5, "p50"), (0.99, "p99")):
        value = percentile([float(each) * 1e3 for each in waits], share)
        yield Figure(f"outbox, {wake}, commit → start, {percent}", value, "ms", note=f"{rows} rows")


def _idle(daemon: Daemon, wake: str, seconds: float) -> Figure:
    """CPU of the outbox's program."""
    time.sleep(2)
    before, began = daemon.cpu_of("outbox:shop"), time.monotonic()
    time.sleep(seconds)
    share = (daemon.cpu_of("outbox:shop") - before) / (time.monotonic() - began) * 100
    return Figure(f"outbox, {wake}, idle", share, "% of a core", note=f"{seconds:.0f} s")
