"""A group's two lanes against a real Redis: cut one by one, drained, reloaded, with hundreds of jobs under way."""

import signal

import pytest

from fusiond.broker.call import as_is, plain
from tests.chaos.package import Edit
from tests.support.running import until

#: so that the second lane has work as soon as the first one does
EAGER = Edit("worker/dispatcher/claims/lanes.py", "_WORTH, _WAIT = 128, 0.02", "_WORTH, _WAIT = 1, 0.0")
MANY = 3000


@pytest.fixture
def crowd(place):
    """A place, a program of which both lanes are at work, and the ids of its quick jobs, of which many wait."""
    ids = more(place)
    program = place.start(processes=3, link=True, own=place.edited(EAGER))

    def are_at_work():
        # The program may be done with all of them before this looks.
        if len(ids) - finished(place) < MANY / 2:
            ids.extend(more(place))
        return lanes(place) == {"1", "2"}

    until(are_at_work, program.text, step=0.1)
    return place, program, ids


def more(place):
    """MANY quick jobs."""
    return place.enqueue_many([("echo", number) for number in range(MANY)])


def lanes(place):
    """The lanes that have claimed jobs within the last minute."""
    found = place.run(plain(as_is, "KEYS", place.broker.keys.of("default", "claim", "*")))
    return {"2" if b":claim:2/" in name else "1" for name in found}


def finished(place):
    return place.run(place.broker.counts("default")).finished


def all_ran_once(place, ids):
    """All jobs finish, none under another lease than its first one."""
    until(lambda: finished(place) == len(ids), lambda: f"{place.run(place.broker.counts('default'))}\n{place.logs()}")
    assert {place.job(id_).attempts for id_ in ids} == {1}


def test_a_drain_with_both_lanes_at_work_leaves_nothing_started(crowd):
    """What was claimed and has not begun is back in its queue, its attempt undone; what has run is settled."""
    place, program, ids = crowd
    program.process.send_signal(signal.SIGTERM)
    assert program.wait() == 0
    counts = place.run(place.broker.counts("default"))
    assert counts.started == 0
    assert counts.queued + counts.finished == len(ids)
    assert {(job.status, job.attempts) for job in map(place.job, ids)} <= {("queued", 0), ("finished", 1)}


def test_a_reload_with_both_lanes_at_work_costs_no_job(crowd):
    """Answers to claims from before it come in after it."""
    place, program, ids = crowd
    for number in range(6):
        program.apply(processes=3, queues=("default", "other") if number % 2 else ("default",))
    all_ran_once(place, ids)


def test_a_group_of_few_jobs_has_one_lane(place):
    """It makes no connection, and asks Redis nothing, for the other one."""
    place.start(processes=3)
    for number in range(20):
        # Two, since one alone would come with the wake-up, and not be claimed.
        for id_ in place.enqueue_many([("echo", number), ("echo", number)]):
            place.result(id_)
    assert lanes(place) == {"1"}
