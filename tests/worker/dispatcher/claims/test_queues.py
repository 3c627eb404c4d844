"""From which queue how much is claimed: never more than asked for, fair over time, nothing from a dry queue."""

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusiond.broker.records import Claim, ClaimedJob
from fusiond.worker.dispatcher.claims.queue_order import Queues, Share

NAMES = ["a", "b", "c", "d"]
WEIGHTS = st.fixed_dictionaries({name: st.integers(1, 20) for name in NAMES})
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["open", "dry", "claim"]), st.sampled_from(NAMES), st.integers(0, 3) | st.integers(0, 600)
    ),
    max_size=60,
)


@given(st.sampled_from(["round_robin", "strict", "weighted"]), WEIGHTS, STEPS)
def test_shares_are_of_open_queues_and_add_up(order, weights, steps):
    """Whatever was opened, dried and claimed before: `want` in all where a queue is open, each share above nothing."""
    queues = Queues(NAMES, order, weights)
    open_ = set(NAMES)
    for what, name, want in steps:
        if what == "claim":
            shares = queues.divide(want)
            assert sum(count for count in shares.values()) == (want if open_ else 0)
            assert shares.keys() <= open_
            assert all(count > 0 for count in shares.values())
        elif what == "open":
            queues.mark_open(name)
            open_.add(name)
        else:
            queues.mark_dry(name)
            open_.discard(name)


@given(WEIGHTS, st.lists(st.integers(1, 40), min_size=200, max_size=200))
def test_weights_hold_over_time(weights, wants):
    """With every queue full each gets its weight's share, however small the claims are."""
    queues = Queues(NAMES, "weighted", weights)
    got = Counter()
    for want in wants:
        for name, count in queues.divide(want).items():
            got[name] += count
    total = sum(weights.values())
    for name in NAMES:
        assert abs(got[name] - sum(wants) * weights[name] / total) <= 4


def test_strict_asks_the_first_that_is_open():
    """The next one only once it is dry, and the first again as soon as it may have jobs."""
    queues = Queues(NAMES, "strict", {})
    assert queues.divide(5) == {"a": 5}
    queues.mark_dry("a")
    assert queues.divide(5) == {"b": 5}
    queues.mark_open("a")
    assert queues.divide(5) == {"a": 5}


def test_a_dry_queue_is_asked_again_when_opened():
    """By its name, or with all; a name that is not served is nothing."""
    queues = Queues(["a"], "round_robin", {})
    queues.mark_dry("a")
    assert queues.divide(5) == {}
    queues.mark_open("z")
    assert queues.divide(5) == {}
    queues.mark_open()
    assert queues.divide(5) == {"a": 5}


def test_a_queue_that_was_dry_does_not_catch_up():
    """It gets its share from then on, not what it missed."""
    queues = Queues(["a", "b"], "round_robin", {})
    queues.mark_dry("b")
    for _ in range(100):
        queues.divide(3)
    queues.mark_open("b")
    got = Counter()
    for _ in range(10):
        for name, count in queues.divide(1).items():
            got[name] += count
    assert abs(got["a"] - got["b"]) <= 4


def shares(queues, room, free=0, asked=()):
    return sorted(queues.shares(room, free, Random(1), asked))


def test_a_queue_is_asked_once_until_it_may_have_more():
    """Each is asked and dry; one that gave all that was asked for, or says that it has more, is asked again."""
    queues = Queues(["a", "b"], "round_robin", {})
    asked = shares(queues, 8)
    assert asked == [Share("a", 4), Share("b", 4)]
    assert shares(queues, 8) == []
    job = ClaimedJob(b"id", b"t", b"[]", 1, 0, 0, b"", 0)
    assert queues.note(asked[0], Claim([job] * 4, None, more=False, expiring={}))
    assert not queues.note(asked[1], Claim([job] * 3, 10, more=False, expiring={}))
    assert shares(queues, 8) == [Share("a", 8)]
    assert queues.note(asked[1], Claim([job], None, more=True, expiring={}))
    assert shares(queues, 8) == [Share("b", 8)]


def claim(count, *, more):
    return Claim([ClaimedJob(b"id", b"t", b"[]", 1, 0, 0, b"", 0)] * count, None, more=more, expiring={})


def test_beside_a_claim_only_a_deep_queue_is_asked_again():
    """Deep is what said so in its last answer; a queue that gave less than was asked for is not."""
    queues = Queues(["a", "b"], "round_robin", {})
    a, b = shares(queues, 8)
    assert shares(queues, 8, asked="ab") == [], "nobody knows yet what is in them"
    queues.note(a, claim(4, more=True))
    queues.note(b, claim(4, more=False))
    assert shares(queues, 8) == [Share("a", 4), Share("b", 4)]
    assert shares(queues, 8, asked="ab") == [Share("a", 8)]
    queues.note(a, claim(2, more=False))
    assert shares(queues, 8, asked="ab") == []
    queues.mark_open("b")
    assert shares(queues, 8, asked="ab") == [Share("b", 8)], "a wake-up is none of what is being asked"


def test_strict_asks_no_queue_behind_one_that_has_not_answered():
    """It may have jobs, and theirs is the room."""
    queues = Queues(["a", "b"], "strict", {})
    [a] = shares(queues, 8)
    assert shares(queues, 8, asked="a") == []
    queues.note(a, claim(8, more=True))
    [a] = shares(queues, 8)
    assert shares(queues, 8, asked="a") == [Share("a", 8)]
    queues.note(a, claim(3, more=False))
    assert shares(queues, 8) == [Share("b", 8)]


def test_a_poll_has_each_queue_asked_that_was_not_since_the_last_one():
    """For no job where there is no room: its claim rescues, and takes in the inbox. Once."""
    queues = Queues(["a", "b"], "strict", {})
    queues.poll()
    assert shares(queues, 5) == [Share("a", 5)]
    queues.poll()
    assert shares(queues, 0) == [Share("b", 0)]
    assert shares(queues, 0) == []
    queues.poll()
    assert shares(queues, 0) == [Share("a", 0)]


@given(st.integers(0, 20), st.integers(0, 20), st.integers())
def test_jobs_that_may_begin_once_only_are_for_free_children(room, free, seed):
    """All queues together are asked for no more of them than children are free, and for as many as there are."""
    queues = Queues(NAMES, "round_robin", {})
    limits = [share.free for share in queues.shares(room, free, Random(seed))]
    assert sum(limits) == min(room, free)


def test_a_queue_whose_next_job_finds_no_free_child_waits_for_one():
    """Its claim gave fewer than were asked for, and it is asked again once a child is free."""
    queues = Queues(["a"], "round_robin", {})
    [asked] = shares(queues, 5)
    assert not queues.note(asked, Claim([], None, more=True, expiring={}, few=True))
    assert shares(queues, 5) == []
    assert queues.full == {"a"}
    queues.open_full()
    assert shares(queues, 5, free=1) == [Share("a", 1, 1)]
    assert not queues.full


def few():
    return Claim([], None, more=True, expiring={}, few=True)


@pytest.mark.parametrize("order", ["round_robin", "strict"])
def test_nothing_is_claimed_ahead_while_a_queue_waits_for_a_free_child(order):
    """Jobs of another queue that wait for children would have each of them, again and again."""
    queues = Queues(["a", "b"], order, {})
    queues.note(Share("a", 4), few())
    queues.mark_dry("a")
    assert shares(queues, 8) == []
    assert shares(queues, 8, free=1) == [Share("b", 1, 1)]
    queues.mark_open()
    assert sum(share.want for share in shares(queues, 8, free=2)) == 2
    queues.mark_open()
    queues.note(Share("a", 4), claim(0, more=False))
    assert sum(share.want for share in shares(queues, 8)) == 8


def test_strict_claims_ahead_while_only_a_later_queue_waits_for_a_free_child():
    """It is not that one's turn."""
    queues = Queues(["a", "b"], "strict", {})
    queues.note(Share("b", 4), few())
    assert shares(queues, 8) == [Share("a", 8)]
