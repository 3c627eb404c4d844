"""How many jobs a group claims ahead of its children, and what becomes of those that find none: work conservation."""

import os
import signal
import time

import pytest

from fusiond.worker.pool.run_times import LATELY, PrefetchBudget, RunTimes
from tests.chaos.package import SELDOM_RENEWALS
from tests.support.running import sleeps, until

BOTH = pytest.mark.parametrize("isolation", ["fork", "process"])


def make_busy(place, jobs=300):
    """Let the group learn that jobs are quick and that many end: it claims ahead."""
    ids = place.enqueue_many([("echo",)] * jobs)
    place.result(ids[-1])


def has_more_lines(place, path, count, patience=0.3):
    """Whether the file gets more lines than these within so many seconds."""
    end = time.monotonic() + patience
    while not (has_more := len(place.lines(path)) > count) and time.monotonic() < end:
        time.sleep(0.01)
    return has_more


# -- how many ---------------------------------------------------------------------------------------------------------


def test_as_many_as_ended_lately():
    """One that was idle claims nothing ahead."""
    ahead = PrefetchBudget()
    assert ahead.limit(0.0) == 0
    ahead.note(100)
    assert ahead.limit(0.0) == 100
    assert 30 <= ahead.limit(LATELY) <= 40
    assert ahead.limit(10 * LATELY) == 0


def test_as_many_as_should_end_soon():
    """Where 50 children end jobs of 10 ms, those of 8 ms; where jobs take a second, none."""
    ahead = PrefetchBudget()
    for step in range(500):
        ahead.note(10)
        soon = ahead.limit_of_next(step * 0.002)
    assert 37 <= soon <= 41
    for step in range(200):
        ahead.note(1)
        soon = ahead.limit_of_next(1.0 + step * 0.02)
    assert soon == 0


def test_many_jobs_fit_into_a_batch_while_they_are_quick():
    """Also soon after a job that took an hour."""
    times = RunTimes()
    for seconds, *expected in ((0.001, True, True), (0.01, True, False), (3600, False, False), (0.001, True, True)):
        for _ in range(20):
            times.note(b"task", seconds)
        assert [times.quick, times.depth(1) > 1] == expected


# -- what found no child ----------------------------------------------------------------------------------------------


@BOTH
def test_long_jobs_after_quick_ones_do_not_wait_beside_an_idle_group(place, isolation):
    """A full group gives back what it claimed ahead, and leaves it to those that have a child for it."""
    place.start(isolation=isolation, processes=2)
    make_busy(place)
    path, began = place.path(), time.monotonic()
    ids = place.enqueue_many([("echo",)] * 30 + [("work", path, 60, f"w{n}") for n in range(8)])
    place.until_lines(path, 2)
    place.start(isolation=isolation, processes=6)
    place.until_lines(path, 8)
    released = sum(int(worker.fields["released"]) for worker in place.run(place.broker.workers()))
    # Six at a time, after pauses of 0.2 s that grow to 6.4 s; without them, thirty in a second.
    assert released <= 30 + 2 * (time.monotonic() - began)
    for id_ in ids:
        place.cancel(id_)
    assert {place.until(id_).status for id_ in ids[30:]} == {"canceled"}


def test_a_child_has_its_next_jobs_while_it_runs_a_short_one(place):
    """
    While the dispatcher stands still, each child begins more than it runs.

    It is stopped while it waits, so it has handed out what it can. There are several tries: at times the last of
    them has just begun, and on a busy machine a job may seem to take more than the 2.5 ms above which it has none.
    """
    program = place.start(processes=1)
    path, went_on, tries = place.path(), 0, 0
    place.enqueue_many([("work", path, 0.001)] * 2000)
    while went_on < 3 and tries < 20:
        tries += 1
        place.until_lines(path, 50 * tries)
        until(lambda: sleeps(program.pid), step=0)
        os.kill(program.pid, signal.SIGSTOP)
        begun = len(place.lines(path))
        went_on += has_more_lines(place, path, begun)
        os.kill(program.pid, signal.SIGCONT)
    assert went_on >= 3, tries


@BOTH
def test_a_child_that_stands_still_holds_no_job(place, isolation):
    """What it was handed and does not begin goes to who begins it, long before the lease is over."""
    program = place.start(isolation=isolation, own=place.edited(SELDOM_RENEWALS))
    stopped = program.until_children(1 if isolation == "process" else 2)
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    path = place.path()
    ids = place.enqueue_many([("work", path)] * len(stopped))
    place.start(isolation="process")
    for id_ in ids:
        place.result(id_)
    assert {place.job(id_).attempts for id_ in ids} == {1}
