"""How many children a group should have: a range is kept, load is followed, and several hosts come to rest."""

import math
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from fusiond.config.model.worker_groups import Scaling
from fusiond.worker.dispatcher.scaling import QUIET, RATE, Look, next_size

FIVE = Scaling(2, 16, 5.0)


def looks(count, **last):
    """So many looks, one a second, at a group in which nothing happens; the last one is different."""
    found = [Look(float(at), 0, 0) for at in range(count)]
    return [*found[:-1], replace(found[-1], **last)]


def busy(seconds, running, ended=0, **last):
    """Looks at a group of which so many slots are in use, and so many jobs have ended in all."""
    found = [Look(float(at), running, ended * at // seconds, full=True) for at in range(seconds + 1)]
    return [*found[:-1], replace(found[-1], **last)]


def test_a_job_that_has_waited_for_too_long_adds_a_child():
    """Though what waits would need no more than the target: another queue or priority has its turn first."""
    found = next_size(4, 1, FIVE, busy(10, 4, 100, waiting=3, oldest=5.1))
    assert (found.processes, found.reason) == (5, "latency")
    assert next_size(4, 1, FIVE, busy(10, 4, 100, waiting=3, oldest=4.9)) is None


def test_a_backlog_adds_children_before_it_has_waited():
    """300 jobs of 0.4 s in 4 children need 30 s: six times the target, six times the children, as far as there are."""
    assert next_size(4, 1, FIVE, busy(10, 4, 100, waiting=300)) == (
        16, "backlog", "300 waiting, which 4 would begin within 30.0 s",
    )  # fmt: skip
    assert next_size(2, 1, Scaling(2, 1000, 5.0), busy(10, 2, 50, waiting=150)).processes == 12


def test_children_end_after_a_quiet_minute_only():
    """Counted from the last change, down to what was in use at once; never below the least."""
    count = int(QUIET) + 1
    assert next_size(9, 1, FIVE, looks(count - 1)) is None
    assert next_size(9, 1, FIVE, looks(count))[:2] == (2, "quiet")
    assert next_size(9, 1, FIVE, looks(count), since=1.0) is None
    used = [replace(look, running=5 if look.at == 30 else 1) for look in looks(count)]
    assert next_size(9, 1, FIVE, used).processes == 5
    assert next_size(9, 2, FIVE, used).processes == 3
    assert next_size(5, 1, FIVE, used) is None


a_look = st.tuples(
    st.integers(0, 400), st.integers(0, 50), st.booleans(), st.integers(0, 10_000), st.floats(0, 1000, width=16)
)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 40), st.integers(1, 8), st.integers(1, 20), st.integers(0, 20), st.floats(0.1, 60),
    st.lists(a_look, min_size=62, max_size=70), st.floats(-10, 70),
)  # fmt: skip
def test_a_change_stays_in_the_range_and_has_a_cause(processes, concurrency, least, more, target, seen, since):
    """Whatever is seen: up only if full and late, down only after a quiet minute and to no less than was in use."""
    scaling = Scaling(least, least + more, target)
    processes = min(max(processes, least), least + more)
    ended, found = 0, []
    for at, (running, just_ended, full, waiting, oldest) in enumerate(seen):
        ended += just_ended
        found.append(Look(float(at), running, ended, full, waiting, oldest))
    change = next_size(processes, concurrency, scaling, found, since=since)
    if change is None:
        return
    last = found[-1]
    assert least <= change.processes <= least + more
    assert change.processes != processes
    if change.processes > processes:
        assert last.full
        assert change.processes <= processes + math.ceil(last.waiting / concurrency)
        assert (change.reason == "latency") == (last.oldest > target)
    else:
        assert change.reason == "quiet"
        assert last.at - max(since, 0) >= QUIET
        assert change.processes * concurrency >= max(look.running for look in found if look.at >= last.at - QUIET)


def test_the_rate_is_that_of_the_last_seconds():
    """What a job took an hour ago tells nothing."""
    slow = [Look(float(at), 4, 0, full=True) for at in range(50)]
    quick = [Look(50.0 + at, 4, 400 * at, full=True) for at in range(int(RATE) + 2)]
    assert next_size(4, 1, FIVE, [*slow, *quick[:-1], replace(quick[-1], waiting=1000)]) is None
