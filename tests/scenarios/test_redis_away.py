"""
Redis is gone for a while, stopped or ended: nothing is restarted, nothing is lost, everybody waits and goes on.
"""

import contextlib
import re
import socket
import threading
import time

import pytest

from fusiond import paths
from fusiond.broker.call import as_is, plain
from fusiond.errors import BrokerUnavailable
from fusiond.worker.dispatcher.claims import leases
from tests.chaos import ledger, report, verdict
from tests.chaos.faults import Fault
from tests.chaos.load import Load, Mix
from tests.chaos.plant import DISPATCHER, REDIS, SCHEDULER, SERVER, SUPERVISOR
from tests.chaos.recovery import ended, stopped
from tests.support.running import PATIENCE, alive, until

#: s
AWAY = 10.0
#: s; from Redis' first acknowledgement to a claim; without the question whether it is back, that is 5.5 s ± 25 %
BACK_WITHIN = 4.0
LOST = re.compile(r" ERROR +(\S+) +.*(?:cannot be reached|did not answer|loading)")
BACK = re.compile(r" INFO +(\S+) +Redis is back")


@pytest.mark.proof
@pytest.mark.parametrize("away", [stopped, ended])
def test_ten_seconds_without_redis(plant, away):
    """Every process keeps its pid, every job ends once, a sentence says that Redis is gone and one that it is back."""
    load = Load(plant.client(), 100_000, rate=30, mix=Mix(long=0.02, long_seconds=2.0))
    load.start()
    until(lambda: len(load.acks) > 30)
    lasting = {kind: plant.pids(kind) for kind in (SUPERVISOR, SCHEDULER, DISPATCHER, SERVER)}
    with away(plant):
        gone = time.time()
        acknowledged = len(load.acks)
        time.sleep(AWAY)
        assert len(load.acks) <= acknowledged + 1
        fault = Fault(REDIS, 0, gone, time.time() - gone)
    until(lambda: len(load.acks) > acknowledged + 60)
    load.stop()
    ledger.settled(plant, load.acks)
    found = ledger.read(plant, load.acks, [fault])
    assert {kind: plant.pids(kind) for kind in lasting} == lasting
    assert plant.stop() == 0
    found.strays = plant.strays()

    print("\n".join(report.figures(found)))
    returned = min(ack.at for ack in load.acks if ack.at > fault.until)
    print(f"first acknowledged {returned - fault.until:.3f} s after the return,")
    fresh = [found.runs[ack.id][0].began for ack in load.acks if ack.at >= returned]
    print(f"first of these began {min(fresh) - returned:.3f} s after that")
    assert min(fresh) - returned < BACK_WITHIN
    assert verdict.judge(found, lease=leases.LEASE, margin=leases.MARGIN, renew=leases.RENEW) == []
    # the scheduler, which has nothing to do here, need not have noticed
    lost, back = (sorted(pattern.findall(plant.text())) for pattern in (LOST, BACK))
    assert [name for name in lost if name != "scheduler"] == ["worker:forked@1", "worker:reused@1"]
    assert back == lost


@pytest.mark.proof
@pytest.mark.parametrize("away", [stopped, ended])
def test_a_producer_is_told(plant, away):
    """An enqueue while Redis is away raises BrokerUnavailable in bounded time, with the place and a remedy."""
    client = plant.client()
    with away(plant):
        began = time.monotonic()
        with pytest.raises(BrokerUnavailable, match=r"redis\.sock .*[;,.]") as caught:
            client.enqueue("quick", 0)
        assert time.monotonic() - began < 15
        print(caught.value)
        assert "\n" not in str(caught.value)
    until(lambda: acknowledged(client)).result(timeout=PATIENCE)


def acknowledged(client):
    with contextlib.suppress(BrokerUnavailable):
        return client.enqueue("quick", 0)


@pytest.mark.proof
def test_everybody_backs_off(plant):
    """Nobody calls Redis in a busy loop while it refuses: pauses grow from 0.5 s, beside one PING a second."""
    calls = []
    with ended(plant), socket.socket(socket.AF_UNIX) as door:
        until(lambda: not paths.redis_socket(plant.runtime).exists())
        door.bind(str(paths.redis_socket(plant.runtime)))
        door.listen(64)
        door.settimeout(0.1)
        end = time.monotonic() + 8
        while time.monotonic() < end:
            with contextlib.suppress(TimeoutError):
                door.accept()[0].close()
                calls.append(time.monotonic())
        paths.redis_socket(plant.runtime).unlink()
    print(f"{len(calls)} connections in 8 s")
    # two dispatchers, of each the claims, the renewals, the subscription and the word about itself; and the scheduler:
    # at most at 0, 0.5, 1.5, 3.5 and 7.5 s ± 25 %; and in each of the three programs the question whether it is back
    assert 4 <= len(calls) <= 9 * 6 + 3 * 8 / 0.75


@pytest.mark.proof
def test_a_job_is_killed_before_its_lease_is_anybodys(plant):
    """Redis is stopped for longer than the lease: what runs is killed before the lease ends, and begins again after."""
    client = plant.client()
    jobs = [client.enqueue("slow", 60) for _ in range(4)]
    runs = until(lambda: len(found := ledger.read_runs(plant.runs)) == 4 and found)
    children = {run.child: run.id for each in runs.values() for run in each}
    died = {}
    watcher = threading.Thread(target=note_deaths, args=(children, died))
    # just renewed, by both dispatchers, so that nothing is on its way when Redis stops
    before = deadlines(plant).items()
    held = until(lambda: not before & (now := deadlines(plant)).items() and now)
    with stopped(plant):
        watcher.start()
        watcher.join(leases.LEASE + 5)
        assert died.keys() == children.keys()
        early = [held[job] - died[child] for child, job in children.items()]
        print("killed s before the lease's end:", [round(seconds, 2) for seconds in early])
        assert min(early) > 0
        until(lambda: time.time() > max(held.values()) + 1)
    until(lambda: all(len(each) == 2 for each in ledger.read_runs(plant.runs).values()), plant.text)
    for job in jobs:
        assert job.cancel()
    until(lambda: {job.status() for job in jobs} == {"canceled"}, plant.text)


def deadlines(plant):
    """Job id → epoch s of its lease's end."""
    reply = plant.run(plain(as_is, "ZRANGE", plant.broker.keys.of("slow", "started"), 0, -1, "WITHSCORES"))
    return {reply[i].decode(): float(reply[i + 1]) / 1000 for i in range(0, len(reply), 2)}


def note_deaths(pids, died):
    """Epoch s at which each was dead."""
    while died.keys() != pids.keys():
        for pid in pids.keys() - died.keys():
            if not alive(pid):
                died[pid] = time.time()
        time.sleep(0.01)
