"""
One trial: a daemon, a load, faults; then peace, and the ledger.

1. start   the daemon on the copy, with these edits
2. load    jobs at a rate, faults at another
3. peace   no more faults; what fails is requeued, cron is suspended, every job must end within a time
4. read    the logs, stop the daemon, look for strays
"""

import contextlib
import time
from dataclasses import dataclass
from pathlib import Path

from fusiond.errors import BrokerError
from tests.chaos import ledger
from tests.chaos.faults import STOPS, Injector, Pulse
from tests.chaos.load import FULL, Load, Mix
from tests.chaos.package import LOGGED, SHORTER
from tests.chaos.plant import Plant
from tests.support.running import until

#: s; in which no more jobs end
PEACE = 60.0


class NoRest(AssertionError):
    """Jobs have not ended long after the last fault."""


@dataclass(frozen=True)
class Plan:
    """What is done to it."""

    jobs: int
    seconds: float
    #: kills; stops where nothing else is done
    faults: int
    #: the share of faults that stop a process and let it go on
    stops: float = 0.15
    #: s of a stop, at random
    pauses: tuple = STOPS
    #: how often each kind of process is hit, in place of faults.WEIGHTS
    weights: dict | None = None
    mix: Mix = FULL
    #: cron entries, each with a tick a second
    entries: int = 2
    #: children of each of the two groups
    processes: int = 3
    #: whether each child runs many jobs at once, in threads or in an event loop
    many: bool = False
    seed: int = 0
    edits: tuple = ()
    #: whether every fault is done, though the jobs are in
    every: bool = True
    #: s; after the last fault, in which no more jobs end
    peace: float = PEACE
    #: where the daemon's log is to be kept
    log: Path | None = None


def carry_out(plan, say=lambda _: None):
    """Do it; returns the ledger. Raises NoRest."""
    edits = (*SHORTER, *LOGGED, *plan.edits)
    with Plant(edits, processes=plan.processes, entries=plan.entries, many=plan.many) as plant:
        plant.start_up()
        try:
            return _carry_out(plan, plant, say)
        finally:
            if plan.log:
                plan.log.write_text(plant.text())


def _carry_out(plan, plant, say):
    load = Load(plant.client(), plan.jobs, plan.jobs / plan.seconds, plan.mix, plan.seed)
    pulse, clock = Pulse(plant), _Clock()
    pulse.start()
    faults = _storm(plan, plant, load, say)
    clock.took("storm")
    try:
        _peace(plan, plant, load)
    except AssertionError as error:
        raise NoRest(str(error)) from None
    finally:
        pulse.end()
    clock.took("peace")
    result = ledger.read(plant, load.acks, faults)
    clock.took("reading")
    plant.remember()
    plant.stop(timeout=PEACE)
    with contextlib.suppress(AssertionError):
        until(lambda: not plant.strays(), timeout=5)
    result.strays, plant.judged = plant.strays(), True
    result.cancels, result.outages, result.seconds = load.cancels, pulse.faults, clock.parts
    return result


def _storm(plan, plant, load, say):
    """Load and faults; returns these."""
    storm = Injector(
        plant, plan.faults, max(plan.faults, 1) / plan.seconds,
        stops=plan.stops, pauses=plan.pauses, weights=plan.weights, seed=plan.seed,
    )  # fmt: skip
    load.start()
    storm.start()
    # On a busy machine the daemon is away for longer between two lives, and faults and jobs take their time.
    deadline = time.monotonic() + plan.seconds * 3 + 30
    while (load.is_alive() or (plan.every and storm.is_alive())) and time.monotonic() < deadline:
        (load if load.is_alive() else storm).join(max(5.0, plan.seconds / 60))
        say(f"{len(load.acks)} jobs acknowledged, {len(storm.faults)} faults")
    storm.end()
    load.stop()
    return storm.faults


def _peace(plan, plant, load):
    """Until every job has ended and each cron entry has ticked up to its end."""
    plant.client()  # reachable again
    load.give_up()
    suspended = time.time()
    for entry in plant.entries:
        until(lambda entry=entry: _answered(plant, plant.broker.suspend_cron(entry, on=True)))
    ledger.settled(plant, load.acks, plan.peace)
    load.requeue_rest()
    ledger.settled(plant, load.acks, plan.peace)
    until(lambda: all(tick and tick > suspended * 1000 for tick in _last_ticks(plant)), "cron stands still", PEACE)


def _answered(plant, call):
    try:
        plant.run(call)
    except BrokerError:
        return False
    return True


def _last_ticks(plant):
    return [plant.run(plant.broker.cron_state(entry)).last for entry in plant.entries]


class _Clock:
    """How long each part took."""

    def __init__(self):
        self.parts, self._at = {}, time.monotonic()

    def took(self, part):
        self.parts[part], self._at = time.monotonic() - self._at, time.monotonic()
