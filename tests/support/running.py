"""A real daemon for a test: started, steered through its file and its control socket, and gone afterwards."""

import contextlib
import ctypes
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from fusiond import paths
from fusiond.errors import ControlError
from fusiond.locate.control import ask
from tests.support.status_documents import misfits
from tests.support.warm import is_enough, warm

REAL = (sys.executable, "-P", "-m", "fusiond.cli")
STANDINS = Path(__file__).parent / "standins"
STANDIN = (sys.executable, str(STANDINS / "standin_daemon.py"))
#: what a fork of a warm process runs in their place
ENTRIES = {REAL: "fusiond.cli:main", STANDIN: STANDIN[1]}
PR_SET_PDEATHSIG = 1
#: seconds that a state may take to come on a busy machine
PATIENCE = 60.0
#: For the files of a Redis that is killed, so that syncing takes no time. While a disk is slow to sync, Redis answers
#: before it writes (`appendfsync everysec`): killed then, it loses what it has acknowledged, as the docs say.
MEMORY = Path("/dev/shm")


def until(condition, what="", timeout=PATIENCE, step=0.01):
    """
    Poll until `condition()` is true, and return it; after `timeout` seconds fail with `what`, or what it returns.

    `step`: s from one poll to the next; longer where a poll is work for the process that is waited for.
    """
    deadline = time.monotonic() + timeout
    while not (value := condition()):
        assert time.monotonic() < deadline, what() if callable(what) else what or condition
        time.sleep(step)
    return value


def run_down(left, what="", patience=PATIENCE, step=0.02):
    """
    Poll until `left()` is 0; fail with `what` once it has not fallen for `patience` seconds.

    How long all of it takes depends on the machine. `left`: a number; `inf` while nobody can tell.
    """
    least, since = math.inf, time.monotonic()
    while now := left():
        if now < least:
            least, since = now, time.monotonic()
        assert time.monotonic() < since + patience, what() if callable(what) else what or f"{now} are left"
        time.sleep(step)


def end_with_parent():
    """As `preexec_fn`: the process is killed when the one that started it has ended, however that was."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def alive(pid):
    """Whether a process runs: a zombie does not."""
    return born(pid) is not None


def born(pid):
    """When a living process began, in ticks; with its pid, that is one process for ever. None of a dead one."""
    try:
        state, *rest = _stat(pid)
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if state in "ZX" else rest[18]


def sleeps(pid):
    """Whether a process waits for something. One that is ready to run does not: it has work to do."""
    return _stat(pid)[0] == "S"


def _stat(pid):
    """The fields of /proc/<pid>/stat behind the program's name: the state first."""
    return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()


def descriptors(pid):
    """What the process has open besides its standard streams, as the kernel names it; not what it closes meanwhile."""
    names = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            names |= {str(entry.readlink())} if int(entry.name) > 2 else set()
    return names


def descendants(pid):
    """The processes below `pid`, as (pid, born), by this machine's own numbers."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return set()
    found = {(int(child), born(child)) for child in children}
    return {one for one in found if one[1]}.union(*(descendants(child) for child in children))


def send(number, *pids):
    """A signal to each that still lives."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


class Running:
    """One daemon and its directory. Paths are short: a socket's may have 108 bytes."""

    #: the Redis of every daemon whose file says `url: embedded`; None: each has its own
    broker_url = None
    #: the RedisCluster of that address; None: it is none, or not ours to change
    cluster = None
    #: more keys for the file of every daemon
    added = ""

    def __init__(self, command=REAL):
        self.command, self.verb = command, "run"
        self.directory = Path(tempfile.mkdtemp(prefix="fd-", dir="/tmp"))
        self.state, self.runtime, self.app = (self.directory / name for name in ("state", "run", "app"))
        self.app.mkdir()
        self.file, self.log = self.directory / "fusion.yaml", self.directory / "log"
        self.url = self.broker_url or f"unix://{paths.redis_socket(self.runtime)}"
        self.process = None
        #: processes that are this daemon's own, found below it; nothing else is ever signalled at the end
        self.seen = set()

    @property
    def sockets(self):
        """The directory in which it listens."""
        return self.runtime / "dev" if self.verb == "dev" else self.runtime

    @property
    def control(self):
        """Its control socket."""
        return paths.control_socket(self.sockets)

    def head(self):
        """The lines that put everything into the test's own directory."""
        return f"version: 1\nstate_directory: {self.state}\nruntime_directory: {self.runtime}\n"

    def write(self, body):
        """A new file, as an editor that renames writes it."""
        if self.broker_url:
            where = f"{{url: '{self.broker_url}'}}"
            body = body.replace("{url: embedded}", where) if "broker:" in body else f"broker: {where}\n{body}"
        fresh = self.file.with_suffix(".tmp")
        fresh.write_text(self.head() + body + self.added)
        fresh.replace(self.file)

    def start(self, body=None, *arguments, wait=True, environment=None):
        """Start it with this file, and wait until all of its programs are ready, failed or stopped."""
        if body is not None:
            self.write(body)
        with self.log.open("ab") as log:
            self.process = self._begin([self.verb, "-c", str(self.file), *arguments], log, environment)
        if wait:
            until(self._settled, self.text, step=0.05)
        return self

    def _begin(self, words, log, own):
        env = {**os.environ, **(own or {})}
        if is_enough(own) and self.command in ENTRIES:
            words = ["fusiond", *words]
            return warm().start(
                ENTRIES[self.command], words, environment=env, directory=self.directory, out=log, session=True
            )
        return subprocess.Popen(
            [*self.command, *words],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd=self.directory, env=env,
        )  # fmt: skip

    def _settled(self):
        assert self.process.poll() is None, self.text()
        try:
            return self.status()["settled"]
        except ControlError:
            return False

    def text(self):
        """Its log."""
        return self.log.read_text()

    def status(self):
        """What `fusiond status` is made of, which is as its types say; what runs is remembered for the end."""
        self.seen |= descendants(self.process.pid)
        found = ask(self.control, "status", timeout=PATIENCE)
        assert misfits(found) == []
        return found

    def reload(self, body=None):
        """Write the file, ask for a reload, and wait for its outcome."""
        if body is not None:
            self.write(body)
        return ask(self.control, "reload", timeout=90)

    def programs(self):
        """Name → what status says of it."""
        return {program["name"]: program for program in self.status()["programs"]}

    def pid(self, name):
        return self.programs()[name]["pid"]

    def names(self):
        return set(self.programs())

    @property
    def always(self):
        """The programs that it runs whatever the file says."""
        return {"scheduler"} if self.broker_url else {"redis", "scheduler"}

    def heard(self, name):
        """What a stand-in was told, oldest first."""
        path = self.state / f"heard-{name}"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self, pid):
        os.kill(pid, signal.SIGKILL)

    def stop(self, timeout=PATIENCE):
        """SIGTERM, and its exit status."""
        if self.process.poll() is None:
            self.process.terminate()
        return self.process.wait(timeout)

    def children(self):
        """The pids of what was seen below the daemon, or is there now, and still lives."""
        self.seen |= descendants(self.process.pid)
        return {pid for pid, began in self.seen if born(pid) == began}

    def close(self):
        """End it, whatever state it is in, and leave no process."""
        if self.process is not None:
            send(signal.SIGCONT, *self.children())
            self._end()
            try:
                until(lambda: not self.children())
            except AssertionError:
                send(signal.SIGKILL, *self.children())
                raise
        shutil.rmtree(self.directory)

    def _end(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
