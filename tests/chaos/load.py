"""
The producer: enqueues at a steady rate, and notes what was acknowledged.

An enqueue that Redis did not answer is repeated under its id until it is acknowledged, as a careful producer does.
"""

import random
import threading
import time
from typing import NamedTuple

from fusiond.errors import BrokerError, UnknownTask
from fusiond.job import new_id


class Ack(NamedTuple):
    """One acknowledged enqueue."""

    id: str
    queue: str
    #: s; what the job was asked to take
    seconds: float
    #: epoch s
    at: float


class Mix(NamedTuple):
    """What share of the jobs takes how long; the rest takes no time."""

    #: 0.02 to 0.3 s
    short: float = 0.3
    #: s of a long job, and their share
    long_seconds: float = 4.0
    long: float = 0.01
    #: due only within 2 s
    delayed: float = 0.05
    #: of the jobs of the quick task, so that a child is handed some behind a longer one
    uneven: float = 0.05
    #: jobs that come at once
    bunch: int = 10


class Load(threading.Thread):
    """`start()`, and `acks` grows until `count` jobs are in or `stop()` was called."""

    def __init__(self, client, count, rate, mix=Mix(), seed=0):  # noqa: B008 - immutable
        super().__init__(daemon=True)
        self._client, self._count, self._rate, self._mix = client, count, rate, mix
        self._rand = random.Random(seed)
        self._over = threading.Event()
        self.acks = []
        self.failure = None

    def run(self):
        began = time.monotonic()
        try:
            for number in range(self._count):
                if self._over.wait(
                    max(0.0, began + (number - number % self._mix.bunch) / self._rate - time.monotonic())
                ):
                    return
                self._enqueue()
        except Exception as error:
            self.failure = error

    def _enqueue(self):
        rand, mix = self._rand, self._mix
        kind = rand.random()
        seconds = 0.0
        if kind < mix.long:
            seconds = mix.long_seconds
        elif kind < mix.long + mix.short:
            seconds = round(rand.uniform(0.02, 0.3), 3)
        task = "slow" if seconds else "quick"
        if not seconds and rand.random() < mix.uneven:
            seconds = 0.2
        options = {"id": new_id(), "priority": rand.choice((1, 50, 200))}
        if rand.random() < mix.delayed:
            options["delay"] = rand.uniform(0.0, 2.0)
        while True:
            try:
                job = self._client.options(**options).enqueue(task, seconds)
            except (BrokerError, UnknownTask):
                time.sleep(0.05)
            else:
                self.acks.append(Ack(job.id, job.queue, seconds, time.time()))
                return

    def stop(self):
        """No more jobs; returns when the last call has ended."""
        self._over.set()
        self.join(60)
        self.check()

    def check(self):
        """Raise what went wrong."""
        if self.failure:
            raise self.failure
