"""Fairness: the tenants of a queue with `fair_by` take turns."""

import json
from collections import defaultdict

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from fusiond.broker.keys import BAND
from fusiond.broker.records import NewJob, Outcome, TaskLimit
from fusiond.job import new_token
from tests.proofs.test_queue_model import many
from tests.support.queue_state import findings

HOUR = 3_600_000
BY = ("kwargs.tenant",)


@pytest.fixture
def row(run, broker, redis):
    return Row(run, broker, redis)


class Row:
    """A fair queue, driven by hand. Jobs are named after their tenant and their number in it."""

    def __init__(self, run, broker, redis):
        self.run, self.broker, self.redis = run, broker, redis
        self.counted = defaultdict(int)
        self.fair()

    def fair(self, *by, **more):
        self.run(self.broker.configure("q", tasks={"t": (1, None)}, fair_by=by or BY, **more))

    def plain(self):
        self.run(self.broker.configure("q", tasks={"t": (1, None)}))

    def job(self, tenant, **options):
        self.counted[tenant] += 1
        args = json.dumps([[], {"tenant": tenant}]).encode()
        return NewJob(f"{tenant}{self.counted[tenant]}", "t", args, **options)

    def add(self, *tenants, **options):
        """A job for each letter of each text, in one call for a text."""
        for each in tenants:
            jobs = [self.job(tenant, **options) for tenant in each]
            assert set(self.run(self.broker.enqueue("q", jobs))) == {"stored"}

    def claim(self, want=1000, lease_ms=HOUR):
        nonce = new_token()
        found = self.run(
            self.broker.claim("q", want, dispatcher="d", nonce=nonce, lease_ms=lease_ms, max_rescues=9, reservation="p")
        )
        return nonce, [job.id.decode() for job in found.jobs]

    def next(self, want=1000):
        """The next ones, in their order."""
        return " ".join(self.claim(want)[1])

    def settle(self, claimed, kind, **more):
        nonce, ids = claimed
        self.run(self.broker.settle("q", [Outcome(id_, nonce, kind, **more) for id_ in ids]))

    def come_due(self):
        for id_ in self.redis("ZRANGE", "test:{q}:scheduled", 0, -1):
            self.redis("ZADD", "test:{q}:scheduled", 0, id_)

    def conf(self, name):
        return self.redis("HGET", "test:{q}:conf", name)


def test_tenants_take_turns(row):
    """One that comes with many jobs delays another by one."""
    row.add("aaaaaa", "bb", "c")
    assert row.next(4) == "a1 b1 c1 a2"
    row.add("dd", "c")
    assert row.next() == "b2 c2 d1 a3 d2 a4 a5 a6"
    assert row.redis("EXISTS", "test:{q}:tenants") == 0


def test_who_has_no_tenant_shares_one(row):
    """Whether the argument is missing, is null, or is not text, boolean or whole number."""
    bodies = ["[[],{}]", '[[],{"tenant":null}]', '[[],{"tenant":[1]}]', "[[1],{}]", '[[],{"tenant":1.5}]']
    row.run(row.broker.enqueue("q", [NewJob(str(n), "t", body.encode()) for n, body in enumerate(bodies)]))
    row.add("a")
    assert row.next() == "0 a1 1 2 3 4"


def test_raw_pushes_take_turns(row):
    """Whatever language has written them."""
    for n in range(3):
        row.redis("LPUSH", "test:{q}:inbox", json.dumps({"task": "t", "id": f"r{n}", "kwargs": {"tenant": "a"}}))
    row.redis("LPUSH", "test:{q}:inbox", json.dumps({"task": "t", "id": "s0", "kwargs": {"tenant": "b"}}))
    row.redis("LPUSH", "test:{q}:inbox", json.dumps({"task": "t", "id": "t0"}))
    assert row.next() == "r0 s0 t0 r1 r2"


def test_a_held_job_keeps_its_turn(row):
    """It waits for a place of its limit, and lets others begin."""
    row.fair(limits={"t": TaskLimit(BY, 1)})
    row.add("aaa", "bb")
    claimed = row.claim()
    assert claimed[1] == ["a1", "b1"]
    row.add("c")
    row.settle(claimed, "finished", payload=b"1")
    assert row.next() == "a2 b2 c1"


def test_jobs_that_move_take_turns_in_the_other_queue(row):
    """The ready ones by their arrival there."""
    row.run(row.broker.enqueue("other", [row.job("b") for _ in range(2)]))
    row.add("aaaa")
    assert row.next(1) == "a1"
    row.run(row.broker.move("other", "q", limit=9))
    assert row.next() in ("b1 a2 b2 a3 a4", "b1 b2 a2 a3 a4", "a2 b1 a3 b2 a4")
    assert row.run(findings(row.broker, "q")) == []


# -- placed again ------------------------------------------------------------------------------------------------------


def test_switching_it_on_gives_turns_to_the_jobs_that_wait(row):
    """In pages, by claims; in between no tenant's jobs leave their order, and new ones come behind."""
    row.plain()
    row.add("a" * 1200, "bb")
    row.fair()
    got = []
    # 1,202 jobs are set apart, and given their turns: 500 a claim
    pages = 5
    for n in range(12):
        assert (row.conf("placing") is None) == (n >= pages), n
        got += row.next(2).split()
        if n in (2, 5):
            row.add("ab")
    got += row.next(2000).split()
    assert len(got) == 1206
    for tenant in "ab":
        numbers = [int(id_[1:]) for id_ in got if id_[0] == tenant]
        assert numbers == sorted(numbers)
    assert max(got.index(f"b{n}") for n in range(1, 5)) < 30


# -- the order --------------------------------------------------------------------------------------------------------


TENANTS, PRIORITIES = st.sampled_from("abcd"), st.sampled_from([0, 1, 255])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), TENANTS, PRIORITIES, st.integers(1, 12)),
        st.tuples(st.just("claim"), st.integers(1, 6)),
    ),
    min_size=3,
    max_size=25,
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_no_tenant_waits_for_more_than_one_job_of_another(run, broker, redis, steps):
    """
    The first job of a tenant waits for one of each other at most, and no turn is above the arrivals.

    Each tenant has one job in a turn, in any order: between two of one, there are no more than two of another.
    """
    redis("FLUSHALL")
    row = Row(run, broker, redis)
    waiting, since, served = defaultdict(list), {}, set()
    for step in [*steps, ("claim", 1000)]:
        if step[0] == "add":
            _, tenant, priority, count = step
            line = waiting[tenant, priority]
            if not line:
                since[tenant, priority] = (1 + ((tenant, priority) in served), defaultdict(int))
            first = row.counted[tenant] + 1
            row.add(tenant * count, priority=priority)
            line += [f"{tenant}{first + n}" for n in range(count)]
        else:
            for id_ in row.claim(step[1])[1]:
                tenant, priority = next(key for key, line in waiting.items() if id_ in line)
                assert not any(line for (_, other), line in waiting.items() if other > priority)
                assert waiting[tenant, priority].pop(0) == id_, "a tenant's jobs stay in their order"
                served.add((tenant, priority))
                most, passed = since.pop((tenant, priority))
                assert all(number <= most for number in passed.values()), (id_, passed)
                for (_, other), (_, others) in since.items():
                    others[tenant] += other == priority
                if waiting[tenant, priority]:
                    since[tenant, priority] = (2, defaultdict(int))
        arrivals = int(redis("GET", "test:{q}:seq") or 0)
        scores = [float(score) for score in redis("ZRANGE", "test:{q}:queue", 0, -1, "WITHSCORES")[1::2]]
        assert all(0 < score % BAND <= arrivals for score in scores)
    assert not any(waiting.values())
    assert redis("EXISTS", "test:{q}:tenants") == 0


# -- what is kept, and shown ------------------------------------------------------------------------------------------


def test_it_is_shown(row):
    """By the counts, and by a job."""
    row.add("a")
    row.run(row.broker.enqueue("q", [NewJob("x", "t", b"[[],{}]")]))
    counts = row.run(row.broker.counts("q"))
    assert (counts.fair_by, counts.placing) == (BY, False)
    assert row.run(row.broker.job("q", "a1")).tenant == 'kwargs.tenant="a"'
    assert row.run(row.broker.job("q", "x")).tenant == "kwargs.tenant="
    row.claim()
    row.add("a")
    row.fair("args.0")
    counts = row.run(row.broker.counts("q"))
    assert (counts.fair_by, counts.placing) == (("args.0",), True)
    row.plain()
    assert row.run(row.broker.job("q", "a1")).tenant == ""
    assert row.run(row.broker.counts("q")).fair_by == ()


# -- all together -----------------------------------------------------------------------------------------------------


class Turns(RuleBasedStateMachine):
    """A queue whose jobs come, go and come back in every way, while `fair_by` is switched on, off and over."""

    def __init__(self, run, broker, redis):
        super().__init__()
        redis("FLUSHALL")
        self.row, self.redis = Row(run, broker, redis), redis
        self.attempts, self.pushed = [], 0

    @rule(tenants=st.text("abc", min_size=1, max_size=8), priority=st.sampled_from([1, 2]))
    def enqueue(self, tenants, priority):
        self.row.add(tenants, priority=priority)

    @rule()
    def enqueue_for_later(self):
        self.row.add("d", delay_ms=HOUR)

    @rule(tenant=TENANTS)
    def push(self, tenant):
        self.pushed += 1
        said = {"task": "t", "id": f"raw{self.pushed}", "kwargs": {"tenant": tenant}}
        self.redis("LPUSH", "test:{q}:inbox", json.dumps(said))

    @rule(want=st.integers(0, 6))
    def claim(self, want):
        nonce, ids = self.row.claim(want)
        self.attempts += [(nonce, [id_]) for id_ in ids]

    @precondition(lambda self: self.attempts)
    @rule(data=st.data(), kind=st.sampled_from(["finished", "failed", "retry", "released"]))
    def settle(self, data, kind):
        attempt = self.attempts.pop(data.draw(st.integers(0, len(self.attempts) - 1)))
        ms, payload = (0, b"") if kind == "released" else (HOUR, b"{}")
        self.row.settle(attempt, kind, ms=ms, payload=payload)

    @rule()
    def lose_leases(self):
        for id_ in self.redis("ZRANGE", "test:{q}:started", 0, 2):
            self.redis("ZADD", "test:{q}:started", 0, id_)

    @rule()
    def come_due(self):
        self.row.come_due()

    @rule()
    def requeue(self):
        ids = self.redis("ZRANGE", "test:{q}:failed", 0, 2)
        if ids:
            self.row.run(self.row.broker.requeue("q", ids))

    @rule(data=st.data())
    def cancel(self, data):
        ids = self.redis("ZRANGE", "test:{q}:queue", 0, -1)
        if ids:
            self.row.run(self.row.broker.cancel("q", data.draw(st.sampled_from(ids)).decode()))

    @rule()
    def move_and_back(self):
        for source, target in (("q", "other"), ("other", "q")):
            self.row.run(self.row.broker.move(source, target, limit=2))

    @rule(by=st.sampled_from([BY, ("args.0",), ("kwargs.tenant", "kwargs.region")]))
    def fair(self, by):
        self.row.fair(*by)

    @rule()
    def plain(self):
        self.row.plain()

    @rule()
    def sweep(self):
        self.row.run(self.row.broker.sweep("q", limit=3))

    @invariant()
    def places_are_arrivals_or_turns_below_them(self):
        arrivals = int(self.redis("GET", "test:{q}:seq") or 0)
        for score in self.redis("ZRANGE", "test:{q}:queue", 0, -1, "WITHSCORES")[1::2]:
            assert float(score) % BAND <= arrivals
            assert 253 <= float(score) // BAND <= 254

    @invariant()
    def jobs_of_a_tenant_stay_in_their_order(self):
        """Those that have come straight into the row, and wait there since."""
        last = defaultdict(int)
        for job in self.row.run(self.row.broker.jobs("q", "queued", count=1000)):
            if job.attempts == 0 and not job.last_outcome and job.id[0] in "abc":
                number = int(job.id[1:])
                assert number > last[job.id[0], job.priority]
                last[job.id[0], job.priority] = number

    def teardown(self):
        assert self.row.run(findings(self.row.broker, "q")) == []


def test_whatever_happens_the_row_stays_in_order(run, broker, redis):
    """A stateful property."""
    run_state_machine_as_test(lambda: Turns(run, broker, redis), settings=many(15, 25))
