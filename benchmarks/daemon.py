"""A real daemon in a directory of its own: `fusiond run -c FILE`, started and told as systemd does."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from benchmarks import processes
from fusiond import Client, paths
from fusiond.broker.call import plain
from fusiond.broker.redis.connection import connect
from fusiond.broker.verbs import Verbs
from fusiond.config import model

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: where the `fusiond` of this interpreter is
COMMAND = str(Path(sys.executable).parent / "fusiond")
#: where the jobs' functions are
APP = Path(__file__).parent / "app"
#: the queue that all measures use
QUEUE = "default"
#: seconds that anything may take before the measure is given up
PATIENCE = 120.0

_FILE = """\
version: 1
broker: {{url: "{url}"}}
queues: {{{queues}}}
tasks:
  noop: {{run: bench_tasks.noop}}
  clock: {{run: bench_tasks.clock}}
  mark: {{run: bench_tasks.mark}}
  rest: {{run: bench_tasks.rest}}
  nap: {{run: bench_tasks.nap}}
  doze: {{run: bench_tasks.doze}}
  host: {{run: bench_tasks.host}}
  visit: {{run: bench_tasks.visit}}
{tasks}workers:
{groups}"""
_GROUP = """\
  {name}:
   {{queues: [{queue}], processes: {processes}, isolation: {isolation}, directory: {app},
     environment: {{N: "{seed}"}}{keys}}}
"""


def group(isolation: str, count: int, name: str = "main", seed: str = "", keys: str = "", queue: str = QUEUE) -> str:
    """A worker group, as a line of the file; another `seed` makes it another group to a reload."""
    settled = {"name": name, "queue": queue, "processes": count, "isolation": isolation, "app": APP, "seed": seed}
    return _GROUP.format(**settled, keys=f", {keys}" if keys else "")


def installed() -> dict[str, str]:
    """The environment, in which compiled modules are kept as in any installation."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


class Daemon:
    """One daemon, ready at the begin of the block and gone at its end."""

    def __init__(
        self,
        *groups: str,
        url: str = "embedded",
        reach: str | None = None,
        queues: Sequence[str] = (),
        inside: Sequence[str] = (),
        tasks: str = "",
    ) -> None:
        """
        A daemon with a file of its own.

        Args:
            groups: lines that `group` has made.
            url: of the Redis, as the file has it.
            reach: the same Redis as this process reaches it; None: by `url`.
            queues: further queues that the file declares.
            tasks: lines of further tasks.
            inside: a command that runs another one, in front of the daemon's own: `ip netns exec NAME`.
        """
        self._directory = Path(tempfile.mkdtemp(prefix="fb", dir="/tmp"))
        #: what it runs
        self.file, self._log = self._directory / "fusion.yaml", self._directory / "log"
        runtime = self._directory / "r"
        self.url = f"unix://{paths.redis_socket(runtime)}" if url == "embedded" else reach or url
        #: of the embedded Redis
        self.socket = paths.redis_socket(runtime)
        self._tasks = tasks
        self._written, self._queues = url, ", ".join(f"{name}: {{}}" for name in queues)
        self._words = [*inside, COMMAND, "run", "-c", str(self.file)]
        self.write(*groups)
        self._notified = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._notified.bind(str(self._directory / "notify"))
        self._notified.settimeout(PATIENCE)
        environment = {"STATE_DIRECTORY": str(self._directory / "s"), "RUNTIME_DIRECTORY": str(runtime)}
        self._environment = {**installed(), **environment, "NOTIFY_SOCKET": str(self._directory / "notify")}
        self.broker = Verbs(model.Broker().namespace)
        self.connection = connect(model.Broker(url=self.url), runtime)
        #: seconds from its start until all of its programs were ready
        self.started_in = 0.0

    def __enter__(self) -> Self:
        began = time.monotonic()
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(self._words, stdout=log, stderr=log, env=self._environment)
        try:
            self.await_ready()
            self.started_in = time.monotonic() - began
            self._await_declared()
        except BaseException:  # Ctrl-C, too: the block that would end it has not begun
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()
        self._process.terminate()
        self._process.wait(PATIENCE)
        self._notified.close()
        shutil.rmtree(self._directory)

    def write(self, *groups: str) -> None:
        """Save the file as editors do: written beside, and renamed over it."""
        fresh = self.file.with_suffix(".new")
        fresh.write_text(
            _FILE.format(url=self._written, queues=self._queues, tasks=self._tasks, groups="".join(groups))
        )
        fresh.replace(self.file)

    def await_ready(self) -> None:
        """Until it says READY: after its start, and after each reload."""
        try:
            while b"READY=1" not in self._notified.recv(65536).split(b"\n"):
                pass
        except TimeoutError:
            raise SystemExit(f"the daemon is not ready:\n{self._log.read_text()}") from None

    def _await_declared(self) -> None:
        """A daemon that needs more than 20 s to start, as on a machine that is very busy, says READY before all are."""
        self._await(lambda: "" if self.connection.run(self.broker.catalogue()).tasks else "no task is declared")

    def _await(self, missing: Callable[[], str]) -> None:
        """Until `missing` returns an empty text; after PATIENCE the text ends the benchmark."""
        deadline = time.monotonic() + PATIENCE
        while text := missing():
            if time.monotonic() > deadline:
                raise SystemExit(f"{text}:\n{self._log.read_text()[-2000:]}")
            time.sleep(0.01)

    def use(self) -> dict[str, processes.Use]:
        """CPU and memory of Redis and of all other processes of the daemon."""
        return processes.use(self._process.pid)

    def cpu(self) -> dict[str, float]:
        """Seconds of CPU by kind of process: `dispatcher`, `children`, `other`."""
        return processes.cpu_by_kind(self._process.pid)

    def cpu_of(self, name: str) -> float:
        """Seconds of CPU of one of its programs, such as `outbox:shop`."""
        return processes.cpu_of(self._process.pid, name)

    def group_memory(self, name: str) -> int:
        """Bytes of PSS of the group's dispatcher, its fork server and its children."""
        return processes.group_memory(self._process.pid, f"fusion:{name}")

    def client(self) -> Client:
        """A producer."""
        return Client(self.url)

    def suspend(self, queue: str = QUEUE, *, on: bool) -> None:
        """Have nothing claimed, or let it go on."""
        self.connection.run(self.broker.suspend(queue, by="operator", on=on))

    def finished(self, queue: str = QUEUE) -> int:
        """Jobs that have run and whose results are kept."""
        return self.connection.run(self.broker.counts(queue)).finished

    def await_finished(self, count: int, queue: str = QUEUE) -> None:
        """Until so many jobs are finished."""

        def missing() -> str:
            found = self.finished(queue)
            return "" if found >= count else f"{found} of {count} jobs are finished"

        self._await(missing)

    def await_idle(self, queue: str = QUEUE) -> None:
        """Until no job runs."""

        def missing() -> str:
            running = self.connection.run(self.broker.counts(queue)).started
            return f"{running} jobs still run" if running else ""

        self._await(missing)

    def server(self) -> dict[str, Any]:
        """What INFO says."""
        text = self.connection.run(plain(bytes.decode, "INFO"))
        return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
