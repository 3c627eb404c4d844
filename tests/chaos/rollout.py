"""
I13: each acknowledged job that was not reported as unserved lies in a queue that a living worker group serves.

1. roll out   a newer file moves a task to another queue, on a second host, which is then killed or shut down
2. roll back  a host with a new name runs the old content; another is reloaded to the newer file and back
3. enqueue    meanwhile, without a pause; each acknowledgement is noted with its queue and whether it was served
4. move       what was left in a queue that nothing serves, by commands of which the first are killed
5. judge      an acknowledged job's queue must have been served a short time before; and every job must end

Over the copy of the package a daemon counts as alive for 3 s, and a client believes a catalogue for 1 s.

`python -m tests.chaos.rollout` carries it out again and again.
"""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from typing import NamedTuple

from tests.chaos import repeat
from tests.chaos.package import SHORTER, Edit, copy
from tests.chaos.plant import Plant
from tests.support.redis_server import own_server
from tests.support.running import descendants, run_down, send, until

#: s; of the copy
ALIVE, BELIEVED = 3.0, 1.0
#: s; what may lie between the end of a group and a job that is put into its queue
GRACE = ALIVE + BELIEVED + 3.0
FASTER = (
    *SHORTER,
    Edit("broker/hosts/daemons.py", "ALIVE_MS = 30_000", f"ALIVE_MS = {round(ALIVE * 1000)}"),
    Edit("broker/hosts/daemons.py", "ALIVE_AGAIN = 10.0", "ALIVE_AGAIN = 0.5"),
    Edit("producer/new_jobs.py", "CATALOGUE_AGE = 10.0", f"CATALOGUE_AGE = {BELIEVED}"),
)
FILE = """
broker: {{url: '{url}'}}
defaults:
  tasks: {{pass_job: job, result_ttl: 1d}}
  workers: {{directory: {app}, environment: {{RUNS: {runs}}}, drain_timeout: 2s}}
tasks: {{work: {{run: work.run, queue: {queue}}}}}
queues: {{default: {{}}, fast: {{}}}}
workers: {{main: {{queues: [{queue}], processes: 1}}}}
"""
OLD, NEW = "default", "fast"
#: a line of JSON for each acknowledged job, until its input ends
PRODUCER = """
import json, select, sys, time
from fusiond import Client
from fusiond.errors import FusionError
jobs = Client(sys.argv[1])
while not select.select([sys.stdin], [], [], 0.05)[0]:
    try:
        job = jobs.enqueue("work", 0.0)
    except FusionError:
        continue
    print(json.dumps([job.queue, job.id, job.served, time.time()]), flush=True)
"""


class Ack(NamedTuple):
    """One acknowledged job."""

    queue: str
    id: str
    served: bool
    #: epoch s
    at: float


class Host(Plant):
    """A daemon with an identity of its own, whose file says in which queue the task's jobs are."""

    def __init__(self, server, code):
        super().__init__()
        self.code, self.url = code, server.url
        self.environment = {"PYTHONPATH": str(code), "PYTHONDONTWRITEBYTECODE": ""}
        #: queue, and from when to when a group of it may have served it, epoch s; at the most
        self.periods = []

    def say(self, queue):
        """The file's text."""
        return FILE.format(url=self.url, app=self.app, runs=self.runs, queue=queue)

    def begin(self, queue):
        self.periods.append([queue, time.time(), float("inf")])
        self.write(self.say(queue))
        self.start_up()
        return self

    def change(self, queue):
        """A reload to the other content."""
        self.periods.append([queue, time.time(), float("inf")])
        assert self.reload(self.say(queue))["result"] == "applied", self.text()
        self.periods[-2][2] = time.time()

    def end(self, *, killed):
        """As a host that loses its power, or that is shut down."""
        if killed:
            send(signal.SIGKILL, self.process.pid, *(pid for pid, _ in descendants(self.process.pid)))
            self.process.wait()
        else:
            assert self.stop() == 0
        self.periods[-1][2] = time.time()


class Producer:
    """Enqueues in a process of its own, with the copy's code."""

    def __init__(self, place, url, code):
        self._path = place / "acks"
        with self._path.open("wb") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", PRODUCER, url],
                stdin=subprocess.PIPE,
                stdout=out,
                env={**os.environ, "PYTHONPATH": str(code)},
            )

    def acks(self):
        lines = self._path.read_text().splitlines(keepends=True)
        return [Ack(*json.loads(line)) for line in lines if line.endswith("\n")]

    def more(self, count=10):
        """Wait until so many more jobs are acknowledged."""
        goal = len(self.acks()) + count
        until(lambda: len(self.acks()) >= goal, "no job is acknowledged", timeout=60)

    def follow(self, queue):
        """Wait until jobs are put into this queue, or until it is clear that they are not."""
        deadline = time.monotonic() + 2 * GRACE
        while self.acks()[-1].queue != queue and time.monotonic() < deadline:
            time.sleep(0.05)

    def end(self):
        self._process.stdin.close()
        self._process.wait(30)


def violations(edits=(), seed=0):
    """Carry it out once; what is wrong, in sentences."""
    rand = random.Random(seed)
    with contextlib.ExitStack() as stack:
        server, place = own_server(stack)
        code = copy(place / "code", (*FASTER, *edits))
        hosts = [stack.enter_context(Host(server, code)) for _ in range(3)]
        first, second, third = hosts
        first.begin(OLD)
        producer = Producer(place, server.url, code)
        stack.callback(producer.end)
        producer.more()
        second.begin(NEW)
        producer.follow(NEW)
        second.end(killed=rand.random() < 0.7)
        third.begin(OLD)
        _settle(producer)
        if rand.random() < 0.5:
            first.change(NEW)
            producer.follow(NEW)
            first.change(OLD)
            _settle(producer)
        producer.end()
        acks = producer.acks()
        _move(server, code, rand)
        periods = [period for host in hosts for period in host.periods]
        return [*judge(acks, periods), *_unended(first, acks)]


def _settle(producer):
    """So long that no group which has ended may be believed any more, and some jobs."""
    time.sleep(GRACE + 2.0)
    producer.more()


def judge(acks, periods):
    """The jobs that were put where nothing serves, and were said to be served."""
    told = ", ".join(f"{queue} from {began:.1f} to {end:.1f}" for queue, began, end in periods)
    return [
        f"I13 job {ack.queue}/{ack.id} was said to be served at {ack.at:.1f}; groups served {told}"
        for ack in acks
        if ack.served
        and not any(ack.queue == queue and began <= ack.at <= end + GRACE for queue, began, end in periods)
    ]


def _move(server, code, rand):
    """The command that `fusiond status` prints; the first ones are killed somewhere on their way."""
    words = [sys.executable, "-P", "-m", "fusiond.cli", "requeue", "--url", server.url]
    words += ["--from-queue", NEW, "--queue", OLD, "--json"]
    for number in range(20):
        process = subprocess.Popen(
            words, env={**os.environ, "PYTHONPATH": str(code)}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        if number < 2:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(rand.uniform(0.2, 0.8))
            process.kill()
        said, _ = process.communicate()
        # A job that a killed host had begun can be moved when its lease is over.
        if number >= 2 and said and json.loads(said)["moved"] == json.loads(said)["running"] == 0:
            return
        time.sleep(0.3)


def _unended(host, acks):
    """The jobs that are in neither queue, or wait in one."""
    missing = {ack.id for ack in acks}

    def left():
        for ack in acks:
            if ack.id in missing:
                found = [host.run(host.broker.outcome(queue, ack.id)) for queue in (OLD, NEW)]
                if any(each and each.status.ended for each in found):
                    missing.discard(ack.id)
        return len(missing)

    with contextlib.suppress(AssertionError):
        run_down(left, patience=GRACE * 2)
    return [f"I13 job {id_} was acknowledged, and has not ended after it was moved" for id_ in sorted(missing)]


if __name__ == "__main__":
    sys.exit(repeat.main("rollout", __doc__, violations))
