"""Redis' clock goes an hour forth and back, on a real server whose clock is set from outside."""

import tempfile
import time
from pathlib import Path

import pytest

from fusiond.broker.call import as_is, plain
from fusiond.broker.records import NewJob, Outcome
from fusiond.broker.verbs import Verbs
from fusiond.job import new_id
from tests.support.queue_state import findings
from tests.support.redis_server import Server, has_compiler

pytestmark = pytest.mark.skipif(not has_compiler(), reason="the clock is set by a small library, which gcc makes")
HOUR = 3600
LEASE_MS = 15_000


@pytest.fixture
def server():
    with tempfile.TemporaryDirectory(prefix="fu") as directory:
        server = Server(Path(directory), clocked=True)
        server.start()
        yield server
        server.close()


@pytest.fixture
def run(server):
    with server.connect() as connection:
        yield connection.run


@pytest.fixture
def broker():
    return Verbs()


def enqueue(run, broker):
    job = NewJob(new_id(), "task", b"[[],{}]")
    run(broker.enqueue("q", [job]))
    return job.id


def claim(run, broker, nonce, dispatcher="a"):
    """The ids of what this dispatcher gets."""
    found = run(broker.claim("q", 5, dispatcher=dispatcher, nonce=nonce, lease_ms=LEASE_MS, max_rescues=25))
    return [job.id.decode() for job in found.jobs]


def test_a_leap_forth_takes_leases_and_the_fence_holds(server, run, broker):
    """Every lease seems to have expired: another gets the job, and who had it cannot settle it any more."""
    id_ = enqueue(run, broker)
    assert claim(run, broker, "first") == [id_]
    server.shift(HOUR)
    assert claim(run, broker, "second", "b") == [id_]
    late, right = (Outcome(id_.encode(), token, "finished", 10**9, 0, b"1") for token in ("first", "second"))
    assert run(broker.settle("q", [late])) == [0]
    server.shift(0)
    assert run(broker.settle("q", [right])) == [1]
    assert run(findings(broker, "q")) == []


def test_who_lives_gets_a_lease_of_now_when_the_clock_goes_back(server, run, broker):
    """A renewal puts the deadline to where it belongs."""
    server.shift(HOUR)
    id_ = enqueue(run, broker)
    claim(run, broker, "first")
    server.shift(0)
    assert run(broker.renew("q", [(id_.encode(), "first")], LEASE_MS)) == [1]
    assert deadline(run, broker) < time.time() + 20


def test_the_dead_do_not_keep_their_jobs_for_an_hour(server, run, broker):
    """A lease that was given before the clock was put back, and is not renewed, is shortened by the next sweep."""
    server.shift(HOUR)
    enqueue(run, broker)
    claim(run, broker, "first")
    server.shift(0)
    assert deadline(run, broker) > time.time() + HOUR - 60
    run(broker.sweep("q"))
    assert time.time() + 15 < deadline(run, broker) < time.time() + 61


def deadline(run, broker):
    """Epoch s of the only lease's end."""
    reply = run(plain(as_is, "ZRANGE", broker.keys.of("q", "started"), 0, -1, "WITHSCORES"))
    return float(reply[1]) / 1000
