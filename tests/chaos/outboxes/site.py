"""Where a story takes place: a database, a Redis, the group that runs the jobs, applications, and two relays."""

import contextlib
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

from fusiond import paths
from fusiond.broker.redis.connection import connect
from fusiond.broker.verbs import Verbs
from fusiond.config.model import Broker, Outbox
from fusiond.errors import BrokerError
from fusiond.outbox.migrations import migration
from tests.chaos import package
from tests.chaos.outboxes.unsynced import SyncedServer
from tests.chaos.package import Edit, copy
from tests.failpoints import HOOK, LOG, VARIABLE
from tests.support.postgres import Postgres
from tests.support.replicas import Sentinels
from tests.support.running import MEMORY, Running, end_with_parent, until

#: s; of the copy: how long a relay holds the outbox; how long after the reading of a row its job may be stored; how
#: long the marker of a deleted row is kept. The second is longer than the first, so that it needs the third
LEASE, IN_TIME, KEPT = 0.8, 2.5, 3.5
SHORTER = (
    *package.SHORTER,
    # Then a job that has ended is gone, and only the marker tells that there was one.
    Edit("schedule/sweeping.py", "PERIOD = 60.0", "PERIOD = 0.2"),
    Edit("broker/lua/shared/endings.lua", "REMEMBERED = 60000", "REMEMBERED = 200"),
    Edit("carrier.py", "LEASE_MS: Final = 15_000", f"LEASE_MS = {LEASE * 1000:.0f}"),
    Edit("carrier.py", "HOLD, STAND_BY = 4.0, 5.0", "HOLD, STAND_BY = 0.25, 0.2"),
    Edit("outbox/relay.py", "_COUNT = 10.0", "_COUNT = 2.0"),
    Edit("outbox/relay.py", "_LONGEST, _PRUNE = 15.0,", "_LONGEST, _PRUNE = 0.5,"),
    Edit("outbox/hand_over.py", "_IN_TIME = 10_000", f"_IN_TIME = {IN_TIME * 1000:.0f}"),
    Edit("broker/lua/end_handed.lua", "KEPT, MOST = 600000,", f"KEPT, MOST = {KEPT * 1000:.0f},"),
)
TASKS = """
import os, time
RUNS = os.open(os.environ["RUNS"], os.O_WRONLY | os.O_APPEND)

def note(job):
    os.write(RUNS, f"{job['id']} {time.time():.3f}\\n".encode())
"""
FILE = """
broker: {{url: '{broker}'}}
tasks: {{note: {{run: notes.note, pass_job: job, result_ttl: 0s}}}}
outboxes: {{shop: {{url: '{database}', tasks: [note], poll: 50ms, durability: {durability}, replicas: 2}}}}
workers: {{main: {{directory: {app}, environment: {{RUNS: {runs}}}, processes: 1, isolation: process}}}}
"""
LEDGER = "CREATE TABLE ledger (id text PRIMARY KEY)"


class PostgresData:
    """A server of its own."""

    def __init__(self):
        self.server = Postgres().start()
        self.url, self.target = self.server.url(), f"host={self.server.directory} port={self.server.port} user=postgres"
        with self.server.connect() as connection:
            connection.execute(migration(Outbox(("*",), url=self.url), "sql", is_postgresql=True) + LEDGER)

    def ids(self, table):
        """What is committed."""
        with self.server.connect() as connection:
            return {id_ for (id_,) in connection.execute(f"SELECT id FROM {table}")}

    def restart(self):
        """Kill it, and start it again."""
        self.server.kill()
        self.server.start()

    def close(self):
        self.server.remove()


class SqliteData:
    """A file."""

    def __init__(self, directory):
        self._path = directory / "shop.db"
        self.url, self.target = f"sqlite:///{self._path}", f"sqlite:{self._path}"
        with contextlib.closing(sqlite3.connect(self._path)) as connection:
            connection.executescript(migration(Outbox(("*",), url=self.url), "sql", is_postgresql=False) + LEDGER)

    def ids(self, table):
        with contextlib.closing(sqlite3.connect(self._path, timeout=30)) as connection:
            return {id_ for (id_,) in connection.execute(f"SELECT id FROM {table}")}

    def restart(self):
        """It has no process."""

    def close(self):
        """It is gone with its directory."""


class FileRedis:
    """One Redis with an append-only file."""

    durability = "fsync"

    def __init__(self, directory, appendfsync):
        self._server, self._sync = SyncedServer(directory), appendfsync
        self.url = self._server.url
        self._start()

    def _start(self):
        self._server.start(appendfsync=self._sync)
        until(self._server.answers, self._server.text)

    def restart(self):
        self._server.kill()
        self._start()

    def lose(self):
        """Have it lose what its disk does not have."""
        self._server.cut()
        self._start()

    def close(self):
        self._server.close()


class WatchedRedis:
    """A primary, two replicas, and Sentinels, without files."""

    durability = "replica"

    def __init__(self):
        self._servers = Sentinels(replicas=2)
        self.url = self._servers.url

    def restart(self):
        """Not without a failover."""

    def lose(self):
        """Have a replica take the place of the primary."""
        self._servers.fail_over()
        until(self._servers.settled)

    def close(self):
        self._servers.close()


class Relay:
    """One of the programs that hand over."""

    def __init__(self, site, number):
        self._site, self._state = site, site.directory / f"relay{number}"
        self._state.mkdir()
        shutil.copy(paths.current_snapshot(site.daemon.state), self._state)
        self.process = None
        #: monotonic s
        self._rests_until = 0.0

    def rest(self, seconds):
        """Kill it, and leave it dead for so long."""
        self.close()
        self._rests_until = time.monotonic() + seconds

    @property
    def rests(self):
        return time.monotonic() < self._rests_until

    def start(self, rule=""):
        """With this failpoint."""
        snapshot = paths.current_snapshot(self._state)
        words = ["--snapshot", snapshot, "--runtime", self._state, "--outbox", "shop"]
        armed = {**HOOK, VARIABLE: rule, LOG: str(self._site.fired)} if rule else {}
        environment = {**os.environ, "PYTHONPATH": str(self._site.code), "PYTHONDONTWRITEBYTECODE": "", **armed}
        with self._site.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "fusiond.outbox", *map(str, words)],
                stdout=log, stderr=log, env=environment, preexec_fn=end_with_parent,  # noqa: PLW1509
            )  # fmt: skip

    @property
    def is_dead(self):
        return self.process is None or self.process.poll() is not None

    def close(self):
        if not self.is_dead:
            self.process.kill()
            self.process.wait()


class Site:
    """All of it; `close` ends it."""

    def __init__(self, edits=(), *, kind="postgresql", redis="file", appendfsync="always"):
        """`edits`: of the relays' code, a mistake · `kind`: postgresql or sqlite · `redis`: file or sentinel."""
        self._stack = contextlib.ExitStack()
        self.daemon = Running()
        self._stack.callback(self.daemon.close)
        self.directory = self.daemon.directory
        self.code = copy(self.directory / "code", (*SHORTER, *edits))
        self.runs, self.tried, self.fired, self.log = (
            self.directory / name for name in ("runs", "tried", "fired", "relays.log")
        )
        for file in (self.runs, self.tried, self.fired):
            file.touch()
        try:
            self.data = self._kept(SqliteData(self.directory) if kind == "sqlite" else PostgresData())
            files = self._stack.enter_context(_in_memory(self.directory.name))
            self.redis = self._kept(WatchedRedis() if redis == "sentinel" else FileRedis(files, appendfsync))
            self._start_group()
            self.relays = [self._kept(Relay(self, number)) for number in range(2)]
        except BaseException:
            self.close()
            raise
        self.broker = Verbs()
        self.applications = []

    def _kept(self, part):
        self._stack.callback(part.close)
        return part

    def _start_group(self):
        (self.daemon.app / "notes.py").write_text(TASKS)
        body = FILE.format(
            broker=self.redis.url, database=self.data.url, durability=self.redis.durability, app=self.daemon.app,
            runs=self.runs,
        )  # fmt: skip
        environment = {"PYTHONPATH": str(self.code), "PYTHONDONTWRITEBYTECODE": ""}
        self.daemon.start(body, "--only", "main", "--only", "scheduler", environment=environment)

    def connect(self):
        return connect(Broker(url=self.redis.url), self.directory, repeats=20)

    def start_application(self, seed, slowest, pause):
        """One more; the arguments of application.py."""
        program = str(Path(__file__).with_name("application.py"))
        words = [sys.executable, "-P", program, self.data.target, self.tried, seed, slowest, pause]
        with self.log.open("ab") as log:
            started = subprocess.Popen(
                list(map(str, words)), stdout=log, stderr=log,
                preexec_fn=end_with_parent,  # noqa: PLW1509
            )  # fmt: skip
        self.applications.append(started)

    def kill_application(self, place=0):
        """One of them."""
        application = self.applications.pop(place)
        application.kill()
        application.wait()

    def transactions(self):
        """How many were begun."""
        return self.tried.read_bytes().count(b"\n")

    def left(self):
        """Rows that are not deleted, and jobs that have not ended; `inf` while Redis does not say."""
        try:
            with self.connect() as connection:
                counts = connection.run(self.broker.counts("default"))
        except BrokerError:
            return float("inf")
        return len(self.data.ids("fusion_outbox")) + counts.waiting + counts.started

    def close(self):
        while getattr(self, "applications", []):
            self.kill_application()
        for relay in getattr(self, "relays", []):
            if not relay.is_dead:
                relay.process.send_signal(signal.SIGCONT)
        self._stack.close()


@contextlib.contextmanager
def _in_memory(name):
    """A directory in which syncing takes no time."""
    directory = (MEMORY if MEMORY.is_dir() else Path("/tmp")) / f"{name}-redis"
    directory.mkdir()
    try:
        yield directory
    finally:
        shutil.rmtree(directory)
