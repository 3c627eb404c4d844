"""The logs of one trial, read: acknowledged enqueues, runs, steps of the protocol, faults, and how each job ended."""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

from fusiond.broker.call import as_is, plain
from tests.chaos.plant import QUEUES
from tests.running import until


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

    @property
    def chain(self):
        """The pids without which it ends."""
        return {self.child, self.server, self.dispatcher, self.supervisor}


class Step(NamedTuple):
    """One step of the protocol, as Redis took it."""

    #: claim rescue retry released finished failed canceled
    verb: str
    id: str
    token: str
    #: epoch s
    at: float
    #: of a claim
    attempt: int = 0
    dispatcher: int = 0


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


def settled(plant, acks, timeout=60):
    """Wait until each acknowledged job has ended."""
    with plant.connect() as connection:

        def waiting():
            counts = [connection.run(plant.broker.counts(queue)) for queue in QUEUES]
            return sum(c.queued + c.scheduled + c.started + c.deferred + c.inbox for c in counts)

        until(
            lambda: waiting() == 0,
            lambda: f"{waiting()} of {len(acks)} jobs have not ended",
            timeout,
        )


def read(plant, acks, faults):
    """Read everything, while Redis still answers."""
    steps, records, broken, keys = defaultdict(list), {}, [], []
    with plant.connect() as connection:
        for queue in QUEUES:
            log = connection.run(plain(as_is, "XRANGE", plant.broker.keys.of(queue, "log"), "-", "+"))
            for at, words in log:
                step = _step(at, words)
                steps[step.id].append(step)
            broken += connection.run(plant.broker.check(queue))
        for ack in acks:
            records[ack.id] = connection.run(plant.broker.job(ack.queue, ack.id))
        keys = [key for key in connection.run(plain(as_is, "KEYS", "*")) if not _known(key.decode())]
    return Ledger(acks, faults, read_runs(plant.runs), steps, records, broken, keys)


def read_runs(path):
    """Job id → its runs."""
    runs, open_ = [], {}
    for line in path.read_text().splitlines():
        what, id_, *numbers, at = line.split()
        key = (id_, *map(int, numbers))
        if what == "begin":
            open_[key] = len(runs)
            runs.append(Run(*key, float(at), None))
        else:
            place = open_.pop(key)
            runs[place] = runs[place]._replace(ended=float(at))
    by_job = defaultdict(list)
    for run in runs:
        by_job[run.id].append(run)
    return by_job


def _step(at, words):
    fields = {words[i].decode(): words[i + 1].decode() for i in range(0, len(words), 2)}
    return Step(
        fields["verb"],
        fields["id"],
        fields.get("token", ""),
        int(at.split(b"-")[0]) / 1000,
        int(fields.get("attempt", 0)),
        int(fields.get("by", ".0").rpartition(".")[2]),
    )


#: after the last job, nothing else may be there
_OF_QUEUE = ("seq", "conf", "finished", "failed", "canceled", "wake", "log", "job:", "claim:")
_OF_ALL = ("fusion:queues", "fusion:workers", "fusion:worker:", "fusion:catalog", "fusion:meta")


def _known(key):
    _, braces, rest = key.partition("}:")
    return rest.startswith(_OF_QUEUE) if braces else key.startswith(_OF_ALL)
