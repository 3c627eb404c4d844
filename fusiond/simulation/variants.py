"""Simulate one file, or two with the same jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from fusiond.config import units
from fusiond.config.lint.suggest import nearest
from fusiond.config.model import Config
from fusiond.simulation.loads import Load, LoadError
from fusiond.simulation.replay import Conditions, Simulation
from fusiond.simulation.virtual_redis import virtual_redis

#: the note of a file that has them
NO_POOLS = "`pools`, and `max_running` at the top, are not simulated: jobs begin as if these had room for all"


def simulate(
    config: Config, load: Load, conditions: Conditions, on_progress: Callable[[int], None] = lambda _: None
) -> dict[str, Any]:
    """
    The result of one file, as Simulation.run has it, with `memory`: the bytes that Redis held at the end.

    `on_progress`: is told how many jobs have arrived. Raises LoadError, BrokerError, NoServer.
    """
    with virtual_redis() as redis:
        result = Simulation(config, load, redis, conditions).run(on_progress)
        return result | {"notes": [*_notes(config, load, conditions.length)], "memory": redis.memory()}


def _notes(config: Config, load: Load, length: float) -> Iterator[str]:
    """What somebody must know to read the result."""
    if config.pools or config.max_running is not None:
        yield NO_POOLS
    for name in sorted(load.unknown_times):
        yield f"no run time of task {name!r} is known, so its jobs take no time; write it a line with `takes`"
    for name in sorted(entry.name for entry in config.cron.values() if entry.flow):
        yield f"cron entry {name!r} starts a flow, and is left out"
    for each in load.streams:
        if each.begin >= length:
            at = units.written(each.begin)
            yield f"jobs of task {each.task!r} begin to arrive at {at}, when the simulation has ended; make it longer"
        task = config.tasks.get(each.task)
        by = {*(task.limit_by or ()), *config.queues[task.queue].fair_by} if task else set()
        if by and each.keys is None:
            of = ", ".join(sorted(by))
            yield f"each job of task {each.task!r} has a value of its own for {of}; `keys` says how many there are"


def check_tasks(load: Load, configs: Sequence[Config]) -> None:
    """Raise LoadError if the load names a task that none of the files has."""
    known = {name for config in configs for task in config.tasks.values() for name in (task.name, *task.aliases)}
    for task in sorted(load.tasks - known):
        raise LoadError(f"the load has jobs of task {task!r}, which the file does not have; {nearest(task, known)}")
