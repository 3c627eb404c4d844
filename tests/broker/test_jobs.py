"""A job's life: enqueue, claim, renew, settle."""

import json
import time

import pytest

from fusiond.broker.jobs import carried_job
from fusiond.broker.records import NewJob, Outcome, TaskLimit
from fusiond.errors import BrokerError, BrokerFull
from fusiond.job import JobStatus, new_id, new_token
from tests.support.job_text import change_job, read_job, shift
from tests.support.queue_state import broken, findings

HOUR, DAY = 3_600_000, 86_400_000
ARGS = b"[[1],{}]"


@pytest.fixture
def enqueue(run, broker):
    """One job; its id."""

    def enqueue(**options):
        job = NewJob(
            options.pop("id", None) or new_id(), options.pop("task", "task"), options.pop("args", ARGS), **options
        )
        assert run(broker.enqueue("q", [job])) == ["stored"]
        return job.id

    return enqueue


@pytest.fixture
def claim(run, broker):
    """(token, Claim) of one claim."""

    def claim(want=1, *, lease_ms=HOUR, max_rescues=2, token=None, dispatcher="d", parking=""):
        token = token or new_token()
        call = broker.claim(
            "q", want, dispatcher=dispatcher, nonce=token, lease_ms=lease_ms, max_rescues=max_rescues, parking=parking
        )
        return token, run(call)

    return claim


@pytest.fixture
def settle(run, broker):
    """The reply for one outcome."""
    return lambda *outcome, **more: run(broker.settle("q", [Outcome(*outcome, **more)]))[0]


@pytest.fixture
def status(run, broker):
    return lambda job_id: (record := run(broker.job("q", job_id))) and record.status


@pytest.fixture(autouse=True)
def _consistent(request, run, broker):
    """Whatever a test did, each job is in one set and its hash agrees, unless garbage is its subject."""
    yield
    if "garbage" not in request.node.name:
        assert run(findings(broker, "q")) == []


def ids(claim):
    return [job.id.decode() for job in claim.jobs]


def lease_over(redis, *names):
    for name in names:
        redis("ZADD", "test:{q}:started", "XX", 1, name)


# Enqueue


def test_enqueue_stores_and_claim_gives_what_was_stored(enqueue, claim):
    """Task, arguments and header travel as the bytes that they were."""
    args = '[[1e400, 12345678901234567890, []], {"ä": {}}]'.encode()
    job_id = enqueue(args=args, key="k", meta=b'{"a": []}', log_tag="tag", timeout=b'{"soft":1,"hard":2}')
    _, got = claim()
    assert got.jobs[0][:3] == (job_id.encode(), b"task", args)
    assert json.loads(got.jobs[0].header) == {
        "key": "k",
        "meta": {"a": []},
        "log_tag": "tag",
        "timeout": {"soft": 1, "hard": 2},
    }


def test_enqueue_of_many_answers_for_each(run, broker, enqueue):
    """Each job of a call has its own answer; a job that is there twice is stored once."""
    there = enqueue()
    jobs = [NewJob("a", "t", ARGS), NewJob(there, "task", ARGS), NewJob(there, "task", b"[]"), NewJob("a", "t", ARGS)]
    jobs.append(NewJob("a", "other", ARGS))
    assert run(broker.enqueue("q", jobs)) == ["stored", "same", "conflict", "same", "conflict"]
    assert run(broker.counts("q")).queued == 2


def test_enqueue_that_is_to_be_confirmed_changes_nothing_else(run, broker, redis):
    """A repeat writes, so that there is something to confirm; the job is as it was, at maxmemory too."""
    jobs = [NewJob("a", "t", ARGS, 3), NewJob("b", "t", ARGS, delay_ms=HOUR)]
    assert run(broker.enqueue("q", jobs, confirmed=True)) == ["stored", "stored"]
    before = [redis("DUMP", key) for key in sorted(redis("KEYS", "*"))]
    redis("CONFIG", "SET", "maxmemory", 1)
    try:
        assert run(broker.enqueue("q", jobs, confirmed=True)) == ["same", "same"]
    finally:
        redis("CONFIG", "SET", "maxmemory", 0)
    assert [redis("DUMP", key) for key in sorted(redis("KEYS", "*"))] == before


def test_a_full_queue_takes_all_of_a_call_or_nothing(run, broker, enqueue):
    """At max_length nothing is stored; what is there already is still a success, and scheduled jobs count too."""
    run(broker.configure("q", max_length=3, tasks={}))
    there = enqueue()
    enqueue(delay_ms=HOUR)
    jobs = [NewJob("a", "t", ARGS), NewJob(there, "task", ARGS), NewJob("b", "t", ARGS)]
    assert run(broker.enqueue("q", jobs)) == ["full", "same", "full"]
    assert run(broker.counts("q")).queued == 1
    run(broker.configure("q", max_length=None, tasks={}))
    assert run(broker.enqueue("q", jobs)) == ["stored", "same", "stored"]


def test_an_ended_job_is_remembered_for_a_minute_whatever_its_ttl(run, broker, enqueue, claim, settle, redis):
    """A repeated enqueue does not run the job again although its result_ttl is over."""
    job_id = enqueue()
    token, _ = claim()
    settle(job_id, token, "finished", 0, 0, b"null")
    run(broker.sweep("q"))
    assert run(broker.enqueue("q", [NewJob(job_id, "task", ARGS)])) == ["same"]
    assert int(redis("ZSCORE", "test:{q}:finished", job_id)) - run(broker.job("q", job_id)).ended_at == 60_000


def test_a_waiting_job_takes_no_more_than_400_bytes(run, broker, redis):
    """Ten thousand small jobs, all of Redis' memory counted."""

    def used():
        return int(redis("INFO", "memory").split(b"used_memory:")[1].split()[0])

    before, count = used(), 10_000
    for _ in range(count // 500):
        run(broker.enqueue("q", [NewJob(new_id(), "send_otp", b'[["+4912345"],{"code":"1234"}]') for _ in range(500)]))
    per_job = (used() - before) / count
    print(f"{per_job:.0f} bytes a waiting job")
    assert per_job <= 400


# Order


def test_priority_first_then_first_in_first_out(enqueue, claim):
    """More goes first; the same priority in the order of arrival, one by one or in one call."""
    low = [enqueue(priority=0) for _ in range(3)]
    high = [enqueue(priority=255) for _ in range(3)]
    middle = [enqueue(priority=7) for _ in range(3)]
    assert ids(claim(4)[1]) + ids(claim(9)[1]) == high + middle + low


def test_order_holds_for_thousands(run, broker, claim):
    """A call of thousands, more than Lua can unpack at once, keeps its order."""
    jobs = [NewJob(new_id(), "t", ARGS) for _ in range(9000)]
    run(broker.enqueue("q", jobs))
    _, got = claim(9001)
    assert ids(got) == [job.id for job in jobs]
    assert not got.more


# The state machine of job.py, row by row


def test_scheduled_becomes_queued_when_its_time_has_come(enqueue, claim, status, redis):
    """SCHEDULED -> QUEUED: the claim itself does it, at the job's priority, behind those that are there."""
    late = enqueue(delay_ms=20_000, priority=3)
    assert status(late) == "scheduled"
    there, low = enqueue(priority=3), enqueue(priority=1)
    _, got = claim(0)
    assert 0 < got.next_due_ms <= 20_000
    # as if the time that it has told were over
    redis("ZINCRBY", "test:{q}:scheduled", -got.next_due_ms, late)
    assert ids(claim(9)[1]) == [there, late, low]


def test_queued_becomes_started(enqueue, claim, run, broker):
    """QUEUED -> STARTED: lease, token, attempt + 1."""
    job_id = enqueue()
    assert ids(claim()[1]) == [job_id]
    record = run(broker.job("q", job_id))
    assert (record.status, record.attempts) == ("started", 1)
    assert record.started_at >= record.created_at


def test_an_expired_job_fails_and_does_not_begin(enqueue, claim, run, broker):
    """QUEUED -> FAILED: with EXPIRED; the next job is given in its place."""
    gone = enqueue(expires_ms=0)
    good = enqueue(expires_ms=HOUR)
    assert ids(claim()[1]) == [good]
    record = run(broker.job("q", gone))
    assert (record.status, json.loads(record.error)["code"]) == ("failed", "EXPIRED")


def test_a_job_that_was_given_back_expires(enqueue, claim, settle, redis, run, broker):
    """Claimed, and released before it had begun: QUEUED -> FAILED, as if it had never been claimed."""
    job_id = enqueue(expires_ms=HOUR)
    token, _ = claim()
    assert settle(job_id, token, "released") == 1
    change_job(run, f"test:{{q}}:job:{job_id}", expires_at=1)
    assert ids(claim()[1]) == []
    assert json.loads(run(broker.job("q", job_id)).error)["code"] == "EXPIRED"


def test_a_job_that_had_begun_when_it_was_given_back_does_not_expire(enqueue, claim, settle, run, broker):
    """At a shutdown, or where its child's last words were lost: it runs again, for it may have done its work."""
    job_id = enqueue(expires_ms=HOUR)
    token, _ = claim()
    assert settle(job_id, token, "released", payload=b"begun") == 1
    record = run(broker.job("q", job_id))
    assert (record.expires_at, record.attempts, record.interrupted) == (None, 0, 1)
    assert ids(claim()[1]) == [job_id]


def test_a_rescued_job_that_is_not_known_to_have_begun_expires(enqueue, claim, redis, run, broker):
    """Claimed, and its dispatcher died: it must not begin for the first time after its expiry, however often."""
    job_id = enqueue(expires_ms=HOUR)
    for _ in range(2):
        assert ids(claim()[1]) == [job_id]
        lease_over(redis, job_id)
    change_job(run, f"test:{{q}}:job:{job_id}", expires_at=1)
    assert ids(claim()[1]) == []
    assert json.loads(run(broker.job("q", job_id)).error)["code"] == "EXPIRED"


def test_a_rescued_job_that_was_renewed_as_begun_does_not_expire(enqueue, claim, redis, run, broker):
    """It may have done its work: what has begun is run again, as after a crash."""
    job_id = enqueue(expires_ms=HOUR)
    token, _ = claim()
    assert [run(broker.renew("q", [(job_id, token, "begun")], HOUR)) for _ in range(2)] == [[1], [1]]
    lease_over(redis, job_id)
    time.sleep(0.002)
    assert ids(claim()[1]) == [job_id]
    assert run(broker.job("q", job_id)).expires_at is None


def test_a_claim_says_when_its_jobs_expire(enqueue, claim, settle):
    """Of those that have not begun before; a repeat of the claim says so again."""
    jobs = [enqueue(), enqueue(expires_ms=HOUR), enqueue(), enqueue(expires_ms=HOUR)]
    token, got = claim(4)
    assert (ids(got), list(got.expiring)) == (jobs, [1, 3])
    assert all(HOUR - 60_000 < ms <= HOUR for ms in got.expiring.values())
    again = claim(4, token=token)[1]
    assert (ids(again), list(again.expiring)) == (jobs, [1, 3])
    settle(jobs[1], token, "retry", 0)
    settle(jobs[3], token, "released", 0)
    _, got = claim(2)
    assert {ids(got)[n] for n in got.expiring} == {jobs[3]}


def test_a_job_with_a_permit_is_not_rescued(enqueue, claim, redis, run, broker):
    """STARTED -> FAILED: with LEASE_LOST. Its permit says that it may have begun, and that it must not again."""
    job_id = enqueue()
    token, _ = claim()
    assert [run(broker.renew("q", [(job_id, token, "permit")], HOUR)) for _ in range(2)] == [[1], [1]]
    lease_over(redis, job_id)
    assert ids(claim()[1]) == []
    record = run(broker.job("q", job_id))
    assert (record.status, record.attempts, record.rescues) == ("failed", 1, 1)
    assert json.loads(record.error)["code"] == "LEASE_LOST"
    assert run(findings(broker, "q")) == []


def test_a_claim_brings_few_of_some_tasks(enqueue, run, broker, redis):
    """The first job above the number stays where it was, and so does what is behind it; the claim says why."""

    def claim(want, few):
        call = broker.claim("q", want, dispatcher="d", nonce=new_token(), lease_ms=HOUR, max_rescues=2, few=few)
        got = run(call)
        return ids(got), got.more, got.few

    jobs = [enqueue(task=task) for task in ("a", "b", "a", "b", "c", "a")]
    before = redis("ZRANGE", "test:{q}:queue", 0, -1, "WITHSCORES")
    assert claim(6, (0, [b"a", b"x"])) == ([], True, True)
    assert redis("ZRANGE", "test:{q}:queue", 0, -1, "WITHSCORES") == before
    assert claim(6, (1, [b"a", b"x"])) == (jobs[:2], True, True)
    assert claim(6, (1, [b"b", b"a"])) == (jobs[2:3], True, True)
    assert claim(2, (1, [b"b"])) == (jobs[3:5], True, False)
    assert claim(6, (1, [b"a"])) == (jobs[5:], False, False)
    assert run(findings(broker, "q")) == []


def test_a_permit_is_that_of_one_attempt(enqueue, claim, settle, redis, run, broker):
    """Given back, or requeued, the job is free of it: a later attempt that has none is rescued."""
    job_id = enqueue()
    token, _ = claim()
    run(broker.renew("q", [(job_id, token, "permit")], HOUR))
    assert settle(job_id, token, "released") == 1
    assert ids(claim()[1]) == [job_id]
    lease_over(redis, job_id)
    token, got = claim()
    assert ids(got) == [job_id]
    run(broker.renew("q", [(job_id, token, "permit")], HOUR))
    lease_over(redis, job_id)
    assert ids(claim()[1]) == []
    assert run(broker.requeue("q", [job_id])) == [1]
    assert "permit" not in read_job(run, f"test:{{q}}:job:{job_id}")
    assert ids(claim()[1]) == [job_id]


def test_only_who_holds_the_job_gets_a_permit(enqueue, claim, redis, run, broker):
    """The late request of an attempt that has lost it changes nothing; a cancel is told with the permit."""
    job_id = enqueue()
    old, _ = claim()
    lease_over(redis, job_id)
    new, _ = claim()
    assert run(broker.renew("q", [(job_id, old, "permit")], HOUR)) == [0]
    assert "permit" not in read_job(run, f"test:{{q}}:job:{job_id}")
    run(broker.cancel("q", job_id))
    assert run(broker.renew("q", [(job_id, new, "permit")], HOUR)) == [2]


def test_fsck_does_not_undo_a_permit(enqueue, claim, redis, run, broker):
    """A started job whose token somebody has damaged may have begun: it fails, and does not run again."""
    job_id = enqueue()
    token, _ = claim()
    run(broker.renew("q", [(job_id, token, "permit")], HOUR))
    change_job(run, f"test:{{q}}:job:{job_id}", token=None)
    run(broker.inspect("q", "keys", [job_id.encode()], repair=True))
    time.sleep(0.002)
    assert ids(claim()[1]) == []
    assert json.loads(run(broker.job("q", job_id)).error)["code"] == "LEASE_LOST"


def test_a_job_that_has_begun_does_not_expire(enqueue, claim, settle, run):
    """Expiry is about the first beginning: a retry is run however late it is."""
    job_id = enqueue(expires_ms=HOUR)
    token, _ = claim()
    change_job(run, f"test:{{q}}:job:{job_id}", expires_at=1)
    settle(job_id, token, "retry", 0)
    assert ids(claim()[1]) == [job_id]


def test_started_becomes_finished(enqueue, claim, settle, run, broker):
    """STARTED -> FINISHED: the result kept, the lease gone."""
    job_id = enqueue()
    token, _ = claim()
    assert settle(job_id, token, "finished", HOUR, 0, b'{"a": []}') == 1
    record = run(broker.job("q", job_id))
    assert (record.status, record.result, record.attempts) == ("finished", b'{"a": []}', 1)


def test_started_becomes_failed(enqueue, claim, settle, run, broker):
    """STARTED -> FAILED: the error kept, the crash counted."""
    job_id = enqueue()
    token, _ = claim()
    assert settle(job_id, token, "failed", HOUR, 1, b'{"code":"WORKER_CRASHED"}', "crashed") == 1
    record = run(broker.job("q", job_id))
    assert (record.status, record.crashes, record.last_outcome) == ("failed", 1, "crashed")
    assert record.error == b'{"code":"WORKER_CRASHED"}'


def test_a_retry_is_scheduled_and_comes_back_behind_the_others(enqueue, claim, settle, run, broker):
    """STARTED -> SCHEDULED -> QUEUED: its priority kept, its place new, its attempt counted."""
    first, second = enqueue(priority=5), enqueue(priority=5)
    token, _ = claim()
    settle(first, token, "retry", 0, 0, b'{"code":"X"}', "ConnectionError")
    record = run(broker.job("q", first))
    assert (record.status, record.priority, record.last_outcome) == ("scheduled", 5, "ConnectionError")
    _, got = claim(2)
    assert ids(got) == [second, first]
    assert [job.attempts for job in got.jobs] == [1, 2]


def test_a_released_job_has_its_place_and_no_attempt_burnt(enqueue, claim, settle):
    """STARTED -> QUEUED: as if it had never been claimed."""
    first, _second = enqueue(), enqueue()
    token, _ = claim()
    assert settle(first, token, "released", 0, 1) == 1
    _, got = claim()
    assert ids(got) == [first]
    assert got.jobs[0][3:6] == (1, 0, 0)


def test_a_job_is_released_with_a_delay(enqueue, claim, settle, run, broker):
    """STARTED -> SCHEDULED, no attempt burnt: for a task that this daemon does not know yet."""
    job_id = enqueue()
    token, _ = claim()
    settle(job_id, token, "released", HOUR)
    record = run(broker.job("q", job_id))
    assert (record.status, record.attempts) == ("scheduled", 0)


def test_an_expired_lease_is_rescued_to_its_old_place(enqueue, claim, settle, redis):
    """STARTED -> QUEUED: rescues + 1, and the attempt that was lost is fenced."""
    first, second = enqueue(), enqueue()
    token, _ = claim()
    lease_over(redis, first)
    _, got = claim(2)
    assert ids(got) == [first, second]
    assert got.jobs[0][3:6] == (2, 0, 1)
    assert settle(first, token, "finished", HOUR, 0, b"null") == 0


def test_rescues_have_an_end(enqueue, claim, redis, run, broker):
    """STARTED -> FAILED: with LEASE_LOST, above max_rescues."""
    job_id = enqueue()
    for _ in range(3):
        assert ids(claim(max_rescues=2)[1]) == [job_id]
        lease_over(redis, job_id)
    assert ids(claim(max_rescues=2)[1]) == []
    record = run(broker.job("q", job_id))
    assert (record.status, record.rescues, json.loads(record.error)["code"]) == ("failed", 3, "LEASE_LOST")


def test_a_lease_expires_by_itself(enqueue, claim, redis):
    """Nobody renews: after its time, by the clock of Redis, another dispatcher has the job."""
    job_id = enqueue()
    claim(lease_ms=20_000)
    _, got = claim(dispatcher="other")
    assert got.jobs == []
    assert 0 < got.next_due_ms <= 20_000
    redis("ZINCRBY", "test:{q}:started", -got.next_due_ms, job_id)
    time.sleep(0.002)
    assert ids(claim(dispatcher="other")[1]) == [job_id]


# Repeats and fences


def test_a_repeated_claim_gives_the_same_jobs(enqueue, claim, run, broker, redis):
    """Its reply was lost: the same jobs again, leases renewed, those that are settled or lost left out."""
    jobs = [enqueue() for _ in range(4)]
    token, _ = claim(3)
    run(broker.settle("q", [Outcome(jobs[0], token, "finished", HOUR, 0, b"1")]))
    lease_over(redis, jobs[1])
    _, again = claim(3, token=token)
    assert ids(again) == jobs[1:3]
    assert [job.attempts for job in again.jobs] == [1, 1]
    assert float(redis("ZSCORE", "test:{q}:started", jobs[1])) > 1


def test_another_dispatchers_claim_is_not_repeated(enqueue, claim):
    """What one dispatcher was given does not depend on what another asked."""
    first, second = enqueue(), enqueue()
    token, _ = claim(dispatcher="a")
    assert ids(claim(dispatcher="b")[1]) == [second]
    assert ids(claim(dispatcher="a", token=token)[1]) == [first]


def test_a_settle_is_repeated_and_fenced(enqueue, claim, settle, redis):
    """2 for the same attempt again, 0 for one whose lease was lost, also after another one settled."""
    job_id = enqueue()
    old, _ = claim()
    lease_over(redis, job_id)
    new, _ = claim()
    assert [settle(job_id, token, "finished", HOUR, 0, b"1") for token in (old, new, new, old)] == [0, 1, 2, 0]
    assert settle("missing", old, "finished", HOUR, 0, b"1") == 0


def test_renew_says_held_lost_or_cancel(enqueue, claim, run, broker, redis):
    """1: the lease is longer now · 0: lost, or unknown · 2: a cancel was asked, and the lease is kept for the kill."""
    held, asked, lost = enqueue(), enqueue(), enqueue()
    token, _ = claim(3, lease_ms=HOUR // 4)
    lease_over(redis, lost)
    claim(0)
    run(broker.cancel("q", asked))
    attempts = [(held, token), (lost, token), (asked, token), ("missing", token), (held, "other")]
    assert run(broker.renew("q", attempts, HOUR)) == [1, 0, 2, 0, 0]
    assert float(redis("ZSCORE", "test:{q}:started", held)) > time.time() * 1000 + HOUR / 2
    assert redis("ZSCORE", "test:{q}:started", lost) is None


# Cancel while it runs


@pytest.mark.parametrize(
    ("kind", "ends"),
    [
        ("finished", "finished"),
        ("failed", "failed"),
        ("retry", "canceled"),
        ("snoozed", "canceled"),
        ("released", "canceled"),
        ("canceled",) * 2,
    ],
)
def test_a_cancel_that_was_asked_takes_what_would_run_again(enqueue, claim, settle, status, run, broker, kind, ends):
    """A finish that arrives first wins; a retry or a release does not happen."""
    job_id = enqueue()
    token, _ = claim()
    assert run(broker.cancel("q", job_id)) == "asked"
    settle(job_id, token, kind, HOUR, 0, b"{}")
    assert status(job_id) == ends


def test_a_canceled_job_whose_lease_expires_is_not_rescued(enqueue, claim, status, run, broker, redis):
    """STARTED -> CANCELED: its dispatcher died before it could obey."""
    job_id = enqueue()
    claim()
    run(broker.cancel("q", job_id))
    lease_over(redis, job_id)
    assert claim()[1].jobs == []
    assert status(job_id) == "canceled"


# What a claim says of the queue, and of jobs that it does not give


def test_a_claim_tells_of_each_job_that_it_rescued_or_ended(enqueue, claim, run, broker, redis):
    """Whose attempt it was, how it ended and its tag; a repeat tells the same, and the next claim nothing of it."""
    lost, again, begun, canceled = (enqueue(log_tag=f"tag {n}", meta=b'{"a":[1]}') for n in range(4))
    token, _ = claim(4)
    change_job(run, f"test:{{q}}:job:{lost}", rescues=2)
    run(broker.renew("q", [(begun, token, "permit")], HOUR))
    run(broker.cancel("q", canceled))
    expired, waits = enqueue(expires_ms=0), enqueue()
    lease_over(redis, lost, again, begun, canceled)
    time.sleep(0.002)
    nonce, got = claim(2, max_rescues=2)
    assert sorted(ids(got)) == sorted([again, waits])
    told = {chore.id: chore for chore in got.chores}
    assert {id_: (chore.code, chore.rescues, chore.token, chore.log_tag) for id_, chore in told.items()} == {
        lost: ("LEASE_LOST", 3, token, "tag 0"),
        again: ("RESCUED", 1, token, "tag 1"),
        begun: ("LEASE_LOST", 1, token, "tag 2"),
        canceled: ("CANCELED", 1, token, "tag 3"),
        expired: ("EXPIRED", 0, "", ""),
    }
    assert {chore.task for chore in got.chores} == {"task"}
    assert all(0 <= chore.waited_ms < 60_000 for chore in got.chores)
    assert told[begun].message == json.loads(run(broker.job("q", begun)).error)["message"]
    assert claim(2, token=nonce)[1].chores == got.chores
    assert claim(2)[1].chores == ()


def test_a_claim_that_gives_nothing_tells_the_same_when_it_is_repeated(enqueue, claim, redis):
    """Its reply may be lost like any other."""
    enqueue(expires_ms=0)
    time.sleep(0.002)
    nonce, got = claim()
    assert (got.jobs, [chore.code for chore in got.chores]) == ([], ["EXPIRED"])
    assert claim(token=nonce)[1].chores == got.chores


def test_a_snoozed_job_comes_back_without_an_attempt_until_it_has_been_so_for_too_long(
    enqueue, claim, settle, status, run, broker, redis
):
    """It has begun, so it expires no more. The time counts from the first snooze after another outcome.

    In the end it is kept for the failure_ttl that the settle gives.
    """
    job_id = enqueue(expires_ms=HOUR)
    key = f"test:{{q}}:job:{job_id}"

    def attempt(kind, replies=(1, 2), extra=f"{HOUR} {DAY}"):
        redis("ZADD", "test:{q}:scheduled", "XX", 1, job_id)
        token, got = claim()
        assert ids(got) == [job_id]
        assert [settle(job_id, token, kind, HOUR, extra, b'{"n":1}') for _ in replies] == [*replies]
        return got.jobs[0].attempts, status(job_id)

    assert attempt("snoozed") == (1, "scheduled")
    record = run(broker.job("q", job_id))
    assert (record.attempts, record.last_outcome, record.error, record.crashes) == (0, "snoozed", b'{"n":1}', 0)
    assert record.expires_at is None
    shift(run, key, "snoozed_since", -HOUR)
    assert attempt("retry", extra=0) == (1, "scheduled")
    assert attempt("snoozed") == (2, "scheduled")
    shift(run, key, "snoozed_since", -HOUR)
    assert attempt("snoozed", replies=(3, 3)) == (2, "failed")
    record = run(broker.job("q", job_id))
    assert record.last_outcome == "snoozed too long"
    assert float(redis("ZSCORE", "test:{q}:failed", job_id)) == record.ended_at + DAY
    run(broker.requeue("q", [job_id]))
    assert attempt("snoozed") == (1, "scheduled")


def test_a_snooze_of_no_time_lets_others_go_first(enqueue, claim, settle, status):
    """The job does not return to its old place: it would be begun again and again."""
    first, second = enqueue(), enqueue()
    token, got = claim(want=1)
    assert ids(got) == [first]
    assert settle(first, token, "snoozed", 0, f"{HOUR} {DAY}", b"{}") == 1
    assert status(first) == "scheduled"
    assert ids(claim(want=1)[1]) == [second]


def test_a_settle_tells_of_a_job_that_does_not_go_on(enqueue, claim, settle, run, broker):
    """It was to be tried again, and a cancel had been asked; a repeat tells the same."""
    for kind in ("retry", "snoozed", "released", "unknown"):
        job_id = enqueue()
        token, _ = claim()
        run(broker.cancel("q", job_id))
        assert [settle(job_id, token, kind, HOUR, payload=b"{}") for _ in range(2)] == [4, 4]


def test_a_claim_says_what_comes_next(enqueue, claim):
    """`more` while there is something to take; else the ms until something is due, or None."""
    empty = claim()[1]
    assert empty == ([], None, False, {}, False, (), None)
    enqueue(), enqueue()
    assert claim()[1].more
    _, got = claim()
    assert not got.more
    assert HOUR - 60_000 < got.next_due_ms <= HOUR
    enqueue(delay_ms=HOUR // 2)
    assert HOUR // 2 - 60_000 < claim()[1].next_due_ms <= HOUR // 2


def test_a_claim_of_large_jobs_is_given_in_parts(run, broker, claim, redis):
    """What a slow link brings in seconds; the rest keeps its place, `more` says that it is there, and none is lost."""
    large = b'["' + b"x" * 125_000 + b'"]'
    names = [f"j{n:02}" for n in range(20)]
    for n, name in enumerate(names):
        run(broker.enqueue("q", [NewJob(name, "t", large, 9 - n // 7)]))
    places = redis("ZRANGE", "test:{q}:queue", 0, -1, "WITHSCORES")
    token, first = claim(20)
    assert len(first.jobs) == 9
    assert first.more
    assert redis("EXISTS", "test:{q}:wake") == 0
    assert redis("ZRANGE", "test:{q}:queue", 0, -1, "WITHSCORES") == places[18:]
    assert claim(20, token=token)[1].jobs == first.jobs
    second, third = claim(20)[1], claim(20)[1]
    assert (second.more, third.more) == (True, False)
    assert ids(first) + ids(second) + ids(third) == names


def test_a_claim_of_large_jobs_wakes_others_for_the_rest(run, broker, claim, redis):
    """A dispatcher that waits may have room while the first one reads."""
    large = b'["' + b"x" * 1_000_000 + b'"]'
    for n in range(10):
        run(broker.enqueue("q", [NewJob(f"j{n}", "t", large, delay_ms=HOUR)]))
        redis("ZADD", "test:{q}:scheduled", "XX", 1, f"j{n}")
    redis("SET", "test:{q}:wake", "1")
    assert claim(10)[1].more
    assert redis("EXISTS", "test:{q}:wake") == 0


def test_a_claim_does_its_chores_in_parts(run, broker, claim):
    """Thousands that come due at once do not hold Redis up: some each call, and `more` until all are through."""
    run(broker.enqueue("q", [NewJob(new_id(), "t", ARGS, delay_ms=30) for _ in range(250)]))
    time.sleep(0.035)
    seen = [(got.more, run(broker.counts("q")).scheduled) for got in (claim(0)[1] for _ in range(3))]
    assert [left for _, left in seen] == [150, 50, 0]
    assert seen[0][0]
    assert len(claim(300)[1].jobs) == 250


# The inbox


def test_the_inbox_takes_json_of_any_language(redis, claim, run, broker):
    """Header fields are obeyed; the object stays as it was pushed, byte for byte."""
    raw = b'{"task":"t", "args":[1e400,[],{}], "id":"my-id","priority":9,"key":"k","log_tag":"l\\u00e4", "expires":60}'
    redis("LPUSH", "test:{q}:inbox", b'{"task":"first","priority":9}', raw, b'{"task":"late","delay":60.5}')
    _, got = claim(3)
    assert [job.task for job in got.jobs] == [b"first", b"t"]
    assert got.jobs[1].id == b"my-id"
    assert got.jobs[1].args == raw
    assert json.loads(got.jobs[1].header) == {"key": "k", "log_tag": "lä"}
    record = run(broker.job("q", "my-id"))
    assert (record.key, record.log_tag, record.priority) == ("k", "lä", 9)
    assert record.expires_at == record.created_at + 60_000
    assert run(broker.jobs("q", JobStatus.SCHEDULED))[0].task == "late"


def test_an_inbox_job_has_its_tasks_priority_and_expiry(redis, claim, run, broker):
    """What `configure` said of the task; else moderate and none. Its id is like a producer's, in order of time."""
    run(broker.configure("q", max_length=None, tasks={"a": (200, 5000), "b": (0, None)}))
    before = new_id()
    redis("LPUSH", "test:{q}:inbox", *(b'{"task":"%s"}' % name for name in (b"b", b"other", b"a")))
    _, got = claim(3)
    assert [job.task for job in got.jobs] == [b"a", b"other", b"b"]
    records = [run(broker.job("q", job_id)) for job_id in ids(got)]
    assert [record.priority for record in records] == [200, 1, 0]
    assert records[0].expires_at == records[0].created_at + 5000
    assert len({record.id for record in records}) == 3
    assert all(before[:7] <= record.id[:7] and len(record.id) == 22 for record in records)


def test_a_body_pushed_twice_with_an_id_is_one_job(redis, claim, run, broker):
    """The same bytes: one job. Another body under that id: broken."""
    redis("LPUSH", "test:{q}:inbox", b'{"task":"t","id":"x"}', b'{"task":"t","id":"x"}', b'{"task":"u","id":"x"}')
    assert ids(claim(3)[1]) == ["x"]
    assert [entry.reason for entry in run(broken(broker, "q"))] == ["inbox: id x is taken by another job"]


def test_a_key_makes_one_job_of_many_pushes(redis, claim, run, broker):
    """The same task, key and bytes: one job. Another body under that key: broken. Another task: another job."""
    bodies = [b'{"task":"t","key":"k"}'] * 2 + [b'{"task":"u","key":"k"}', b'{"task":"t","key":"k","args":[1]}']
    for body in bodies:
        redis("LPUSH", "test:{q}:inbox", body)
    assert [job.task for job in claim(9)[1].jobs] == [b"t", b"u"]
    assert [entry.reason for entry in run(broken(broker, "q"))] == ["inbox: key k is taken by another job"]


def test_a_full_queue_leaves_pushed_jobs_in_the_inbox(redis, claim, run, broker):
    """max_length holds for the inbox too: what was pushed waits there."""
    run(broker.configure("q", max_length=2, tasks={}))
    redis("LPUSH", "test:{q}:inbox", *[b'{"task":"t"}'] * 5)
    claim(0)
    counts = run(broker.counts("q"))
    assert (counts.queued, counts.inbox) == (2, 3)
    assert len(claim(2)[1].jobs) == 2
    claim(0)
    assert run(broker.counts("q")).inbox == 1


BAD = {
    b"": "not JSON",
    b"{": "not JSON",
    b"\xff\x00": "not JSON",
    b"[1]": "not a JSON object",
    b'"task"': "not a JSON object",
    b"{}": "task is missing",
    b'{"task":""}': "task is not a text of 1 to 255 bytes",
    b'{"task":null}': "task is missing",
    b'{"task":"t","priority":256}': "priority is not a number from 0 to 255",
    b'{"task":"t","priority":"high"}': "priority is not a number from 0 to 255",
    b'{"task":"t","delay":-1}': "delay is not a number from 0 to 315360000",
    b'{"task":"t","delay":1e309}': "delay is not a number from 0 to 315360000",
    b'{"task":"t","at":"now"}': "at is not a number from 0 to 100000000000",
    b'{"task":"t","id":"a b"}': "id has other characters than letters, digits and _:.-",
    b'{"task":"t","key":7}': "key is not a text of 1 to 255 bytes",
    b"[" * 100_000: "not JSON",
    b'{"task":"t","args":["%s"]}' % (b"x" * 1024**2): "larger than 1048576 bytes",
}


def test_garbage_in_the_inbox_is_kept_raw_and_the_queue_moves_on(redis, claim, run, broker):
    """Each unreadable body is under `broken` with its reason; the good job behind it is given."""
    for raw in BAD:
        redis("LPUSH", "test:{q}:inbox", raw)
    redis("LPUSH", "test:{q}:inbox", b'{"task":"good"}')
    assert [job.task for job in claim(5)[1].jobs] == [b"good"]
    entries = run(broken(broker, "q"))
    assert {entry.raw: entry.reason for entry in entries} == {raw: f"inbox: {why}" for raw, why in BAD.items()}
    assert run(broker.counts("q")).broken == len(BAD)


def test_a_pushed_job_may_name_a_retry_policy(redis, claim, run, broker):
    """One that a daemon of the queue has; until a daemon has said which there are, any."""
    body = b'{"task":"t","retry":"%b","result_ttl":1.5,"failure_ttl":0,"description":"d","key":"%b"}'
    redis("LPUSH", "test:{q}:inbox", body % (b"any", b"k0"))
    assert json.loads(claim()[1].jobs[0].header)["retry"] == "any"
    run(broker.declare_policies("q", ["none", "patient"]))
    redis("LPUSH", "test:{q}:inbox", body % (b"patient", b"k1"), body % (b"other", b"k2"))
    (job,) = claim(5)[1].jobs
    options = {"retry": "patient", "result_ttl": 1.5, "failure_ttl": 0, "description": "d"}
    assert json.loads(job.header) == {"key": "k1", **options}
    record = run(broker.job("q", job.id.decode()))
    assert {name: getattr(record, name) for name in options} == options
    assert [entry.reason for entry in run(broken(broker, "q"))] == [
        "inbox: retry: no daemon of the queue has a retry policy of this name"
    ]


def test_garbage_is_bounded_and_counted(redis, claim, run, broker):
    """The last 1,000 are kept, all are counted."""
    redis("LPUSH", "test:{q}:inbox", *[b"x"] * 1050)
    while claim()[1].more:
        pass
    assert redis("LLEN", "test:{q}:broken") == 1000
    assert run(broker.counts("q")).broken == 1050


def test_garbage_where_the_inbox_should_be(redis, claim, enqueue, run, broker):
    """A key of another type under the inbox's name is put aside, and the queue moves on."""
    redis("SET", "test:{q}:inbox", "x")
    job_id = enqueue()
    assert ids(claim()[1]) == [job_id]
    assert redis("GET", "test:{q}:inbox:broken") == b"x"
    assert "was no list" in run(broken(broker, "q"))[0].reason


@pytest.mark.parametrize("how", ["missing", "a string", "a list", "half a job"])
@pytest.mark.parametrize("where", ["queued", "scheduled", "started"])
def test_garbage_in_place_of_a_job(redis, claim, enqueue, run, broker, how, where):
    """A job that is missing or none is kept raw under `broken`, in whatever set it is met; the others go on."""
    bad = enqueue(delay_ms=HOUR if where == "scheduled" else None)
    if where == "started":
        claim()
        lease_over(redis, bad)
    if where == "scheduled":
        redis("ZADD", "test:{q}:scheduled", "XX", 1, bad)
    key = f"test:{{q}}:job:{bad}"
    redis("UNLINK", key)
    if how != "missing":
        redis("LPUSH" if how == "a list" else "SET", key, "c1 l4,9\necho\n" if how == "half a job" else "x")
    good = enqueue()
    assert ids(claim(5)[1]) == [good]
    entry = run(broken(broker, "q"))[0]
    assert bad in entry.reason
    assert entry.raw == {"missing": bad.encode(), "a string": b"x", "half a job": b"c1 l4,9\necho\n"}.get(
        how, entry.raw
    )
    assert redis("EXISTS", key) == 0
    assert run(broker.counts("q")).started == 1
    assert run(findings(broker, "q")) == []


def test_garbage_is_no_attempt(redis, run, broker):
    """Renew and settle of a job that is none say lost, and touch nothing."""
    redis("SET", "test:{q}:job:x", "y")
    assert run(broker.renew("q", [("x", "t")], HOUR)) == [0]
    assert run(broker.settle("q", [Outcome("x", "t", "finished")])) == [0]
    assert run(broker.enqueue("q", [NewJob("x", "t", ARGS)])) == ["conflict"]
    assert run(broker.cancel("q", "x")) == "missing"
    assert run(broker.requeue("q", ["x"])) == [0]
    assert run(broker.job("q", "x")) is None


# At maxmemory


def test_at_maxmemory_nothing_new_is_taken_and_what_is_there_still_runs(enqueue, claim, settle, run, broker, redis):
    """Enqueue is refused with a clear error; claim, renew, settle, cancel and requeue work."""
    jobs = [enqueue() for _ in range(4)]
    enqueue(delay_ms=1)
    expired = enqueue()
    token, _ = claim()
    redis("CONFIG", "SET", "maxmemory", 1)
    with pytest.raises(BrokerFull, match="maxmemory"):
        run(broker.enqueue("q", [NewJob("new", "t", ARGS)]))
    assert run(broker.job("q", "new")) is None
    assert run(broker.renew("q", [(jobs[0], token)], HOUR)) == [1]
    assert settle(jobs[0], token, "retry", 0, 0, b"{}") == 1
    other, got = claim(3)
    assert len(got.jobs) == 3
    assert settle(jobs[1], other, "finished", HOUR, 0, b'"result"') == 1
    assert settle(jobs[2], other, "released") == 1
    assert run(broker.cancel("q", expired)) == "canceled"
    assert run(broker.requeue("q", [expired])) == [1]


# Wake-up


@pytest.fixture
def listener(redis_server):
    """Messages on the queue's wake channel so far: `listener()`."""
    import redis as client

    with client.Redis(unix_socket_path=str(redis_server.path)) as link, link.pubsub() as channel:
        channel.subscribe("test:{q}:wake")
        channel.get_message(timeout=5)

        def heard():
            link.ping()
            found = []
            while message := channel.get_message(timeout=0.05):
                found.append(message["data"].decode())
            return found

        yield heard


def test_a_waiter_is_woken_once(listener, claim, enqueue):
    """A claim that came back short is told of the next job; nobody waits, nothing is sent."""
    enqueue()
    assert listener() == []
    claim(2)
    enqueue(), enqueue()
    assert listener() == ["ready"]


# A wake-up that brings the job


@pytest.mark.parametrize("key", ["", "k"])
def test_a_wake_up_brings_the_job(listener, claim, enqueue, run, broker, settle, redis, key):
    """It is begun for the dispatcher that waits, the message has all of it, and others still wait."""
    claim(parking="token")
    redis("SET", "test:{q}:wake", f"token {int(redis('GET', 'test:{q}:wake').split()[1]) - HOUR}")
    args = b'[["a\\n", 7.0], {}]'
    first, second = enqueue(args=args, key=key, priority=3), enqueue()
    [message, word] = listener()
    job = carried_job(message.encode())
    assert (job.token, job.id) == ("token", first.encode())
    assert HOUR <= job.after < HOUR + 60_000
    assert (job.task, job.args, job.header and json.loads(job.header)) == (b"task", args, {"key": key} if key else b"")
    assert word == "ready"
    record = run(broker.job("q", first))
    assert (record.status, record.attempts, record.priority, record.key) == ("started", 1, 3, key)
    assert 700 < float(redis("ZSCORE", "test:{q}:started", first)) - record.started_at < 701
    redis("ZINCRBY", "test:{q}:started", HOUR, first)  # on a busy machine the next lines take longer
    assert ids(claim(2)[1]) == [second]
    assert run(broker.enqueue("q", [NewJob(first, "task", args, 3, key=key)])) == ["same"]
    assert settle(first, "token", "finished") == 1


def test_what_a_wake_up_does_not_bring(listener, claim, enqueue, run, broker, status):
    """Two jobs, one for later, one that expires, a large one, one behind others: they are queued, none is begun."""
    claim(parking="token")
    run(broker.enqueue("q", [NewJob(new_id(), "task", ARGS) for _ in range(2)]))
    assert listener() == ["ready"]
    claim(4, parking="token")
    enqueue(delay_ms=HOUR)
    assert listener() == ["ready"]
    claim(4, parking="token")
    expires = enqueue(expires_ms=HOUR)
    assert listener() == ["ready"]
    assert ids(claim(4, parking="token")[1]) == [expires]
    large = enqueue(args=b'["%b"]' % (b"x" * 4096))
    assert listener() == ["ready"]
    assert ids(claim(4)[1]) == [large]
    enqueue(), claim(2)
    assert status(enqueue()) == "queued"
    assert listener() == ["ready", "ready"]


def test_a_claim_that_takes_all_free_children_leaves_no_token(claim, enqueue, run, broker, status):
    """It asked for more jobs than that: a wake-up would bring the next one to a child that is busy."""
    for free, after in ((1, "queued"), (2, "started")):
        one = enqueue()
        asked = broker.claim(
            "q", 5, dispatcher="d", nonce=new_token(), lease_ms=HOUR, max_rescues=2, parking="token", few=(free, ())
        )
        assert ids(run(asked)) == [one]
        assert status(enqueue()) == after
        claim(5)


@pytest.mark.parametrize("by", ["operator", "file"])
def test_a_suspended_queue_gives_nothing_with_a_wake_up(claim, enqueue, run, broker, status, by):
    """Whoever waited before it was suspended."""
    claim(parking="token")
    run(broker.suspend("q", by=by, on=True))
    assert status(enqueue()) == "queued"
    claim(parking="token")
    assert status(enqueue()) == "queued"


@pytest.mark.parametrize(
    "limit", [{"max_running": 9}, {"rate": (1.0, 9)}, {"limits": {"task": TaskLimit(("args.0",), max_running=9)}}]
)
def test_a_queue_with_a_limit_gives_nothing_with_a_wake_up(claim, enqueue, run, broker, status, limit):
    """Whoever waited before it had one."""
    claim(parking="token")
    run(broker.configure("q", tasks={"task": (1, None)}, **limit))
    assert status(enqueue()) == "queued"
    claim(2, parking="token")
    assert status(enqueue()) == "queued"
    run(broker.configure("q", tasks={"task": (1, None)}))
    claim(2, parking="token")
    assert status(enqueue()) == "started"


def test_a_job_that_nobody_confirms_is_back_in_its_place(claim, enqueue, run, broker, settle, redis):
    """No attempt is counted and no rescue; it is told of, as it may have begun; what the first one says is refused."""
    claim(parking="token")
    first, second = enqueue(), enqueue()
    redis("ZADD", "test:{q}:started", "XX", 1.5, first)
    nonce, got = claim(2)
    assert (ids(got), [job.attempts for job in got.jobs]) == ([first, second], [1, 1])
    assert [(chore.code, chore.token, chore.rescues) for chore in got.chores] == [("NOT_CONFIRMED", "token", 0)]
    assert run(broker.renew("q", [(first, "token"), (first, nonce)], HOUR)) == [0, 1]
    assert settle(first, "token", "finished") == 0
    assert settle(first, nonce, "finished") == 1
    record = run(broker.job("q", first))
    assert (record.attempts, record.rescues) == (1, 0)
    assert [(past.outcome, past.worker, past.counted) for past in record.history] == [("not confirmed", "toke", False)]


def test_a_job_that_was_confirmed_is_rescued_like_any_other(claim, enqueue, run, broker, redis):
    """A renewal makes its lease one like all others."""
    claim(parking="token")
    job_id = enqueue()
    assert run(broker.renew("q", [(job_id, "token")], HOUR)) == [1]
    assert float(redis("ZSCORE", "test:{q}:started", job_id)) % 1 == 0
    lease_over(redis, job_id)
    _, got = claim()
    assert [(chore.code, chore.token, chore.rescues) for chore in got.chores] == [("RESCUED", "token", 1)]
    assert (got.jobs[0].attempts, got.jobs[0].rescues) == (2, 1)


def test_a_job_that_is_canceled_on_its_way_is_canceled(claim, enqueue, run, broker, status, redis):
    """Confirmed it hears of it, otherwise it ends in its place."""
    for confirmed in (True, False):
        claim(parking="token")
        job_id = enqueue()
        assert run(broker.cancel("q", job_id)) == "asked"
        if confirmed:
            assert run(broker.renew("q", [(job_id, "token")], HOUR)) == [2]
        redis("ZADD", "test:{q}:started", "XX", 1 if confirmed else 1.5, job_id)
        assert ids(claim()[1]) == []
        assert status(job_id) == "canceled"


@pytest.mark.parametrize("message", [b"job", b"job a b c d e", b"job \xff 1 1 1 1\n", b"ready", b"", b"job t 1 1 1"])
def test_a_message_that_has_no_job(message):
    """Whatever is published there, it wakes and does no harm."""
    assert carried_job(message) is None


def test_what_wakes(listener, claim, enqueue, settle, run, broker):
    """Release, requeue, a new earliest scheduled job and resume wake; a later scheduled one does not."""
    job_id = enqueue()
    token, _ = claim(2)
    settle(job_id, token, "released")
    assert listener() == ["ready"]
    token, _ = claim(2)
    settle(job_id, token, "retry", HOUR)
    assert listener() == ["ready"]
    claim()
    enqueue(delay_ms=2 * HOUR)
    assert listener() == []
    early = enqueue(delay_ms=HOUR // 2)
    assert listener() == ["ready"]
    claim()
    run(broker.cancel("q", early))
    run(broker.requeue("q", [early]))
    assert listener() == ["ready"]
    run(broker.suspend("q", by="operator", on=True))
    claim()
    enqueue()
    assert listener() == []
    run(broker.suspend("q", by="operator", on=False))
    assert listener() == ["ready"]


def test_a_cancel_of_a_running_job_is_told_at_once(listener, claim, enqueue, run, broker):
    """Dispatchers hear of it without waiting for their next renewal."""
    job_id = enqueue()
    claim()
    run(broker.cancel("q", job_id))
    assert listener() == ["cancel"]


@pytest.mark.parametrize("spoilt", [b"", b"00", b"7", [], [1, 1], 1, None], ids=repr)
def test_answer_that_does_not_fit_the_question(broker, spoilt):
    """It is said so, of one with fewer jobs, or attempts, than were sent as of any other."""
    calls = [
        broker.enqueue("q", [NewJob("a", "t", ARGS)]),
        broker.renew("q", [("a", "token")], HOUR),
        broker.settle("q", [Outcome("a", "token", "finished")]),
    ]
    for call in calls:
        with pytest.raises(BrokerError, match="cannot be read"):
            call.read(spoilt)
