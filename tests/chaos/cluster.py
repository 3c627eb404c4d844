"""
`python -m tests.chaos.cluster`: primaries of a real Cluster die and slots move under load, and the verdict; status 1
where a job came to harm.

    dies      the primary of a queue's slot is killed, its replica takes over
    keys      a queue's slot moves to another primary key by key, as `redis-cli --cluster reshard` moves it
    whole     the same as one, by CLUSTER MIGRATESLOTS, where the server has it

Six nodes; the producer enqueues at `replica` durability; the daemon under test has a lease of 3 s, and logs its steps.
"""

import argparse
import random
import sys
import time

from tests.chaos import ledger, verdict
from tests.chaos.faults import Fault
from tests.chaos.load import Load
from tests.chaos.plant import QUEUES, REDIS
from tests.chaos.sentinel import FATAL, MIX, RATE, Over, spread
from tests.support.replicas import RedisCluster
from tests.support.running import until


def dies(cluster, root):
    """Seconds without the primary."""
    return cluster.fail_over(cluster.owner(root)[1])


def keys(cluster, root):
    """Seconds of the move; its queue waits."""
    return _moved(cluster, root, cluster.migrate)


def whole(cluster, root):
    """Seconds of the move."""
    return _moved(cluster, root, cluster.migrate_whole)


def _moved(cluster, root, migrate):
    slot, owner = cluster.owner(root)
    target = next(node for node in cluster.primaries() if node is not owner)
    began = time.monotonic()
    migrate(slot, target)
    return time.monotonic() - began


FAULTS = {"dies": dies, "keys": keys, "whole": whole}


def carry_out(times, seed=0, say=lambda _: None):
    """Each fault so often under load; ledger, violations, seconds by fault, and seconds until a job began."""
    rand = random.Random(seed)
    with RedisCluster() as cluster, Over(cluster.url) as plant:
        plant.start_up()
        load = Load(plant.client(), 10**6, rate=RATE, mix=MIX, seed=seed)
        load.start()
        kinds = [kind for kind in FAULTS for _ in range(times) if kind != "whole" or cluster.can_move_whole()]
        rand.shuffle(kinds)
        faults, took, back = [], {kind: [] for kind in FAULTS}, []
        for number, kind in enumerate(kinds):
            load.more(30)
            queue, at = rand.choice(QUEUES[:2]), time.time()
            seconds = FAULTS[kind](cluster, plant.broker.keys.root(queue))
            ended = time.time()
            began = until(lambda: plant.began_after(ended), plant.text, timeout=120)  # noqa: B023
            faults.append(Fault(REDIS, 0, at, ended - at))
            took[kind].append(seconds)
            back.append(began - ended)
            say(f"{number + 1} of {len(kinds)}: {kind}, queue {queue}, {seconds:.2f} s; a job {back[-1]:.2f} s after")
        load.more(30)
        load.stop()
        try:
            ledger.settled(plant, load.acks, timeout=180)
        except AssertionError as error:
            say(f"not at rest: {error}")
        found = ledger.conclude(plant, load.acks, faults)
        return found, verdict.judge(found), took, back


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.cluster", description=__doc__.split("\n\n")[0])
    parser.add_argument("--times", type=int, default=10, help="of each fault")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    found, violations, took, back = carry_out(given.times, given.seed, lambda line: print(f"  {line}", flush=True))
    harm = [violation for violation in violations if violation.startswith(FATAL)]
    runs = sum(len(each) for each in found.runs.values())
    lost = sum(record is None for record in found.records.values())
    print("\n| Cluster of six nodes | |\n|---|---|")
    for kind, seconds in took.items():
        print(f"| {kind} ({len(seconds)} times) | {spread(seconds)} |")
    print(f"| from its end until a job begins | {spread(back)} |")
    print(f"| jobs, acknowledged at `replica` | {len(found.acks)} |\n| … of them lost | {lost} |")
    print(f"| … runs beyond one | {runs - sum(ack.id in found.runs for ack in found.acks)} |")
    print(f"| violations of I1, I2, I4, I7 | {len(harm)} |")
    print(f"| all violations | { {name: n for name, n in verdict.by_invariant(violations).items() if n} or 0 } |")
    for violation in violations[:30]:
        print(f"  ✗ {violation}", file=sys.stderr)
    return 1 if harm else 0


if __name__ == "__main__":
    sys.exit(main())
