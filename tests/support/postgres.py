"""A real PostgreSQL that a test can kill and start again, in a directory of its own; its databases, each for a test."""

import contextlib
import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path
from uuid import uuid4

import pytest

from tests.support.replicas import free_port
from tests.support.running import alive, end_with_parent, until

#: where Debian's packages have the programs, none of which is on PATH there
_DEBIAN = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name), reverse=True)
_PATH = os.pathsep.join([os.environ.get("PATH", ""), *map(str, _DEBIAN)])
#: whom the server runs as where the tests run as root, whom it refuses
_USER = "nobody"
#: the role that may do everything
ADMIN = "postgres"


def missing():
    """Why this machine cannot run a server; empty if it can."""
    lost = [name for name in ("initdb", "postgres") if not shutil.which(name, path=_PATH)]
    return f"this machine has no {' and no '.join(lost)}; install PostgreSQL's server" if lost else ""


class Postgres:
    """On a Unix socket in its directory, and on a port of loopback; it trusts everyone, and dies with this process."""

    def __init__(self, **settings):
        """`settings`: of postgresql.conf, such as `wal_level`. It survives a kill as it is, but not a power cut."""
        self.directory = Path(tempfile.mkdtemp(prefix="fusiond-postgres-", dir="/tmp"))
        self._as = {}
        if os.geteuid() == 0:
            account = pwd.getpwnam(_USER)
            os.chown(self.directory, account.pw_uid, account.pw_gid)
            self._as = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        self.data, self.process = self.directory / "data", None
        # Shared memory of the system would outlive a server that is killed.
        own = {"fsync": "off", "listen_addresses": "127.0.0.1", "dynamic_shared_memory_type": "mmap"}
        self.settings = {**own, **settings}
        options = ("--username", ADMIN, "--auth", "trust", "--encoding", "UTF8", "--no-locale", "--no-sync")
        self._run("initdb", *options, "--pgdata", str(self.data))
        self.port = free_port()  # the kernel gives none such to a connection, before the start or while it is killed

    def start(self):
        """Start it, or again; returns when it answers."""
        words = [shutil.which("postgres", path=_PATH), "-D", self.data, "-p", str(self.port), "-k", self.directory]
        words += [f"--{name}={value}" for name, value in self.settings.items()]
        with (self.directory / "log").open("ab") as log:
            self.process = subprocess.Popen(
                words, cwd=self.directory, stdout=log, stderr=log,
                preexec_fn=end_with_parent,  # noqa: PLW1509
                **self._as,
            )  # fmt: skip
        until(self._answers, self.text)
        return self

    def url(self, database=ADMIN, user=ADMIN, *, by="socket"):
        """For SQLAlchemy, as the file has it; `by`: socket or port."""
        at = (
            f"127.0.0.1:{self.port}/{database}"
            if by == "port"
            else f"/{database}?host={self.directory}&port={self.port}"
        )
        return f"postgresql+psycopg://{user}@{at}"

    def connect(self, database=ADMIN, user=ADMIN, *, autocommit=True):
        """A connection of psycopg."""
        import psycopg  # here, since few of the tests need it

        return psycopg.connect(
            host=str(self.directory), port=self.port, dbname=database, user=user, autocommit=autocommit
        )

    @contextlib.contextmanager
    def database(self):
        """The name of a new database, which is gone afterwards with whoever is connected to it."""
        name = f"test_{uuid4().hex}"
        with self.connect() as connection:
            connection.execute(f'CREATE DATABASE "{name}"')
        try:
            yield name
        finally:
            with self.connect() as connection:
                connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')

    def kill(self):
        """Kill -9; returns when what it has forked has ended, too, as only then it can be started again."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        self.process.kill()
        self.process.wait()
        until(lambda: not any(alive(int(pid)) for pid in children), self.text)

    def remove(self):
        """End it, and delete what it has."""
        if self.process is not None and self.process.poll() is None:
            self.kill()
        shutil.rmtree(self.directory)

    def text(self):
        """Its log."""
        return (self.directory / "log").read_text()

    def _answers(self):
        assert self.process.poll() is None, self.text()
        from psycopg import OperationalError

        with contextlib.suppress(OperationalError), self.connect():
            return True
        return False

    def _run(self, program, *words):
        done = subprocess.run(
            [shutil.which(program, path=_PATH), *words],
            cwd=self.directory,
            capture_output=True,
            text=True,
            check=False,
            **self._as,
        )
        assert done.returncode == 0, done.stderr


@pytest.fixture(scope="session")
def _postgres():
    """A server for all tests of this process."""
    if why := missing():
        pytest.skip(why)
    server = Postgres()
    try:
        yield server.start()
    finally:
        server.remove()


@pytest.fixture
def postgres(_postgres):
    """That server; a test that kills what this process has started may have killed it."""
    if _postgres.process.poll() is not None:
        _postgres.start()
    return _postgres


@pytest.fixture
def database(postgres):
    """The name of a database of that server, empty, for one test."""
    with postgres.database() as name:
        yield name
