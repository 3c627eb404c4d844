"""
A hostile child: task code with its child's descriptors in hand, among honest jobs of the same group.

Promise: dispatcher and fork server stay the processes that they are, and all honest jobs finish with their own results.
"""

from fusiond.errors import BrokerError, JobError
from tests.fuzz.ground import Ground
from tests.fuzz.hostile import KINDS
from tests.fuzz.run import Target
from tests.support.running import until

# An honest job that shares a process with a hostile one may be charged with a death that is not its own.
FILE = """
broker: {url: embedded}
queues: {forked: {}, reused: {}}
retry_policies:
  honest: {max_attempts: 100, max_crashes: 100, delay: 0s}
  hostile: {max_attempts: 1, max_crashes: 0}
defaults: {tasks: {result_ttl: 1m}, workers: {directory: "{app}", processes: 3}}
tasks:
  honest: {run: hostile.honest, queue: forked, retry: honest, timeout: {soft: 10s, hard: 20s}}
  attack: {run: hostile.attack, queue: forked, retry: hostile, timeout: {soft: 1s, hard: 1500ms}}
workers: {forked: {queues: [forked], isolation: fork}, reused: {queues: [reused], isolation: process}}
"""


class Fuzz(Target):
    #: what one frame of 64 MiB, in two copies, may leave with the allocator
    megabytes = 160.0

    def __init__(self, rand):
        super().__init__(rand)
        self.ground = Ground(FILE, "hostile.py")
        self.number = 0

    def begin(self):
        self.client = self.ground.client()

    def round(self):
        jobs = [self._enqueue(queue) for queue in ("forked", "reused") for _ in range(30)]
        until(lambda: all(job.status().ended for job, *_ in jobs), lambda: self._open(jobs), timeout=60)
        for job, number, kind in jobs:
            if kind is None:
                assert self._result(job)[0] == number, f"another's result, {self._result(job)}: {job}"
                self.seen[f"{job.queue}: honest"] += 1
            else:
                self.seen[f"{job.queue}: {kind}: {self._end(job)}"] += 1
        self._clear()

    def _enqueue(self, queue):
        rand, client = self.rand, self.client.options(queue=queue)
        self.number += 1
        if rand.random() < 0.3:
            # What a job takes from its process, of memory say, those after it in a reused one lack as well.
            kind = rand.choice(KINDS if queue == "forked" else KINDS[:-1])
            return client.enqueue("attack", kind, rand.randrange(1 << 30), queue == "forked"), self.number, kind
        return client.enqueue("honest", self.number, rand.choice((0, 0, 10, 200_000))), self.number, None

    def _result(self, job):
        try:
            return job.result(timeout=0)
        except JobError as error:
            raise AssertionError(f"an honest job has failed with {error.code}: {error}: {job}") from error

    def _end(self, job):
        """How a hostile job ended; nothing that it may leave there is a surprise to who asks."""
        try:
            job.result(timeout=0)
        except JobError as error:
            return getattr(error, "code", type(error).__name__)
        except BrokerError:
            return "unreadable"
        return "finished"

    def _open(self, jobs):
        records = [
            self.ground.run(self.ground.broker.job(job.queue, job.id)) for job, *_ in jobs if not job.status().ended
        ]
        return f"have not ended: {records}\n{self.ground.text()[-5000:]}"

    def _clear(self):
        for queue in ("forked", "reused"):
            root = f"fusion:{{{queue}}}:"
            keys = self.ground.redis("KEYS", f"{root}job:*")
            self.ground.redis("UNLINK", *keys, *(root + name for name in ("finished", "failed")))
