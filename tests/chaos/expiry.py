"""
`python -m tests.chaos.expiry`: jobs that are claimed in time and could begin too late; status 1 where an attempt has
begun after its job's expiry (I16).

1. killed    one job has begun; children stand still, so that others are claimed and not begun; their dispatcher is
             killed, and others rescue all of them after their expiry
2. frozen    a dispatcher and its children stand still past the expiry, within the lease, and go on, the children first
3. judge     from the lines that each run leaves
"""

import contextlib
import signal
import sys
import time

from tests.chaos import ledger, repeat
from tests.chaos.blame import SKEW
from tests.chaos.package import LEASE, MARGIN, RENEW, SHORTER
from tests.chaos.plant import CHILD, DISPATCHER, Plant, played
from tests.support.running import send, until

#: s; below what is left of a lease when it is trusted no more, so that only the expiry can keep a job from its begin
EXPIRES = LEASE - MARGIN - 1.5
FILE = """
broker: {{url: embedded}}
defaults:
  tasks: {{pass_job: job, result_ttl: 1h}}
  workers: {{directory: {app}, environment: {{RUNS: {runs}}}, drain_timeout: 2s}}
tasks: {{run: {{run: work.run}}}}
workers: {{main: {{processes: 3, isolation: {isolation}}}}}
"""


class Expiry(Plant):
    """The daemon, with one group and one task."""

    declares = ("run",)

    def __init__(self, edits, isolation):
        super().__init__((*SHORTER, *edits))
        self.write(FILE.format(app=self.app, runs=self.runs, isolation=isolation))


def violations(edits=(), seed=0):
    """What has begun too late, or has not ended, a sentence each."""

    def story(plant, client):
        late = _killed(plant, client) | _frozen(plant, client)
        plant.rest("default")
        return judge(late, ledger.read_runs(plant.runs))

    return played(Expiry(edits, ("process", "fork")[seed % 2]), "I16", story)


def judge(late, runs):
    """`late`: id → epoch s; a run that begins after it is too late."""
    for id_, expiry in late.items():
        last = max((run.began for run in runs[id_]), default=0.0)
        if last > expiry + SKEW:
            yield f"I16 job {id_} has begun {last - expiry:.3f} s after its expiry"


@contextlib.contextmanager
def _stopped(pids):
    send(signal.SIGSTOP, *pids)
    try:
        yield
    finally:
        send(signal.SIGCONT, *pids)


def _claimed(plant, client):
    """Jobs that expire soon, claimed by a group whose children stand still: id → epoch s of the latest expiry."""
    jobs = client.options(expires=EXPIRES).enqueue_many([("run", [0.0], {}) for _ in range(3)])
    expiry = time.time() + EXPIRES
    # On a busy machine they may have expired meanwhile, or others may have begun them.
    until(lambda: any(job.status() != "queued" for job in jobs), plant.text)
    return {job.id: expiry for job in jobs}


def _killed(plant, client):
    """With a job that has begun and was renewed so, and must not run again: its lease is over after its expiry."""
    begun = client.options(expires=LEASE).enqueue("run", LEASE + 1.0)
    expiry = time.time() + LEASE
    until(lambda: begun.status() != "queued", plant.text)
    time.sleep(RENEW + 0.5)
    with _stopped(plant.pids(CHILD)):
        late = _claimed(plant, client)
        send(signal.SIGKILL, *plant.pids(DISPATCHER))
        time.sleep(EXPIRES + 0.2)
    plant.rest("default")
    return late | {begun.id: expiry}


def _frozen(plant, client):
    children = until(lambda: len(now := plant.pids(CHILD)) >= 3 and now, plant.text)
    dispatchers = plant.pids(DISPATCHER)
    with contextlib.ExitStack() as held:
        stopped = held.enter_context(contextlib.ExitStack())
        stopped.enter_context(_stopped(children))
        late = _claimed(plant, client)
        held.enter_context(_stopped(dispatchers))
        time.sleep(EXPIRES + 0.2)
        stopped.close()  # the children go on first
        time.sleep(0.2)
    plant.rest("default")
    return late


if __name__ == "__main__":
    sys.exit(repeat.main("expiry", __doc__, violations))
