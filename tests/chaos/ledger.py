"""The logs of one trial, read: acknowledged enqueues, runs, steps of the protocol, faults, and how each job ended."""

import math
from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

from fusiond.broker.call import as_is, plain
from fusiond.broker.counters import Tally
from fusiond.errors import BrokerUnavailable
from tests.chaos.load import Ack
from tests.chaos.plant import QUEUES
from tests.support.queue_state import findings
from tests.support.running import run_down

#: replies in one round trip
_PAGE = 1000


class Run(NamedTuple):
    """One run of a job."""

    id: str
    attempt: int
    child: int
    server: int
    dispatcher: int
    supervisor: int
    #: epoch s
    began: float
    #: epoch s; None: it was cut off
    ended: float | None
    #: it ended as the flawed task does
    failed: bool = False

    @property
    def chain(self):
        """The pids without which it ends."""
        return {self.child, self.server, self.dispatcher, self.supervisor}


class Step(NamedTuple):
    """One step of the protocol, as Redis took it."""

    #: claim rescue retry released finished failed canceled requeue tick
    verb: str
    id: str
    #: of a claim and of what settles; of a tick: the decision
    token: str
    #: epoch s
    at: float
    #: of a claim; of a tick: its moment, epoch ms
    attempt: int = 0
    #: pid, of a claim
    dispatcher: int = 0
    #: of a tick
    entry: str = ""
    #: of a rescue: the job ends with it, since its cancel was asked for
    cancels: bool = False


@dataclass
class Ledger:
    """All that is known when it is over."""

    acks: list
    faults: list
    #: job id → its runs, oldest first
    runs: dict
    #: job id → its steps in the order of Redis; empty where they were not logged
    steps: dict
    #: job id → JobRecord
    records: dict
    #: sentences of fsck
    broken: list
    #: keys of the namespace that nobody accounts for
    keys: list
    #: pids that were left
    strays: list = field(default_factory=list)
    #: cron entry → steps of its ticks that were to have a job, in the order of Redis
    ticks: dict = field(default_factory=dict)
    #: job id → load.Cancel
    cancels: dict = field(default_factory=dict)
    #: what Redis has counted of all jobs together; None: the file has no `metrics: true`
    counted: Tally | None = None
    #: stays of Redis away, as faults.Fault
    outages: list = field(default_factory=list)
    #: s that the trial took, by part
    seconds: dict = field(default_factory=dict)

    @property
    def jobs(self):
        """The acknowledged ones, and those of ticks as if they were."""
        ticked = (tick for ticks in self.ticks.values() for tick in ticks)
        return self.acks + [Ack(tick.id, "timed", 0.0, tick.at) for tick in ticked]


def settled(plant, acks, timeout=60):
    """Wait until each acknowledged job has ended; AssertionError: for `timeout` seconds no more of them did."""
    with plant.connect() as connection:
        run_down(
            lambda: _waiting(plant, connection),
            lambda: f"{_waiting(plant, connection)} of {len(acks)} jobs have not ended",
            timeout,
        )


def _waiting(plant, connection):
    try:
        counts = connection.run_many([plant.broker.counts(queue) for queue in QUEUES])
    except BrokerUnavailable:
        return math.inf  # the Redis of a supervisor that was just killed answers a little longer than that lives
    return sum(c.queued + c.held + c.scheduled + c.started + c.deferred + c.inbox for c in counts)


def read(plant, acks, faults):
    """Read everything, while Redis still answers."""
    steps, broken, keys = defaultdict(list), [], []
    with plant.connect() as connection:
        for queue in QUEUES:
            for step in _steps(plant, connection, queue):
                steps[step.id].append(step)
            broken += map(str, connection.run(findings(plant.broker, queue)))
        result = Ledger(acks, faults, read_runs(plant.runs), steps, {}, broken, keys, ticks=_ticks(steps))
        result.records = _records(plant, connection, result.jobs)
        result.counted = _counted(plant, connection)
        keys += (key for key in _keys(connection) if not _known(key.decode()))
    return result


def conclude(plant, acks, faults):
    """Read everything, end the daemon, and note what it leaves behind."""
    found = read(plant, acks, faults)
    plant.remember()
    assert plant.stop() == 0
    found.strays = plant.strays()
    return found


def _steps(plant, connection, queue):
    start = "-"
    while True:
        page = connection.run(plain(as_is, "XRANGE", plant.broker.keys.of(queue, "log"), start, "+", "COUNT", _PAGE))
        for at, words in page:
            yield _step(at, words)
        if len(page) < _PAGE:
            return
        start = b"(" + page[-1][0]


def _records(plant, connection, jobs):
    found = {}
    for first in range(0, len(jobs), _PAGE):
        some = jobs[first : first + _PAGE]
        records = connection.run_many([plant.broker.job(job.queue, job.id) for job in some])
        found |= {job.id: record for job, record in zip(some, records, strict=True)}
    return found


def _counted(plant, connection):
    if connection.run(plain(as_is, "HGET", plant.broker.keys.of(QUEUES[0], "conf"), "metrics")) is None:
        return None
    reading = plant.broker.counters(QUEUES)
    found = reading.read(connection.run_many(reading.calls))
    assert found.keys() == set(QUEUES)
    return sum((tally for queue in found.values() for tally in queue.totals.values()), Tally())


def _keys(connection):
    cursor = None
    while cursor != 0:
        cursor, page = connection.run(plain(as_is, "SCAN", cursor or 0, "COUNT", _PAGE))
        cursor = int(cursor)
        yield from page


def _ticks(steps):
    found = defaultdict(list)
    for each in steps.values():
        for step in each:
            if step.verb == "tick" and step.token == "enqueued":
                found[step.entry].append(step)
    return {entry: sorted(each, key=lambda step: step.at) for entry, each in found.items()}


def read_runs(path):
    """Job id → its runs."""
    runs, open_ = [], {}
    with path.open() as file:
        for line in file:
            what, id_, *numbers, at = line.split()
            key = (id_, *map(int, numbers))
            if what == "begin":
                open_[key] = len(runs)
                runs.append(Run(*key, float(at), None))
            else:
                place = open_.pop(key)
                runs[place] = runs[place]._replace(ended=float(at), failed=what == "fail")
    by_job = defaultdict(list)
    for run in runs:
        by_job[run.id].append(run)
    return by_job


def _step(at, words):
    fields = {words[i].decode(): words[i + 1].decode() for i in range(0, len(words), 2)}
    verb, by = fields["verb"], fields.get("by", "").rpartition(".")[2]
    return Step(
        verb,
        fields["id"],
        fields.get("token", ""),
        int(at.split(b"-")[0]) / 1000,
        int(fields.get("attempt", 0)),
        int(by) if verb == "claim" else 0,
        by if verb == "tick" else "",
        fields.get("cancel") == "1",
    )


#: after the last job, nothing else may be there
_OF_QUEUE = (
    "seq",
    "conf",
    "finished",
    "failed",
    "canceled",
    "wake",
    "log",
    "job:",
    "claim:",
    "given:",
    "ticks",
    "metrics",
)
_OF_ALL = (
    "fusion:queues", "fusion:workers", "fusion:worker:", "fusion:catalog", "fusion:daemons", "fusion:cron",
    "fusion:meta",
)  # fmt: skip


def _known(key):
    _, braces, rest = key.partition("}:")
    return rest.startswith(_OF_QUEUE) if braces else key.startswith(_OF_ALL)
