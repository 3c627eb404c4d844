"""Limits: how many jobs run at once, and how many begin in a time."""

import json

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from fusiond.broker.call import as_is, plain
from fusiond.broker.records import NewJob, Outcome, TaskLimit
from fusiond.job import JobStatus, new_id, new_token
from tests.proofs.test_queue_model import many
from tests.support.job_text import change_job, shift
from tests.support.queue_state import findings

HOUR = 3_600_000


@pytest.fixture
def place(run, broker):
    return Place(run, broker)


class Place:
    """A queue, driven by hand."""

    def __init__(self, run, broker):
        self.run, self.broker = run, broker

    def limits(self, **limits):
        self.run(self.broker.configure("q", tasks={"task": (1, None), "sync": (1, None)}, **limits))

    def limit(self, *by, queue=None, **limit):
        """One for task `sync`."""
        self.limits(limits={"sync": TaskLimit(by, **limit)}, **queue or {})

    def enqueue(self, count=1, task="task", args=b"[[],{}]", **options):
        jobs = [NewJob(new_id(), task, args, **options) for _ in range(count)]
        assert set(self.run(self.broker.enqueue("q", jobs))) == {"stored"}
        return [job.id for job in jobs]

    def sync(self, account, count=1, **options):
        """Jobs of an account."""
        return self.enqueue(count, "sync", json.dumps([[], {"account": account}]).encode(), **options)

    def ids(self, status):
        """In their order."""
        return [job.id for job in self.run(self.broker.jobs("q", status))]

    def job(self, id_):
        return self.run(self.broker.job("q", id_))

    def claim(self, want=100, *, free=None, lease_ms=HOUR, dispatcher="d", has="0 sync task"):
        nonce = new_token()
        few = None if free is None else (free, ())
        call = self.broker.claim(
            "q", want, dispatcher=dispatcher, nonce=nonce, lease_ms=lease_ms, max_rescues=2, few=few, has=has
        )
        return nonce, self.run(call)

    def settle(self, nonce, jobs, kind="finished", **more):
        self.run(self.broker.settle("q", [Outcome(job.id, nonce, kind, **more) for job in jobs]))

    def later(self, ms, limit=None):
        """As if so much time had passed for the rate of the queue, or of this limit: a busy machine lets more pass."""
        key = "test:{q}:rate" + (f":{limit}" if limit else "")
        spent = float(self.run(plain(as_is, "GET", key)))
        self.run(plain(as_is, "SET", key, f"{spent - ms:.6f}"))
        if limit:
            self.run(plain(as_is, "ZINCRBY", "test:{q}:again", -ms, f"k{limit}"))

    def waits(self):
        """Whether a dispatcher is noted as waiting."""
        return bool(self.run(plain(as_is, "EXISTS", self.broker.keys.wake("q"))))


# -- max_running ------------------------------------------------------------------------------------------------------


def test_no_more_jobs_run_than_max_running(place):
    """Whoever claims; a claim that is stopped says that there is no more, and is woken when a job has ended."""
    place.limits(max_running=3)
    place.enqueue(10)
    nonce, first = place.claim(2, dispatcher="one")
    _, second = place.claim(5, dispatcher="two")
    assert (len(first.jobs), len(second.jobs), second.more) == (2, 1, False)
    _, third = place.claim(dispatcher="three")
    assert (third.jobs, third.more, third.few) == ([], False, False)
    assert place.waits()
    place.settle(nonce, first.jobs[:1])
    assert not place.waits()
    _, fourth = place.claim(dispatcher="three")
    assert len(fourth.jobs) == 1
    assert place.run(place.broker.counts("q")).started == 3


@pytest.mark.parametrize("kind", ["finished", "failed", "retry", "released", "canceled", "unknown"])
def test_each_end_of_an_attempt_wakes_who_waits_for_it(place, kind):
    """Whatever becomes of the job, of its first attempt or a later one."""
    place.limits(max_running=1)
    place.enqueue(2)
    for _ in range(2):
        nonce, found = place.claim()
        assert len(found.jobs) == 1
        place.claim(dispatcher="two")
        assert place.waits()
        place.settle(nonce, found.jobs, kind, ms=HOUR if kind == "retry" else 0, payload=b"null")
        assert not place.waits()
    assert place.run(findings(place.broker, "q")) == []


# -- rate_limit -------------------------------------------------------------------------------------------------------


def test_a_rate_lets_a_burst_begin_and_then_says_when_the_next_may(place):
    """Nobody is noted as waiting: an enqueue brings no token."""
    place.limits(rate=(HOUR * 1.0, 3))
    place.enqueue(10)
    _, first = place.claim()
    assert (len(first.jobs), first.more) == (3, False)
    assert HOUR - 100 < first.next_due_ms <= HOUR
    _, second = place.claim(dispatcher="two")
    assert (second.jobs, second.more) == ([], False)
    assert 0 < second.next_due_ms <= first.next_due_ms
    assert not place.waits()
    place.later(first.next_due_ms)
    assert len(place.claim()[1].jobs) == 1


def test_what_has_begun_is_not_refunded(place):
    """A release and a retry spend again."""
    place.limits(rate=(HOUR * 1.0, 2))
    place.enqueue(1)
    for _ in range(2):
        nonce, found = place.claim()
        assert len(found.jobs) == 1
        place.settle(nonce, found.jobs, "released")
    assert place.claim()[1].jobs == []


def test_lifting_a_limit_lets_the_rest_begin(place):
    """And tells the dispatchers, which may wait for an hour."""
    place.limits(rate=(HOUR * 1.0, 1), max_running=1)
    place.enqueue(3)
    place.claim()
    assert place.claim()[1].jobs == []
    place.limits()
    assert len(place.claim()[1].jobs) == 2


# -- limits of tasks --------------------------------------------------------------------------------------------------


def ids(claim):
    return [job.id.decode() for job in claim.jobs]


def test_a_job_over_its_limit_is_held_and_lets_others_begin(place):
    """It says by which limit, burns no attempt, and goes back to its place when one of its key has ended."""
    place.limit("kwargs.account", max_running=1)
    one, held, last = place.sync("acme", 3)
    other = place.enqueue()[0]
    theirs = place.sync("widgets")[0]
    nonce, found = place.claim()
    assert ids(found) == [one, other, theirs]
    assert place.ids("held") == [held, last]
    assert (place.job(held).limit, place.job(held).attempts) == ('sync kwargs.account="acme"', 0)
    assert place.run(place.broker.counts("q")).held == 2
    assert place.waits()
    newer = place.enqueue()[0]
    place.settle(nonce, found.jobs[:1])
    assert place.ids("queued") == [held, newer]
    assert ids(place.claim(1)[1]) == [held]
    assert place.ids("held") == [last]
    assert place.run(findings(place.broker, "q")) == []


def test_the_better_held_job_goes_first(place):
    """By priority, then by arrival."""
    place.limit("kwargs.account", max_running=1)
    place.sync("a")
    nonce, found = place.claim()
    low = place.sync("a", priority=0)[0]
    high = place.sync("a", priority=2)[0]
    assert place.claim()[1].jobs == []
    place.settle(nonce, found.jobs)
    nonce, found = place.claim()
    assert ids(found) == [high]
    place.settle(nonce, found.jobs)
    assert ids(place.claim()[1]) == [low]


def test_held_jobs_count_in_max_length(place):
    """They wait."""
    place.limit("kwargs.account", max_running=1, queue={"max_length": 3})
    place.sync("a", 3)
    place.claim()
    assert len(place.ids("held")) == 2
    place.enqueue()
    assert place.run(place.broker.enqueue("q", [NewJob("x", "task", b"[]")])) == ["full"]


def test_a_held_job_expires_on_time(place):
    """The claim's reply says when; the next claim ends it."""
    place.limit("kwargs.account", max_running=1)
    place.sync("a")
    nonce, first = place.claim()
    late = place.sync("a", expires_ms=20_000)[0]
    _, found = place.claim()
    assert 0 < found.next_due_ms <= 20_000
    shift(place.run, f"test:{{q}}:job:{late}", "expires_at", -20_000)
    place.run(plain(as_is, "ZINCRBY", "test:{q}:again", -20_000, f"x{late}"))
    _, found = place.claim()
    assert [job.code for job in found.reclaimed] == ["EXPIRED"]
    assert place.job(late).status is JobStatus.FAILED
    place.settle(nonce, first.jobs)
    assert place.run(findings(place.broker, "q")) == []


def test_a_task_s_rate(place):
    """By account; the claim says when the next held job may begin, which it then does."""
    place.limit("kwargs.account", rate=(HOUR * 1.0, 2))
    jobs = place.sync("a", 4)
    theirs = place.sync("b", 2)
    _, found = place.claim()
    assert ids(found) == [*jobs[:2], *theirs]
    assert place.ids("held") == jobs[2:]
    assert HOUR - 100 < found.next_due_ms <= HOUR
    for job, ms in zip(jobs[2:], (found.next_due_ms, HOUR), strict=True):
        assert ids(place.claim()[1]) == []
        place.later(ms, place.job(job).limit)
        assert ids(place.claim()[1]) == [job]
    assert place.run(findings(place.broker, "q")) == []


@pytest.mark.parametrize(
    ("by", "args", "problem"),
    [
        ("kwargs.account", b"[[1],{}]", "kwargs.account is missing"),
        ("kwargs.account", b'[[],{"account":1.5}]', "neither a text, nor a boolean, nor an integer"),
        ("kwargs.account", b'[[],{"account":9007199254740992}]', "neither a text"),
        ("kwargs.account", b'[[],{"account":null}]', "neither a text"),
        ("kwargs.account", b'[[],{"account":[]}]', "neither a text"),
        ("args.1", b"[[1],{}]", "args.1 is missing"),
        ("args.0", b"[" * 2000 + b"]" * 2000, "cannot be read"),
    ],
)
def test_a_job_that_lacks_what_its_limit_counts_by_fails(place, by, args, problem):
    """It was enqueued before the limit was there; its sentence says why."""
    id_ = place.enqueue(1, "sync", args)[0]
    place.limit(by, max_running=1)
    _, found = place.claim()
    assert found.jobs == []
    assert place.job(id_).status is JobStatus.FAILED
    assert problem in found.reclaimed[0].message


def test_a_raw_push_is_counted_or_broken(place, redis):
    """By the object's own kwargs; one that lacks the argument is kept with the reason."""
    place.limit("kwargs.account", max_running=1)
    for body in (b'{"task":"sync","kwargs":{"account":"a"}}',) * 2 + (b'{"task":"sync","args":[1]}',):
        redis("LPUSH", "test:{q}:inbox", body)
    _, found = place.claim()
    assert len(found.jobs) == 1
    assert len(place.ids("held")) == 1
    assert [job.code for job in found.reclaimed] == ["BROKEN"]
    assert "kwargs.account is missing" in found.reclaimed[0].message


def test_a_push_of_a_limited_task_to_another_queue_is_put_aside(place, redis):
    """As a call of it is refused: nobody would count it there. What has no limit is taken in."""
    place.limits(elsewhere={"far": "other"})
    for task in ("far", "task"):
        redis("LPUSH", "test:{q}:inbox", json.dumps({"task": task}))
    _, found = place.claim()
    assert [job.task for job in found.jobs] == [b"task"]
    assert [job.code for job in found.reclaimed] == ["BROKEN"]
    assert "task far has a limit, which holds in its queue other alone" in found.reclaimed[0].message
    place.limits()
    redis("LPUSH", "test:{q}:inbox", json.dumps({"task": "far"}))
    assert len(place.claim()[1].jobs) == 1


@pytest.mark.parametrize(
    "after",
    [{}, {"limits": {"sync": TaskLimit(("kwargs.account",), 5)}}, {"limits": {"sync": TaskLimit((), 5)}}],
    ids=["lifted", "raised", "by something else"],
)
def test_a_changed_limit_is_looked_at_again(place, after):
    """At the next claim, whatever holds the jobs."""
    place.limit("kwargs.account", max_running=1)
    jobs = place.sync("a", 4)
    nonce, found = place.claim()
    place.limits(**after)
    assert ids(place.claim()[1]) == jobs[1:]
    place.settle(nonce, found.jobs)
    place.limits(**after)
    place.limits()
    assert place.run(plain(as_is, "HGET", "test:{q}:conf", "limits")) is None
    assert place.run(findings(place.broker, "q")) == []


ACCOUNTS, MOST = st.sampled_from("ab"), {"a": 2, "b": 2}


class Limited(RuleBasedStateMachine):
    """Any order of verbs: the limit holds, no place is lost, and no held job waits for nothing."""

    def __init__(self, place, redis):
        super().__init__()
        self.place, self.redis = place, redis
        #: token -> jobs
        self.claims = {}
        #: all jobs; tokens and ids are random, and each try must draw from the same in the same order
        self.order = []

    @initialize()
    def begin(self):
        self.redis("FLUSHALL")
        self.place.limit("kwargs.account", max_running=2)

    @rule(account=ACCOUNTS, priority=st.integers(0, 2), expires=st.booleans(), count=st.integers(1, 3))
    def enqueue(self, account, priority, expires, count):
        self.order += self.place.sync(account, count, priority=priority, expires_ms=HOUR if expires else None)

    @rule(want=st.integers(0, 4), free=st.integers(0, 3), lost=st.booleans(), has=st.sampled_from(["", "0 sync"]))
    def claim(self, want, free, lost, has):
        nonce, found = self.place.claim(want, free=free, lease_ms=0 if lost else HOUR, has=has)
        self.claims[nonce] = found.jobs

    @precondition(lambda self: self.claims)
    @rule(data=st.data(), kind=st.sampled_from(["finished", "failed", "retry", "released", "canceled", "unknown"]))
    def settle(self, data, kind):
        nonce = data.draw(st.sampled_from([*self.claims]))
        jobs = self.claims.pop(nonce)
        self.place.settle(nonce, jobs, kind, payload=b"null")
        # The same again, as after a reply that was lost.
        self.place.settle(nonce, jobs, kind, payload=b"null")

    @rule(data=st.data(), status=st.sampled_from(["held", "queued", "started", "scheduled"]))
    def cancel(self, data, status):
        jobs = sorted(self.place.ids(status), key=self.order.index)
        if jobs:
            self.place.run(self.place.broker.cancel("q", data.draw(st.sampled_from(jobs))))

    @rule()
    def come_due(self):
        for id_ in self.place.ids("scheduled"):
            self.redis("ZADD", "test:{q}:scheduled", 0, id_)

    @rule(data=st.data())
    def expire(self, data):
        """Its time has come, wherever it waits."""
        jobs = sorted([*self.place.ids("held"), *self.place.ids("queued")], key=self.order.index)
        if jobs:
            id_ = data.draw(st.sampled_from(jobs))
            change_job(self.place.run, "test:{q}:job:" + id_, expires_at=1)
            if self.redis("ZSCORE", "test:{q}:held", id_):
                self.redis("ZADD", "test:{q}:again", 0, f"x{id_}")

    @rule()
    def move_and_back(self):
        for source, target in (("q", "other"), ("other", "q")):
            self.place.run(self.place.broker.move(source, target, limit=2))

    def _of(self, status):
        """Account -> jobs."""
        found = dict.fromkeys(MOST, 0)
        for job in self.place.run(self.place.broker.jobs("q", status, count=1000)):
            if status != "held" or job.limit:  # others are held for their task
                found[json.loads(job.args)[1]["account"]] += 1
        return found

    @invariant()
    def the_limit_holds(self):
        if not self.redis("EXISTS", "test:{q}:conf"):
            return
        running, held, ready = map(self._of, ("started", "held", "queued"))
        for account, most in MOST.items():
            assert running[account] <= most
            key = f'sync kwargs.account="{account}"'
            assert self.redis("HLEN", f"test:{{q}}:places:{key}") == running[account]
            assert self.redis("ZCARD", f"test:{{q}}:held:{key}") == held[account]
            if held[account]:
                assert running[account] == most or ready[account], "a held job waits for nothing"
                assert self.redis("ZSCORE", "test:{q}:again", f"k{key}") is not None

    def teardown(self):
        assert self.place.run(findings(self.place.broker, "q")) == []


def test_whatever_happens_the_limit_holds_and_nothing_is_stuck(place, redis):
    """A stateful property."""
    run_state_machine_as_test(lambda: Limited(place, redis), settings=many(20, 30))
