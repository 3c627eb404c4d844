"""
`python -m tests.chaos.pools`: pools and devices under kills; status 1 where jobs held more slots than there are, two
had the same device, one waited for too long, or one never ended (I27).

1. fill     two queues with jobs that need one slot or all of a pool, for two worker groups; and one for the first group
            alone, whose children have a number each, as of a device; `max_running` counts all
2. kill     their dispatchers and children, and stop a dispatcher beyond its lease
3. starve   a job that needs all slots waits beside jobs that need one, of which more and more come; children are killed
4. judge    from what the jobs note when they begin: each holds a file by a lock, which ends with its process
5. at rest  all jobs have ended, and no slot is held
"""

import inspect
import random
import signal
import sys
import time

from tests.chaos import repeat
from tests.chaos.limits import stop_or_kill
from tests.chaos.package import SHORTER, Edit
from tests.chaos.plant import CHILD, DISPATCHER, Plant, played
from tests.support.running import send, until
from tests.support.standins import worker_tasks

#: s in which no more jobs end; what a dispatcher held that was killed is free sooner
PEACE = 30.0
JOBS, SLOTS, MOST = 120, 3, 5
#: s; a job that needs all slots has ended by then: after LATE, the dispatcher's next question to the pool, the end of
#: what runs, and a crash or two
ENDED = 20.0
#: s; the bound of the copy, 30 as shipped
LATE = 2.0
SOON = Edit("broker/lua/pools.lua", "SOON, LATE = 1000, 30000", f"SOON, LATE = 1000, {LATE * 1000:.0f}")
QUEUES = ("small", "large", "devices")
FILE = """
broker: {{url: embedded}}
queues: {{small: {{}}, large: {{}}, devices: {{}}}}
max_running: {most}
pools: {{p: {{slots: {slots}}}}}
defaults:
  tasks: {{result_ttl: 1h, retry: patient}}
  workers: {{directory: {app}, environment: {{RUNS: {runs}}}, drain_timeout: 2s, processes: 4}}
tasks:
  one: {{run: work.share, queue: small, pools: {{p: 1}}}}
  all: {{run: work.share, queue: large, pools: {{p: {slots}}}}}
  none: {{run: work.share, queue: devices}}
retry_policies: {{patient: {{max_crashes: 1000, max_attempts: 1000, delay: 100ms, backoff: fixed}}}}
workers:
  main: {{queues: "*", slot_variable: DEVICE}}
  other: {{queues: [small, large]}}
"""
_WORK = """


import fcntl
from pathlib import Path


def share(seconds, slots):
    path = os.environ["RUNS"]
    with holding(path + ".whole", 1):
        with holding(path + ".p", slots):
            if "DEVICE" in os.environ:
                with holding(path + ".device" + os.environ["DEVICE"], 1):
                    time.sleep(seconds)
            else:
                time.sleep(seconds)


"""


class Pools(Plant):
    """The daemon, with two groups."""

    declares = ("one", "all", "none")

    def __init__(self, edits):
        super().__init__((*SHORTER, SOON, *edits))
        functions = (worker_tasks.note, worker_tasks.holding, worker_tasks.is_locked)
        with (self.app / "work.py").open("a") as file:
            file.write("\n\nimport contextlib\n" + _WORK + "\n\n".join(map(inspect.getsource, functions)))
        self.write(FILE.format(app=self.app, runs=self.runs, slots=SLOTS, most=MOST))


def violations(edits=(), seed=0):
    """What was over a pool, or is left over, a sentence each."""
    rand = random.Random(seed)

    def story(plant, client):
        kinds = [("one", 1, 0.6), ("none", 0, 0.3), ("all", SLOTS, 0.1)]
        for task, slots, share in kinds:
            client.enqueue_many([(task, [rand.uniform(0.02, 0.2), slots]) for _ in range(int(JOBS * share))])
        end = time.monotonic() + 6.0
        while time.monotonic() < end:
            time.sleep(rand.uniform(0.1, 0.5))
            pids = plant.pids(rand.choice([CHILD, CHILD, DISPATCHER]))
            if pids:
                stop_or_kill(rand.choice(pids), rand)
        plant.rest(*QUEUES, patience=PEACE)
        _starve(plant, client, rand)
        plant.rest(*QUEUES, patience=PEACE)
        until(lambda: not any(use.held for use in plant.run(plant.broker.pool_uses()).values()), "slots are held", 10.0)
        devices = [path.suffix[1:] for path in plant.runs.parent.glob("runs.device?")]
        limits = {"p": SLOTS, "whole": MOST, **dict.fromkeys(devices, 1)}
        return [found for name, most in limits.items() for found in _judge(plant, name, most)]

    return played(Pools(edits), "I27", story)


def _starve(plant, client, rand):
    """Raises AssertionError if a job that needs all slots does not run in time beside others that need one."""

    def feed():
        waiting = plant.run(plant.broker.counts("small")).waiting
        client.enqueue_many([("one", [rand.uniform(0.05, 0.4), 1]) for _ in range(20 - waiting)])
        return plant.run(plant.broker.pool_uses())["p"].held == SLOTS

    until(feed, "the slots of p are not all held")
    job, end = client.enqueue("all", 0.05, SLOTS), time.monotonic() + ENDED
    while not job.status().ended:
        assert time.monotonic() < end, f"a job that needs {SLOTS} slots of p has not run within {ENDED:g} s"
        feed()
        if rand.random() < 0.02:
            send(signal.SIGKILL, *plant.pids(CHILD)[:1])
        time.sleep(0.05)


def _judge(plant, name, most):
    """More slots at once than there are."""
    for line in plant.runs.with_name(f"{plant.runs.name}.{name}").read_text().splitlines():
        if int(line) > most:
            yield f"I27 {line} slots of {name} are held, and there are {most}"


if __name__ == "__main__":
    sys.exit(repeat.main("pools", __doc__, violations, times=5))
