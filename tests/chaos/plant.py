"""A daemon that runs the counted application, and its processes by kind, as the kernel knows them."""

import contextlib
import math
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
from tests.chaos.package import copy, scripts_of
from tests.support.running import MEMORY, Running, descendants, run_down, send, until

SUPERVISOR, WRAPPER, REDIS, SCHEDULER = "supervisor", "wrapper", "redis", "scheduler"
DISPATCHER, SERVER, CHILD, PROGRAMS = "dispatcher", "fork server", "child", "program server"
KINDS = (CHILD, SERVER, DISPATCHER, SCHEDULER, SUPERVISOR, WRAPPER, REDIS, PROGRAMS)
QUEUES = ("quick", "slow", "timed")

# Both groups serve both queues: what one has lost, the other must take over. Crashes are the harness' own, and never
# a job's fault.
FILE = """
broker: {{url: embedded}}
metrics: true
retry_policies:
  hardy: {{max_crashes: 1000}}
  once: {{max_attempts: 1, max_crashes: 1000}}
queues: {{quick: {{}}, slow: {{}}, timed: {{}}}}
defaults:
  tasks: {{retry: hardy, pass_job: job, result_ttl: 1h}}
  workers: {{directory: {app}, environment: {{RUNS: {runs}}}, drain_timeout: 2s}}
tasks:
  quick: {{run: work.run, queue: quick}}
  slow: {{run: work.{slow}, queue: slow}}
  flawed: {{run: work.flawed, queue: slow, retry: once}}
  timed: {{run: work.run, queue: timed}}
workers:
{groups}"""
#: one job at a time in each child
ONE = """\
  forked: {{queues: "*", processes: {processes}, isolation: fork}}
  reused: {{queues: "*", processes: {processes}, isolation: process}}
"""
#: five at once in each of two children: coroutines and functions in one event loop, and each in a thread
MANY = """\
  looped: {{queues: "*", processes: 2, isolation: process, executor: asyncio, concurrency: 5}}
  threaded: {{queues: "*", processes: 2, isolation: process, executor: thread, concurrency: 5}}
"""
#: each tick is a job, however late; EVERY s
ENTRY = "  {name}: {{task: timed, every: 1s, args: [0.0], missed: all, overlap: allow}}\n"
EVERY = 1.0


class Plant(Running):
    """The daemon: `with Plant() as plant: plant.start_up()`."""

    #: tasks and flows of which the catalogue must know before there is a client
    declares = QUEUES

    def __init__(self, edits=(), *, processes=3, entries=0, many=False):
        """
        `edits`: of package.py; without any it is the real code. `entries`: of cron, each with a tick a second.

        `many`: each child runs many jobs at once, and `processes` is not heeded.
        """
        super().__init__()
        # There a Redis that is killed loses nothing that it has acknowledged.
        if MEMORY.is_dir():
            self.state = MEMORY / self.directory.name
        self.runs = self.directory / "runs"
        self.runs.touch()
        (self.directory / "flaws").mkdir()
        shutil.copy(Path(__file__).with_name("work.py"), self.app)
        self.entries = [f"every{number}" for number in range(entries)]
        cron = "cron:\n" + "".join(ENTRY.format(name=name) for name in self.entries) if entries else ""
        groups = (MANY if many else ONE).format(processes=processes)
        slow = "run_awaiting" if many else "run"
        self.write(FILE.format(app=self.app, runs=self.runs, groups=groups, slow=slow) + cron)
        self.code = copy(self.directory / "code", edits) if edits else Path(fusiond.__file__).parent.parent
        # Whoever starts this may want no byte code; a daemon that is started a thousand times does.
        self.environment = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPATH": str(self.code)} if edits else {}
        self.broker = Verbs()
        #: whether `strays` was asked for after its end
        self.judged = False
        self._scripts = scripts_of(self.code)

    def __enter__(self):
        self._scripts.__enter__()
        return self

    def __exit__(self, kind, *_):
        self._scripts.__exit__(None, None, None)
        try:
            self.close()
        except AssertionError:
            # What was left is known already, or something else is wrong, which must be heard.
            if kind is None and not self.judged:
                raise

    def end(self):
        """Stop it once its jobs were judged: what it leaves is no matter of this."""
        self.remember()
        self.stop()
        self.judged = True

    def start_up(self, *, wait=True):
        """Start it, for the first time or again; every program is ready then, or nobody waits for them."""
        self.start(environment=self.environment, wait=wait)
        assert not wait or all(program["ready"] for program in self.programs().values()), self.text()

    def client(self):
        """A producer's, once the catalogue is there."""
        until(self._declared, self.text)
        return Client(self.url)

    def _declared(self):
        with contextlib.suppress(BrokerError):
            catalogue = self.run(self.broker.catalogue())
            declared = catalogue.tasks.keys() | catalogue.flows.keys()
            return declared and declared >= {*self.declares}
        return False

    def left(self, *queues):
        """How many jobs wait or run; `inf` while Redis does not say."""
        with contextlib.suppress(BrokerError):
            counts = [self.run(self.broker.counts(queue)) for queue in queues]
            return sum(each.waiting + each.started for each in counts)
        return math.inf

    def rest(self, *queues, patience=40.0):
        """Until nothing waits or runs in these queues. AssertionError: something does."""
        run_down(lambda: self.left(*queues), lambda: f"{self.left(*queues)} jobs have not ended", patience)

    def run(self, what):
        """Ask Redis."""
        with self.connect() as connection:
            return connection.run(what)

    def connect(self):
        return connect(model.Broker(url=self.url), self.runtime)

    def began_after(self, at):
        """Epoch s of the first job that was begun after that time, or None; of the last lines alone, whole ones."""
        with self.runs.open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - 20_000))
            lines = file.read().decode().split("\n")[1:-1]
        times = (float(line.rpartition(" ")[2]) for line in lines if line.startswith("begin"))
        return next((began for began in times if began > at), None)

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

    def await_all(self, jobs, patience):
        """Until each has ended; AssertionError: for `patience` seconds no more of them did."""
        run_down(lambda: sum(not job.status().ended for job in jobs), "jobs have not ended", patience, step=0.2)

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
        send(signal.SIGCONT, *self.strays())
        try:
            super().close()
        finally:
            send(signal.SIGKILL, *self.strays())
            shutil.rmtree(self.state, ignore_errors=True)


def played(plant, invariant, story):
    """What `story(plant, client)` has found, a sentence each; or that it did not come to its end."""
    with plant:
        plant.start_up()
        try:
            found = sorted(set(story(plant, plant.client())))
        except AssertionError as error:
            found = [f"{invariant} {str(error).splitlines()[0]}"]
        plant.end()
    return found


def _children(pid):
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


#: in the title that the program server gives it, or in the command of a new interpreter
_NAMES = {
    PROGRAMS: (b"fusiond program server:",),
    WRAPPER: (b"fusiond redis:", b"embedded.py"),
    SCHEDULER: (b"fusiond scheduler:", b"fusiond.schedule.__main__"),
    DISPATCHER: (b"fusiond worker:", b"fusiond.worker.__main__"),
}


def _program(pid):
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return None
    return next((kind for kind, names in _NAMES.items() if any(name in words for name in names)), None)


def _carries(entry, mark):
    try:
        if entry.joinpath("stat").read_text(errors="replace").rpartition(")")[2].split()[0] in "ZX":
            return False
        return mark in os.fsencode(entry.joinpath("cwd").readlink()) or any(
            mark in entry.joinpath(name).read_bytes() for name in ("cmdline", "environ")
        )
    except OSError:
        return False
