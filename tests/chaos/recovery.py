"""
How soon jobs run again after a fault: the real daemon, its real lease and pauses.

    redis-stopped      SIGSTOP of Redis for a while, then SIGCONT → a job begins
    redis-ended        the operator stops and starts it → a job begins, counted from its first answer
    child              kill -9 of a child → its job begins again
    dispatcher         kill -9 of a dispatcher → its jobs begin again, elsewhere or there

`python -m tests.chaos.recovery --help` says how to run it; status 1 where a target is missed.
"""

import argparse
import contextlib
import math
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from fusiond.broker.call import as_is, plain
from fusiond.errors import BrokerError
from fusiond.worker.dispatcher.claims import leases
from tests.chaos import ledger, report
from tests.chaos.faults import kill
from tests.chaos.load import Load, Mix
from tests.chaos.plant import CHILD, DISPATCHER, REDIS, Plant
from tests.support.running import alive, until

#: s; what is promised
REDIS_BACK, CHILD_AGAIN, DISPATCHER_AGAIN = 2.0, 1.0, leases.LEASE + 2.0
#: jobs a second, which half of the six children can do: the targets are for groups that have room. Where every group is
#: full, a lost job waits for the scheduler's look at it, up to 10 s.
RATE = 6
#: jobs that leave a child time to be hit
LASTING = Mix(short=0.0, long=1.0, long_seconds=0.5, delayed=0.0, bunch=1)


@contextlib.contextmanager
def stopped(plant):
    """Redis holds its connections and answers nobody."""
    pid = plant.pids(REDIS)[0]
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@contextlib.contextmanager
def ended(plant):
    """Redis is stopped by its operator: connections end, and new ones are refused; back when it answers."""
    supervisorctl(plant, "stop")
    try:
        yield
    finally:
        supervisorctl(plant, "start")
        until(lambda: answers(plant))


def supervisorctl(plant, verb):
    """As an operator types it."""
    words = [str(Path(sys.executable).with_name("supervisorctl")), "-s", f"unix://{plant.control}", verb, "redis"]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


def answers(plant):
    """Whether Redis does."""
    with contextlib.suppress(BrokerError):
        return plant.run(plain(as_is, "PING"))
    return False


def redis_back(plant, away, seconds, rand):
    """
    One absence.

    Returns:
        s from the return until the first job began, and until each dispatcher had begun one. Jobs come at once then,
        and nothing ran before: everybody waits idly.
    """
    until(lambda: {"idle"} == {each["state"] for each in states(plant)})
    before = len(began(plant))
    with away(plant):
        time.sleep(seconds + rand.uniform(0.0, 1.0))
    back = time.time()
    load = Load(plant.client(), 100_000, rate=40, mix=Mix(delayed=0.0, short=1.0, long=0.0), seed=rand.random())
    load.start()
    try:
        dispatchers = until(lambda: len(set(plant.pids(DISPATCHER))) == 2 and set(plant.pids(DISPATCHER)))
        until(lambda: {run.dispatcher for run in began(plant)[before:]} == dispatchers, timeout=90)
    finally:
        load.stop()
    ledger.settled(plant, load.acks)
    first = {}
    for run in began(plant)[before:]:
        first.setdefault(run.dispatcher, run.began - back)
    return min(first.values()), max(first.values())


def states(plant):
    """What each dispatcher says of itself."""
    with contextlib.suppress(BrokerError):
        keys = plant.run(plain(as_is, "KEYS", "fusion:worker:*"))
        flat = [plant.run(plain(as_is, "HGETALL", key)) for key in keys]
        return [{each[i].decode(): each[i + 1].decode() for i in range(0, len(each), 2)} for each in flat]
    return []


def began(plant):
    """All runs, oldest first."""
    runs = [run for each in ledger.read_runs(plant.runs).values() for run in each]
    return sorted(runs, key=lambda run: run.began)


def crashes(plant, kind, count):
    """Seconds from each of `count` kills until each job that it cut off began again."""
    load, faults = Load(plant.client(), 1_000_000, rate=RATE, mix=LASTING), []
    load.start()
    for _ in range(count):
        pid = until(lambda: busy(plant, kind), load.check, timeout=60)
        kill(plant, kind, pid, faults)
        until(lambda pid=pid: not alive(pid))
        if kind == DISPATCHER:
            until(lambda: again(plant, load, faults[-1:], kind), timeout=60)
    load.stop()
    ledger.settled(plant, load.acks)
    return again(plant, load, faults, kind)


def again(plant, load, faults, kind):
    """What the logs say."""
    found = ledger.Ledger(load.acks, faults, ledger.read_runs(plant.runs), {}, {}, [], [])
    patience = leases.LEASE - leases.MARGIN - leases.RENEW
    return report.recoveries(found, leases.LEASE, patience)[kind]


def busy(plant, kind):
    """A living process of this kind with a job that has just begun."""
    place = {CHILD: "child", DISPATCHER: "dispatcher"}[kind]
    runs = [run for run in began(plant)[-40:] if not run.ended and alive(run.child)]
    return getattr(runs[-1], place) if runs else None


def tell(what, values, limit):
    """A line; whether the limit was kept."""
    values = sorted(values)
    p99 = values[max(0, math.ceil(len(values) * 0.99) - 1)]
    kept = p99 <= limit
    print(
        f"{what:34} n {len(values):4}   median {values[len(values) // 2]:7.3f}   p99 {p99:7.3f}   "
        f"max {values[-1]:7.3f} s   limit {limit:g} s  {'kept' if kept else 'MISSED'}",
        flush=True,
    )
    return kept


def absences(name, away, given, rand):
    """Cycles of one kind of absence."""
    with Plant() as plant:
        plant.start_up()
        pairs = [redis_back(plant, away, given.away, rand) for _ in range(given.cycles)]
    some = tell(f"{name}: first job", [some for some, _ in pairs], REDIS_BACK)
    return tell(f"{name}: every dispatcher", [every for _, every in pairs], REDIS_BACK) and some


def deaths(name, kind, count, limit):
    """Kills of one kind of process."""
    with Plant() as plant:
        plant.start_up()
        return tell(f"{name}: rerun", crashes(plant, kind, count), limit)


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.recovery", description=__doc__.splitlines()[1])
    parser.add_argument("--cycles", type=int, default=20, help="absences of Redis")
    parser.add_argument("--away", type=float, default=10.0, help="seconds of each")
    parser.add_argument("--children", type=int, default=250, help="kills of a child")
    parser.add_argument("--dispatchers", type=int, default=10, help="kills of a dispatcher")
    parser.add_argument("--only", choices=["redis-stopped", "redis-ended", "child", "dispatcher"])
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    rand = random.Random(given.seed)
    trials = {
        "redis-stopped": lambda name: absences(name, stopped, given, rand),
        "redis-ended": lambda name: absences(name, ended, given, rand),
        "child": lambda name: deaths(name, CHILD, given.children, CHILD_AGAIN),
        "dispatcher": lambda name: deaths(name, DISPATCHER, given.dispatchers, DISPATCHER_AGAIN),
    }
    kept = [trial(name) for name, trial in trials.items() if given.only in (None, name)]
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())
