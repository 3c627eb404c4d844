"""
One trial: a daemon, a load, faults; then peace, and the ledger.

1. start   the daemon on the copy, with these edits
2. load    jobs at a rate, faults at another
3. peace   no more faults; every job must end within a time
4. read    the logs, stop the daemon, look for strays
"""

import time
from dataclasses import dataclass
from pathlib import Path

from tests.chaos import ledger
from tests.chaos.faults import Injector
from tests.chaos.load import Load, Mix
from tests.chaos.package import LOGGED, SHORTER
from tests.chaos.plant import Plant

#: s; after the last fault
PEACE = 60.0


@dataclass(frozen=True)
class Plan:
    """What is done to it."""

    jobs: int
    seconds: float
    faults: int
    #: the share of faults that stop a process and let it go on
    stops: float = 0.15
    #: how often each kind of process is hit, in place of faults.WEIGHTS
    weights: dict | None = None
    mix: Mix = Mix()  # noqa: RUF009 - immutable
    seed: int = 0
    edits: tuple = ()
    #: s; after the last fault
    peace: float = PEACE
    #: where the daemon's log is to be kept
    log: Path | None = None


def carry_out(plan, say=lambda _: None):
    """Do it; returns the ledger. Raises AssertionError if the daemon does not come to rest."""
    with Plant((*SHORTER, *LOGGED, *plan.edits)) as plant:
        plant.start_up()
        try:
            return _carry_out(plan, plant, say)
        finally:
            if plan.log:
                plan.log.write_text(plant.text())


def _carry_out(plan, plant, say):
    load = Load(plant.client(), plan.jobs, plan.jobs / plan.seconds, plan.mix, plan.seed)
    rate = max(plan.faults, 1) / plan.seconds
    storm = Injector(plant, plan.faults, rate, stops=plan.stops, weights=plan.weights, seed=plan.seed)
    load.start()
    storm.start()
    deadline = time.monotonic() + plan.seconds * 2 + 30
    while load.is_alive() and time.monotonic() < deadline:
        load.join(5)
        say(f"{len(load.acks)} jobs acknowledged, {len(storm.faults)} faults")
    storm.end()
    load.stop()
    say("peace")
    plant.client()  # reachable again
    ledger.settled(plant, load.acks, plan.peace)
    result = ledger.read(plant, load.acks, storm.faults)
    plant.remember()
    plant.stop()
    result.strays = plant.strays()
    return result
