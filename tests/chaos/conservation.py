"""
`python -m tests.chaos.conservation`: two daemons on one Redis, quick jobs in bursts among long ones; status 1 where a
job waited for longer than LIMIT while a child of either daemon was idle (I11, work conservation).

1. teach   the daemons that jobs are quick, so that they claim and hand out many at once
2. burst   jobs of the same name: all longer than the first ones; then quick ones with long ones among them, never as
           many long ones as there are children, so that one is always free for the others
3. judge   from the lines that each run leaves: when a job waited, and when a child ran nothing

`successions` is about one daemon whose group is replaced while all its children have long jobs.
"""

import argparse
import contextlib
import random
import sys
import time
from typing import NamedTuple

from tests.chaos.lag import Lag, OursStalled
from tests.chaos.package import SHORTER
from tests.chaos.redis import Outside
from tests.support.redis_server import own_server
from tests.support.running import run_down, until

#: children of each of the two daemons, or threads of its only child
CHILDREN = 2
#: s; how long a job may wait beside an idle child, in all, and how long a child may need from one job to the next on a
#: machine that is busy with other things
LIMIT, HAND_OVER = 1.0, 0.25
#: s; jobs of a burst, and how many of the middle kind, which is not quick and which nobody would call long
QUICK, LONG = 0.002, (3.0, 6.0)
MIDDLE, MANY = 0.04, 150
#: s; the long jobs of a generation that is replaced. The next one has started before the first of them ends. The second
#: ends later than a dispatcher looks that nobody wakes. Neither is killed
SUCCEEDED = (3.0, 9.0)
#: name → how each of the two daemons runs CHILDREN jobs at once
ISOLATIONS = {
    "process": "processes: 2, isolation: process",
    "fork": "processes: 2, isolation: fork",
    "thread": "processes: 1, isolation: process, executor: thread, concurrency: 2",
}
FILE = """
broker: {{url: '{url}'}}
retry_policies: {{single: {{max_attempts: 1}}}}
defaults:
  tasks: {{retry: single, pass_job: job, result_ttl: 1h}}
  workers: {{directory: {app}, environment: {{RUNS: {runs}, COLOUR: '{colour}'}}, drain_timeout: 12s}}
tasks: {{quick: {{run: work.run}}}}
workers: {{main: {{{keys}}}}}
"""


class Host(Outside):
    """One of two daemons; the runs of both are in one file."""

    declares = ("quick",)

    def __init__(self, server, edits, runs, isolation):
        super().__init__(server, edits)
        self.runs, self._isolation, self._colour = runs, isolation, 0
        self.write(self._body())

    def _body(self):
        own = {"keys": ISOLATIONS[self._isolation], "colour": self._colour}
        return FILE.format(url=self.url, app=self.app, runs=self.runs, **own)

    def replace_group(self):
        """Reload, so that another generation of the group takes over its children's places one by one."""
        self._colour += 1
        answer = self.reload(self._body())
        assert answer["result"] == "applied", answer


class Run(NamedTuple):
    """When a job began and ended, and on whose child."""

    job: str
    dispatcher: str
    began: float
    ended: float


class Ledger(NamedTuple):
    """What happened on both daemons."""

    #: job → when it was acknowledged
    acked: dict
    runs: list
    lag: Lag
    #: claims that were given back, by both daemons
    released: int


def carry_out(isolation, seconds=12.0, seed=0, edits=()):
    """Bursts for so many seconds; returns the Ledger. AssertionError: the jobs do not all end."""
    with _running(2, isolation, edits) as (hosts, lag):
        host = hosts[0]
        acked = Bursts(host.client(), host.runs, random.Random(seed), host.text).give(seconds)
        run_down(lambda: len(acked.keys() - {run.job for run in _read(host.runs)}), host.text)
        lag.end()
        released = sum(int(worker.fields["released"]) for worker in host.run(host.broker.workers()))
        for each in hosts:
            assert each.stop() == 0
        return Ledger(acked, _read(host.runs), lag, released)


@contextlib.contextmanager
def _running(count, isolation, edits):
    """So many daemons on one Redis, and what notes for how long they wait for a processor."""
    with contextlib.ExitStack() as stack:
        server, place = own_server(stack)
        runs = place / "runs"
        runs.touch()
        hosts = [stack.enter_context(Host(server, (*SHORTER, *edits), runs, isolation)) for _ in range(count)]
        for host in hosts:
            host.start_up()
        lag = Lag(OursStalled([server.process.pid, *(host.process.pid for host in hosts)]))
        lag.start()
        stack.callback(lag.end)
        yield hosts, lag


class Bursts:
    """The producer."""

    def __init__(self, client, runs, rand, text):
        self._client, self._runs, self._rand, self._text = client, runs, rand, text
        #: job → when it was acknowledged
        self._acked = {}
        #: monotonic s from which on each but one of the children can take a long job
        self._free_at = [0.0] * (2 * CHILDREN - 1)

    def give(self, seconds):
        """Burst after burst; returns what was acknowledged."""
        over = time.monotonic() + seconds
        self._enqueue([0.0] * 200)
        until(self._all_ran, self._text)
        self._enqueue([MIDDLE] * MANY)
        until(self._all_ran, self._text)
        while time.monotonic() < over:
            burst = self._longs() + [QUICK] * self._rand.randrange(5, 40)
            self._rand.shuffle(burst)
            self._enqueue([0.0] * 50 + burst)
            # No more than the machine can do: only the long ones may still run.
            until(lambda: self._left() <= len(self._free_at), self._text)
            time.sleep(self._rand.uniform(0.0, 0.5))
        return self._acked

    def _longs(self):
        """Seconds of each long job that may begin now."""
        now, longs = time.monotonic(), []
        for number, at in enumerate(self._free_at):
            if at < now and self._rand.random() < 0.5:
                longs.append(self._rand.uniform(*LONG))
                # it ends by then, if it begins as late as it may
                self._free_at[number] = now + longs[-1] + LIMIT
        return longs

    def _enqueue(self, burst):
        jobs = self._client.enqueue_many([("quick", [each], {}) for each in burst])
        self._acked |= {job.id: time.time() for job in jobs}

    def _left(self):
        return len(self._acked) - len(_read(self._runs))

    def _all_ran(self):
        return self._left() == 0


def _read(runs):
    """The runs that have ended."""
    begun, ended = {}, []
    for line in runs.read_text().split("\n")[:-1]:
        what, job, attempt, _, _, dispatcher, _, at = line.split()
        if what == "begin":
            begun[job, attempt] = dispatcher, float(at)
        else:
            ended.append(Run(job, *begun[job, attempt], float(at)))
    return ended


def judge(ledger, limit=LIMIT):
    """The jobs that waited for longer than `limit` seconds beside an idle child, as sentences."""
    spans, found = _idle(ledger.runs), []
    for run in ledger.runs:
        acked = ledger.acked[run.job]
        beside = sum(max(0.0, min(end, run.began) - max(begin, acked)) for begin, end in spans)
        if beside > limit + ledger.lag.within(acked, run.began):
            waited = f"waited for {run.began - acked:.2f} s, {beside:.2f} s of them beside an idle child"
            found.append(f"I11 job {run.job} {waited}")
    return found


def _idle(runs):
    """The spans of time, longer than HAND_OVER, in which fewer runs went on than there are children."""
    steps = sorted([(run.began, 1) for run in runs] + [(run.ended, -1) for run in runs])
    spans, running, since = [], 0, 0.0
    for at, step in steps:
        if step > 0 and running == 2 * CHILDREN - 1:
            spans.append((since, at))
        elif step < 0 and running == 2 * CHILDREN:
            since = at
        running += step
    return [(begin, end) for begin, end in spans if end - begin > HAND_OVER]


def violations(edits, seed, isolation):
    """What is found wrong, briefly."""
    try:
        return judge(carry_out(isolation, seed=seed, edits=edits))
    except AssertionError as error:
        return [f"I11 the jobs do not come to their end: {str(error).splitlines()[-1]}"]


def successions(edits=(), seed=0, times=2):
    """
    The group of a single daemon is replaced while all its children have long jobs, so many times; what is found wrong.

    The next generation must begin the job that waits once the first long job has ended. The seed decides nothing.
    """
    found = []
    with _running(1, "process", edits) as ([host], lag):
        for _ in range(times):
            found += _succeed(host, lag)
        assert host.stop() == 0
    return found


def _succeed(host, lag):
    client, before = host.client(), len(_read(host.runs))
    brief, *_ = jobs = [client.enqueue("quick", seconds) for seconds in SUCCEEDED]
    until(lambda: all(job.status() == "started" for job in jobs), host.text)
    waiting = client.enqueue("quick", QUICK)
    host.replace_group()
    until(lambda: len(_read(host.runs)) == before + len(jobs) + 1, host.text)
    runs = {run.job: run for run in _read(host.runs)}
    began, ended = runs[waiting.id].began, runs[brief.id].ended
    if began - ended <= LIMIT + lag.within(ended, began):
        return []
    return [f"I11 job {waiting.id} began {began - ended:.2f} s after the former generation had left a child to it"]


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.conservation", description=__doc__.split("\n\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="how long jobs come in, for each isolation")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    found = []
    for isolation in ISOLATIONS:
        ledger = carry_out(isolation, given.seconds, given.seed)
        found += judge(ledger)
        waits = sorted(run.began - ledger.acked[run.job] for run in ledger.runs)
        waited = f"waited for {waits[len(waits) // 2]:.3f} s (median), {waits[-1]:.2f} s (most)"
        print(f"{isolation}: {len(waits)} jobs {waited}; {ledger.released} claims were given back", flush=True)
    found += successions()
    for violation in found[:50]:
        print("  ✗ " + violation)
    print(f"{len(found)} violations" if found else "✓ I11 holds")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
