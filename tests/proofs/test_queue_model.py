"""
The verbs in a real Redis against a plain model of a queue, driven at random.

Any reply may be lost: the verb is asked again, with the same ids, nonce or token. Any request may come once more, at
any later time. A dispatcher may stop, lose its leases to another, and go on as if nothing had been. Redis may come back
as it was at an earlier moment. Time is moved by hand: leases and delays are an hour long, and a rule writes the score
that makes one of them due.

What a rollback leaves, which is what is promised at `memory` durability:

- nothing is inconsistent: fsck is clean, and Redis holds what it held at that moment, to the last field
- what was acknowledged since is gone: jobs are unknown, and stored as new when they are enqueued again
- an attempt that was claimed since is over: its renewal says lost, its settle is refused and changes nothing
- an attempt that was settled since is held again: the settle asked again is taken, or its lease expires
"""

import copy
import json
import time

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from fusiond.broker import verbs
from fusiond.broker.call import as_is, plain
from fusiond.broker.records import NewJob, Outcome
from fusiond.job import JobStatus, new_token
from tests.model.queue import MAX_RESCUES, Queue
from tests.support.past import contradictions
from tests.support.queue_state import broken, findings
from tests.support.redis_server import RedisServer
from tests.support.running import until

HOUR = 3_600_000
ENDS = ("finished", "failed", "canceled")
AGAIN = ("retry", "snoozed", "released", "released late")
NTH = st.integers(0, 30)
FEW = st.sampled_from([False, False, True])
WHO = st.sampled_from("de")


class Verbs:
    """The same methods as the model's, with a real Redis behind them."""

    def __init__(self, run, broker):
        self.run, self.broker = run, broker

    def enqueue(self, *jobs):
        return self.run(self.broker.enqueue("q", jobs))

    def push(self, _name, _priority, body):
        self.run(plain(as_is, "LPUSH", self.broker.keys.of("q", "inbox"), body))

    def push_garbage(self, body):
        self.run(plain(as_is, "LPUSH", self.broker.keys.of("q", "inbox"), body))

    def claim(self, dispatcher, nonce, want, again=False):
        asked = self.broker.claim(
            "q", want, dispatcher=dispatcher, nonce=nonce, lease_ms=HOUR, max_rescues=MAX_RESCUES, again=again
        )
        return [(job.id.decode(), *job[3:6]) for job in self.run(asked).jobs]

    def reserve(self, dispatcher, nonce, token, again=False):
        asked = self.broker.claim(
            "q", 1, dispatcher=dispatcher, nonce=nonce, lease_ms=HOUR, max_rescues=MAX_RESCUES, reservation=token,
            again=again,
        )  # fmt: skip
        return [(job.id.decode(), *job[3:6]) for job in self.run(asked).jobs]

    def enqueue_to(self, _token, job):
        stored = self.enqueue(job)
        if stored == ["stored"]:
            later = int(time.time() * 1000) + HOUR
            self.run(plain(as_is, "ZADD", self.broker.keys.of("q", "started"), "XX", later, job.id))
        return stored

    def renew(self, *attempts):
        return self.run(self.broker.renew("q", attempts, HOUR))

    def settle(self, *outcomes):
        return self.run(self.broker.settle("q", outcomes))

    def cancel(self, name):
        return self.run(self.broker.cancel("q", name))

    def requeue(self, name):
        return self.run(self.broker.requeue("q", [name]))

    def prioritize(self, name, priority):
        return self.run(self.broker.prioritize("q", [name], priority))

    def suspend(self, by, on):
        return self.run(self.broker.suspend("q", by=by, on=on))


class QueueMachine(RuleBasedStateMachine):
    """Each rule does one thing to Redis and to the model, and compares the replies."""

    def __init__(self, server):
        super().__init__()
        self.server, self.broker = server, verbs.Verbs("model")
        self.connection = server.connect("model")
        self.redis("FLUSHALL")
        self.verbs, self.queue = Verbs(self.run, self.broker), Queue()
        self.count = 0
        #: every verb that was asked
        self.asked = []
        #: claims whose repeats reached Redis before them: dispatcher, nonce, how many jobs
        self.late = []
        #: dispatcher -> (id, token) of what it believes to hold
        self.held = {"d": [], "e": []}
        self.stopped = set()
        #: (id, token) of every attempt there was
        self.attempts = []
        #: what Redis can be brought back to, and the model then
        self.saved = [(self.save(), copy.deepcopy(self.queue))]

    def teardown(self):
        try:
            swept = self.run(self.broker.sweep("q"))
            assert (swept.trimmed, swept.mended) == (0, 0)
        finally:
            self.connection.close()

    def run(self, call):
        return self.connection.run(call)

    def redis(self, *words):
        return self.run(plain(as_is, *words))

    def key(self, *parts):
        return self.broker.keys.of("q", *parts)

    def do(self, verb, *arguments, lost=False):
        """Ask Redis and the model; twice, if the first reply is lost. The last reply."""
        self.asked.append((verb, arguments))
        for n in range(1 + lost):
            if n and verb in ("claim", "reserve"):
                arguments += (True,)
            reply = getattr(self.verbs, verb)(*arguments)
            assert reply == getattr(self.queue, verb)(*arguments), verb
        return reply

    def new_id(self):
        self.count += 1
        return f"j{self.count}"

    def token(self):
        return new_token()

    def pick(self, n, *statuses):
        """The id of the n-th job, round and round, of those in one of these statuses."""
        jobs = self.queue.of(*statuses)
        return jobs[n % len(jobs)].id if jobs else None

    # -- the verbs

    @rule(
        priorities=st.lists(st.sampled_from([0, 1, 2, 255]), min_size=1, max_size=4),
        delayed=st.booleans(),
        large=st.booleans(),
        lost=FEW,
    )
    def enqueue(self, priorities, delayed, large, lost):
        delay, args = HOUR if delayed else None, b"[[1%b],{}]" % (b"0" * 2000 * large)
        jobs = [NewJob(self.new_id(), "task", args, priority, delay_ms=delay) for priority in priorities]
        assert self.do("enqueue", *jobs, lost=lost) == ["same" if lost else "stored"] * len(jobs)
        assert self.do("enqueue", NewJob(jobs[0].id, "task", b"[[2],{}]")) == ["conflict"]

    @precondition(lambda self: not self.pick(0, "queued"))
    @rule(who=WHO, priority=st.sampled_from([0, 255]), expires=FEW, lost=FEW)
    def enqueue_to_one_that_waits(self, who, priority, expires, lost):
        """Its claim found nothing, so the wake-up has the job. Stopped, it does not hear of it: the lease is over."""
        token, nonce, name = self.token(), self.token(), self.new_id()
        got = self.do("reserve", who, nonce, token, lost=lost)
        if got:
            self.attempts += [(id_, nonce) for id_, *_ in got]
            return
        job = NewJob(name, "task", b"[[1],{}]", priority)
        assert self.do("enqueue_to", token, job, lost=lost) == ["same" if lost else "stored"]
        self.attempts.append((name, token))
        if expires or who in self.stopped:
            self.expire([name])
        else:
            self.held[who].append((name, token))

    @rule(priority=st.none() | st.integers(0, 3), lost=FEW)
    def push(self, priority, lost):
        """An inbox job is taken in by the next claim; here one of 0 jobs does it at once."""
        body = {"id": self.new_id(), "task": "task", "args": [[], 1e300]}
        body |= {} if priority is None else {"priority": priority}
        raw = json.dumps(body).encode()
        self.do("push", body["id"], 1 if priority is None else priority, raw, lost=lost)
        self.do("claim", "d", self.token(), 0)

    @rule(garbage=st.sampled_from([b"", b"{", b"[]", b'{"task": 1}', b'{"task":"t","delay":-1}', b"\xff\xfe", b"{}"]))
    def push_garbage(self, garbage):
        self.do("push_garbage", garbage)
        self.do("claim", "d", self.token(), 0)
        assert self.run(broken(self.broker, "q"))[0].raw == garbage

    @precondition(lambda self: self.pick(0, "queued") and len(self.stopped) < 2)
    @rule(who=WHO, want=st.integers(1, 4), lost=FEW)
    def claim(self, who, want, lost):
        """By one that is not stopped."""
        self.claim_as("de".strip("".join(self.stopped)) if self.stopped else who, want, lost)

    def claim_as(self, who, want, lost=False):
        """What it gets."""
        token = self.token()
        got = [(name, token) for name, *_ in self.do("claim", who, token, want, lost=lost)]
        self.held[who] += got
        self.attempts += got
        return got

    @precondition(lambda self: self.pick(0, "queued") and not self.stopped)
    @rule(who=WHO, times=st.integers(1, 3), permit=FEW)
    def claim_and_lose(self, who, times, permit):
        """The leases of all that it claims expire, with permits to begin or without, and again after a rescue."""
        for _ in range(times):
            got = self.claim_as(who, 4)
            if got and permit:
                self.do("renew", *((*attempt, "permit") for attempt in got))
            self.expire([name for name, token in got if self.holds(name, token)])

    @precondition(lambda self: self.attempts)
    @rule(who=WHO, n=NTH, stale=FEW, permit=FEW, lost=FEW)
    def renew(self, who, n, stale, permit, lost):
        """All that it holds, and permits for them to begin; what is lost it holds no more."""
        attempts = [*self.held[who], *([self.attempts[n % len(self.attempts)]] if stale else [])]
        if attempts and who not in self.stopped:
            asked = [(*attempt, "permit") for attempt in attempts] if permit else attempts
            replies = dict(zip(attempts, self.do("renew", *asked, lost=lost), strict=True))
            self.held[who] = [attempt for attempt in self.held[who] if replies[attempt]]

    @precondition(lambda self: any(self.held.values()))
    @rule(who=WHO, n=NTH, many=st.integers(1, 3), kind=st.sampled_from(ENDS), crash=st.booleans(), lost=FEW, stale=FEW)
    def settle(self, who, n, many, kind, crash, lost, stale):
        self.settle_as(who, n, many, kind, crash, lost, stale)

    @precondition(lambda self: any(self.held.values()))
    @rule(who=WHO, n=NTH, many=st.integers(1, 3), kind=st.sampled_from(AGAIN), crash=st.booleans(), lost=FEW, stale=FEW)
    def settle_to_run_again(self, who, n, many, kind, crash, lost, stale):
        self.settle_as(who, n, many, kind, crash, lost, stale)

    def settle_as(self, who, n, many, kind, crash, lost, stale):
        """Attempts that it believes to hold, whoever holds them by now."""
        who = who if self.held[who] and who not in self.stopped else next(iter({*"de"} - self.stopped), None)
        if not who or not self.held[who]:
            return
        mine = list(dict.fromkeys(self.held[who][(n + i) % len(self.held[who])] for i in range(many)))
        word, _, late = kind.partition(" ")
        ms = HOUR if word in (*ENDS, "retry", "snoozed") or late else 0
        extra = f"{HOUR} {HOUR}" if word == "snoozed" else int(crash)
        attempts = [*mine, *([self.attempts[n % len(self.attempts)]] if stale else [])]
        self.do("settle", *(Outcome(*each, word, ms, extra, b"{}") for each in attempts), lost=lost)
        self.held[who] = [attempt for attempt in self.held[who] if attempt not in mine]

    @precondition(lambda self: self.queue.jobs)
    @rule(n=NTH, started=FEW, lost=FEW)
    def cancel(self, n, started, lost):
        self.do("cancel", (started and self.pick(n, "started")) or self.pick(n), lost=lost)

    @precondition(lambda self: any(self.held[who] for who in {*"de"} - self.stopped))
    @rule(n=NTH, again=st.booleans(), lost=FEW)
    def cancel_what_is_held(self, n, again, lost):
        """Its holder hears of it at its next renewal, or has it run again, which comes to nothing."""
        who = next(who for who in "de" if self.held[who] and who not in self.stopped)
        attempt = self.held[who][n % len(self.held[who])]
        self.do("cancel", attempt[0], lost=lost)
        if again:
            self.do("settle", Outcome(*attempt, "retry", HOUR, 0, b"{}"))
            self.held[who].remove(attempt)
        else:
            self.do("renew", attempt)

    @precondition(lambda self: self.queue.jobs)
    @rule(n=NTH, ended=st.booleans(), lost=FEW)
    def requeue(self, n, ended, lost):
        self.do("requeue", (ended and self.pick(n, "failed", "canceled")) or self.pick(n), lost=lost)

    @precondition(lambda self: self.queue.jobs)
    @rule(n=NTH, waits=st.booleans(), priority=st.sampled_from([0, 1, 2, 255]), lost=FEW)
    def prioritize(self, n, waits, priority, lost):
        self.do("prioritize", (waits and self.pick(n, "queued", "scheduled")) or self.pick(n), priority, lost=lost)

    @rule(by=st.lists(st.sampled_from(["operator", "file"]), min_size=1, max_size=2, unique=True), lost=FEW)
    def suspend_and_resume(self, by, lost):
        """Neither undoes what the other did; meanwhile nothing is claimed, and chores are done."""
        for each in by:
            assert self.do("suspend", each, True, lost=lost)
        assert self.do("claim", "d", self.token(), 4) == []
        for each in by:
            self.do("suspend", each, False, lost=lost)
        assert not self.queue.suspended

    # -- what goes wrong

    @precondition(lambda self: self.asked)
    @rule(n=st.integers(0, 1000))
    def a_request_comes_once_more(self, n):
        """Any of all that were asked so far, as it was; its sender waits for it no more."""
        verb, arguments = self.asked[n % len(self.asked)]
        if verb in ("push", "push_garbage", "suspend", "park"):
            return
        if verb == "enqueue_to":
            # If Redis was rolled back, it is stored again, and nobody waits for it.
            verb, arguments = "enqueue", arguments[1:]
        if verb == "claim":
            arguments = (*arguments[:3], True)
        reply = self.do(verb, *arguments)
        if verb == "claim":
            self.attempts += [(name, arguments[1]) for name, *_ in reply]

    @rule(who=WHO, want=st.integers(1, 4))
    def a_claim_is_late(self, who, want):
        """Its repeat overtakes it, and gets nothing."""
        if who not in self.stopped:
            self.late.append((who, self.token(), want))
            assert self.do("claim", *self.late[-1], True) == []

    @precondition(lambda self: self.late)
    @rule(n=NTH)
    def a_late_claim_comes(self, n):
        """Once; nobody waits for it."""
        claim = self.late.pop(n % len(self.late))
        self.attempts += [(name, claim[1]) for name, *_ in self.do("claim", *claim)]

    @precondition(lambda self: any(self.held.values()) and not self.stopped)
    @rule(who=WHO)
    def stop(self, who):
        """It is frozen, and its leases expire; whether the other rescues is another rule's."""
        self.stopped.add(who)
        self.expire([name for name, token in self.held[who] if self.holds(name, token)])

    @precondition(lambda self: self.stopped)
    @rule()
    def go_on(self):
        """It still believes to hold what it held, and will settle it."""
        self.stopped.clear()

    @precondition(lambda self: self.queue.of("started"))
    @rule()
    def let_the_leases_expire(self):
        """All at once, and the next claim finds them."""
        self.expire([job.id for job in self.queue.of("started")])

    def expire(self, ids):
        self.queue.expire(ids)
        for name in ids:
            self.redis("ZADD", self.key("started"), "XX", 1, name)

    def holds(self, name, token):
        return name in self.queue.jobs and self.queue.jobs[name].token == token

    @precondition(lambda self: self.pick(0, "scheduled"))
    @rule(n=NTH)
    def let_it_come_due(self, n):
        name = self.pick(n, "scheduled")
        self.redis("ZADD", self.key("scheduled"), "XX", self.queue.come_due(name), name)

    @rule()
    def persist(self):
        """A moment that Redis may be brought back to."""
        self.saved = [*self.saved[-2:], (self.save(), copy.deepcopy(self.queue))]

    @precondition(lambda self: self.asked)
    @rule(n=st.integers(0, 2), torn=st.integers(0, 200))
    def roll_back(self, n, torn):
        """Redis is what it was then. What was claimed since is refused, what was enqueued since is stored as new."""
        moment, queue = self.saved[n % len(self.saved)]
        lost = [name for name in self.queue.jobs if name not in queue.jobs]
        self.restore(moment, torn)
        self.queue = copy.deepcopy(queue)
        known = {(job.id, token) for job in queue.jobs.values() for token in (job.token, job.last_token)}
        over = [attempt for attempt in self.attempts if attempt not in known]
        if over:
            assert self.do("renew", *over) == [0] * len(over)
            assert self.do("settle", *(Outcome(*each, "finished", HOUR) for each in over)) == [0] * len(over)
        for name in lost:
            assert self.run(self.broker.job("q", name)) is None
        if lost:
            assert self.do("enqueue", NewJob(lost[0], "task", b"[[1],{}]")) == ["stored"]

    def save(self):
        """Every key, as bytes."""
        names = sorted(self.redis("KEYS", "*"))
        calls = [plain(as_is, *words) for name in names for words in (("PEXPIRETIME", name), ("DUMP", name))]
        replies = iter(self.connection.run_many(calls))
        return list(zip(names, replies, replies, strict=True))

    def restore(self, moment, _torn):
        calls = [("RESTORE", name, max(expiry, 0), dump, "ABSTTL") for name, expiry, dump in moment]
        self.connection.run_many([plain(as_is, *words) for words in (("FLUSHALL",), *calls)])

    # -- what holds after each step

    @invariant()
    def each_record_is_what_the_model_says(self):
        jobs = self.queue.jobs.values()
        for job, record in zip(
            jobs, self.connection.run_many([self.broker.job("q", job.id) for job in jobs]), strict=True
        ):
            assert (record.status, record.priority) == (job.status, job.priority)
            assert (record.attempts, record.crashes, record.rescues) == (job.attempts, job.crashes, job.rescues)
            assert [*contradictions(record)] == []

    @invariant()
    def each_job_is_where_the_model_says(self):
        counts = self.run(self.broker.counts("q"))
        for status in JobStatus:
            assert getattr(counts, status) == len(self.queue.of(status)), status
        assert counts.broken == self.queue.broken

    @invariant()
    def fsck_is_clean(self):
        assert self.run(findings(self.broker, "q")) == []


#: how its server writes each change to a file
AOF = {"appendonly": "yes", "appendfsync": "always"}


class OnFile(QueueMachine):
    """A rollback is a kill -9 and a file that lost its end, torn anywhere inside the next thing that was written."""

    def __init__(self, server):
        self.sizes = []
        super().__init__(server)

    def redis(self, *words):
        reply = super().redis(*words)
        self.sizes.append(self.save())
        return reply

    def do(self, verb, *arguments, lost=False):
        reply = super().do(verb, *arguments, lost=False)
        self.sizes.append(self.save())
        return super().do(verb, *arguments) if lost else reply

    def file(self):
        return max((self.server.directory / "appendonlydir").glob("*.incr.aof"))

    def save(self):
        return self.file().stat().st_size

    def restore(self, moment, torn):
        whole = min((size for size in (*self.sizes, self.save()) if size > moment), default=moment + 1)
        self.server.kill()
        with self.file().open("r+b") as file:
            file.truncate(min(moment + torn, whole - 1))
        self.server.start(**AOF)
        until(self.server.answers)  # LOADING before that
        self.connection.close()
        self.connection = self.server.connect("model")
        self.saved = [(size, queue) for size, queue in self.saved if size <= moment]
        self.sizes = [size for size in self.sizes if size <= moment]


def many(examples, steps, **more):
    """So much of it, on a machine of any speed."""
    return settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        **more,
    )


@pytest.fixture
def server_with_a_file():
    server = RedisServer()
    server.restart(**AOF)
    yield server
    server.remove()


def test_a_torn_file_brings_back_a_moment_between_two_verbs(server_with_a_file):
    """Killed, its file cut anywhere, Redis comes back with each verb done in full or not at all, and the rest holds."""
    run_state_machine_as_test(lambda: OnFile(server_with_a_file), settings=many(8, 25))
