"""
`retry: none`: whatever cuts a job off, it has begun once and has failed with the code that says why.

A group's program against a real Redis, its processes killed and stopped.
"""

import os
import signal
import time

import pytest

from tests.chaos.package import SHORT_LEASES, Edit
from tests.support.job_text import read_job
from tests.support.running import until

BOTH = pytest.mark.parametrize("isolation", ["fork", "process"])
#: what takes seconds, in the first tier once
SLOW = pytest.mark.parametrize("isolation", ["fork", pytest.param("process", marks=pytest.mark.proof)])
NONE = {"retry": "none"}
WORK = {"work": NONE}


def failed_after_one_run(place, id_, path, code):
    """The job has failed with this code, and stays so though a group is idle; it ran once."""
    record = place.until(id_)
    assert record.status == "failed", (record, place.logs())
    assert place.error(id_)["code"] == code, place.error(id_)
    assert place.result(place.enqueue("echo", "behind it")) is not None
    assert place.status(id_) == "failed"
    assert len(place.lines(path)) == 1


@SLOW
def test_shutdown(place, isolation):
    """At `drain_timeout` it is killed: INTERRUPTED, and no later program runs it."""
    program = place.start(isolation=isolation, tasks=WORK, drain_timeout=0.5)
    path = place.path()
    id_ = place.enqueue("work", path, 60)
    place.until_lines(path)
    program.signal(signal.SIGTERM)
    program.wait()
    place.start(isolation=isolation, tasks=WORK)
    failed_after_one_run(place, id_, path, "INTERRUPTED")


@SLOW
def test_dispatcher_that_dies_as_the_job_begins(place, isolation):
    """LEASE_LOST, though no lease was renewed since; what was claimed and had not begun runs elsewhere."""
    tasks, own = {"kill_dispatcher": NONE, "work": NONE}, place.edited(SHORT_LEASES)
    place.start(isolation=isolation, processes=2, tasks=tasks, own=own)
    path, behind = place.path(), place.path()
    first = place.enqueue("work", path, 60)
    place.until_lines(path)
    victim = place.path()
    ids = place.enqueue_many([("kill_dispatcher", victim), *(("work", behind) for _ in range(6))])
    place.until_lines(victim)
    place.programs[0].process.wait()
    place.start(isolation=isolation, tasks=tasks)
    failed_after_one_run(place, ids[0], victim, "LEASE_LOST")
    failed_after_one_run(place, first, path, "LEASE_LOST")
    assert [place.until(id_).status for id_ in ids[1:]] == ["finished"] * 6
    assert len(place.lines(behind)) == 6


def test_dispatcher_that_is_frozen(place):
    """The job is failed elsewhere; continued, its dispatcher kills it and settles nothing."""
    first = place.start(tasks=WORK, own=place.edited(SHORT_LEASES))
    path = place.path()
    id_ = place.enqueue("work", path, 60)
    place.until_lines(path)
    first.signal(signal.SIGSTOP)
    place.start(tasks=WORK)
    failed_after_one_run(place, id_, path, "LEASE_LOST")
    first.signal(signal.SIGCONT)
    first.until_said("its lease was lost")
    failed_after_one_run(place, id_, path, "LEASE_LOST")


@pytest.mark.proof
@BOTH
def test_jobs_of_none_have_their_turn(place, isolation):
    """Those that are claimed ahead of a long row of quick jobs begin before the row is done."""
    place.start(isolation=isolation, processes=1, tasks={"speak": NONE})
    for _ in range(3):
        for id_ in place.enqueue_many([("echo", n) for n in range(100)]):
            place.until(id_)
    ids = place.enqueue_many([*[("speak", "w")] * 3, *[("echo", n) for n in range(600)]])
    ended = [place.until(id_).ended_at for id_ in ids]
    assert max(ended[:3]) <= sorted(ended)[300]


def test_permits_are_for_no_more_jobs_than_children(place, run):
    """What waits for a child, in whatever process, has none."""
    place.start(processes=2, tasks=WORK)
    paths = [place.path() for _ in range(2)]
    for path in paths:
        place.enqueue("work", path, 60)
    for path in paths:
        place.until_lines(path)
    waiting = [place.enqueue("work", place.path()) for _ in range(20)]
    time.sleep(0.5)
    key = place.broker.keys.of("default", "job", "")
    assert not [id_ for id_ in waiting if "permit" in read_job(run, key + id_)]


def test_a_reload_changes_nothing_of_a_job_that_has_begun(place):
    """Begun under `none`, it stays at most once; a job that begins after the reload has the new policy."""
    program = place.start(isolation="fork", link=True, processes=2, tasks=WORK)
    path = place.path()
    id_ = place.enqueue("work", path, 60)
    pid = int(place.until_lines(path)[0].split()[1])
    program.apply(isolation="fork", processes=2, tasks={"work": {"retry": "single"}})
    os.kill(pid, signal.SIGKILL)
    failed_after_one_run(place, id_, path, "WORKER_CRASHED")
    other = place.path()
    place.enqueue("work", other, 60)
    os.kill(int(place.until_lines(other)[0].split()[1]), signal.SIGKILL)
    place.until_lines(other, 2)


@pytest.mark.proof
def test_a_job_that_waits_in_a_child_while_a_reload_turns_its_task_to_none(place):
    """It begins with a permit: when its dispatcher is killed, it has begun once and does not run again."""
    patient = Edit("worker/pool/watchdog.py", "BEGIN, LONGEST_BEGIN = 0.25, 8.0", "BEGIN, LONGEST_BEGIN = 60.0, 60.0")
    first = place.start(isolation="process", link=True, own=place.edited(patient))
    child = first.until_children(1).pop()
    os.kill(child, signal.SIGSTOP)
    path = place.path()
    id_ = place.enqueue("work", path, 60)
    place.until(id_, "started")
    first.apply(isolation="process", tasks=WORK)
    os.kill(child, signal.SIGCONT)
    place.until_lines(path)
    os.kill(first.pid, signal.SIGKILL)
    first.process.wait()
    place.start(isolation="process", tasks=WORK)
    failed_after_one_run(place, id_, path, "LEASE_LOST")


# -- expiry -----------------------------------------------------------------------------------------------------------


def test_a_job_that_expires_in_a_child_does_not_begin(place):
    """It was handed to a child that stands still: it fails with EXPIRED once the child goes on, and never begins."""
    program = place.start(isolation="process")
    child = program.until_children(1).pop()
    os.kill(child, signal.SIGSTOP)
    path = place.path()
    id_ = place.enqueue("work", path, header={"expires_ms": 3000})
    expires_at = place.until(id_, "started").expires_at
    until(lambda: time.time() * 1000 > expires_at + 200)
    os.kill(child, signal.SIGCONT)
    assert place.error(id_)["code"] == "EXPIRED"
    assert place.result(place.enqueue("echo"))
    assert place.lines(path) == []
