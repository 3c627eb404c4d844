"""The markers of rows that an outbox has handed over: one row becomes one job, whoever repeats what, and when."""

import time

import pytest

from fusiond.broker.outbox_verbs import OutboxState, RefusedRow
from fusiond.broker.records import Existing, NewJob
from fusiond.errors import BrokerError
from fusiond.job import JobStatus
from tests.support.queue_state import findings

MARKERS = "test:{q}:handed:shop"


def new(id_, args=b"[[],{}]", **options):
    return NewJob(id_, "t", args, **options)


@pytest.fixture
def hand_over(run, broker):
    def hand_over(*jobs, late_by=-10.0, outbox="shop"):
        """`late_by`: s for which the deadline is over."""
        now, _ = run(broker.confirm_handed("q", outbox, ()))
        return run(broker.enqueue_handed("q", outbox, jobs, int(now - late_by * 1000)))

    return hand_over


@pytest.fixture
def drop(redis):
    def drop(id_):
        """Nothing is left of the job, as after its end with `result_ttl: 0s`."""
        assert redis("DEL", f"test:{{q}}:job:{id_}") == redis("ZREM", "test:{q}:queue", id_) == 1

    return drop


def test_a_row_with_a_marker_is_not_stored_again(hand_over, run, broker, drop):
    """A repeat changes nothing, though the job has ended and was deleted."""
    assert hand_over(new("a"), new("b")) == ["stored", "stored"]
    drop("a")
    assert hand_over(new("a"), new("b"), new("c")) == ["same", "same", "stored"]
    assert run(broker.ids("q", JobStatus.QUEUED)) == ["b", "c"]
    assert run(findings(broker, "q")) == []


def test_markers_are_of_one_outbox(hand_over, drop):
    """Two databases may have rows with one id."""
    hand_over(new("a"))
    drop("a")
    assert hand_over(new("a"), outbox="other") == ["stored"]


def test_what_comes_too_late_is_refused(hand_over, run, broker):
    """By the clock of Redis; nothing is done."""
    assert hand_over(new("a"), late_by=0.001) is None
    assert run(broker.ids("q", JobStatus.QUEUED)) == []
    assert hand_over(new("a"), late_by=-5.0) == ["stored"]


def test_a_job_that_is_refused_leaves_no_marker(hand_over, run, broker, redis):
    """It may be handed over later: the queue was full, another job had the id, or was the same by `unique`."""
    run(broker.enqueue("q", [NewJob("taken", "other", b"[]")]))
    assert hand_over(new("taken"), new("a")) == ["conflict", "stored"]
    run(broker.configure("q", tasks={}, max_length=3))
    assert hand_over(new("b"), new("c")) == ["full", "full"]
    run(broker.configure("q", tasks={}))
    locked = [new(id_, unique='ended,refuse,0,"u"') for id_ in ("d", "e")]
    assert hand_over(locked[0]) == ["stored"]
    assert hand_over(locked[1], new("f")) == [Existing("d", refused=True), "unstored"]
    assert {*redis("ZRANGE", MARKERS, 0, -1)} == {b"a", b"d"}


def test_a_job_that_exists_by_unique_counts_as_handed_over(hand_over, redis):
    """Its row is done, as a call of a client would be."""
    for id_ in ("a", "b"):
        reply = hand_over(new(id_, unique='ended,skip,0,"u"'))
    assert reply == [Existing("a", refused=False)]
    assert {*redis("ZRANGE", MARKERS, 0, -1)} == {b"a", b"b"}


def test_only_a_row_with_a_marker_is_confirmed(hand_over, run, broker, redis):
    """A Redis that has lost the job has lost the marker with it."""
    hand_over(new("a"))
    before = redis("INFO", "replication")
    now, there = run(broker.confirm_handed("q", "shop", ["a", "lost"]))
    assert there == [True, False]
    assert abs(now / 1000 - time.time()) < 60
    assert redis("INFO", "replication") != before or redis("ZSCORE", MARKERS, "a").endswith(b".5")


def test_a_marker_outlives_its_row_by_ten_minutes(hand_over, run, broker, redis):
    """Until then a database that loses its last commit in a failover does no harm; afterwards nothing is left."""
    hand_over(new("a"), new("b"))
    run(broker.end_handed("q", "shop", ["a"]))
    now, _ = run(broker.confirm_handed("q", "shop", ()))
    assert 590_000 < float(redis("ZSCORE", MARKERS, "a")) - now <= 600_000
    assert run(broker.pending_handed("q", "shop", 0)) == ["b"]
    assert redis("PTTL", MARKERS) == -1
    redis("ZADD", MARKERS, 1, "a")
    run(broker.end_handed("q", "shop", ["b"]))
    assert redis("ZRANGE", MARKERS, 0, -1) == [b"b"]
    assert 590_000 < redis("PTTL", MARKERS) <= 601_000
    hand_over(new("c"))
    assert redis("PTTL", MARKERS) == -1


def test_an_error_comes_before_the_first_write(hand_over, run, broker, redis):
    """A key of another type, at its worst the markers' own, has no job half stored."""
    redis("SET", MARKERS, "text")
    with pytest.raises(BrokerError):
        hand_over(new("a"))
    assert run(broker.ids("q", JobStatus.QUEUED)) == []


def test_one_daemon_hands_over(run, broker):
    """The others learn that, and everybody what it says of the outbox."""
    state = OutboxState(waiting=2, refused=1, oldest=3.5, rows=(RefusedRow("a", "t", "why", 1.0),), host="h", at=7.0)
    assert run(broker.hold_outbox("shop", "one", 60_000, state))
    assert not run(broker.hold_outbox("shop", "two", 60_000, OutboxState()))
    assert run(broker.outboxes()) == {"shop": state}
    assert run(broker.hold_outbox("shop", "one", 0, state))
    assert run(broker.hold_outbox("shop", "two", 60_000, OutboxState()))


def test_what_another_version_says_of_an_outbox_breaks_nothing(run, broker, redis):
    redis("HSET", "test:outboxes", "shop says", '{"waiting": 3, "newer": 1}', "odd says", "[]", "none", "t 1")
    assert run(broker.outboxes()) == {"shop": OutboxState(waiting=3), "odd": OutboxState()}
