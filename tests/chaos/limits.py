"""
`python -m tests.chaos.limits`: limits under kills; status 1 where more jobs than `max_running` held a place, or a place
or a held job was left over (I20).

1. fill     a queue with `max_running`, and one whose task has a limit by account, for two worker groups
2. kill     their dispatchers and children, stop a dispatcher beyond its lease, and cancel jobs that are held;
            over a Cluster move the slots of the queues, too, key by key and as one
3. judge    from Redis' own log: between each claim and what ended that attempt, the job held a place
4. at rest  all jobs have ended, none is held, and no place is taken
"""

import random
import signal
import sys
import time
from collections import defaultdict

from fusiond.broker.call import as_is, plain
from fusiond.client import Client
from tests.chaos import cluster, repeat
from tests.chaos.package import LEASE, LOGGED, SHORTER
from tests.chaos.plant import CHILD, DISPATCHER, Plant, played
from tests.support.running import send

#: s in which no more jobs end; what was held back by a kill goes on sooner, what nobody passes on is looked at later
PEACE = 20.0
JOBS, FEW, ONE = 120, 3, 2
ACCOUNTS, QUEUES = "abcd", ("few", "shared")
FILE = """
broker: {{url: embedded}}
queues: {{few: {{max_running: {few}}}, shared: {{}}}}
defaults:
  tasks: {{pass_job: job, result_ttl: 1h}}
  workers: {{directory: {app}, environment: {{RUNS: {runs}}}, drain_timeout: 2s, processes: 4}}
tasks:
  few: {{run: work.run, queue: few, retry: patient}}
  sync: {{run: work.run_for, queue: shared, retry: patient, limit: {{by: [kwargs.account], max_running: {one}}}}}
retry_policies: {{patient: {{max_crashes: 1000, max_attempts: 1000, delay: 100ms, backoff: fixed}}}}
workers: {{main: {{queues: [few, shared]}}, other: {{queues: [few, shared]}}}}
"""
#: what ends an attempt
_ENDS = {"finished", "failed", "canceled", "retry", "released", "rescue"}


class Limits(Plant):
    """The daemon, with two groups."""

    declares = ("sync",)

    def __init__(self, edits, text=FILE):
        super().__init__((*SHORTER, *LOGGED, *edits))
        with (self.app / "work.py").open("a") as file:
            file.write("\n\ndef run_for(seconds, *, account, job):\n    run(seconds, job=job)\n")
        self.write(text.format(app=self.app, runs=self.runs, few=FEW, one=ONE))


def violations(edits=(), seed=0):
    """What was over a limit, or is left over, a sentence each."""
    rand = random.Random(seed)

    def story(plant, client):
        key_of = _fill(client, rand, JOBS if plant.cluster is None else 2 * JOBS)
        _harm(plant, client, rand)
        plant.rest(*QUEUES, patience=PEACE)
        return [*_judge(plant, key_of), *_rest(plant)]

    return played(Limits(edits), "I20", story)


def _fill(client, rand, count):
    """Id → the limit that counts the job, and its number."""
    key_of = {}
    few = client.enqueue_many([("few", [rand.uniform(0.02, 0.2)]) for _ in range(count // 2)])
    key_of |= {job.id: ("few", FEW) for job in few}
    accounts = [rand.choice(ACCOUNTS) for _ in range(count)]
    jobs = client.enqueue_many([("sync", [rand.uniform(0.02, 0.2)], {"account": account}) for account in accounts])
    return key_of | {job.id: (account, ONE) for job, account in zip(jobs, accounts, strict=True)}


def _harm(plant, client: Client, rand):
    end = time.monotonic() + 6.0
    moves = [(queue, move) for queue in QUEUES for move in _moves(plant.cluster)]
    while time.monotonic() < end or moves:
        time.sleep(rand.uniform(0.1, 0.5))
        pids = plant.pids(rand.choice([CHILD, CHILD, DISPATCHER]))
        if pids:
            stop_or_kill(rand.choice(pids), rand)
        if moves:
            queue, move = moves.pop(rand.randrange(len(moves)))
            assert plant.left(*QUEUES), "all jobs have ended before each slot has moved"
            move(plant.cluster, plant.broker.keys.root(queue))
        held = plant.run(plant.broker.jobs("shared", "held", count=3))
        if held and rand.random() < 0.3:
            plant.run(plant.broker.cancel("shared", held[-1].id))


def _moves(nodes):
    """The ways in which the slot of a queue can move, each once."""
    if nodes is None:
        return []
    return [cluster.keys, cluster.whole] if nodes.can_move_whole() else [cluster.keys]


def stop_or_kill(pid, rand):
    """Kill it, or now and then stop it for longer than a lease."""
    if rand.random() < 0.1:
        send(signal.SIGSTOP, pid)
        time.sleep(LEASE + 0.3)
        send(signal.SIGCONT, pid)
    else:
        send(signal.SIGKILL, pid)


def _judge(plant, key_of):
    """More attempts at once than a limit allows."""
    running = defaultdict(set)
    for queue in QUEUES:
        for words in log_of(plant, queue):
            id_, verb = words[b"id"].decode(), words[b"verb"].decode()
            key, most = key_of[id_]
            if verb == "claim":
                running[key].add(id_)
                if len(running[key]) > most:
                    yield f"I20 {len(running[key])} jobs of {key!r} hold a place, and {most} may"
            elif verb in _ENDS:
                running[key].discard(id_)


def log_of(plant, queue):
    """What the scripts have noted of the queue's jobs, in Redis' order."""
    with plant.connect() as connection:
        for _, flat in connection.run(plain(as_is, "XRANGE", plant.broker.keys.of(queue, "log"), "-", "+")):
            yield dict(zip(flat[::2], flat[1::2], strict=True))


def _rest(plant):
    """Places that are taken where nothing runs, and what fsck finds."""
    with plant.connect() as connection:
        # on a Cluster the queue's braces lead to its node
        for key in connection.run(plain(as_is, "KEYS", plant.broker.keys.of("shared", "places", "*"))):
            yield f"I20 a place of {key.decode()} is taken, and nothing runs"


if __name__ == "__main__":
    sys.exit(repeat.main("limits", __doc__, violations, times=5))
