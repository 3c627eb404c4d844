"""
`python -m tests.chaos.frozen`: I10, with any one process frozen for good no started job outlives its hard timeout and
two leases; status 1 where one does.

1. load      short jobs, and some that only their hard timeout ends, for two groups that serve the same queues
2. freeze    one process, by SIGSTOP, and never continue it
3. watch     each started job, by the time since its claim, for as long as one may take and some seconds more

In turn a fork server, a child and a dispatcher of either isolation, and the scheduler; Redis and the supervisor apart.
"""

import contextlib
import itertools
import os
import random
import signal
import sys
import threading
import time
from functools import partial

from fusiond.errors import FusionError
from fusiond.job import JobStatus
from tests.chaos import ledger, repeat
from tests.chaos.load import Ack
from tests.chaos.package import LEASE, SHORTER, Edit
from tests.chaos.plant import CHILD, DISPATCHER, SCHEDULER, SERVER, Plant
from tests.support.running import until

#: s; soft and hard timeout of every job
SOFT, HARD = 1.0, 1.5
#: s; since its claim, after which a started job has lived for too long
MOST = HARD + 2 * LEASE
#: a fork server is judged as much sooner as a lease is shorter
QUICKER = (
    Edit("worker/pool/fork_server/answers.py", "ANSWER, LOAD = 10.0, 60.0", "ANSWER, LOAD = 2.0, 60.0"),
    Edit("worker/pool/fork_server/answers.py", "SILENT = 2.0", "SILENT = 0.6"),
    Edit("worker/pool/fork_server/answers.py", "LOOK, REST = 1.0, 5.0", "LOOK, REST = 0.2, 1.0"),
)
FILE = """
broker: {{url: embedded}}
retry_policies: {{hardy: {{max_crashes: 1000}}}}
queues: {{quick: {{}}, slow: {{}}, timed: {{}}}}
defaults:
  tasks: {{retry: hardy, pass_job: job, result_ttl: 1h, timeout: {{soft: {soft}s, hard: {hard}s}}}}
  workers: {{directory: {app}, environment: {{RUNS: {runs}}}, drain_timeout: 2s}}
tasks:
  quick: {{run: work.run, queue: quick}}
  slow: {{run: work.run, queue: slow}}
  timed: {{run: work.run, queue: timed}}
  endless: {{run: work.endure, queue: slow, retry: none}}
workers:
  forked: {{queues: "*", processes: 3, isolation: fork}}
  reused: {{queues: "*", processes: 3, isolation: process}}
"""
#: what is frozen, and in which of the two groups
PLACES = [(kind, group) for kind in (SERVER, CHILD, DISPATCHER) for group in ("forked", "reused")] + [(SCHEDULER, "")]


class Site(Plant):
    """A daemon whose jobs have short timeouts."""

    def __init__(self, edits=()):
        super().__init__((*SHORTER, *QUICKER, *edits))
        self.write(FILE.format(app=self.app, runs=self.runs, soft=SOFT, hard=HARD))

    def of_group(self, kind, group):
        """The living processes of a kind in a group, the busiest part of it first."""
        if not group:
            return self.pids(kind)
        programs = self.programs()
        dispatcher = next(each["pid"] for name, each in programs.items() if name.startswith(f"worker:{group}"))
        return [pid for pid in self.pids(kind) if pid == dispatcher or dispatcher in _ancestors(pid)]


def _ancestors(pid):
    with contextlib.suppress(OSError):
        while pid > 1:
            with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123
                pid = int(file.read().rpartition(")")[2].split()[1])
            yield pid


class Jobs(threading.Thread):
    """A steady load until `stop()`; every third job is ended by its hard timeout alone."""

    def __init__(self, client, seed):
        super().__init__(daemon=True)
        self._client, self._rand, self._over = client, random.Random(seed), threading.Event()
        self.acks, self.failure = [], None

    def run(self):
        try:
            for number in itertools.count():
                if self._over.wait(0.15):
                    return
                self._enqueue(number)
        except FusionError as error:
            self.failure = error

    def _enqueue(self, number):
        if number % 3 == 0:
            job = self._client.enqueue("endless", 30.0)
        else:
            job = self._client.enqueue(self._rand.choice(("quick", "slow")), self._rand.choice((0.0, 0.05, 0.5)))
        self.acks.append(Ack(job.id, job.queue, 0.0, time.time()))

    def stop(self):
        self._over.set()
        self.join(60)
        if self.failure:
            raise self.failure


def violations(edits=(), seed=0, places=None):
    """A sentence for each job that stayed started for too long; `places`: of PLACES, by default one fork server."""
    rand = random.Random(seed)
    found = []
    for kind, group in places or [(SERVER, rand.choice(("forked", "reused")))]:
        found += _freeze(kind, group, edits, rand)
    return found


def _freeze(kind, group, edits, rand):
    with Site(edits) as site:
        site.start_up()
        jobs = Jobs(site.client(), rand.random())
        jobs.start()
        until(lambda: _running(site) >= 4, site.text)
        frozen = rand.choice(site.of_group(kind, group))
        os.kill(frozen, signal.SIGSTOP)
        where = f"a {kind}" + (f" of group '{group}'" if group else "")
        found = _watch(site, where)
        jobs.stop()
        if not found:
            with contextlib.suppress(AssertionError):
                ledger.settled(site, jobs.acks, timeout=MOST)
                return []
            found = [f"I10 with {where} frozen jobs have not ended {MOST:g} s after the last was enqueued"]
        return found


def _running(site):
    return sum(len(_started(site, queue)) for queue in ("quick", "slow"))


def _started(site, queue):
    return site.run(site.broker.jobs(queue, JobStatus.STARTED, count=200))


def _watch(site, where):
    """Until a job that was started at the freeze, or soon after, would have lived for too long."""
    late = {}
    end = time.monotonic() + MOST + 2.0
    while time.monotonic() < end:
        for record in _started(site, "quick") + _started(site, "slow"):
            # Redis runs on this machine, by the same clock.
            age = time.time() - record.started_at / 1000
            if age > MOST + 1.0:
                late[record.id] = age
        time.sleep(0.1)
    return [
        f"I10 with {where} frozen job {id_} was started for {age:.0f} s, more than {HARD:g} + 2 · {LEASE:g}"
        for id_, age in late.items()
    ]


if __name__ == "__main__":
    sys.exit(repeat.main("frozen", __doc__, partial(violations, places=PLACES), times=1))
