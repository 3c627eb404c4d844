"""How long jobs are kept that Redis itself ends: what the call says, or the task, or 30 days."""

import pytest

from fusiond.broker.call import as_is, plain
from fusiond.broker.records import NewJob
from fusiond.job import JobStatus

HOUR = 3_600_000
DAY = 24 * HOUR


@pytest.fixture
def kept(run, broker):
    """How many ms a job is kept from its end on."""

    def kept(id_, status=JobStatus.FAILED):
        until = float(run(plain(as_is, "ZSCORE", broker.keys.of("q", status.value), id_)))
        return until - run(broker.job("q", id_)).ended_at

    return kept


@pytest.fixture
def expire(run, broker):
    """Have jobs expire in their queue."""

    def expire(*jobs):
        run(broker.enqueue("q", [job._replace(expires_ms=0) for job in jobs]))
        run(broker.claim("q", 9, dispatcher="d", nonce="n", lease_ms=HOUR, max_rescues=0))

    return expire


def test_the_call_says_it_or_the_task_or_else_it_is_30_days(run, broker, expire, kept):
    """In this order; what another program has written is not a number of seconds."""
    run(broker.declare_failure_ttls("q", {"hour": HOUR}))
    expire(
        NewJob("call", "hour", b"[[],{}]", failure_ttl=b"7200.5"),
        NewJob("task", "hour", b"[[],{}]", meta=b'{"failure_ttl":5}'),
        NewJob("none", "other", b"[[],{}]"),
        NewJob("odd", "other", b"[[],{}]", failure_ttl=b'"1d"'),
    )
    assert [kept(id_) for id_ in ("call", "task", "none", "odd")] == [2 * HOUR + 500, HOUR, 30 * DAY, 30 * DAY]


def test_it_holds_for_each_way_in_which_redis_ends_a_job(run, broker, kept):
    """Its parent failed, its lease was lost too often, no host had its task for long, it was canceled or replaced."""
    run(broker.declare_failure_ttls("q", {"t": HOUR}))
    job = NewJob("", "t", b"[[],{}]")
    run(broker.enqueue("q", [job._replace(id=id_) for id_ in ("lost", "running")]))
    run(broker.claim("q", 9, dispatcher="d", nonce="n", lease_ms=0, max_rescues=0))
    run(broker.cancel("q", "running"))
    run(broker.claim("q", 0, dispatcher="d", nonce="m", lease_ms=0, max_rescues=0))
    run(broker.enqueue("q", [job._replace(id="child", after="0 0 q/lost"), job._replace(id="waiting")]))
    run(broker.deliver("q"))
    run(broker.cancel("q", "waiting"))
    run(broker.enqueue("q", [job._replace(id=id_, unique="ended,replace,0,") for id_ in ("old", "new")]))
    assert [kept(id_) for id_ in ("lost", "child")] == [HOUR, HOUR]
    assert [kept(id_, JobStatus.CANCELED) for id_ in ("running", "waiting", "old")] == [HOUR, HOUR, HOUR]


def test_a_replaced_job_is_kept_for_a_day_at_most(run, broker, kept):
    """A call that comes often leaves no more of them."""
    jobs = [NewJob(id_, "t", b"[[],{}]", unique="ended,replace,0,") for id_ in ("old", "new")]
    run(broker.enqueue("q", jobs))
    assert kept("old", JobStatus.CANCELED) == DAY
