"""An empty PostgreSQL of its own for a measure, with the settings of `initdb`; it answers what a `Server` answers."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from benchmarks import processes
from benchmarks.peers.session import GivenUp


def programs() -> Path | None:
    """The directory of `postgres`, from PATH, else Debian's newest; None where it, `initdb` or `psql` is missing."""
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name), reverse=True)
    found = shutil.which("postgres", path=os.pathsep.join([os.environ.get("PATH", ""), *map(str, debian)]))
    place = Path(found).resolve().parent if found else None
    return place if place and all((place / name).exists() for name in ("initdb", "psql")) else None


def version(place: Path) -> str:
    """`15.18`."""
    words = [str(place / "postgres"), "--version"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()[2]


class Postgres:
    """A cluster in a directory of its own, over a unix socket; gone at the end of the block."""

    def __init__(self) -> None:
        place = programs()
        assert place is not None
        self._place = place
        self._directory = Path(tempfile.mkdtemp(prefix="fb", dir="/tmp"))
        self.url = f"postgresql:///postgres?host={self._directory}&user=bench"
        self._options: dict[str, Any] = {"cwd": self._directory}
        if os.getuid() == 0:  # PostgreSQL refuses to run as root.
            nobody = pwd.getpwnam("nobody")
            os.chown(self._directory, nobody.pw_uid, nobody.pw_gid)
            self._options |= {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}

    def __enter__(self) -> Self:
        with ExitStack() as started:  # ends what was started if Ctrl-C comes before all of it has
            self._start(started)
            self._exit = started.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._exit.close()

    def _start(self, started: ExitStack) -> None:
        started.callback(shutil.rmtree, self._directory)
        log = started.enter_context((self._directory / "log").open("wb"))
        options = self._options | {"stdout": log, "stderr": log}
        initdb = ["-D", "data", "-U", "bench", "-A", "trust", "-E", "UTF8", "--no-sync"]
        making = subprocess.Popen([f"{self._place}/initdb", *initdb], **options)
        started.callback(making.wait)
        started.callback(making.terminate)  # upon which it ends what it has started, so that nothing writes any more
        if making.wait():
            raise GivenUp(f"initdb has failed:\n{self._said()}")
        words = [f"{self._place}/postgres", "-D", "data", "-k", str(self._directory), "-h", ""]
        self._process = subprocess.Popen(words, **options)
        started.callback(self._process.wait)
        # Its immediate shutdown: SIGKILL would leave its shared memory behind.
        started.callback(self._process.send_signal, signal.SIGQUIT)
        psql = [f"{self._place}/psql", "-AtX", "-v", "ON_ERROR_STOP=1", self.url]
        while subprocess.run([*psql, "-c", ""], capture_output=True, check=False).returncode:
            if self._process.poll() is not None:
                raise GivenUp(f"PostgreSQL does not start:\n{self._said()}")
            time.sleep(0.05)
        pipe = subprocess.PIPE
        self._psql: subprocess.Popen[str] = subprocess.Popen(psql, stdin=pipe, stdout=pipe, stderr=log, text=True)
        started.callback(self._psql.wait)
        started.callback(self._psql.kill)

    def ask(self, statement: str) -> str:
        """The one line that it answers. Raises GivenUp."""
        assert self._psql.stdin is not None
        assert self._psql.stdout is not None
        self._psql.stdin.write(f"{statement};\n")
        self._psql.stdin.flush()
        answer = self._psql.stdout.readline().strip()
        if not answer:
            raise GivenUp(f"PostgreSQL does not answer {statement}:\n{self._said()}")
        return answer

    def memory(self) -> int:
        """Bytes that its data take up on the disk."""
        return int(self.ask("SELECT pg_database_size(current_database())"))

    def use(self) -> processes.Use:
        """CPU and memory of all its processes."""
        return processes.use(self._process.pid)["fusiond"]

    def _said(self) -> str:
        return (self._directory / "log").read_text(errors="replace")[-1500:]
