"""A broker with a catalogue, and by hand what a dispatcher does: for tests of commands that need no daemon."""

import dataclasses
import json
import time
from contextlib import contextmanager
from pathlib import Path

from fusiond.broker.call import as_is, plain
from fusiond.broker.jobs import EFFECTS
from fusiond.broker.records import Outcome
from fusiond.broker.redis.connection import connect
from fusiond.broker.verbs import Verbs
from fusiond.job import new_token
from tests.support.fusiond_command import fusiond_here

TASKS = {
    "send": {"queue": "default", "priority": 1, "expires": None, "run": "shop.send"},
    "report": {"queue": "reports", "priority": 0, "expires": None, "run": "shop.report", "log_tag": "money"},
}
QUEUES = ("default", "reports")


class Desk:
    """Commands against one namespace of a real Redis, and a worker's acts."""

    def __init__(self, settings, cwd):
        self.settings, self.cwd = settings, cwd
        self.verbs, self.connection = Verbs(settings.namespace), connect(settings, Path("/"))
        self.run = self.connection.run

    def declare(self, **max_length):
        """What a daemon tells Redis of its file."""
        self.run(self.verbs.declare(QUEUES))
        for queue in QUEUES:
            self.run(self.verbs.configure(queue, max_length=max_length.get(queue), tasks={}))
        publish = self.verbs.publish_catalogue("test", "hash", TASKS, priorities={"high": 2, "low": 0}, queues=QUEUES)
        self.run(publish)
        self.serve(*QUEUES)

    def count(self, hours_ago, task, queue="default", **numbers):
        """Write counters of a task in an hour, so many hours ago; returns when that began, in epoch s."""
        hour = int(time.time()) // 3600 - hours_ago
        words = [word for name, number in numbers.items() for word in (f"{name} {task}", number)]
        self.run(plain(as_is, "HSET", self.verbs.keys.of(queue, "metrics", "hour", str(hour)), *words))
        return hour * 3600

    def serve(self, *queues):
        """What a worker group of that daemon says while it claims from these queues."""
        self.run(self.verbs.serve("test", "host.1", queues))

    def fusiond(self, *words, given=""):
        """A command that finds this broker by its environment."""
        return fusiond_here(*words, cwd=self.cwd, given=given, FUSION_URL=self.settings.url)

    def enqueued(self, *words):
        """The full name of the job that this call enqueued."""
        return self.fusiond("enqueue", *words).out.strip()

    def claim(self, queue="default"):
        """Begin the next job: (id, token)."""
        token = new_token()
        claim = self.verbs.claim(queue, 1, dispatcher="test", nonce=token, lease_ms=3_600_000, max_rescues=3)
        (job,) = self.run(claim).jobs
        return job.id.decode(), token

    def settle(self, kind, queue="default", **payload):
        """Begin the next job and end it."""
        job, token = self.claim(queue)
        body = json.dumps(payload.get("result", payload)).encode()
        outcome = Outcome(job, token, kind, ms=3_600_000, payload=body, why=payload.get("why", kind))
        [reply] = self.run(self.verbs.settle(queue, [outcome]))
        assert reply & ~EFFECTS == 1
        return f"{queue}/{job}"

    def fail(self, queue="default"):
        """Begin the next job and have it fail as a task does."""
        traceback = 'Traceback (most recent call last):\n  File "shop.py", line 1, in send\nValueError: no stock\n'
        error = {"code": "EXCEPTION", "type": "ValueError", "message": "no stock", "traceback": traceback}
        return self.settle("failed", queue, **error)


@contextmanager
def opened(settings, cwd):
    """A desk whose daemon has declared its queues and tasks."""
    # Where nothing is said of a namespace it is this one.
    desk = Desk(dataclasses.replace(settings, namespace="fusion"), cwd)
    with desk.connection:
        desk.declare()
        yield desk
