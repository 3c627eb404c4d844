"""
A Redis whose answers are spoilt on their way to dispatcher, scheduler and client: of wrong types, lengths, cut, errors.

Promise: no process of the daemon ends, a client raises a FusionError or nothing, and once answers are as they should be
all works again within seconds. No acknowledged job is lost: each ends, after its lease at the latest.
"""

import time
from concurrent.futures import ThreadPoolExecutor

from fusiond.client import Client
from fusiond.errors import FusionError
from tests.fuzz.ground import Ground
from tests.fuzz.proxy import Proxy
from tests.fuzz.run import Target
from tests.support.redis_server import RedisServer
from tests.support.running import until

FILE = """
broker: {url: "unix://{proxy}"}
queues: {replies: {}}
defaults: {tasks: {retry: none, result_ttl: 1m}, workers: {directory: "{app}", processes: 2}}
tasks: {echo: {run: harmless.echo, queue: replies}}
workers: {forked: {queues: [replies], isolation: fork}, reused: {queues: [replies], isolation: process}}
cron: {often: {task: echo, every: 1s}}
"""
#: s; of spoilt answers; until all works again; until a job whose lease was lost has run
SPOILT, AGAIN, LEASE = 1.0, 20.0, 90.0
#: each with a connection of its own: an answer that never comes whole costs it 5 s
PRODUCERS = 4


class Fuzz(Target):
    def __init__(self, rand):
        super().__init__(rand)
        self.server = RedisServer()
        path = self.server.directory / "p.sock"
        self.proxy = Proxy(path, self.server.path, rand)
        self.ground = Ground(FILE.replace("{proxy}", str(path)), "harmless.py")
        self.ground.url = self.server.url
        # Jobs stay for their result_ttl.
        self.ground.keys = lambda: self.ground.redis("DBSIZE") - len(self.ground.redis("KEYS", "*:job:*"))
        self.spoilt_url = f"unix://{path}"
        self.open = {}

    def begin(self):
        self.honest = self.ground.client()

    def __exit__(self, *_):
        super().__exit__()
        self.proxy.close()
        self.server.remove()

    def round(self):
        count = self.proxy.count
        self.proxy.spoils = self.rand.choice((0.02, 0.05, 0.2, 1.0))
        with ThreadPoolExecutor(PRODUCERS) as producers:
            for each in [producers.submit(self._produce, time.monotonic() + SPOILT) for _ in range(PRODUCERS)]:
                each.result()
        self.proxy.spoils = 0.0
        self.seen["answers spoilt"] += self.proxy.count - count
        self._works()
        self._account()

    def _produce(self, end):
        with Client(self.spoilt_url) as client:
            while time.monotonic() < end:
                self._try(client)

    def _try(self, client):
        """What a producer does; it hears of its own trouble only."""
        number = self.rand.randrange(1 << 30)
        try:
            job = client.enqueue("echo", number)
            self.open[self.honest.job(job.name)] = time.monotonic()
            self.seen["jobs acknowledged"] += 1
            job.result(timeout=0.05)
            self.seen["results seen"] += 1
        except FusionError as error:
            self.seen[f"client: {type(error).__name__}"] += 1

    def _works(self):
        """A new job, asked for without the proxy, is run by each of the groups' dispatchers through it."""
        began = time.monotonic()
        for number in range(3):
            job = self.honest.enqueue("echo", number)
            until(
                lambda job=job: job.status().ended, lambda: f"does not work again\n{self.ground.text()[-3000:]}", AGAIN
            )
            assert job.result() == [[number], {}]
        self.seen["rounds that worked again within 2 s"] += time.monotonic() - began < 2

    def _account(self):
        now = time.monotonic()
        for job, since in list(self.open.items()):
            if job.status().ended:
                del self.open[job]
            else:
                assert now - since < LEASE, f"lost: {job}, {job.status()}\n{self.ground.text()[-3000:]}"
