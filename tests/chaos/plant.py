"""A daemon that runs the counted application, and its processes by kind, as the kernel knows them."""

import contextlib
import os
import shutil
import signal
from pathlib import Path

import fusiond
from fusiond.broker.redis.connection import connect
from fusiond.broker.verbs import Verbs
from fusiond.client import Client
from fusiond.config import model
from fusiond.errors import BrokerError
from tests.chaos.package import copy
from tests.support.running import Running, descendants, until

SUPERVISOR, WRAPPER, REDIS, SCHEDULER = "supervisor", "wrapper", "redis", "scheduler"
DISPATCHER, SERVER, CHILD = "dispatcher", "fork server", "child"
KINDS = (CHILD, SERVER, DISPATCHER, SCHEDULER, SUPERVISOR, WRAPPER, REDIS)
QUEUES = ("quick", "slow", "timed")

# Both groups serve both queues: what one has lost, the other must take over. Crashes are the harness' own, and never
# a job's fault.
FILE = """
broker: {{url: embedded}}
retry_policies:
  hardy: {{max_crashes: 1000}}
  once: {{max_attempts: 1, max_crashes: 1000}}
queues: {{quick: {{}}, slow: {{}}, timed: {{}}}}
defaults:
  tasks: {{retry: hardy, pass_job: job, result_ttl: 1h}}
  workers: {{directory: {app}, environment: {{RUNS: {runs}}}, drain_timeout: 2s}}
tasks:
  quick: {{run: work.run, queue: quick}}
  slow: {{run: work.run, queue: slow}}
  flawed: {{run: work.flawed, queue: slow, retry: once}}
  timed: {{run: work.run, queue: timed}}
workers:
  forked: {{queues: "*", processes: {processes}, isolation: fork}}
  reused: {{queues: "*", processes: {processes}, isolation: process}}
"""
#: each tick is a job, however late; EVERY s
ENTRY = "  {name}: {{task: timed, every: 1s, args: [0.0], missed: all, overlap: allow}}\n"
EVERY = 1.0


#: Where the daemon's state lies, so that syncing takes no time. While a disk is slow to sync, Redis answers before it
#: writes (`appendfsync everysec`): killed then, it loses what it has acknowledged, as the docs say.
MEMORY = Path("/dev/shm")


class Plant(Running):
    """The daemon: `with Plant() as plant: plant.start_up()`."""

    def __init__(self, edits=(), *, processes=3, entries=0):
        """`edits`: of package.py; without any it is the real code. `entries`: of cron, each with a tick a second."""
        super().__init__()
        if MEMORY.is_dir():
            self.state = MEMORY / self.directory.name
        self.runs = self.directory / "runs"
        self.runs.touch()
        (self.directory / "flaws").mkdir()
        shutil.copy(Path(__file__).with_name("work.py"), self.app)
        self.entries = [f"every{number}" for number in range(entries)]
        cron = "cron:\n" + "".join(ENTRY.format(name=name) for name in self.entries) if entries else ""
        self.write(FILE.format(app=self.app, runs=self.runs, processes=processes) + cron)
        self.code = copy(self.directory / "code", edits) if edits else Path(fusiond.__file__).parent.parent
        # Whoever starts this may want no byte code; a daemon that is started a thousand times does.
        self.environment = {"PYTHONDONTWRITEBYTECODE": ""} | ({"PYTHONPATH": str(self.code)} if edits else {})
        self.broker = Verbs()
        #: whether `strays` was asked for after its end
        self.judged = False

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        try:
            self.close()
        except AssertionError:
            # What was left is known already, or something else is wrong, which must be heard.
            if kind is None and not self.judged:
                raise

    def start_up(self, *, wait=True):
        """Start it, for the first time or anew; every program is ready then, or nobody waits for them."""
        self.start(environment=self.environment, wait=wait)
        assert not wait or all(program["ready"] for program in self.programs().values()), self.text()

    def client(self):
        """A producer's, once the catalogue is there."""
        until(self._declared, self.text)
        return Client(self.url)

    def _declared(self):
        with contextlib.suppress(BrokerError):
            return set(QUEUES) <= self.run(self.broker.catalogue()).tasks.keys()
        return False

    def run(self, what):
        """Ask Redis."""
        with self.connect() as connection:
            return connection.run(what)

    def connect(self):
        return connect(model.Broker(url=self.url), self.runtime)

    def pids(self, kind):
        """The living processes of a kind, now."""
        return sorted(pid for pid, name in self.kinds().items() if name == kind)

    def kinds(self):
        """Kind by pid."""
        found = {self.process.pid: SUPERVISOR}
        for pid in _children(self.process.pid):
            kind = _program(pid)
            if kind is None:
                continue
            found[pid] = kind
            for below in _children(pid):
                if kind == WRAPPER:
                    found[below] = REDIS
                elif kind == DISPATCHER:
                    found[below] = SERVER
                    found |= dict.fromkeys(_children(below), CHILD)
        return found

    def remember(self):
        """Note what runs, for `strays`."""
        self.seen |= descendants(self.process.pid)

    def strays(self):
        """Living processes that are this daemon's by their directory, their environment or their command line."""
        mark = os.fsencode(self.directory.name)
        processes = [entry for entry in Path("/proc").iterdir() if entry.name.isdigit()]
        return [int(entry.name) for entry in processes if entry.name != str(os.getpid()) and _carries(entry, mark)]

    def close(self):
        """End it, its strays too, whatever state it is in."""
        for pid in self.strays():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        try:
            super().close()
        finally:
            for pid in self.strays():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            shutil.rmtree(self.state, ignore_errors=True)


def _children(pid):
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _program(pid):
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return None
    names = {b"embedded.py": WRAPPER, b"fusiond.schedule\0": SCHEDULER, b"fusiond.worker\0": DISPATCHER}
    return next((kind for word, kind in names.items() if word in words), None)


def _carries(entry, mark):
    try:
        if entry.joinpath("stat").read_text(errors="replace").rpartition(")")[2].split()[0] in "ZX":
            return False
        return mark in os.fsencode(entry.joinpath("cwd").readlink()) or any(
            mark in entry.joinpath(name).read_bytes() for name in ("cmdline", "environ")
        )
    except OSError:
        return False
