"""
`python -m tests.chaos.locks`: unique jobs under kills and stops; status 1 where two jobs of one lock are alive, where a
job that should hold its lock does not, or where a lock outlives its job (I19).

1. load     calls, pushes, cancels and requeues of jobs with few values, `until: ended` and `until: started`
2. faults   children, dispatchers and Redis are killed; dispatchers stand still for longer than a lease
3. look     now and then one script reads all waiting and running jobs and all locks, as they are at that moment
4. rest     once everything has ended, no lock is left
"""

import contextlib
import json
import random
import sys
import time

from fusiond.broker.call import Call, as_is, plain
from fusiond.errors import BrokerError, EnqueueError
from tests.chaos import repeat
from tests.chaos.faults import FaultsBeside
from tests.chaos.package import SHORTER
from tests.chaos.plant import Plant, played
from tests.support.job_text import decode

FILE = """
broker: {{url: embedded}}
retry_policies: {{often: {{max_attempts: 2, delay: 100ms, max_crashes: 1000}}}}
queues: {{ended: {{}}, started: {{}}}}
defaults:
  tasks: {{pass_job: job, result_ttl: 1h, retry: often}}
  workers: {{directory: {app}, environment: {{RUNS: {runs}}}, drain_timeout: 2s}}
tasks:
  ended: {{run: unique_work.run, queue: ended, unique: {{by: [args.0], until: ended, on_conflict: {first}}}}}
  started: {{run: unique_work.run, queue: started, unique: {{by: [args.0], until: started, on_conflict: {second}}}}}
workers:
  one: {{queues: "*", processes: 2, isolation: fork}}
  two: {{queues: "*", processes: 2, isolation: process}}
"""
WORK = """
import random
import work

def run(value, seconds, *, job):
    work.run(seconds, job=job)
    if random.random() < 0.3:
        raise ValueError(value)
"""
QUEUES = ("ended", "started")
VALUES = 4
#: seconds of load, and between two faults
LOAD, PAUSE = 9.0, 1.2
LOOK = """
local jobs, locks = {}, {}
for _, set in ipairs({ 'queue', 'held', 'scheduled', 'started', 'deferred' }) do
  for _, id in ipairs(redis.call('ZRANGE', KEYS[1] .. ':' .. set, 0, -1)) do
    jobs[#jobs + 1], jobs[#jobs + 2] = id, redis.call('GET', KEYS[1] .. ':job:' .. id)
  end
end
for _, key in ipairs(redis.call('KEYS', KEYS[1] .. ':unique:*')) do
  locks[#locks + 1], locks[#locks + 2] = key:sub(#KEYS[1] + 9), redis.call('GET', key)
end
return { jobs, locks }
"""


class Locks(Plant):
    """The daemon, with two groups that serve both queues."""

    declares = QUEUES

    def __init__(self, edits, seed):
        super().__init__((*SHORTER, *edits))
        (self.app / "unique_work.py").write_text(WORK)
        first, second = (("skip", "replace"), ("replace", "refuse"))[seed % 2]
        self.write(FILE.format(app=self.app, runs=self.runs, first=first, second=second))


def violations(edits=(), seed=0):
    """What the looks have found, a sentence each."""
    rand = random.Random(seed)
    return played(Locks(edits, seed), "I19", lambda plant, client: {*_storm(plant, client, rand), *_rest(plant)})


def look(plant, queue):
    """What is wrong with the locks of a queue at this moment."""
    root = plant.broker.keys.root(queue)
    jobs, locks = plant.run(Call(("EVAL", LOOK, 1, root), as_is))
    texts = dict(zip(jobs[::2], jobs[1::2], strict=True))
    return judge(
        {id_.decode(): decode(text) for id_, text in texts.items()}, dict(zip(*[iter(locks)] * 2, strict=True))
    )


def judge(jobs, locks):
    """`jobs`: id → fields of those that have not ended; `locks`: name → id."""
    held = {}
    for id_, fields in jobs.items():
        rule, _, values = fields["unique"].split(b",", 2)
        # what has begun once holds its lock no more
        if rule == b"ended" or "started_at" not in fields:
            held.setdefault(fields["task"] + b":" + values, []).append(id_)
    for lock, ids in held.items():
        if len(ids) > 1:
            yield f"I19 {len(ids)} jobs of the lock {lock.decode()} are alive at once"
        elif locks.get(lock, b"").decode() != ids[0]:
            yield f"I19 a job lives without its lock {lock.decode()}"
    for lock, id_ in locks.items():
        if id_.decode() not in held.get(lock, ()):
            yield f"I19 the lock {lock.decode()} outlives its job"


def _storm(plant, client, rand):
    """Load and faults; yields what the looks find."""
    end = time.monotonic() + LOAD
    with FaultsBeside(plant, rand, PAUSE) as faults:
        while time.monotonic() < end:
            with contextlib.suppress(BrokerError, EnqueueError):
                _act(plant, client, rand)
                yield from look(plant, rand.choice(QUEUES))
            faults.look()


def _act(plant, client, rand):
    """One call of the load."""
    queue, value, seconds = rand.choice(QUEUES), rand.randrange(VALUES), rand.choice((0.0, 0.02, 0.1, 0.4))
    what = rand.random()
    if what < 0.5:
        client.options(delay=rand.choice((None, 0.2))).enqueue(queue, value, seconds)
    elif what < 0.7:
        body = json.dumps({"task": queue, "args": [value, seconds]})
        plant.run(plain(as_is, "LPUSH", plant.broker.keys.of(queue, "inbox"), body))
    elif what < 0.85:
        ended = plant.run(plant.broker.jobs(queue, rand.choice(("failed", "canceled")), count=5))
        plant.run(plant.broker.requeue(queue, [job.id for job in ended]))
    elif jobs := plant.run(plant.broker.jobs(queue, rand.choice(("queued", "started")), count=1)):
        plant.run(plant.broker.cancel(queue, jobs[0].id))


def _rest(plant):
    """What is wrong once nothing waits or runs. AssertionError: something does."""
    plant.rest(*QUEUES)
    return {problem for queue in QUEUES for problem in look(plant, queue)}


if __name__ == "__main__":
    sys.exit(repeat.main("locks", __doc__, violations))
