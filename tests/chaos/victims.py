"""
`python -m tests.chaos.victims`: I18, a victim of cancel, timeout or kill is always the job that was meant; status 1
where it is another.

1. warm up   quick jobs, so that a child is handed several at once
2. aim       at one of a bunch: a cancel while it runs, a hard timeout, a signal that it sends itself
3. delay     the kill: the fork servers are stopped for a moment, and a child goes on to its next job meanwhile
4. judge     what became of the job that was meant, and of those beside and behind it

A job that was not meant is finished, without a crash, a timeout or a cancel. It may run twice, where its child died
with the one that was meant.
"""

import contextlib
import json
import random
import signal
import sys
import time
from functools import partial
from typing import NamedTuple

from fusiond.broker.records import NewJob
from fusiond.job import new_id
from tests.chaos import repeat
from tests.chaos.package import SHORTER
from tests.chaos.plant import SERVER, Plant
from tests.support.running import send, until

#: s; hard timeout of the jobs that run out of time, and how long a fork server is stopped
HARD, PAUSE = 0.4, 0.25
FILE = """
broker: {{url: embedded}}
retry_policies: {{hardy: {{max_crashes: 1000}}}}
queues: {{quick: {{}}, slow: {{}}, timed: {{}}, many: {{}}}}
defaults:
  tasks: {{retry: hardy, pass_job: job, result_ttl: 1h}}
  workers: {{directory: {app}, environment: {{RUNS: {runs}}}, drain_timeout: 2s}}
tasks:
  quick: {{run: work.run, queue: quick}}
  slow: {{run: work.run, queue: slow}}
  timed: {{run: work.run, queue: timed}}
  many: {{run: work.run_awaiting, queue: many}}
  quick_endless: {{run: work.endure, queue: quick, retry: none, timeout: {{soft: 0.2s, hard: {hard}s}}}}
  slow_endless: {{run: work.endure, queue: slow, retry: none, timeout: {{soft: 0.2s, hard: {hard}s}}}}
  many_endless: {{run: work.endure, queue: many, retry: none, timeout: {{soft: 0.2s, hard: {hard}s}}}}
  quick_killer: {{run: work.kill_itself, queue: quick, retry: none}}
  slow_killer: {{run: work.kill_itself, queue: slow, retry: none}}
workers:
  reused: {{queues: [quick], processes: 2, isolation: process}}
  forked: {{queues: [slow, timed], processes: 3, isolation: fork}}
  looped: {{queues: [many], processes: 2, isolation: process, executor: asyncio, concurrency: 4}}
"""
#: jobs of no time before each bunch
WARM = 40


class Aim(NamedTuple):
    """What is done to a job."""

    #: name of the task behind `quick_` or `slow_`, and its seconds; "": the plain one
    task: str
    seconds: float
    cancel: bool
    #: status, and code of the error, of which one may come of it
    ends: tuple


AIMS = {
    # Ended before the kill, or while the fork server was stopped, it has finished.
    "canceled": Aim("", 0.08, True, (("canceled", "CANCELED"), ("finished", ""))),
    "out of time": Aim("endless", 30.0, False, (("failed", "TIMEOUT"),)),
    "killed by itself": Aim("killer", 0.05, False, (("failed", "WORKER_CRASHED"),)),
}
#: of a child that runs many jobs at once: nobody knows which of them has ended it, so each counts a crash
OF_MANY = ("canceled", "out of time")
#: name of the jobs behind it, or beside it
INNOCENT = "not meant"


def violations(edits=(), seed=0, rounds=4, *, many=False):
    """A sentence for each job that had an end which was meant for another; `many`: of children of many jobs at once."""
    rand = random.Random(seed)
    with Plant((*SHORTER, *edits)) as plant:
        plant.write(FILE.format(app=plant.app, runs=plant.runs, hard=HARD))
        plant.start_up()
        plant.client()
        jobs = {}
        names, queues = (OF_MANY, ("many",)) if many else (sorted(AIMS), ("quick", "slow"))
        for number in range(rounds):
            for name in rand.sample(names, len(names)):
                if found := _round(plant, name, queues[number % len(queues)], rand, jobs):
                    # The next round would wait for the same.
                    return found
        return list(_judge(plant, jobs))


def _round(plant, name, queue, rand, jobs):
    """One bunch; adds (queue, id) → name and Aim of each of its jobs. Returns what is wrong where they do not end."""
    _enqueue(plant, queue, [("", 0.0)] * WARM)
    if not _ends(plant, queue):
        return [f"I18 quick jobs in queue '{queue}', none of them meant, do not end"]
    aim = AIMS[name]
    # In front of the others, so that they are behind it in its child.
    bunch = [(name, aim)]
    lengths = (0.02, 0.3) if queue != "many" else (0.3, 2 * HARD)  # those beside it must run when it is killed
    bunch += [(INNOCENT, Aim("", rand.choice(lengths), False, (("finished", ""),))) for _ in range(4)]
    ids = _enqueue(plant, queue, [(each.task, each.seconds) for _, each in bunch])
    jobs |= {(queue, id_): each for id_, each in zip(ids, bunch, strict=True)}
    until(lambda: f"begin {ids[0]}" in plant.runs.read_text(), plant.text)
    servers = plant.pids(SERVER)
    send(signal.SIGSTOP, *servers)
    try:
        if aim.cancel:
            plant.run(plant.broker.cancel(queue, ids[0]))
        time.sleep(PAUSE if aim.cancel else HARD)
    finally:
        send(signal.SIGCONT, *servers)
    if not _ends(plant, queue):
        return [f"I18 a job in queue '{queue}' goes on, after one there was {name}", *_judge(plant, jobs)]
    return []


def _ends(plant, queue):
    """Whether all jobs of the queue end."""
    with contextlib.suppress(AssertionError):
        plant.rest(queue, patience=12)
        return True
    return False


def _enqueue(plant, queue, calls):
    """(task, s) each, in one script, so that one claim sees them all; returns the ids."""
    tasks = [f"{queue}_{task}" if task else queue for task, _ in calls]
    jobs = [
        NewJob(new_id(), task, json.dumps([[seconds], {}]).encode())
        for task, (_, seconds) in zip(tasks, calls, strict=True)
    ]
    plant.run(plant.broker.enqueue(queue, jobs))
    return [job.id for job in jobs]


def _judge(plant, jobs):
    for (queue, id_), (name, aim) in jobs.items():
        record = plant.run(plant.broker.job(queue, id_))
        code = json.loads(record.error)["code"] if record.error and record.status != "finished" else ""
        if (record.status, code) not in aim.ends:
            yield f"I18 job {id_}, {name}, in queue '{queue}', is {record.status} {code}"
        elif name == INNOCENT and record.crashes:
            yield f"I18 job {id_}, not meant, in queue '{queue}', was charged with {record.crashes} crashes"


if __name__ == "__main__":
    sys.exit(repeat.main("victims", __doc__, partial(violations, rounds=20), times=1))
