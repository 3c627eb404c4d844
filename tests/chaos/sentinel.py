"""
`python -m tests.chaos.sentinel`: failovers of a real Sentinel under load, and what was lost; status 1 where a job came
to harm that a replica had.

1. a daemon works off what a producer enqueues and both replicas confirm; the primary is killed, or stopped, again and
   again, and the verdict reads the ledger of those jobs
2. beside it others enqueue as fast as they can, at `memory`, at `replica` with one, and with both; after each failover
   each looks for all that was acknowledged

A primary, two replicas, three Sentinels; the daemon under test has a lease of 3 s, and logs its steps.
"""

import argparse
import contextlib
import dataclasses
import random
import sys
import threading
import time
from pathlib import Path

from fusiond.broker.call import as_is, plain
from fusiond.broker.redis.connection import connect
from fusiond.broker.verbs import Verbs
from fusiond.client import Client
from fusiond.config import model
from fusiond.errors import BrokerError
from fusiond.job import new_id
from tests.chaos import ledger, verdict
from tests.chaos.faults import Fault
from tests.chaos.load import Load, Mix
from tests.chaos.package import LEASE, LOGGED, SHORTER
from tests.chaos.plant import REDIS, Plant
from tests.chaos.redis import BACKLOG, waiting
from tests.support.replicas import Sentinels
from tests.support.running import until

#: of the daemon's jobs, a second; long ones outlive a lease, and most failovers
RATE, MIX = 40, Mix(short=0.3, long=0.01, long_seconds=LEASE + 1.0)
#: s; flood before and after a failover
FLOOD = 1.0
#: ms of silence after which a Sentinel takes a server for dead
DOWN = 2000
#: violations that no rollback explains: a job, or an end of one, that was acknowledged is not there
FATAL = ("I1", "I2", "I4", "I7")
_PAGE = 1000


class Over(Plant):
    """A daemon over several servers, and a producer."""

    def __init__(self, url, replicas=1, edits=(*SHORTER, *LOGGED)):
        """`replicas`: that are to confirm what the producer enqueues."""
        super().__init__(edits)
        self.url, self.replicas = url, replicas
        self.file.write_text(self.file.read_text().replace("url: embedded", f"url: '{url}'"))

    def connect(self):
        """The harness asks again: Sentinels are slow on a machine that is busy."""
        return connect(model.Broker(url=self.url), self.runtime, repeats=10)

    def client(self):
        """One that waits for replicas."""
        super().client().close()
        return Client(self.url, durability="replica", replicas=self.replicas)


class Flood(threading.Thread):
    """Enqueues as fast as it can, in a namespace that nobody claims from; each id until it is acknowledged."""

    def __init__(self, url, replicas):
        """`replicas`: that are to confirm each; 0: `memory`."""
        super().__init__(daemon=True)
        self.durability = f"replica, {replicas} of 2" if replicas else "memory"
        namespace = f"flood{replicas}"
        self._settings, self._broker = model.Broker(url=url, namespace=namespace), Verbs(namespace)
        durability = "replica" if replicas else "memory"
        self._client = Client(url, namespace=namespace, durability=durability, replicas=max(replicas, 1))
        self._over, self._pause = threading.Event(), threading.Event()
        self._at_rest = threading.Event()
        self._publish()
        self._ids = []
        #: over all rounds
        self.acknowledged = self.lost = 0
        #: rounds in which something was lost
        self.rounds = 0

    def _publish(self):
        """What a daemon would declare."""
        with connect(self._settings, Path("/tmp"), repeats=10) as connection:
            tasks = {"t": {"queue": "q", "priority": 1, "run": "a.b"}}
            connection.run(self._broker.publish_catalogue("d", "h", tasks, priorities={}, queues=["q"]))

    def run(self):
        while not self._over.is_set():
            if self._pause.is_set():
                self._at_rest.set()
                time.sleep(0.01)
            else:
                self._enqueue(new_id())

    def _enqueue(self, id_):
        while not self._over.is_set():
            with contextlib.suppress(BrokerError):
                self._client.options(id=id_).enqueue("t", "+4912345", code="1234")
                self._ids.append(id_)
                return
            time.sleep(0.02)

    def look(self):
        """Rest, count what was acknowledged since the last look and what of it is not there, and go on."""
        self._at_rest.clear()
        self._pause.set()
        until(self._at_rest.is_set)
        ids, self._ids = self._ids, []
        keys = self._broker.keys
        with connect(self._settings, Path("/tmp"), repeats=10) as connection:
            there = 0
            for first in range(0, len(ids), _PAGE):
                names = [keys.of("q", "job", id_) for id_ in ids[first : first + _PAGE]]
                there += sum(connection.run_many([plain(as_is, "EXISTS", name) for name in names]))
                connection.run(plain(as_is, "UNLINK", *names))
            connection.run(plain(as_is, "UNLINK", keys.of("q", "queue")))
        self._pause.clear()
        lost = len(ids) - there
        self.acknowledged, self.lost, self.rounds = (
            self.acknowledged + len(ids),
            self.lost + lost,
            self.rounds + (lost > 0),
        )
        return len(ids), lost

    def stop(self):
        self._over.set()
        self.join(60)


@dataclasses.dataclass
class Finding:
    """What came of it."""

    ledger: ledger.Ledger
    violations: list
    #: s without a primary, by kind of failover
    away: dict
    #: s from a new primary until a job began
    back: list
    #: of the producers beside
    floods: list
    text: str

    @property
    def harm(self):
        """Violations that a rollback does not explain."""
        return [violation for violation in self.violations if violation.startswith(FATAL)]


def carry_out(failovers, seed=0, say=lambda _: None):
    """Fail over so often under load; returns the Finding. AssertionError: the daemon does not come to rest."""
    rand = random.Random(seed)
    with Sentinels(replicas=2, down_after=DOWN) as sentinels, Over(sentinels.url, replicas=2) as plant:
        plant.start_up()
        load = Load(plant.client(), 10**6, rate=RATE, mix=MIX, seed=seed)
        floods = [Flood(sentinels.url, replicas) for replicas in (0, 1, 2)]
        faults, away, back = [], {"killed": [], "stopped": []}, []
        for thread in (load, *floods):
            thread.start()
        for number in range(failovers):
            load.more(20)
            until(lambda: waiting(plant) < BACKLOG, plant.text, timeout=300)
            time.sleep(FLOOD)
            kind = "stopped" if rand.random() < 0.3 else "killed"
            at = time.time()
            seconds = sentinels.fail_over(stop=kind == "stopped")
            began = until(lambda: plant.began_after(at + seconds), plant.text, timeout=120)  # noqa: B023
            faults.append(Fault(REDIS, 0, at, seconds))
            away[kind].append(seconds)
            back.append(began - at - seconds)
            time.sleep(FLOOD)
            counts = [flood.look() for flood in floods]
            say(
                f"{number + 1}: {kind}, {seconds:.1f} s without a primary, a job {back[-1]:.2f} s after; "
                + ", ".join(
                    f"{lost} of {count} lost at {flood.durability}"
                    for flood, (count, lost) in zip(floods, counts, strict=True)
                )
            )
        for flood in floods:
            flood.stop()
        load.more(20)
        load.stop()
        try:
            ledger.settled(plant, load.acks, timeout=600)
        except AssertionError as error:
            say(f"not at rest: {error}")
        found = ledger.conclude(plant, load.acks, faults)
        found.keys = [key for key in found.keys if not key.startswith(b"flood")]
        return Finding(found, verdict.judge(found), away, back, floods, plant.text())


def spread(values):
    """Median and longest, as text."""
    ordered = sorted(values)
    return f"{ordered[len(ordered) // 2]:.1f} s median, {ordered[-1]:.1f} s longest" if ordered else "none"


def lines(finding):
    """The figures, for people."""
    runs = sum(len(each) for each in finding.ledger.runs.values())
    jobs = len(finding.ledger.acks)
    yield f"| daemon's jobs, acknowledged by both replicas | {jobs} |"
    lost = sum(record is None for record in finding.ledger.records.values())
    yield f"| … of them lost | {lost} |"
    yield f"| … runs beyond one | {runs - sum(ack.id in finding.ledger.runs for ack in finding.ledger.acks)} |"
    yield f"| violations of I1, I2, I4, I7 | {len(finding.harm)} |"
    counts = {name: count for name, count in verdict.by_invariant(finding.violations).items() if count}
    yield f"| all violations, rolled-back claims and settles among them | {counts or 0} |"
    for kind, seconds in finding.away.items():
        yield f"| without a primary, {kind} ({len(seconds)} times) | {spread(seconds)} |"
    yield f"| from the new primary until a job begins | {spread(finding.back)} |"
    for flood in finding.floods:
        share = flood.lost / flood.acknowledged if flood.acknowledged else 0.0
        yield (
            f"| acknowledged at {flood.durability}, as fast as one producer can | {flood.acknowledged},"
            f" lost {flood.lost} ({share:.4%}) in {flood.rounds} failovers |"
        )


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.sentinel", description=__doc__.split("\n\n")[0])
    parser.add_argument("--failovers", type=int, default=30)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--log", type=Path, help="keep the daemon's log there")
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    finding = carry_out(given.failovers, given.seed, say=lambda line: print(f"  {line}", flush=True))
    if given.log:
        given.log.write_text(finding.text)
    print(f"\n| {given.failovers} failovers of Sentinel | |\n|---|---|")
    print("\n".join(lines(finding)))
    for violation in finding.violations[:30]:
        print(f"  ✗ {violation}", file=sys.stderr)
    return 1 if finding.harm or finding.floods[2].lost else 0


if __name__ == "__main__":
    sys.exit(main())
