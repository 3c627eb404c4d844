"""A job's life: enqueue, claim, renew, settle."""

import json
import time

import pytest
from hypothesis.stateful import run_state_machine_as_test

from fusiond.broker.call import Unreadable
from fusiond.broker.jobs import given_job
from fusiond.broker.records import NewJob, Outcome
from fusiond.errors import BrokerFull
from fusiond.job import JobStatus, new_id, new_token
from fusiond.worker.dispatcher.claims.leases import FIRST_LEASE
from tests.proofs.test_queue_model import QueueMachine, many
from tests.support.job_text import change_job, shift
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

    def claim(want=1, *, lease_ms=HOUR, max_rescues=2, token=None, dispatcher="d", reservation=""):
        token = token or new_token()
        call = broker.claim(
            "q",
            want,
            dispatcher=dispatcher,
            nonce=token,
            lease_ms=lease_ms,
            max_rescues=max_rescues,
            reservation=reservation,
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


# All verbs together


def test_the_verbs_do_what_the_model_does(redis_server):
    """Whatever is asked, in any order, repeated, late or rolled back, Redis holds what a list of jobs would."""
    run_state_machine_as_test(lambda: QueueMachine(redis_server), settings=many(40, 30))


# Order


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
    told = {job.id: job for job in got.reclaimed}
    assert {id_: (job.code, job.rescues, job.token, job.log_tag) for id_, job in told.items()} == {
        lost: ("LEASE_LOST", 3, token, "tag 0"),
        again: ("RESCUED", 1, token, "tag 1"),
        begun: ("LEASE_LOST", 1, token, "tag 2"),
        canceled: ("CANCELED", 1, token, "tag 3"),
        expired: ("EXPIRED", 0, "", ""),
    }
    assert {job.task for job in got.reclaimed} == {"task"}
    assert all(0 <= job.waited_ms < 60_000 for job in got.reclaimed)
    assert told[begun].message == json.loads(run(broker.job("q", begun)).error)["message"]
    assert claim(2, token=nonce)[1].reclaimed == got.reclaimed
    assert not claim(2)[1].reclaimed


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


@pytest.mark.parametrize("name", ["id", "key"])
def test_a_body_pushed_twice_is_one_job(redis, claim, run, broker, name):
    """Another body under its id, or under the key of its task, is broken. A key of another task is another one."""
    for task, more in (("t", ""), ("t", ""), ("u", ""), ("t", ',"args":[1]')):
        redis("LPUSH", "test:{q}:inbox", f'{{"task":"{task}","{name}":"x"{more}}}')
    tasks = {job.task for job in claim(9)[1].jobs}
    assert tasks == ({b"t"} if name == "id" else {b"t", b"u"})
    reasons = [entry.reason for entry in run(broken(broker, "q"))]
    assert reasons == [f"inbox: {name} x is taken by another job"] * (3 - len(tasks))


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


# A wake-up that brings the job


@pytest.mark.parametrize("key", ["", "k"])
def test_a_wake_up_brings_the_job(listener, claim, enqueue, run, broker, settle, redis, key):
    """It is claimed for the dispatcher that waits, the message has all of it, and others still wait."""
    claim(reservation="token")
    redis("SET", "test:{q}:wake", f"token {int(redis('GET', 'test:{q}:wake').split()[1]) - 2000}")
    args = b'[["a\\n", 7.0], {}]'
    first, second = enqueue(args=args, key=key, priority=3), enqueue()
    [message, word] = listener()
    job = given_job(message.encode())
    assert (job.token, job.id) == ("token", first.encode())
    assert 2000 <= job.after <= 6000
    assert (job.task, job.args, job.header and json.loads(job.header)) == (b"task", args, {"key": key} if key else b"")
    assert word == "ready"
    record = run(broker.job("q", first))
    assert (record.status, record.attempts, record.priority, record.key) == ("started", 1, 3, key)
    assert int(redis("ZSCORE", "test:{q}:started", first)) - record.started_at == int(FIRST_LEASE * 1000)
    assert run(broker.given("q", ["other", "token"], take_back=False)) == [None, job]
    redis("ZINCRBY", "test:{q}:started", HOUR, first)  # on a busy machine the next lines take longer
    assert ids(claim(2)[1]) == [second]
    assert run(broker.enqueue("q", [NewJob(first, "task", args, 3, key=key)])) == ["same"]
    assert settle(first, "token", "finished") == 1
    assert run(broker.given("q", ["token"], take_back=False)) == [None]


def test_what_a_wake_up_does_not_bring(listener, claim, enqueue, run, broker, redis, status):
    """
    Two jobs, one for later, one that expires, a large one, one behind others: they are queued.

    So is one whose token was left too long ago, or was taken back.
    """
    for change in ("old", "taken back"):
        claim(4, reservation="token")
        if change == "old":
            redis("SET", "test:{q}:wake", f"token {int(redis('GET', 'test:{q}:wake').split()[1]) - 6001}")
        else:
            assert run(broker.given("q", ["other", "token"], take_back=True)) == [None, None]
        enqueue()
        assert listener() == ["ready"]
        claim()
    claim(reservation="token")
    run(broker.enqueue("q", [NewJob(new_id(), "task", ARGS) for _ in range(2)]))
    assert listener() == ["ready"]
    claim(4, reservation="token")
    enqueue(delay_ms=HOUR)
    assert listener() == ["ready"]
    claim(4, reservation="token")
    expires = enqueue(expires_ms=HOUR)
    assert listener() == ["ready"]
    assert ids(claim(4, reservation="token")[1]) == [expires]
    large = enqueue(args=b'["%b"]' % (b"x" * 4096))
    assert listener() == ["ready"]
    assert ids(claim(4)[1]) == [large]
    enqueue(), claim(2)
    assert status(enqueue()) == "queued"
    assert listener() == ["ready", "ready"]


def test_what_wakes(listener, claim, enqueue, settle, run, broker):
    """Release, requeue, a new earliest scheduled job and resume wake a waiter, once; a later scheduled one does not."""
    job_id = enqueue()
    assert listener() == []
    token, _ = claim(2)
    settle(job_id, token, "released")
    enqueue()
    assert listener() == ["ready"]
    token, _ = claim(3)
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


@pytest.mark.parametrize("reply", [0, b"", [], b"asleep"])
def test_a_reply_that_is_not_a_status_cannot_be_read(broker, reply):
    """Whoever asked would take it for one, and end by it."""
    with pytest.raises(Unreadable):
        broker.status("q", "a").read(reply)


#: what no verb replies, though each of these has the right length
DAMAGED = {
    "settle: a flag above all": (lambda broker: broker.settle("q", [Outcome("a", "t", "finished")]), [99]),
    "renew: a negative flag": (lambda broker: broker.renew("q", [("a", "t")], 1000), [-1]),
    "given: a job that is no bytes": (lambda broker: broker.given("q", ["t"], take_back=False), [5]),
    "given: a job of another question": (lambda broker: broker.given("q", ["t"], take_back=False), [b"", b""]),
}


@pytest.mark.parametrize("damaged", DAMAGED)
def test_a_reply_of_another_shape_cannot_be_read(broker, damaged):
    """A dispatcher would go on with it, and end somewhere else."""
    verb, reply = DAMAGED[damaged]
    with pytest.raises(Unreadable):
        verb(broker).read(reply)


def test_no_time_of_a_damaged_reply_is_above_what_a_clock_counts(broker):
    """A lease and an expiry are handed to a child as ns in 64 bits."""
    claim = broker.claim("q", 1, dispatcher="d", nonce="n", lease_ms=1000, max_rescues=1)
    flat = [b"id", b"task", b"[[], {}]", 0]
    assert claim.read([0, -1, flat, [], [1, 2**63 - 1]]).expiring[0] * 1_000_000 < 2**63
    assert given_job(b"job t -%d 1 1 0\nit" % 10**30) is None
