"""`ready` is true: every group serves and Redis answers, at the moment of the question."""

import os
import signal

import pytest

from tests.chaos.plant import DISPATCHER, REDIS, SERVER
from tests.support.fusiond_command import fusiond
from tests.support.running import until


def probe(plant):
    return fusiond("health", "--ready", "-c", plant.file, cwd=plant.directory)


@pytest.mark.proof
def test_it_is_not_ready_while_redis_is_frozen(plant):
    """Each program says so with Redis' address, as soon as it is asked; and is ready when Redis goes on."""
    until(lambda: probe(plant).status == 0, lambda: probe(plant).out)
    (server,) = plant.pids(REDIS)
    os.kill(server, signal.SIGSTOP)
    # On a busy machine a program may not have found that out within the second that its answer may take.
    words = ("worker:forked@1: Redis at ", "does not answer within")
    until(lambda: (said := probe(plant)).status == 1 and all(word in said.out for word in words), "it is not said")
    assert fusiond("health", "--live", "-c", plant.file, cwd=plant.directory).status == 0
    os.kill(server, signal.SIGCONT)
    until(lambda: probe(plant).status == 0, lambda: probe(plant).out)


def test_it_is_not_ready_while_a_group_has_no_fork_server(plant):
    """The dispatcher lives and answers; it says that it has no child to hand a job to, and why."""
    until(lambda: probe(plant).status == 0, lambda: probe(plant).out)
    dispatchers = plant.pids(DISPATCHER)
    plant.app.rename(plant.directory / "app.away")
    for pid in plant.pids(SERVER):
        os.kill(pid, signal.SIGKILL)
    until(lambda: "its fork server cannot be started" in probe(plant).out, lambda: probe(plant).out)
    assert probe(plant).status == 1
    assert "unready" in fusiond("status", "-c", plant.file, cwd=plant.directory).out
    (plant.directory / "app.away").rename(plant.app)
    until(lambda: probe(plant).status == 0, lambda: probe(plant).out)
    assert plant.pids(DISPATCHER) == dispatchers
