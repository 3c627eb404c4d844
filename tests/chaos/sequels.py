"""
`python -m tests.chaos.sequels`: callbacks and jobs that wait for others, under kills and stops; status 1 where an end
has not called exactly once, or a job that waits has not become what its `join` says (I24).

1. load     jobs with callbacks, in two queues; jobs that wait for some of them
2. faults   dispatchers, the scheduler and Redis are killed; dispatchers stand still for longer than a lease
3. rest     once everything has ended, each callback and each job that waited is compared with its cause
"""

import contextlib
import json
import random
import sys
import time
from collections import Counter

from fusiond.errors import BrokerError, EnqueueError
from fusiond.job import JobStatus
from tests.chaos import repeat
from tests.chaos.faults import FaultsBeside
from tests.chaos.package import SHORTER, Edit
from tests.chaos.plant import Plant, played
from tests.support.running import PATIENCE

FILE = """
broker: {{url: embedded}}
retry_policies: {{often: {{max_attempts: 2, delay: 100ms, max_crashes: 1000}}}}
queues: {{one: {{}}, two: {{}}, told: {{}}}}
defaults:
  tasks: {{pass_job: job, result_ttl: 1h, retry: often}}
  workers: {{directory: {app}, environment: {{RUNS: {runs}}}, drain_timeout: 2s}}
tasks:
  one: {{run: sequel_work.run, queue: one, on_success: {{task: told}}, on_failure: {{task: told}}}}
  two: {{run: sequel_work.run, queue: two, on_success: {{task: told}}, on_failure: {{task: told}}}}
  told: {{run: sequel_work.told, queue: told}}
workers:
  first: {{queues: [one, two], processes: 2, isolation: process}}
  second: {{queues: "*", processes: 2, isolation: process}}
"""
WORK = """
import work

def run(fails, *, job):
    work.run(0.02, job=job)
    if fails:
        raise ValueError

def told(event, *, job):
    work.run(0.0, job=job)
"""
QUEUES = ("one", "two")
#: seconds of load, and between two faults
LOAD, PAUSE = 6.0, 1.2
#: the sweep of a daemon comes much sooner
SOON = (Edit("schedule/sweeping.py", "PERIOD = 60.0", "PERIOD = 2.0"),)


class Sequels(Plant):
    """The daemon, with two groups."""

    declares = (*QUEUES, "told")

    def __init__(self, edits):
        super().__init__((*SHORTER, *SOON, *edits))
        (self.app / "sequel_work.py").write_text(WORK)
        self.write(FILE.format(app=self.app, runs=self.runs))


def violations(edits=(), seed=0):
    """What the rest has found, a sentence each."""
    rand = random.Random(seed)
    return played(Sequels(edits), "I24", lambda plant, client: _rest(plant, _storm(plant, client, rand)))


def _storm(plant, client, rand):
    """Load and faults; the jobs that wait: name → parents, join and on_parent_failure."""
    end, names, waiting = time.monotonic() + LOAD, [], {}
    with FaultsBeside(plant, rand, PAUSE, schedulers=0.2) as faults:
        while time.monotonic() < end:
            with contextlib.suppress(BrokerError, EnqueueError):
                _act(client, rand, names, waiting)
                time.sleep(0.01)
            faults.look()
    return waiting


def _act(client, rand, names, waiting):
    """One call of the load, and now and then one of a job that waits for others."""
    fails = rand.random() < 0.4
    names.append(client.enqueue(rand.choice(QUEUES), fails).name)
    if len(names) > 3 and rand.random() < 0.5:
        parents = rand.sample(names[-20:], 3)
        rule = {"join": rand.choice(("all", "any", 2)), "on_parent_failure": rand.choice(("fail", "run"))}
        child = client.options(after=parents, **rule).enqueue(rand.choice(QUEUES), fails)
        waiting[child.name] = parents, rule["join"], rule["on_parent_failure"]
        names.append(child.name)


def _rest(plant, waiting):
    """What is wrong once nothing waits or runs. AssertionError: something does."""
    plant.rest(*QUEUES, "told", patience=PATIENCE)
    # effects that nobody has emptied is emptied by the next sweep
    time.sleep(4)
    plant.rest(*QUEUES, "told", patience=PATIENCE)
    ended = {job.name: job for queue in QUEUES for job in _jobs(plant, queue)}
    called = Counter(_event(job) for job in _jobs(plant, "told"))
    return set(judge(ended, called, waiting))


def _jobs(plant, queue):
    for status in (JobStatus.FINISHED, JobStatus.FAILED):
        yield from plant.run(plant.broker.jobs(queue, status, count=100_000))


def _event(job):
    event = json.loads(job.args)[1]["event"]
    return f"{event['queue']}/{event['id']} {event['status']}"


def judge(ended, called, waiting):
    """`ended`: name → record; `called`: `name status` → how often; `waiting`: name → parents, join, rule."""
    for name, job in ended.items():
        if called[f"{name} {job.status}"] != 1:
            yield f"I24 an end has called {called[f'{name} {job.status}']} times"
    if sum(called.values()) > len(ended):
        yield "I24 there are more callbacks than ends"
    for name, (parents, join, rule) in waiting.items():
        if name not in ended:
            continue  # its enqueue had no answer, and was not carried out
        good = sum(rule == "run" or ended[each].status is JobStatus.FINISHED for each in parents if each in ended)
        need = {"all": len(parents), "any": 1}.get(join, join)
        ran = b"PARENT_" not in (ended[name].error or b"")
        if ran != (good >= need):
            yield f"I24 a job with join {join} and {good} good parents has {'begun' if ran else 'not begun'}"


if __name__ == "__main__":
    sys.exit(repeat.main("sequels", __doc__, violations))
