"""
Deaths and stops that only a whole daemon has.

Those of a child, a fork server and a dispatcher are in tests/worker, those of Redis and the supervisor in tests/broker
and tests/supervise; `make chaos` has all of them under load.
"""

import os
import signal

from tests.chaos.faults import kill
from tests.chaos.plant import CHILD, DISPATCHER, SCHEDULER, SERVER, Plant
from tests.support.running import PATIENCE, alive, until


def test_children_end_with_their_fork_server_whoever_else_is_away(plant):
    """A dispatcher that is stopped, or failing, or dead as well, could end nobody: the kernel does."""
    children, dispatchers = plant.pids(CHILD), plant.pids(DISPATCHER)
    servers = plant.pids(SERVER)
    for pid in dispatchers:
        os.kill(pid, signal.SIGSTOP)
    for pid in servers:
        os.kill(pid, signal.SIGKILL)
    try:
        until(lambda: not any(map(alive, children)), lambda: f"left: {[*filter(alive, children)]}")
    finally:
        for pid in dispatchers:
            os.kill(pid, signal.SIGCONT)
    assert children


def test_no_job_misses_a_stopped_supervisor(plant):
    """SIGSTOP of the supervisor for a while: its programs go on, jobs run, and it goes on where it was."""
    client = plant.client()
    os.kill(plant.process.pid, signal.SIGSTOP)
    try:
        assert client.enqueue("slow", 0.01).result(timeout=PATIENCE) is None
    finally:
        os.kill(plant.process.pid, signal.SIGCONT)
    before = plant.pids(SCHEDULER)
    kill(plant, SCHEDULER, before[0], [])
    until(lambda: plant.pids(SCHEDULER) not in ([], before), plant.text)


def test_a_fork_server_that_is_killed_as_it_starts_is_started_again():
    """A kill before the tasks are loaded, by the OOM killer say, does not mean that the file is wrong."""
    with Plant() as plant:
        with (plant.app / "work.py").open("a") as file:
            file.write("\n\ntime.sleep(1.5)\n")
        plant.start(wait=False)
        for pid in until(lambda: len(found := plant.pids(SERVER)) == 2 and found):
            plant.kill(pid)
        until(lambda: plant.status()["ready"] and all(p["ready"] for p in plant.programs().values()), plant.text)
        assert plant.client().enqueue("quick", 0).result(timeout=PATIENCE) is None
