"""
`python -m tests.chaos.hosts`: three daemons on one Redis, one of them stopped past its leases and continued, again and
again; status 1 where a job came to harm, was begun late, or was settled late.

In turn a whole daemon is stopped, as a host that is suspended, and a dispatcher alone, whose children go on.
"""

import argparse
import contextlib
import os
import random
import signal
import sys
import time
from typing import NamedTuple

from tests.chaos import ledger, verdict
from tests.chaos.faults import Fault, Pulse
from tests.chaos.load import Load, Mix
from tests.chaos.package import LEASE, LOGGED, SHORTER
from tests.chaos.plant import DISPATCHER
from tests.chaos.redis import Outside
from tests.support.redis_server import Server
from tests.support.running import Running, until

HOSTS = 3
#: many jobs that run when a host is stopped
MIX = Mix(short=0.6, long=0.015, long_seconds=LEASE + 1.0)
#: what a dispatcher says of an outcome that Redis has refused, and of a job that it has given up
REFUSED, GIVEN_UP = "an outcome came too late", "its lease was lost, its child was killed"


class Finding(NamedTuple):
    """What came of it."""

    ledger: ledger.Ledger
    violations: list
    #: outcomes that Redis refused, and jobs that were given up
    refused: int
    given_up: int


class Host(Outside):
    """One of several daemons; all their runs are in one file."""

    def __init__(self, server, edits, runs):
        super().__init__(server, edits)
        self.file.write_text(self.file.read_text().replace(str(self.runs), str(runs)))
        self.runs = runs


def carry_out(times, seed=0, edits=()):
    """Stop one host so often under load; returns the Finding. AssertionError: the hosts do not come to rest."""
    rand = random.Random(seed)
    with contextlib.ExitStack() as stack:
        place = Running()  # for its directory
        stack.callback(place.close)
        server = Server(place.directory).start()
        stack.callback(server.close)
        runs = place.directory / "runs"
        runs.touch()
        hosts = [stack.enter_context(Host(server, (*SHORTER, *LOGGED, *edits), runs)) for _ in range(HOSTS)]
        for host in hosts:
            host.start_up()
        load, faults = Load(hosts[0].client(), 10**6, rate=30, mix=MIX, seed=seed), []
        pulse = Pulse(hosts[0])
        pulse.start()
        load.start()
        for number in range(times):
            goal = len(load.acks) + 40
            until(lambda goal=goal: load.failure or len(load.acks) >= goal)
            suspend(rand.choice(hosts), LEASE + rand.uniform(0.5, 1.5), faults, rand, whole=number % 2 == 1)
        load.stop()
        ledger.settled(hosts[0], load.acks, timeout=180)
        pulse.end()
        found = ledger.read(hosts[0], load.acks, faults)
        found.outages = pulse.faults
        for host in hosts:
            host.remember()
            assert host.stop() == 0
            found.strays += host.strays()
        texts = [host.text() for host in hosts]
        said = [sum(text.count(words) for text in texts) for words in (REFUSED, GIVEN_UP)]
        return Finding(found, verdict.judge(found), *said)


def suspend(host, seconds, faults, rand, *, whole):
    """SIGSTOP of all that the daemon is, or of a dispatcher; SIGCONT after so many seconds."""
    kinds = host.kinds()
    if not whole:
        kinds = dict([rand.choice([each for each in kinds.items() if each[1] == DISPATCHER])])
    began = time.time()
    for number in (signal.SIGSTOP, signal.SIGCONT):
        for pid in kinds:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        if number == signal.SIGSTOP:
            time.sleep(seconds)
    faults += [Fault(kind, pid, began, time.time() - began) for pid, kind in kinds.items()]


def row(times, finding):
    """A line of the table."""
    jobs = len(finding.ledger.acks)
    again = sum(len(runs) for runs in finding.ledger.runs.values()) - jobs
    cells = (times, jobs, again, len(finding.violations), finding.refused, finding.given_up)
    return "| " + " | ".join(map(str, cells)) + " |"


HEAD = (
    "| stops | jobs | runs beyond one | violations | late settles refused | jobs given up |\n"
    "|---:|---:|---:|---:|---:|---:|"
)


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.hosts", description=__doc__.split("\n\n")[0])
    parser.add_argument("--times", type=int, default=30, help="stops")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    given = parser.parse_args()
    print(f"seed {given.seed}\n\n{HEAD}", flush=True)
    finding = carry_out(given.times, given.seed)
    print(row(given.times, finding), flush=True)
    for violation in finding.violations[:20]:
        print(f"  ✗ {violation}", file=sys.stderr, flush=True)
    return 1 if finding.violations else 0


if __name__ == "__main__":
    sys.exit(main())
