"""
`python -m tests.chaos.resources`: what runs out, and jobs that do as they like, under load, and the verdict; status 1
where a job came to harm, or a slot was lost.

    descriptors   no process of the daemon can open another descriptor for a while; children are killed meanwhile
    processes     the fork servers can fork no more for a while; children are killed meanwhile
    disk          the log's disk, a small tmpfs, is full, and later is not (root alone can mount one)
    misfits       results of 1 GiB, output without end, signals ignored, every descriptor closed, daemons forked

Afterwards every child's place must be of use: as many jobs at once as there are processes.
"""

import contextlib
import json
import os
import pwd
import random
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from fusiond.worker.dispatcher.claims import leases
from tests.chaos import ledger, strikes, verdict
from tests.chaos.faults import Pulse, kill
from tests.chaos.load import Load, Mix
from tests.chaos.package import LOGGED, SHORT_LEASES, SHORTER
from tests.chaos.plant import CHILD, DISPATCHER, SCHEDULER, SERVER, SUPERVISOR, Plant
from tests.support.running import alive, born, until

RATE, BETWEEN = 30, 20
MIX = Mix(short=0.5, long=0.0)
ROOT = os.geteuid() == 0
#: an interpreter that every user may run
PYTHON = "/usr/bin/python3"
#: task → s of its hard timeout, what it is called with, and the codes of which it fails with one; none: it finishes
MISFITS = {
    "large": (60, 1024, {"RESULT_TOO_LARGE"}),
    "endless": (2, None, {"TIMEOUT"}),
    "deaf": (2, None, {"TIMEOUT"}),
    "closing": (2, None, {"TIMEOUT", "WORKER_CRASHED"}),
    "daemonizing": (20, "daemon", set()),
    "wordy": (20, 2000, set()),
}
TASK = "  {name}: {{run: misfits.{name}, queue: slow, retry: none, timeout: {{hard: {hard}s, soft: {soft}s}}}}\n"


class Factory(Plant):
    """A daemon with the misfits among its tasks; if asked, its log is on a `disk`, its groups are nobody's."""

    def __init__(self, *, disk=False, nobody=False):
        # Leases as they are: no dispatcher is killed here, and on a busy machine one may well be kept for a second.
        super().__init__((*(edit for edit in SHORTER if edit is not SHORT_LEASES), *LOGGED))
        shutil.copy(Path(__file__).with_name("misfits.py"), self.app)
        text = self.file.read_text()
        tasks = "".join(TASK.format(name=name, hard=hard, soft=hard - 1) for name, (hard, *_) in MISFITS.items())
        text = text.replace("\ntasks:\n", "\ntasks:\n" + tasks)
        self.disk = self.directory / "disk"
        self.disk.mkdir()
        if disk:
            text += f"logging: {{file: {self.disk / 'log'}}}\n"
        if nobody:
            text = text.replace("drain_timeout: 2s", f"drain_timeout: 2s, user: nobody, python: {PYTHON}")
            for path, mode in ((self.directory, 0o755), (self.app, 0o755), (self.runs, 0o666)):
                path.chmod(mode)
        self.file.write_text(text)

    def processes_wanted(self):
        """Of both groups."""
        return 2 * int(self.file.read_text().partition("processes: ")[2].partition(",")[0])


class Site:
    """What is done to a factory, and what must come of it."""

    def __init__(self, plant, load, rand):
        self.plant, self.load, self.rand = plant, load, rand
        self.faults = []
        #: sentences
        self.violations = []

    def more(self, count=BETWEEN):
        """Wait until so many more jobs were acknowledged."""
        self.load.more(count, self.plant.text)

    def kill_children(self, count):
        """Those that were just made too."""
        for pid in self.rand.sample(pids := self.plant.pids(CHILD), min(count, len(pids))):
            kill(self.plant, CHILD, pid, self.faults)


def descriptors(site, seconds=3.0):
    pids = [pid for kind in (SUPERVISOR, SCHEDULER, DISPATCHER, SERVER) for pid in site.plant.pids(kind)]
    with limited(resource.RLIMIT_NOFILE, most_descriptors(pids)):
        site.kill_children(3)
        time.sleep(seconds)
        site.kill_children(3)
    site.more()


def most_descriptors(pids):
    """Limit of each process that leaves no room above its highest descriptor: it is about numbers, not how many."""
    limits = {}
    for pid in pids:
        with gone(pid):
            limits[pid] = 1 + max(int(entry.name) for entry in Path(f"/proc/{pid}/fd").iterdir())
    return limits


def processes(site, seconds=3.0):
    with limited(resource.RLIMIT_NPROC, dict.fromkeys(site.plant.pids(SERVER), 1)):
        site.kill_children(2)
        time.sleep(seconds)
        site.kill_children(2)
        until(lambda: "no child can be forked" in site.plant.text(), site.plant.text)
    site.more()


@contextlib.contextmanager
def limited(what, limits):
    """Soft limits of processes, by pid, for a while."""
    before = {}
    try:
        for pid, limit in limits.items():
            with gone(pid):
                before[pid] = limit_of(pid, what)
                limit_of(pid, what, limit, before[pid][1])
        yield
    finally:
        for pid, pair in before.items():
            with gone(pid):
                limit_of(pid, what, *pair)


@contextlib.contextmanager
def gone(pid):
    """Whose process ends meanwhile has no limits."""
    try:
        yield
    except (OSError, subprocess.CalledProcessError):
        if alive(pid):
            raise


def limit_of(pid, what, *new):
    """Soft and hard limit as they were; asked, and set, by a process of the same user, since root may not be enough."""
    words = [PYTHON, "-c", LIMIT, *map(str, (pid, what, *new))]
    root = {"user": owner(pid, "Uid"), "group": owner(pid, "Gid"), "extra_groups": []} if ROOT else {}
    done = subprocess.run(words, **root, check=True, capture_output=True)
    return tuple(map(int, done.stdout.split()))


def owner(pid, what):
    """Its uid or gid; /proc's owner is root where a process may not be traced."""
    return int(Path(f"/proc/{pid}/status").read_text().partition(f"{what}:")[2].split()[0])


LIMIT = """
import resource, sys
pid, what, *new = map(int, sys.argv[1:])
print(*resource.prlimit(pid, what, *([new] if new else [])))
"""


def disk(site):
    """Jobs go on while the disk is full; what is logged when there is room again is there."""
    log = site.plant.disk / "log"
    client = site.plant.client()
    jobs = [client.enqueue("wordy", 2000) for _ in range(5)]
    until(lambda: shutil.disk_usage(site.plant.disk).free == 0, timeout=60)
    for job in jobs:
        job.result(timeout=60)
    site.more()
    remount(site.plant.disk, "64m")
    size = log.stat().st_size
    client.enqueue("wordy", 50).result(timeout=60)
    until(lambda: log.stat().st_size > size)
    os.truncate(log, 0)
    remount(site.plant.disk, SMALL)


#: of the disk
SMALL = "256k"


def remount(path, size):
    """Give the disk another size."""
    subprocess.run(["mount", "-o", f"remount,size={size}", path], check=True)


@contextlib.contextmanager
def mounted(path):
    """A small disk there."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SMALL}", "fusiond-test", path], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", path], check=True)


def can_mount():
    """Whether this process may."""
    if not ROOT:
        return False
    done = subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"], check=False, capture_output=True)
    return done.returncode == 0


def misfits(site, mebibytes=1024):
    """Each ends as it must, and leaves nothing."""
    client = site.plant.client()
    mark = site.plant.directory / f"daemon{time.monotonic_ns()}"
    own = {"large": mebibytes, "daemonizing": str(mark)}
    jobs = {}
    for name, (_, argument, _) in MISFITS.items():
        arguments = [] if argument is None else [own.get(name, argument)]
        jobs[name] = client.enqueue(name, *arguments)
    for name, job in jobs.items():
        until(lambda job=job: job.status().ended, site.plant.text, timeout=120)
        record = site.plant.run(site.plant.broker.job(job.queue, job.id))
        code = json.loads(record.error)["code"] if record.error else None
        if code not in (MISFITS[name][2] or {None}):
            site.violations.append(f"misfit {name} is {record.status}: {code}")
    # What a job leaves in the background ends with its child; one that is reused may live for long.
    for child in site.plant.pids(CHILD):
        kill(site.plant, CHILD, child, site.faults)
    pid, began = mark.read_text().split()  # a number may be another's by now
    until(lambda: born(pid) != began, f"daemon {pid} lives")
    site.more()


class Scenario(NamedTuple):
    """One way to run out."""

    strike: Callable[[Site], None]
    #: how often, in a long run
    times: int
    disk: bool = False
    nobody: bool = False


SCENARIOS = {
    "descriptors": Scenario(descriptors, 10),
    # root may have as many as it likes
    "processes": Scenario(processes, 10, nobody=ROOT),
    "disk": Scenario(disk, 10, disk=True),
    "misfits": Scenario(misfits, 3),
}


def can(name):
    """Whether this process may do it."""
    if name == "processes" and ROOT:
        return Path(PYTHON).exists() and _has_user("nobody")
    return name != "disk" or can_mount()


def _has_user(name):
    try:
        return bool(pwd.getpwnam(name))
    except KeyError:
        return False


def carry_out(scenario, times, seed=0, strike=None):
    """Strike so often under load, then peace; returns the Finding. AssertionError: the daemon does not come to rest."""
    with contextlib.ExitStack() as stack:
        plant = stack.enter_context(Factory(disk=scenario.disk, nobody=scenario.nobody))
        if scenario.disk:
            stack.enter_context(mounted(plant.disk))
        plant.start_up()
        load = Load(plant.client(), 10**6, rate=RATE, mix=MIX, seed=seed)
        site = Site(plant, load, random.Random(seed))
        pulse = Pulse(plant)
        pulse.start()
        load.start()
        for _ in range(times):
            site.more()
            (strike or scenario.strike)(site)
        load.stop()
        ledger.settled(plant, load.acks, timeout=180)
        strength = next((most for _ in range(4) if (most := at_once(plant)) == plant.processes_wanted()), 0)
        pulse.end()
        found = ledger.conclude(plant, load.acks, site.faults)
        found.outages = pulse.faults
        site.violations += verdict.judge(found, lease=leases.LEASE, margin=leases.MARGIN, renew=leases.RENEW)
        if not strength:
            site.violations.append(f"not all of {plant.processes_wanted()} places are of use")
        return strikes.Finding(found, site.violations, plant.text())


def at_once(plant):
    """How many jobs run at once, of as many as there are places."""
    client = plant.client()
    known = set(ledger.read_runs(plant.runs))
    wanted = plant.processes_wanted()
    jobs = [client.enqueue("slow", 3.0) for _ in range(wanted)]
    most = 0

    def running():
        nonlocal most
        runs = [run for job, each in ledger.read_runs(plant.runs).items() if job not in known for run in each]
        most = max(most, sum(not run.ended for run in runs))
        return most >= wanted or sum(bool(run.ended) for run in runs) >= wanted

    until(running, plant.text)
    for job in jobs:
        job.result(timeout=60)
    return most


if __name__ == "__main__":
    missing = "this user may not"
    sys.exit(strikes.main("resources", __doc__, SCENARIOS, carry_out, lambda name: "" if can(name) else missing))
