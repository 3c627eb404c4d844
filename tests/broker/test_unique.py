"""Unique jobs: who gets the lock, who frees it, and what else may change it."""

import json

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from fusiond.argument_values import unique_key, values_of
from fusiond.broker.call import Unreadable
from fusiond.broker.maintenance.moving import Moved
from fusiond.broker.records import Existing, NewJob, Outcome
from fusiond.broker.ticks import DecidedTicks
from fusiond.job import JobStatus, new_token
from tests.support.queue_state import broken, findings

HOUR = 3_600_000
LOCK = 'test:{q}:unique:t:"u"'
BODY = b'{"task": "t", "kwargs": {"user": "u"}}'


def new(id_, rule="ended", on_conflict="skip", max_wait=0, values='"u"', **options):
    """A unique job."""
    return NewJob(id_, "t", b'[[],{"user":"u"}]', unique=f"{rule},{on_conflict},{max_wait},{values}", **options)


@pytest.fixture
def enqueue(run, broker):
    def enqueue(*jobs):
        return run(broker.enqueue("q", jobs))

    return enqueue


@pytest.fixture
def claim(run, broker):
    def claim(want=9, lease_ms=HOUR, max_rescues=2):
        token = new_token()
        asked = broker.claim("q", want, dispatcher="d", nonce=token, lease_ms=lease_ms, max_rescues=max_rescues)
        return token, [job.id.decode() for job in run(asked).jobs]

    return claim


@pytest.fixture
def settle(run, broker):
    def settle(id_, token, kind, ms=HOUR, payload=b'{"code":"X"}'):
        return run(broker.settle("q", [Outcome(id_, token, kind, ms, 0, payload)]))

    return settle


@pytest.fixture
def holder(redis):
    """The id that the lock has."""

    def holder():
        found = redis("GET", LOCK)
        return found and found.decode()

    return holder


def status(run, broker, id_):
    return run(broker.status("q", id_))


# The two conflicts that store nothing


# Who frees the lock


@pytest.mark.parametrize("kind", ["finished", "failed", "canceled"])
def test_the_end_frees_it(enqueue, claim, settle, holder, kind):
    """`until: ended`: not before."""
    enqueue(new("a"))
    token, _ = claim()
    assert (holder(), enqueue(new("b"))) == ("a", [Existing("a", refused=False)])
    settle("a", token, kind)
    assert (holder(), enqueue(new("b"))) == (None, ["stored"])


def test_a_rescue_neither_frees_nor_retakes_it(enqueue, claim, holder):
    """The lease of the one expires while another has the lock."""
    enqueue(new("a", "started"))
    claim(lease_ms=0)
    enqueue(new("b", "started", delay_ms=HOUR))
    assert claim()[1] == ["a"]
    assert holder() == "b"


def test_a_job_that_redis_ends_frees_it(enqueue, claim, holder, run, broker):
    """EXPIRED, LEASE_LOST and a cancel end a job as a settle does."""
    enqueue(new("a", expires_ms=0))
    assert (claim()[1], holder()) == ([], None)
    enqueue(new("b"))
    claim(lease_ms=0)
    assert (claim(max_rescues=0)[1], holder()) == ([], None)
    enqueue(new("c"))
    assert (run(broker.cancel("q", "c")), holder()) == ("canceled", None)


def test_a_time_is_over_when_it_is_over(enqueue, claim, settle, holder, redis):
    """`for`: from the enqueue, whatever becomes of the job."""
    enqueue(new("a", str(HOUR)))
    token, _ = claim()
    settle("a", token, "finished")
    assert holder() == "a"
    assert HOUR - 60_000 < redis("PTTL", LOCK) <= HOUR
    assert enqueue(new("b", str(HOUR))) == [Existing("a", refused=False)]
    redis("PEXPIRE", LOCK, 0)
    assert enqueue(new("b", str(HOUR))) == ["stored"]


def test_a_lost_jobs_lock_is_free(enqueue, redis, run, broker):
    """The job is gone without its end: the next call takes the lock, and so does a sweep free it."""
    enqueue(new("a"))
    redis("DEL", "test:{q}:job:a", "test:{q}:queue")
    assert enqueue(new("b")) == ["stored"]
    redis("DEL", "test:{q}:job:b", "test:{q}:queue")
    assert [finding.kind for finding in run(findings(broker, "q"))] == ["lock"]
    run(broker.sweep("q"))
    assert redis("EXISTS", LOCK) == 0


# Replace


def test_a_job_that_runs_is_not_replaced(enqueue, claim):
    """`until: ended`: two of one lock are never alive."""
    enqueue(new("a"))
    claim()
    assert enqueue(new("b", on_conflict="replace")) == [Existing("a", refused=False)]


def test_a_delay_makes_it_a_debounce(enqueue, run, broker):
    """Each call puts the job off, at most until max_wait after the first."""
    enqueue(new("a", "started", "replace", HOUR, delay_ms=HOUR // 2))
    first = run(broker.job("q", "a"))
    for id_ in "bcd":
        assert enqueue(new(id_, "started", "replace", HOUR, delay_ms=2 * HOUR)) == ["stored"]
    last = run(broker.job("q", "d"))
    assert last.due_at == first.created_at + HOUR
    assert last.created_at >= first.created_at


# Requeue, the inbox, ticks, moves, operators


def test_a_requeue_takes_the_lock_or_stays(enqueue, claim, settle, holder, run, broker):
    """Against another's lock the job stays failed; each of them keeps what it has."""
    enqueue(new("a"))
    token, _ = claim()
    settle("a", token, "failed")
    enqueue(new("b"))
    assert run(broker.requeue("q", ["a"])) == [3]
    assert (status(run, broker, "a"), holder()) == (JobStatus.FAILED, "b")
    run(broker.cancel("q", "b"))
    assert (run(broker.requeue("q", ["a"])), holder()) == ([1], "a")
    assert run(broker.requeue("q", ["a", "b"])) == [2, 3]


@pytest.mark.parametrize(("on_conflict", "counted"), [("skip", (1, 0)), ("refuse", (0, 1)), ("replace", (0, 0))])
def test_a_push_is_unique_too(claim, redis, run, broker, on_conflict, counted):
    """A skipped push leaves a count, a refused one is kept as broken; both in one claim and in two."""
    run(broker.configure("q", tasks={"t": (1, None, f"ended,{on_conflict},0,kwargs.user")}))
    redis("LPUSH", "test:{q}:inbox", BODY)
    redis("LPUSH", "test:{q}:inbox", BODY)
    _, given_ = claim()
    assert len(given_) == 1
    counts = run(broker.counts("q"))
    assert (counts.skipped, counts.broken) == counted
    assert counts.canceled == (on_conflict == "replace")
    assert run(findings(broker, "q")) == []


@pytest.mark.parametrize("body", [b'{"task":"t"}', b'{"task":"t","kwargs":[]}'])
def test_a_push_without_its_argument_is_broken(claim, redis, run, broker, body):
    """With the sentence that a call would get."""
    run(broker.configure("q", tasks={"t": (1, None, "ended,skip,0,kwargs.user")}))
    redis("LPUSH", "test:{q}:inbox", body)
    assert claim()[1] == []
    [entry] = run(broken(broker, "q"))
    assert entry.reason.startswith("inbox: kwargs.user is missing")


def test_a_ticks_conflict_is_a_decision(enqueue, run, broker, holder):
    """The tick has no job, and is answered; a repeat says the same of it."""
    enqueue(new("a"))
    decided = DecidedTicks("e", "q", "t", b'[[],{"user":"u"}]', 1, None, None, (1000,), (0,), 'ended,skip,0,"u"')
    assert run(broker.tick(decided)) == ("5", 0)
    assert run(broker.tick(decided)) == ("4", 0)
    run(broker.cancel("q", "a"))
    assert run(broker.tick(decided._replace(ticks=(2000,)))) == ("0", 2000)
    assert holder() == "cron:e:2000"
    assert (
        run(broker.tick(decided._replace(ticks=(3000, 4000), delays_ms=(0, 0), unique='ended,replace,0,"u"')))[0]
        == "00"
    )
    assert holder() == "cron:e:4000"


@pytest.mark.parametrize("rule", ["ended", "started", str(HOUR)])
def test_a_move_takes_the_lock_along(enqueue, run, broker, holder, redis, rule):
    """It is freed where the job was, and taken where it is now."""
    enqueue(new("a", rule))
    assert run(broker.move("q", "other")) == Moved(1, 0, [])
    assert (holder(), redis("GET", 'test:{other}:unique:t:"u"')) == (None, b"a")
    assert run(findings(broker, "q")) == run(findings(broker, "other")) == []


def test_a_move_against_a_lock_stays(enqueue, run, broker, holder):
    """The job waits where it was, with its lock."""
    enqueue(new("a"))
    run(broker.enqueue("other", [new("b")]))
    moved = run(broker.move("q", "other"))
    assert (moved.jobs, [job.id for job in moved.taken]) == (0, [b"a"])
    assert (status(run, broker, "a"), holder()) == (JobStatus.QUEUED, "a")


# The values


SCALARS = st.one_of(st.text(max_size=60), st.booleans(), st.integers(-(2**53) + 1, 2**53 - 1))


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(SCALARS, min_size=1, max_size=4), SCALARS)
@example([0, -0, ""], False)
@example(["ü 100% \"',", "\x00\n"], True)
@example(["x" * 98], 7)
def test_a_push_and_a_call_have_the_same_values(run, broker, redis, args, keyword):
    """What Python makes of a call, Lua makes of the same call that is pushed."""
    redis("FLUSHALL")
    names = [*(f"args.{n}" for n in range(len(args))), "kwargs.k"]
    run(broker.configure("q", tasks={"t": (1, None, f"ended,skip,0,{','.join(names)}")}))
    redis("LPUSH", "test:{q}:inbox", json.dumps({"task": "t", "args": args, "kwargs": {"k": keyword}}))
    run(broker.rescue("q"))
    [key] = redis("KEYS", "test:{q}:unique:*")
    assert key.decode() == f"test:{{q}}:unique:t:{values_of(names, args, {'k': keyword})}"


@given(st.lists(SCALARS, max_size=4), st.lists(SCALARS, max_size=4))
def test_other_values_have_another_text(one, two):
    """A text is never taken for a number, nor two values for one; 1 and true are two values."""
    texts = [values_of([f"args.{n}" for n in range(len(each))], each, {}) for each in (one, two)]
    same = [(type(value), value) for value in one] == [(type(value), value) for value in two]
    assert (texts[0] == texts[1]) == same


def test_a_task_without_by_is_unique_as_a_whole():
    """All its jobs are the same."""
    assert unique_key("600000,replace,5000,", [1], {}) == "600000,replace,5000,"


@pytest.mark.parametrize("reply", [b"4", b"4 ", b"45 a", b"4 b/c"])
def test_a_reply_that_does_not_name_the_other_job_cannot_be_read(broker, reply):
    """Another program may have written what it is made of; a job without an id could not be asked for."""
    call = broker.enqueue("q", [new("a")] * len(reply.split()[0]))
    with pytest.raises(Unreadable):
        call.read(reply)
