"""
`python -m tests.chaos.capacity`: I14, capacity returns unaided after failures that pass; status 1 where it does not.

    directory     the group's directory is not there for a while, and its dispatcher ends meanwhile
    python        its interpreter's virtual environment is not there
    state         the daemon's state directory is not there
    descriptors   no process of the daemon can open another descriptor, and children and the dispatcher end meanwhile
    memory        the dispatcher and the fork server get no more memory, and children end meanwhile
    imports       the tasks' module raises ConnectionError, and the fork server ends meanwhile
    frozen        the dispatcher is stopped for good, and the group is replaced by a reload

After each, as many jobs at once as the group has processes must run, and the daemon must say that it is ready. Nobody
starts, reloads or signals anything then.
"""

import contextlib
import resource
import shutil
import signal
import sys
import tempfile
import time

from fusiond.client import Client
from fusiond.errors import FusionError
from tests.chaos import repeat
from tests.chaos.package import Edit
from tests.chaos.plant import CHILD, DISPATCHER, SERVER, SUPERVISOR, Plant
from tests.chaos.resources import limited, most_descriptors
from tests.support.running import send, until

PROCESSES = 2
#: s; for capacity to return once the failure is over. The longest pause is 4 s; the rest is what the machine needs
WITHIN = 60.0
#: pauses between two tries are shorter, and so is the silence after which a program is killed
SHORTER = (
    Edit("supervise/supervisord/process.py", "LONGEST_DELAY = 0.5, 30.0", "LONGEST_DELAY = 0.1, 0.5"),
    Edit("worker/pool/children.py", "SLOWEST = 30.0", "SLOWEST = 0.5"),
    Edit("worker/pool/fork_servers.py", "_EMPTY = 0.5", "_EMPTY = 0.1"),
    Edit("supervise/liveness.py", "ASK = 5.0", "ASK = 0.5"),
    Edit("supervise/liveness.py", "SILENT = 15.0", "SILENT = 4.0"),
)
FILE = """
broker: {{url: embedded}}
queues: {{default: {{}}}}
tasks:
  meet: {{run: meeting.meet, retry: none}}
workers:
  main: {{directory: {app}, python: {python}, processes: {processes}, drain_timeout: 2s}}
"""
#: each job waits for the others: that all end shows that all ran at once
MEET = """
import os, time

if os.path.exists(__file__ + ".away"):
    raise ConnectionError("the database is away")

def meet(place, number, count):
    open(os.path.join(place, str(number)), "w").close()
    deadline = time.monotonic() + 10
    while len(os.listdir(place)) < count:
        if time.monotonic() > deadline:
            raise TimeoutError("the others have not come")
        time.sleep(0.01)
"""


class Site(Plant):
    """A daemon with one group, whose interpreter is in a virtual environment of its own."""

    def __init__(self, edits=()):
        super().__init__((*SHORTER, *edits))
        self.venv = self.directory / "venv"
        (self.venv / "bin").mkdir(parents=True)
        (self.venv / "bin" / "python").symlink_to(sys.executable)
        (self.app / "meeting.py").write_text(MEET)
        self.write(FILE.format(app=self.app, python=self.venv / "bin" / "python", processes=PROCESSES))

    def kill(self, kind):
        send(signal.SIGKILL, *self.pids(kind))

    def serves(self):
        """Whether as many jobs as there are processes run at once, and the daemon says that it is ready."""
        with tempfile.TemporaryDirectory(dir=self.directory) as place:
            client = Client(self.url)
            jobs = [client.enqueue("meet", place, number, PROCESSES) for number in range(PROCESSES)]
            for job in jobs:
                job.result(timeout=15)
        return self.status()["ready"]


@contextlib.contextmanager
def away(path):
    """The directory is not there; what has come in its place meanwhile goes."""
    aside = path.with_name(path.name + ".away")
    path.rename(aside)
    try:
        yield
    finally:
        shutil.rmtree(path, ignore_errors=True)
        aside.rename(path)


def _without(path_of):
    def fail(site, seconds):
        with away(path_of(site)):
            site.kill(DISPATCHER)
            time.sleep(seconds)

    return fail


def descriptors(site, seconds):
    pids = [pid for kind in (SUPERVISOR, DISPATCHER, SERVER) for pid in site.pids(kind)]
    with limited(resource.RLIMIT_NOFILE, most_descriptors(pids)):
        site.kill(CHILD)
        time.sleep(seconds / 2)
        site.kill(DISPATCHER)
        time.sleep(seconds / 2)


def memory(site, seconds):
    pids = [*site.pids(DISPATCHER), *site.pids(SERVER)]
    with limited(resource.RLIMIT_AS, dict.fromkeys(pids, 1 << 20)):
        site.kill(CHILD)
        time.sleep(seconds)


def imports(site, seconds):
    away = site.app / "meeting.py.away"
    away.touch()
    site.kill(SERVER)
    time.sleep(seconds)
    away.unlink()


def frozen(site, _seconds):
    """The old generation never hears that it is to drain, and holds all slots."""
    send(signal.SIGSTOP, *site.pids(DISPATCHER))
    body = site.file.read_text().removeprefix(site.head())
    outcome = site.reload(body.replace("drain_timeout: 2s", "drain_timeout: 2s, environment: {GENERATION: next}"))
    assert outcome["result"] == "applied", outcome


FAILURES = {
    "directory": _without(lambda site: site.app),
    "python": _without(lambda site: site.venv),
    "state": _without(lambda site: site.state),
    "descriptors": descriptors,
    "memory": memory,
    "imports": imports,
    "frozen": frozen,
}


def violations(edits=(), seed=0, *, names=tuple(FAILURES), seconds=2.0):
    """Carry each failure out on one daemon; what does not return, as sentences. Nothing is drawn from the seed."""
    found = []
    with Site(edits) as site:
        site.start_up()
        until(lambda: _serves(site), site.text)
        for name in names:
            FAILURES[name](site, seconds)
            over = time.monotonic()
            with contextlib.suppress(AssertionError):
                until(lambda: _serves(site), timeout=WITHIN)
                continue
            found.append(f"I14 {time.monotonic() - over:.0f} s after `{name}` not all processes serve: {_state(site)}")
            break
    return found


def _serves(site):
    with contextlib.suppress(FusionError):
        return site.serves()
    return False


def _state(site):
    return {name: (one["state"], one["reason"]) for name, one in site.programs().items()}


if __name__ == "__main__":
    sys.exit(repeat.main("capacity", __doc__, violations, times=3))
