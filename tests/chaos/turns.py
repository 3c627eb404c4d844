"""
`python -m tests.chaos.turns`: tenants under kills; status 1 where a tenant waited for many jobs of another (I21).

1. fill     a queue with `fair_by`: one tenant has hundreds of jobs, two others some
2. kill     the dispatchers and children of two groups, while tenants without a waiting job come with one each
3. judge    from Redis' own log: of how many jobs of each other tenant such a job saw the claim before its own
4. at rest  all jobs have ended, and nothing is kept of the tenants

A turn has one job of each tenant, in any order. So a job that finds no other of its tenant waits for two of each other
tenant at most: the present turn and the next one.
"""

import random
import sys
import time
from collections import Counter

from fusiond.broker.call import as_is, plain
from tests.chaos import repeat
from tests.chaos.limits import Limits, log_of, stop_or_kill
from tests.chaos.package import Edit
from tests.chaos.plant import CHILD, DISPATCHER, played

#: s in which no more jobs end; s in which tenants come
PEACE, SECONDS = 20.0, 6.0
FLOOD, SOME = 500, 20
MOST = 2
FILE = """
broker: {{url: embedded}}
queues: {{shared: {{fair_by: [kwargs.account]}}}}
defaults:
  tasks: {{pass_job: job, result_ttl: 1h}}
  workers: {{directory: {app}, environment: {{RUNS: {runs}}}, drain_timeout: 2s, processes: 2}}
tasks:
  sync: {{run: work.run_for, queue: shared, retry: patient}}
retry_policies: {{patient: {{max_crashes: 1000, max_attempts: 1000, delay: 100ms, backoff: fixed}}}}
workers: {{main: {{queues: [shared]}}, other: {{queues: [shared]}}}}
"""
#: each entry into the row by which a job takes a turn
ENTERED = Edit(
    "broker/lua/shared/ready.lua",
    "  if turns then score",
    "  redis.call('XADD', ROOT .. ':log', '*', 'verb', 'enter', 'id', id)\n  if turns then score",
)


def violations(edits=(), seed=0):
    """What a tenant had to wait for, or is left over, a sentence each."""
    rand, tenant_of = random.Random(seed), {}

    def story(plant, client):

        def add(count, *tenants):
            calls = [("sync", [rand.uniform(0.02, 0.06)], {"account": tenant}) for tenant in tenants] * count
            jobs = client.enqueue_many(calls)
            tenant_of.update(zip((job.id for job in jobs), list(tenants) * count, strict=True))

        add(FLOOD, "flood")
        add(SOME, "b", "c")
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            time.sleep(rand.uniform(0.1, 0.3))
            add(1, rand.choice("defg"))
            if rand.random() < 0.5:
                pids = plant.pids(rand.choice([CHILD, CHILD, DISPATCHER]))
                if pids:
                    stop_or_kill(rand.choice(pids), rand)
        plant.rest("shared", patience=PEACE)
        return [*_judge(log_of(plant, "shared"), tenant_of), *_rest(plant)]

    return played(Limits((ENTERED, *edits), FILE), "I21", story)


def _judge(log, tenant_of):
    """Jobs that came while their tenant had none in the row, and saw too many of another tenant go first."""
    ready, watched = {tenant: set() for tenant in tenant_of.values()}, {}
    for words in log:
        id_, verb = words[b"id"].decode(), words[b"verb"].decode()
        tenant = tenant_of[id_]
        if verb == "enter":
            if not ready[tenant]:
                watched[id_] = Counter()
            ready[tenant].add(id_)
        # What comes back from an attempt without a new turn goes before all.
        elif verb == "claim" and id_ in ready[tenant]:
            ready[tenant].discard(id_)
            for other, passed in (watched.pop(id_, None) or Counter()).items():
                if passed > MOST:
                    yield f"I21 a job of {tenant!r} waited for {passed} of {other!r}"
            for each in watched.values():
                each[tenant] += 1


def _rest(plant):
    if plant.run(plain(as_is, "EXISTS", plant.broker.keys.of("shared", "tenants"))):
        yield "I21 tenants are remembered, and no job waits"


if __name__ == "__main__":
    sys.exit(repeat.main("turns", __doc__, violations, times=5))
