"""Verbs of cron entries: decide, enqueue, confirm; each may be repeated, and cut short, at any place."""

import pytest

from fusiond.broker.call import Unreadable
from fusiond.broker.ticks import DecidedTicks
from fusiond.errors import BrokerError
from fusiond.job import JobStatus

HOUR = 3_600_000


@pytest.fixture
def state(run, broker):
    return lambda entry="e": run(broker.cron_state(entry))


@pytest.fixture
def decide(run, broker, state):
    """Decide on ticks as a scheduler does; the state afterwards, or None where another one was first."""

    def decide(*ticks, on=None, queue="q", entry="e", **more):
        seen = on or state(entry)
        values = {"delays_ms": (0,) * len(ticks), "priority": 1, "expires_ms": None, "patience_ms": None} | more
        ticks_decided = DecidedTicks(entry, queue, "task", b"[[],{}]", ticks=ticks, **values)
        version = run(broker.cron_write(seen, last=ticks[-1], decision="decided", decided=ticks_decided.to_text()))
        return None if version is None else state(entry)

    return decide


@pytest.fixture
def finish(run, broker):
    """Enqueue and confirm what a state has as decided; what became of the ticks."""

    def finish(state):
        ticked = run(broker.tick(state.decided))
        run(broker.confirm(state, ticked))
        return ticked.outcomes

    return finish


@pytest.fixture
def ids(run, broker):
    return lambda queue="q", status=JobStatus.QUEUED: [job.id for job in run(broker.jobs(queue, status))]


def test_of_two_decisions_on_the_same_state_one_is_taken(decide, state, finish, ids):
    """Of many daemons that look at the same moment one decides; the others look again."""
    seen = state()
    assert decide(1000, on=seen)
    assert decide(1000, on=seen) is None
    assert finish(state()) == "0"
    assert ids() == ["cron:e:1000"]
    after = state()
    assert (after.last, after.decided, after.decision) == (1000, None, "enqueued")
    assert (after.last_queue, after.last_job, after.last_enqueued) == ("q", "cron:e:1000", 1000)


@pytest.mark.parametrize("reply", [[b"00", b"0"], [b"", b"0"], [b"x", b"0"], [0, b"0"]])
def test_a_reply_that_has_no_digit_for_each_tick_cannot_be_read(decide, broker, reply):
    """The scheduler would end by it."""
    with pytest.raises(Unreadable):
        broker.tick(decide(1000).decided).read(reply)


def test_whoever_finds_ticks_unconfirmed_finishes_them_once(decide, state, finish, ids, run, broker):
    """Killed after the decision, or after the enqueue: another one goes on; nothing is lost, nothing comes twice."""
    decided = decide(1000, 2000)
    assert decided.decided == state().decided, "killed before the enqueue"
    assert run(broker.tick(decided.decided)).outcomes == "00"
    assert state().decided, "killed before the confirmation"
    assert finish(state()) == "44"
    assert ids() == ["cron:e:1000", "cron:e:2000"]
    assert state().last_job == "cron:e:2000"


def test_a_scheduler_that_was_stopped_for_long_enqueues_nothing_again(decide, finish, ids, run, broker):
    """The job of its tick has run and is gone; the queue remembers the tick itself."""
    stale = decide(1000)
    finish(stale)
    run(broker.cancel("q", "cron:e:1000"))
    run(broker.sweep("q"))
    assert finish(stale) == "4"
    assert ids() == []


def test_decided_ticks_go_to_the_queue_that_the_decision_names(decide, finish, state, ids):
    """The task is moved to another queue after the decision: whoever finishes it enqueues where it was decided."""
    decided = decide(1000, queue="old")
    finish(state())
    finish(decide(2000, queue="new"))
    assert (ids("old"), ids("new")) == (["cron:e:1000"], ["cron:e:2000"])
    assert state().last_queue == "new"
    assert finish(decided) == "4"


def test_what_became_too_late_is_given_up(decide, finish, ids, state):
    """Decided, and enqueued by another one only after the time that a tick may be late."""
    now = state().now
    assert finish(decide(now - HOUR, now - 1000, patience_ms=HOUR // 2)) == "20"
    assert ids() == [f"cron:e:{now - 1000}"]
    assert finish(decide(now, entry="all", patience_ms=None)) == "0"
    assert finish(decide(1000, entry="late", patience_ms=1)) == "2"
    assert (state("late").decision, state("late").last_job) == ("late", None)


def test_a_tick_of_a_daemon_whose_clock_goes_ahead_is_not_early(decide, finish, run, broker, state):
    """The job is scheduled for its time by the clock of Redis; a delay counts from there."""
    due = state().now + HOUR
    finish(decide(due, due + 1, delays_ms=(0, 500)))
    assert run(broker.job("q", f"cron:e:{due}")).due_at == due
    assert run(broker.job("q", f"cron:e:{due + 1}")).due_at == due + 501


def test_a_tick_into_a_full_queue_is_passed_over(decide, finish, run, broker, state, ids):
    """max_length holds, and the decision says why; so does a repeat of it."""
    run(broker.configure("q", max_length=1, tasks={}))
    assert finish(decide(1000, 2000)) == "03"
    assert state().last_job == "cron:e:1000"
    full = decide(3000)
    assert [finish(full), finish(full)] == ["3", "4"]
    assert (state().decision, ids()) == ("full", ["cron:e:1000"])


def test_no_job_of_a_tick_comes_after_a_suspension_has_returned(decide, finish, run, broker, ids, state):
    """A scheduler that had decided, and was stopped before the enqueue, enqueues nothing afterwards."""
    stale, seen = decide(1000), state()
    run(broker.suspend_cron("e", on=True))
    assert ids() == ["cron:e:1000"], "decided before, so it is enqueued before"
    assert state().suspended
    assert finish(stale) == "4"
    assert decide(2000, on=seen) is None, "based on what was known before the suspension"
    run(broker.suspend_cron("e", on=False))
    assert not state().suspended


def test_at_maxmemory_what_was_enqueued_is_confirmed(decide, run, broker, redis, state):
    """No decision is taken then, and none stays open."""
    decided = decide(1000)
    ticked = run(broker.tick(decided.decided))
    redis("CONFIG", "SET", "maxmemory", 1)
    try:
        run(broker.confirm(decided, ticked))
        with pytest.raises(BrokerError):
            decide(2000)
    finally:
        redis("CONFIG", "SET", "maxmemory", 0)
    assert (state().decided, state().last) == (None, 1000)
