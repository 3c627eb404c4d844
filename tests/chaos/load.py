"""
The producer: enqueues at a steady rate, and notes what was acknowledged. Now and then it is an operator too.

1. enqueue   through the client, or as raw JSON into a queue's inbox
2. cancel    some, a little later, and note the answer
3. requeue   what has failed as it was meant to

What Redis did not answer is repeated, an enqueue under its id, until it is acknowledged, as a careful producer does.
"""

import heapq
import json
import random
import threading
import time
from typing import NamedTuple

from fusiond.broker.call import as_is, plain
from fusiond.broker.verbs import Verbs
from fusiond.errors import BrokerError, UnknownTask
from fusiond.job import JobStatus, new_id
from tests.support.running import until


class Ack(NamedTuple):
    """One acknowledged enqueue."""

    id: str
    queue: str
    #: s; what the job was asked to take
    seconds: float
    #: epoch s
    at: float


class Cancel(NamedTuple):
    """One acknowledged cancel."""

    #: canceled asked ended missing
    answer: str
    #: epoch s
    at: float


class Mix(NamedTuple):
    """What share of the jobs takes how long, the rest takes no time; and what share is treated how."""

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
    #: jobs that fail, and are requeued then
    flawed: float = 0.0
    #: jobs that are canceled within half a second
    canceled: float = 0.0
    #: of the jobs of the quick task, through the inbox
    inbox: float = 0.0
    #: jobs of no time beside each bunch, in one call
    flood: int = 0


#: some of everything
FULL = Mix(flawed=0.01, canceled=0.02, inbox=0.1)
#: s; between two looks for jobs that failed
_LOOK = 0.3
#: s; an operator's or a producer's call that is refused for longer is no work of a fault
_PATIENCE = 60.0


class Load(threading.Thread):
    """`start()`, and `acks` grows until `count` jobs are in or `stop()` was called."""

    def __init__(self, client, count, rate, mix=Mix(), seed=0):  # noqa: B008 - immutable
        super().__init__(daemon=True)
        self._client, self._count, self._rate, self._mix = client, count, rate, mix
        self._rand = random.Random(seed)
        self._over = threading.Event()
        self._broker = Verbs()
        #: (monotonic s, Ack) of jobs to be canceled
        self._condemned = []
        #: ids of jobs that are to fail and be requeued
        self._flawed = set()
        self._looked = 0.0
        self.acks = []
        #: job id → Cancel
        self.cancels = {}
        self.failure = None

    def run(self):
        began = time.monotonic()
        try:
            for number in range(self._count):
                if self._over.wait(
                    max(0.0, began + (number - number % self._mix.bunch) / self._rate - time.monotonic())
                ):
                    return
                if self._mix.flood and number % self._mix.bunch == 0:
                    self._flood()
                self._enqueue()
                self._operate(time.monotonic())
        except Exception as error:
            self.failure = error

    def _enqueue(self):
        rand, mix = self._rand, self._mix
        task, seconds = self._task()
        options = {"id": new_id(), "priority": rand.choice((1, 50, 200))}
        if rand.random() < mix.delayed:
            options["delay"] = rand.uniform(0.0, 2.0)
        through_inbox = task == "quick" and rand.random() < mix.inbox
        ack = self._push(options, seconds) if through_inbox else self._call(options, task, seconds)
        if ack is None:
            return
        if task == "flawed":
            self._flawed.add(ack.id)
        elif rand.random() < mix.canceled and not through_inbox:
            heapq.heappush(self._condemned, (time.monotonic() + rand.uniform(0.0, 0.5), ack))
        self.acks.append(ack)

    def _task(self):
        """Task and seconds of the next job."""
        rand, mix = self._rand, self._mix
        kind = rand.random()
        if kind < mix.long:
            return "slow", mix.long_seconds
        if kind < mix.long + mix.short:
            return "slow", round(rand.uniform(0.02, 0.3), 3)
        if kind > 1.0 - mix.flawed:
            return "flawed", 0.0
        return "quick", 0.2 if rand.random() < mix.uneven else 0.0

    def _flood(self):
        jobs = self._insist(lambda: self._client.enqueue_many([("quick", [0.0])] * self._mix.flood))
        self.acks += [Ack(job.id, job.queue, 0.0, time.time()) for job in jobs or ()]

    def _call(self, options, task, seconds):
        job = self._insist(lambda: self._client.options(**options).enqueue(task, seconds))
        return job and Ack(job.id, job.queue, seconds, time.time())

    def _push(self, options, seconds):
        body = json.dumps({"task": "quick", "args": [seconds], **options})
        push = plain(as_is, "LPUSH", self._broker.keys.of("quick", "inbox"), body)
        return self._insist(lambda: self._client._run(push)) and Ack(options["id"], "quick", seconds, time.time())

    def _insist(self, ask):
        """Until there is an answer; None: it is over. Raises what is refused for much longer than Redis is away."""
        deadline = time.monotonic() + _PATIENCE
        while not self._over.is_set():
            try:
                return ask()
            except (BrokerError, UnknownTask):
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
        return None

    # -- the operator -------------------------------------------------------------------------------------------------

    def _operate(self, now):
        while self._condemned and self._condemned[0][0] <= now:
            ack = heapq.heappop(self._condemned)[1]
            answer = self._insist(lambda ack=ack: self._client._run(self._broker.cancel(ack.queue, ack.id)))
            if answer:
                self.cancels[ack.id] = Cancel(answer, time.time())
        if self._flawed and now - self._looked > _LOOK:
            self._looked = now
            self._insist(self._requeue)

    def _requeue(self):
        failed = self._client._run(self._broker.jobs("slow", JobStatus.FAILED, count=500))
        ids = [record.id for record in failed if record.id in self._flawed]
        if ids:
            self._client._run(self._broker.requeue("slow", ids))
            self._flawed.difference_update(ids)
        return len(ids)

    def give_up(self):
        """After `stop()`: cancel all that is left to be canceled."""
        self._over.clear()
        self._operate(float("inf"))

    def requeue_rest(self):
        """When all jobs have ended: requeue the last that failed as they should."""
        while self._insist(self._requeue):
            pass  # a page of them at a time

    def stop(self):
        """No more jobs; returns when the last call has ended."""
        self._over.set()
        self.join(60)
        self.check()

    def more(self, count, what="the producer stands still", timeout=120):
        """Wait until so many more jobs were acknowledged."""
        goal = len(self.acks) + count
        until(lambda: self.failure or len(self.acks) >= goal, what, timeout)
        self.check()

    def check(self):
        """Raise what went wrong."""
        if self.failure:
            raise self.failure
