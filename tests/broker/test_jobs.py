"""A job's life: enqueue, claim, renew, settle."""

import json
import time

import pytest

from fusiond.broker.jobs import carried_job
from fusiond.broker.records import NewJob, Outcome
from fusiond.errors import BrokerFull
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


def test_a_job_that_a_drain_cut_off_does_not_expire(enqueue, claim, settle, run, broker):
    """We ended its attempt, so it runs again whenever that is; what had begun and was cut off otherwise expires."""
    drained, begun = enqueue(expires_ms=HOUR), enqueue(expires_ms=HOUR)
    token, _ = claim(2)
    for job_id, by in ((drained, b"drained"), (begun, b"begun")):
        assert settle(job_id, token, "released", payload=by) == 1
    record = run(broker.job("q", drained))
    assert (record.expires_at, record.attempts, record.interrupted) == (None, 0, 1)
    change_job(run, f"test:{{q}}:job:{begun}", expires_at=1)
    assert ids(claim(2)[1]) == [drained]
    assert json.loads(run(broker.job("q", begun)).error)["message"] == "it had not begun when it expired"


@pytest.mark.parametrize("kind", ["retry", "snoozed"])
def test_a_job_that_waits_for_another_attempt_expires_with_its_own_exception(enqueue, claim, settle, run, broker, kind):
    """Its error keeps type, message and traceback; the code says that it has expired, and the message why."""
    job_id = enqueue(expires_ms=HOUR)
    token, _ = claim()
    raised = {
        "code": "EXCEPTION",
        "type": "ValueError",
        "message": 'no "x": a/b',
        "traceback": '"code": "c", "traceback"',
    }
    extra = 0 if kind == "retry" else f"{HOUR} {HOUR}"
    assert settle(job_id, token, kind, 1, extra, json.dumps(raised).encode()) == 1
    change_job(run, f"test:{{q}}:job:{job_id}", expires_at=1)
    time.sleep(0.01)
    assert ids(claim()[1]) == []
    record = run(broker.job("q", job_id))
    why = "its next attempt had not begun when it expired" if kind == "retry" else "it had not begun when it expired"
    assert json.loads(record.error) == raised | {"code": "EXPIRED", "message": f"{raised['message']}; {why}"}
    assert (record.status, record.last_outcome) == ("failed", "expired")


def test_a_rescued_job_expires(enqueue, claim, redis, run, broker):
    """Claimed, and its dispatcher died: it must not begin after its expiry, however often, and whether it had begun."""
    job_id = enqueue(expires_ms=HOUR)
    for _ in range(2):
        assert ids(claim()[1]) == [job_id]
        lease_over(redis, job_id)
    change_job(run, f"test:{{q}}:job:{job_id}", expires_at=1)
    assert ids(claim()[1]) == []
    assert json.loads(run(broker.job("q", job_id)).error)["code"] == "EXPIRED"


def test_a_claim_says_when_its_jobs_expire(enqueue, claim, settle):
    """Whatever attempt it is; a repeat of the claim says so again."""
    jobs = [enqueue(), enqueue(expires_ms=HOUR), enqueue(), enqueue(expires_ms=HOUR)]
    token, got = claim(4)
    assert (ids(got), list(got.expiring)) == (jobs, [1, 3])
    assert all(HOUR - 60_000 < ms <= HOUR for ms in got.expiring.values())
    again = claim(4, token=token)[1]
    assert (ids(again), list(again.expiring)) == (jobs, [1, 3])
    settle(jobs[1], token, "retry", 0)
    settle(jobs[3], token, "released", 0)
    _, got = claim(2)
    assert {ids(got)[n] for n in got.expiring} == {jobs[1], jobs[3]}


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


def test_a_snoozed_job_comes_back_without_an_attempt_until_it_has_been_so_for_too_long(
    enqueue, claim, settle, status, run, broker, redis
):
    """The time counts from the first snooze after another outcome.

    In the end it is kept for the failure_ttl that the settle gives.
    """
    job_id = enqueue()
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
