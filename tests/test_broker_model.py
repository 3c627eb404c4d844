"""
The verbs against a plain Python model of a queue, driven at random, replies lost at random.

Time is moved by hand: leases and delays are an hour long, and a rule makes one of them due by writing its score.
"""

import json
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from fusiond.broker.broker import Broker
from fusiond.broker.call import as_is, plain
from fusiond.broker.records import NewJob, Outcome
from fusiond.job import JobStatus, new_token

HOUR = 3_600_000
MAX_RESCUES = 1
ENDS = ("finished", "failed", "canceled")
AGAIN = ("retry", "released", "released late")
NTH = st.integers(0, 30)
FEW = st.sampled_from([False, False, True])


@dataclass
class Job:
    """What the model knows of a job."""

    id: str
    priority: int
    place: int
    status: str = "queued"
    due: int = 0
    attempts: int = 0
    crashes: int = 0
    rescues: int = 0
    token: str = ""
    last_token: str = ""
    cancel: bool = False
    #: its lease was made to expire
    expired: bool = False


class QueueMachine(RuleBasedStateMachine):
    """Each rule does one thing to Redis and to the model, and compares the replies."""

    def __init__(self, server):
        super().__init__()
        self.connection = server.connect("model")
        self.run = self.connection.run
        self.broker = Broker("model")
        self.run(plain(as_is, "FLUSHALL"))
        self.jobs = {}
        self.now = 0
        self.broken = 0
        #: (id, token) of attempts that are over
        self.stale = []

    def teardown(self):
        swept = self.run(self.broker.sweep("q"))
        assert (swept.trimmed, swept.adopted) == (0, 0)
        self.connection.close()

    def next(self):
        self.now += 1
        return self.now

    def key(self, *parts):
        return self.broker.keys.of("q", *parts)

    def pick(self, n, *statuses):
        """The n-th job, round and round, of those in one of these statuses; of all if none is said."""
        jobs = [job for job in self.jobs.values() if not statuses or job.status in statuses]
        return jobs[n % len(jobs)] if jobs else None

    def twice(self, lost, call):
        """The reply; of the second of two equal calls, if the first one's was lost."""
        if lost:
            self.run(call)
        return self.run(call)

    @rule(priorities=st.lists(st.sampled_from([0, 1, 2, 255]), min_size=1, max_size=4), delayed=st.booleans(), lost=FEW)
    def enqueue(self, priorities, delayed, lost):
        jobs = [Job(f"j{self.next()}", priority, self.next()) for priority in priorities]
        for job in jobs:
            if delayed:
                job.status, job.due = "scheduled", HOUR + self.next()
        new = [NewJob(job.id, "task", b"[[1],{}]", job.priority, delay_ms=job.due or None) for job in jobs]
        assert self.twice(lost, self.broker.enqueue("q", new)) == ["same" if lost else "stored"] * len(jobs)
        self.jobs |= {job.id: job for job in jobs}
        other = NewJob(jobs[0].id, "task", b"[[2],{}]")
        assert self.run(self.broker.enqueue("q", [other])) == ["conflict"]

    @rule(priority=st.none() | st.integers(0, 3))
    def push(self, priority):
        """An inbox job is taken in by the next claim; here one of 0 jobs does it at once."""
        job = Job(f"i{self.next()}", 1 if priority is None else priority, self.next())
        body = {"id": job.id, "task": "task", "args": [[], 1e300]} | (
            {} if priority is None else {"priority": priority}
        )
        self.run(plain(as_is, "LPUSH", self.key("inbox"), json.dumps(body)))
        self.jobs[job.id] = job
        self.claim_nothing()

    @rule(garbage=st.sampled_from([b"", b"{", b"[]", b'{"task": 1}', b'{"task":"t","delay":-1}', b"\xff\xfe", b"{}"]))
    def push_garbage(self, garbage):
        self.run(plain(as_is, "LPUSH", self.key("inbox"), garbage))
        self.claim_nothing()
        self.broken += 1
        assert self.run(self.broker.broken("q"))[0].raw == garbage

    def claim_nothing(self, want=0):
        call = self.broker.claim("q", want, dispatcher="d", nonce=new_token(), lease_ms=HOUR, max_rescues=MAX_RESCUES)
        claim = self.run(call)
        assert claim.jobs == []
        self.model_chores()
        return claim

    @precondition(lambda self: self.pick(0, "queued"))
    @rule(want=st.integers(1, 4), lost=FEW)
    def claim(self, want, lost):
        token = new_token()
        call = self.broker.claim("q", want, dispatcher="d", nonce=token, lease_ms=HOUR, max_rescues=MAX_RESCUES)
        claim = self.twice(lost, call)
        self.model_chores()
        ready = sorted(
            (job for job in self.jobs.values() if job.status == "queued"), key=lambda j: (-j.priority, j.place)
        )
        expected = ready[:want]
        for job in expected:
            job.status, job.token, job.attempts = "started", token, job.attempts + 1
        assert [(job.id.decode(), *job[3:6]) for job in claim.jobs] == [
            (job.id, job.attempts, job.crashes, job.rescues) for job in expected
        ]

    def model_chores(self):
        """What a claim does before it takes jobs."""
        for job in sorted((job for job in self.jobs.values() if 0 < job.due < HOUR), key=lambda j: j.due):
            job.status, job.due, job.place = "queued", 0, self.next()
        for job in [job for job in self.jobs.values() if job.expired]:
            self.end_attempt(job)
            if job.cancel:
                job.status = "canceled"
            else:
                job.rescues += 1
                job.status = "failed" if job.rescues > MAX_RESCUES else "queued"

    def end_attempt(self, job):
        self.stale.append((job.id, job.token))
        job.token, job.expired = "", False

    @precondition(lambda self: self.started())
    @rule(n=NTH, stale=FEW)
    def renew(self, n, stale):
        attempts = [(job.id, job.token) for job in self.started()]
        if stale and self.stale:
            attempts.append(self.stale[n % len(self.stale)])
        replies = self.run(self.broker.renew("q", attempts, HOUR))
        held = [self.jobs[name] if self.jobs[name].token == token else None for name, token in attempts]
        assert replies == [0 if job is None else 2 if job.cancel else 1 for job in held]
        for job in filter(None, held):
            job.expired = False

    def started(self):
        return [job for job in self.jobs.values() if job.status == "started"]

    @precondition(lambda self: self.started())
    @rule(n=NTH, many=st.integers(1, 3), kind=st.sampled_from(ENDS), crash=st.booleans(), lost=FEW, stale=FEW)
    def settle(self, n, many, kind, crash, lost, stale):
        self.settle_as(n, many, kind, crash, lost, stale)

    @precondition(lambda self: self.started())
    @rule(n=NTH, many=st.integers(1, 3), kind=st.sampled_from(AGAIN), crash=st.booleans(), lost=FEW, stale=FEW)
    def settle_to_run_again(self, n, many, kind, crash, lost, stale):
        self.settle_as(n, many, kind, crash, lost, stale)

    def settle_as(self, n, many, kind, crash, lost, stale):
        word, _, late = kind.partition(" ")
        later = word in ("finished", "failed", "canceled", "retry") or late
        held = {job.id: job.token for job in (self.pick(n + i, "started") for i in range(many))}
        attempts = [*held.items(), *([self.stale[n % len(self.stale)]] if stale and self.stale else [])]
        # each a little later than the one before, so that their order is known
        outcomes = [Outcome(*each, word, HOUR + self.next() if later else 0, int(crash), b"{}") for each in attempts]
        before = [(self.jobs[name].token, self.jobs[name].last_token) for name, _ in attempts]
        replies = self.twice(lost, self.broker.settle("q", outcomes))
        for outcome, (token, last_token), reply in zip(outcomes, before, replies, strict=True):
            if token == outcome.token:
                assert reply == (2 if lost else 1)
                self.model_settle(self.jobs[outcome.id], outcome)
            elif last_token == outcome.token and outcome.id not in held:
                assert reply == 2
            else:
                assert reply == 0

    def model_settle(self, job, outcome):
        self.end_attempt(job)
        job.last_token = outcome.token
        canceled = job.cancel and outcome.kind in ("retry", "released")
        if outcome.crash and (canceled or outcome.kind not in ("finished", "released")):
            job.crashes += 1
        if canceled:
            job.status = "canceled"
        elif outcome.kind in ("finished", "failed", "canceled"):
            job.status = outcome.kind
        else:
            job.status = "scheduled" if outcome.ms else "queued"
            job.due = outcome.ms
            job.attempts -= outcome.kind == "released"

    @precondition(lambda self: self.jobs)
    @rule(n=NTH, lost=FEW)
    def cancel(self, n, lost):
        job = self.pick(n)
        expected = {"started": "asked", "queued": "canceled", "scheduled": "canceled"}.get(job.status, "ended")
        reply = self.twice(lost, self.broker.cancel("q", job.id))
        assert reply == ("ended" if lost and expected == "canceled" else expected)
        if expected == "asked":
            job.cancel = True
        elif expected == "canceled":
            job.status, job.due = "canceled", 0

    @precondition(lambda self: self.started())
    @rule(n=NTH)
    def cancel_running(self, n):
        job = self.pick(n, "started")
        assert self.run(self.broker.cancel("q", job.id)) == "asked"
        job.cancel = True

    @precondition(lambda self: self.jobs)
    @rule(n=NTH, ended=st.booleans(), lost=FEW)
    def requeue(self, n, ended, lost):
        job = (ended and self.pick(n, "failed", "canceled")) or self.pick(n)
        moves = job.status in ("failed", "canceled")
        reply = self.twice(lost, self.broker.requeue("q", [job.id]))
        assert reply == [1 if moves and not lost else 2 if moves or job.status == "queued" else 0]
        if moves:
            job.status, job.place, job.cancel = "queued", self.next(), False
            job.attempts = job.crashes = job.rescues = 0

    @rule(by=st.lists(st.sampled_from(["operator", "file"]), min_size=1, max_size=2, unique=True))
    def suspend_and_resume(self, by):
        """Neither undoes what the other did; meanwhile nothing is claimed, and chores are done."""
        for each in by:
            assert self.run(self.broker.suspend("q", by=each, on=True))
        assert self.claim_nothing(4).suspended
        left = set(by)
        for each in by:
            left.remove(each)
            assert self.run(self.broker.suspend("q", by=each, on=False)) == bool(left)

    @precondition(lambda self: self.started())
    @rule()
    def let_the_leases_expire(self):
        """All at once, and the next claim finds them."""
        for job in self.started():
            job.expired = True
            self.run(plain(as_is, "ZADD", self.key("started"), "XX", 1, job.id))

    @precondition(lambda self: self.pick(0, "scheduled"))
    @rule(n=NTH)
    def let_it_come_due(self, n):
        job = self.pick(n, "scheduled")
        job.due = self.next()
        self.run(plain(as_is, "ZADD", self.key("scheduled"), "XX", job.due, job.id))

    @invariant()
    def each_record_is_what_the_model_says(self):
        for job in self.jobs.values():
            record = self.run(self.broker.job("q", job.id))
            assert (record.status, record.priority) == (job.status, job.priority)
            assert (record.attempts, record.crashes, record.rescues) == (job.attempts, job.crashes, job.rescues)

    @invariant()
    def each_job_is_where_the_model_says(self):
        counts = self.run(self.broker.counts("q"))
        for status in JobStatus:
            assert getattr(counts, status) == sum(job.status == status for job in self.jobs.values()), status
        assert counts.broken == self.broken

    @invariant()
    def fsck_is_clean(self):
        assert self.run(self.broker.check("q")) == []


@pytest.mark.timeout(60)
def test_the_verbs_do_what_the_model_does(redis_server):
    """Whatever is asked in whatever order, with whatever replies lost, Redis holds what a simple list of jobs would."""
    run_state_machine_as_test(
        lambda: QueueMachine(redis_server),
        settings=settings(
            max_examples=40, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
