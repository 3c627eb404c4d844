"""
`python -m tests.chaos.moving`: cron entries while their task moves between queues, files and hosts; status 1 where a
tick had no run or two, or where a suspended entry ticked.

I12  one run per entry and tick over all queues, files, hosts, reloads and moves, and a suspended entry stays so

Two daemons share one Redis. A round changes one of them: its file moves the task to another queue, its scheduler is
killed, or the other one's scheduler is stopped past a tick while the entries are removed from its file and added again.
"""

import contextlib
import itertools
import os
import random
import shutil
import signal
import sys
import time
from functools import partial
from pathlib import Path

from fusiond.broker.verbs import Verbs
from fusiond.job import JobStatus
from tests.chaos import ledger, repeat
from tests.chaos.package import copy
from tests.support.redis_server import own_server
from tests.support.running import Running, send, until

TICK = 1000
QUEUES = ("slow", "fast")
#: `others` differs in each file, so that each is a generation of its own
FILE = """
defaults:
  tasks: {{result_ttl: 1h}}
  workers: {{directory: {app}, environment: {{RUNS: {runs}}}}}
queues: {{slow: {{}}, fast: {{}}}}
tasks:
  noted: {{run: work.run, queue: {queue}, pass_job: job}}
  others: {{run: work.run, description: "{number}"}}
{cron}
workers: {{all: {{queues: "*", isolation: process, drain_timeout: 10s}}}}
"""
ENTRIES = """
cron:
  moving: {task: noted, every: 1s, args: [0.0], missed: all, overlap: allow}
  resting: {task: noted, every: 1s, args: [0.0], missed: all, overlap: allow}
"""


class Host(Running):
    """One of the daemons."""

    def __init__(self, server, runs, edits):
        super().__init__()
        self.broker_url = self.url = server.url
        self.runs, self.queue, self.number = runs, "slow", 0
        shutil.copy(Path(__file__).with_name("work.py"), self.app)
        code = copy(self.directory / "code", edits) if edits else None
        self._environment = {"PYTHONPATH": str(code)} if code else {}

    def begin(self):
        """Start it with both entries."""
        self.start(self.content(), environment=self._environment)

    def content(self, entries=ENTRIES):
        """Its file, which no other has."""
        self.number += 1
        number = f"{self.directory.name} {self.number}"
        return FILE.format(app=self.app, runs=self.runs, queue=self.queue, number=number, cron=entries)

    def take(self, entries=ENTRIES):
        """A reload."""
        outcome = self.reload(self.content(entries))
        assert outcome["result"] == "applied", outcome


class Trial:
    """The daemons, and what an operator sees."""

    def __init__(self, server, hosts, rand):
        self.server, self.hosts, self.rand = server, hosts, rand
        self.broker = Verbs()

    def run(self, what):
        with self.server.connect() as connection:
            return connection.run(what)

    def last(self, entry="moving"):
        """The entry's newest tick that has a job, in whichever queue."""
        pages = [self.broker.jobs(queue, status, count=10_000) for queue in QUEUES for status in JobStatus]
        with self.server.connect() as connection:
            ids = [job.id for page in connection.run_many(pages) for job in page]
        return max(_ticks(ids, entry), default=0)

    def await_ticks(self, count):
        """Until so many further ticks have a job."""
        goal = max(self.last(), time.time() * 1000) + (count - 1) * TICK
        until(lambda: self.last() > goal, self.texts)

    def texts(self):
        return "\n".join(host.text() for host in self.hosts)

    def move(self):
        """One file has the task in the other queue."""
        host = self.rand.choice(self.hosts)
        host.queue = "fast" if host.queue == "slow" else "slow"
        host.take()

    def kill(self):
        """One scheduler is killed."""
        host = self.rand.choice(self.hosts)
        host.kill(host.pid("scheduler"))

    def add(self):
        """One scheduler is stopped past a tick; meanwhile the other daemon, which lost the entries, gets them again."""
        stopped, other = self.rand.sample(self.hosts, 2)
        other.take("")
        self.await_ticks(1)
        pid = stopped.pid("scheduler")
        os.kill(pid, signal.SIGSTOP)
        try:
            goal = self.last() + 1.1 * TICK
            until(lambda: time.time() * 1000 > goal)
            other.take()
        finally:
            send(signal.SIGCONT, pid)


def violations(edits=(), seed=0, rounds=4):
    """Carry it out; a sentence for each violation."""
    rand = random.Random(seed)
    with contextlib.ExitStack() as stack:
        server, place = own_server(stack)
        runs = place / "runs"
        runs.touch()
        hosts = [Host(server, runs, edits) for _ in range(2)]
        for host in hosts:
            stack.callback(host.close)
            host.begin()
        trial = Trial(server, hosts, rand)
        trial.await_ticks(2)
        trial.run(trial.broker.suspend_cron("resting", on=True))
        suspended = trial.last("resting")
        # Each kind once before any comes again.
        for number in range(rounds):
            (trial.add, trial.move, trial.kill, trial.move)[number % 4]()
            trial.await_ticks(1)
        trial.run(trial.broker.suspend_cron("moving", on=True))
        until(lambda: _rest(trial), trial.texts)
        return judge(ledger.read_runs(runs), suspended)


def _rest(trial):
    """Whether every job has ended."""
    counts = [trial.run(trial.broker.counts(queue)) for queue in QUEUES]
    return not any(each.queued + each.scheduled + each.started for each in counts)


def judge(runs, suspended):
    """`runs`: job id → its runs. `suspended`: the last tick before the resting entry was suspended."""
    found = [f"I12 job {job} ran {len(each)} times" for job, each in runs.items() if len(each) > 1]
    ticks = {name: _ticks(runs, name) for name in ("moving", "resting")}
    found += [
        f"I12 no tick of entry {name} had a run between {one} and {two}"
        for name, each in ticks.items()
        for one, two in itertools.pairwise(each)
        if two - one != TICK
    ]
    found += [f"I12 entry resting ticked at {tick}, suspended" for tick in ticks["resting"] if tick > suspended]
    return found + [f"I12 entry {name} did not tick" for name, each in ticks.items() if not each]


def _ticks(ids, entry):
    head = f"cron:{entry}:"
    return sorted(int(id_.removeprefix(head)) for id_ in ids if id_.startswith(head))


if __name__ == "__main__":
    sys.exit(repeat.main("moving", __doc__, partial(violations, rounds=60), times=1))
