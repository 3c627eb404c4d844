"""
kill -9 of every kind of process, under load, several times: no acknowledged job is lost, and none runs again unless
the kill explains it.

The real daemon, its real lease of 15 s: what a dead dispatcher held runs again when that is over, not before.
"""

import os
import re
import signal
from pathlib import Path

from fusiond import paths
from fusiond.broker.call import as_is, plain
from fusiond.worker.dispatcher.claims import leases
from tests.chaos import ledger, report, verdict
from tests.chaos.faults import kill
from tests.chaos.load import Load, Mix
from tests.chaos.plant import CHILD, DISPATCHER, KINDS, PROGRAMS, REDIS, SCHEDULER, SERVER, SUPERVISOR, WRAPPER, Plant
from tests.support.cases import few
from tests.support.running import PATIENCE, alive, until

#: how often each is killed
TIMES = {CHILD: 6, SERVER: 5, DISPATCHER: 4, SCHEDULER: 4, SUPERVISOR: 2, WRAPPER: 3, REDIS: 3, PROGRAMS: 1}
#: those whose death no job can notice
ASIDE = (SCHEDULER, WRAPPER, REDIS, PROGRAMS)
#: those of the first tier; the others' ends are shown one by one in tests/worker, tests/supervise and test_cron.py
QUICK = (CHILD, REDIS)
#: jobs that come in between two kills
BETWEEN = 25
MIX = Mix(short=0.3, long=0.015, long_seconds=2.0)


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


@few("kind", sorted(KINDS, key=QUICK.__contains__, reverse=True), len(QUICK))
def test_kill(plant, kind):
    """Each acknowledged job ends once, finished; whatever ran twice was cut off by a kill; nothing is left behind."""
    load, faults = Load(plant.client(), 100_000, rate=40, mix=MIX), []
    load.start()
    for _ in range(TIMES[kind]):
        more(load, BETWEEN)
        kill(plant, kind, victim(plant, kind), faults)
    more(load, BETWEEN)
    load.stop()
    ledger.settled(plant, load.acks)
    found = ledger.read(plant, load.acks, faults)
    assert plant.stop() == 0
    found.strays = plant.strays()

    say(found, kind)
    lease = leases.LEASE
    assert verdict.judge(found, lease=lease, margin=leases.MARGIN, renew=leases.RENEW) == []
    again = report.recoveries(found)[kind]
    if kind in ASIDE:
        assert {len(runs) for runs in found.runs.values()} == {1}
    else:
        assert again, "no kill has hit a running job"
    # A supervisor's death ends the whole daemon, whose start takes as long as the machine needs for it.
    aside = max(report.resumptions(found)[kind], default=0.0) if kind == SUPERVISOR else 0.0
    assert all(seconds < aside + (lease + 10 if kind in (DISPATCHER, SUPERVISOR) else 10) for seconds in again)


def more(load, count):
    """Wait until so many more jobs were acknowledged."""
    goal = len(load.acks) + count
    until(lambda: load.failure or len(load.acks) >= goal)
    load.check()


def victim(plant, kind):
    """A living process of this kind; a child, or the parent of one, that runs a job."""
    if kind == REDIS:
        plant.run(plain(as_is, "CONFIG", "SET", "appendfsync", "no"))
        until(lambda: pending_syncs(plant) == 0)
    if kind in (*ASIDE, SUPERVISOR):
        return until(lambda: plant.pids(kind))[0]
    place = {CHILD: "child", SERVER: "server", DISPATCHER: "dispatcher"}[kind]

    def busy():
        runs = [run for each in ledger.read_runs(plant.runs).values() for run in each]
        return [getattr(run, place) for run in runs if not run.ended and alive(run.child)]

    return until(busy)[-1]


def pending_syncs(plant):
    """
    Syncs of the append-only file that wait or go on; on a busy machine one may wait for seconds.

    While there is one, Redis answers before it writes: what a kill then loses runs again, as docs/reliability.md says.
    A server that begins no more of them writes before each answer, whatever the machine does.
    """
    said = plant.run(plain(as_is, "INFO", "persistence")).decode()
    return int(re.search(r"aof_pending_bio_fsync:(\d+)", said)[1])


def say(found, kind):
    """The figures; pytest -rP shows them."""
    print(f"{len(found.faults)} kills of: {kind}")
    print("\n".join(report.figures(found)))
    print("a new job began after, s:", [round(seconds, 3) for seconds in report.resumptions(found)[kind]])


def test_a_successor_finds_no_stray_and_starts_no_second_redis(plant):
    """The supervisor is killed: all that was under it ends, and the next daemon's Redis is alone on the files."""
    client = plant.client()
    jobs = [client.enqueue("slow", 600) for _ in range(3)]
    until(lambda: {job.status() for job in jobs} == {"started"})
    before = plant.kinds()
    kill(plant, SUPERVISOR, plant.process.pid, [])
    until(lambda: not [pid for pid in before if alive(pid)], plant.text)
    everybody = {SUPERVISOR, PROGRAMS, WRAPPER, REDIS, SCHEDULER, DISPATCHER, SERVER, CHILD}
    until(lambda: set(plant.kinds().values()) == everybody, plant.text)
    until(lambda: set(plant.strays()) == set(plant.kinds()))  # children come and go
    assert servers(paths.redis_state(plant.state)) == plant.pids(REDIS)
    assert {job.status() for job in jobs} <= {"started", "queued"}
    for job in jobs:
        job.cancel()


def servers(directory):
    """Pids of the processes that work in it."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and entry.joinpath("cwd").samefile(directory):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


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
