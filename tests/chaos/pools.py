"""
`python -m tests.chaos.pools`: pools under kills; status 1 where jobs held more slots than there are, or one never ended
(I27).

1. fill     two queues with jobs that need one slot or all of a pool, for two worker groups; `max_running` counts all
2. kill     their dispatchers and children, and stop a dispatcher beyond its lease
3. judge    from what the jobs note when they begin: each holds a file by a lock, which ends with its process
4. at rest  all jobs have ended, and no slot is held
"""

import inspect
import random
import sys
import time

from tests.chaos import repeat
from tests.chaos.limits import stop_or_kill
from tests.chaos.package import SHORTER
from tests.chaos.plant import CHILD, DISPATCHER, Plant, played
from tests.support.running import until
from tests.support.standins import worker_tasks

#: s in which no more jobs end; what a dispatcher held that was killed is free sooner
PEACE = 30.0
JOBS, SLOTS, MOST = 120, 3, 5
FILE = """
broker: {{url: embedded}}
queues: {{small: {{}}, large: {{}}}}
max_running: {most}
pools: {{p: {{slots: {slots}}}}}
defaults:
  tasks: {{result_ttl: 1h, retry: patient}}
  workers: {{directory: {app}, environment: {{RUNS: {runs}}}, drain_timeout: 2s, processes: 4}}
tasks:
  one: {{run: work.share, queue: small, pools: {{p: 1}}}}
  all: {{run: work.share, queue: large, pools: {{p: {slots}}}}}
  none: {{run: work.share, queue: small}}
retry_policies: {{patient: {{max_crashes: 1000, max_attempts: 1000, delay: 100ms, backoff: fixed}}}}
workers: {{main: {{queues: [small, large]}}, other: {{queues: [small, large]}}}}
"""
_WORK = """


import fcntl
from pathlib import Path


def share(seconds, slots):
    path = os.environ["RUNS"]
    with holding(path + ".whole", 1):
        with holding(path + ".p", slots):
            time.sleep(seconds)


"""


class Pools(Plant):
    """The daemon, with two groups."""

    declares = ("one", "all", "none")

    def __init__(self, edits):
        super().__init__((*SHORTER, *edits))
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
        plant.rest("small", "large", patience=PEACE)
        until(lambda: not any(use.held for use in plant.run(plant.broker.pool_uses()).values()), "slots are held", 10.0)
        return [*_judge(plant, "p", SLOTS), *_judge(plant, "whole", MOST)]

    return played(Pools(edits), "I27", story)


def _judge(plant, name, most):
    """More slots at once than there are."""
    for line in plant.runs.with_name(f"{plant.runs.name}.{name}").read_text().splitlines():
        if int(line) > most:
            yield f"I27 {line} slots of {name} are held, and there are {most}"


if __name__ == "__main__":
    sys.exit(repeat.main("pools", __doc__, violations, times=5))
