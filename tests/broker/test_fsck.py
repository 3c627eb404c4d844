"""Fsck: each kind of damage is found and mended, and nothing else is."""

import pytest

from fusiond.broker.call import as_is, plain
from fusiond.broker.maintenance.fsck import Fsck
from fusiond.broker.records import NewJob, Outcome
from fusiond.errors import BrokerError
from fusiond.job import JobStatus, new_id, new_token
from tests.support.job_text import change_job
from tests.support.queue_state import broken, findings

HOUR = 3_600_000
STATUSES = [status.value for status in JobStatus]


class Place:
    """One queue, in which a test makes jobs of each status and damages them."""

    def __init__(self, connection, verbs):
        self.connection, self.verbs, self.run = connection, verbs, connection.run

    def redis(self, *words):
        return self.run(plain(as_is, *words))

    def key(self, *parts):
        return ":".join(("test:{q}", *parts))

    def set(self, status):
        return self.key("queue" if status == "queued" else status)

    def job(self, status="queued", **options):
        """A new job that has come to this status by the verbs."""
        options |= {"delay_ms": HOUR} if status == "scheduled" else {}
        id_, priority = options.pop("id", None) or new_id(), options.pop("priority", 200)
        job = NewJob(id_, "task", b"[[],{}]", priority=priority, **options)
        assert self.run(self.verbs.enqueue("q", [job])) == ["stored"]
        if status == "canceled":
            assert self.run(self.verbs.cancel("q", job.id)) == "canceled"
        elif status == "deferred":  # which no verb makes yet
            self.redis("ZREM", self.key("queue"), job.id)
            self.redis("ZADD", self.key("deferred"), 1, job.id)
        elif status not in ("queued", "scheduled"):
            token = self.claim(job.id)
            if status != "started":
                self.settle(job.id, token, status)
        return job.id

    def claim(self, job_id):
        token, (job,) = self.claims(1)
        assert job.id.decode() == job_id
        return token

    def claims(self, want):
        token = new_token()
        call = self.verbs.claim("q", want, dispatcher="d", nonce=token, lease_ms=HOUR, max_rescues=3)
        return token, self.run(call).jobs

    def settle(self, job_id, token, kind):
        payload = b"7" if kind == "finished" else b'{"code":"X"}'
        assert self.run(self.verbs.settle("q", [Outcome(job_id, token, kind, HOUR, 0, payload)])) == [1]

    def drain(self):
        """Run what waits; the ids in the order in which they ran."""
        ran = []
        while True:
            token, jobs = self.claims(10)
            if not jobs:
                return ran
            for job in jobs:
                ran.append(job.id.decode())
                self.settle(job.id, token, "finished")

    def status(self, job_id):
        record = self.run(self.verbs.job("q", job_id))
        return record and record.status.value

    def found(self):
        """Kinds of what a look finds."""
        return [finding.kind for finding in self.run(findings(self.verbs, "q"))]

    def repair(self):
        """(kind, outcome) of what a repair did."""
        done = []
        self.run(Fsck(self.verbs, done.append, repair=True).queue("q"))
        return [(finding.kind, finding.outcome) for finding in done]

    def snapshot(self):
        """All keys with their content."""
        return {key: self.redis("DUMP", key) for key in self.redis("KEYS", "*")}


@pytest.fixture
def place(connection, broker):
    return Place(connection, broker)


def healthy(place):
    """A job of each status that runs by verbs."""
    return {
        status: place.job(status) for status in ("finished", "failed", "canceled", "started", "scheduled", "queued")
    }


def mended(place, *kinds):
    """Found by a look that changes nothing, mended by a repair, and gone."""
    before = place.snapshot()
    assert sorted(place.found()) == sorted(kinds)
    assert place.snapshot() == before
    assert sorted(place.repair()) == sorted((kind, "repaired") for kind in kinds)
    assert place.found() == []
    assert place.repair() == []


def test_what_verbs_leave_is_clean(place):
    """No finding in a queue with jobs of each status, nor a change by a repair."""
    healthy(place)
    before = place.snapshot()
    assert place.found() == []
    assert place.repair() == []
    assert place.snapshot() == before


# A job in no set


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("queued", "queued"),
        ("scheduled", "queued"),
        ("started", "started"),
        ("finished", "finished"),
        ("failed", "failed"),
        ("canceled", "canceled"),
    ],
)
def test_a_job_in_no_set_comes_back(place, was, becomes):
    """To where its hash belongs; what has not ended runs, what has ended does not."""
    job = place.job(was)
    place.redis("ZREM", place.set(was), job)
    mended(place, "wrong-set")
    assert place.status(job) == becomes
    assert place.drain() == ([] if was in ("finished", "failed", "canceled") else [job])


def test_jobs_come_back_with_their_priority_and_in_their_order(place):
    """As far as Redis still knows: from the hash, else from the task's entry; by id, thus by time, inside of it."""
    place.run(place.verbs.configure("q", max_length=None, tasks={"task": (9, None)}))
    jobs = [place.job(id=f"{n}") for n in range(3)]
    low, high = place.job(priority=8), place.job(priority=10)
    retried = place.job("scheduled", priority=201)
    for job in jobs:
        place.redis("ZREM", place.key("queue"), job)
    place.redis("ZREM", place.key("scheduled"), retried)
    mended(place, *["wrong-set"] * 4)
    assert place.drain() == [retried, high, *jobs, low]


# A job in several sets


@pytest.mark.parametrize(
    ("was", "also", "becomes"),
    [
        ("finished", "queued", "finished"),
        ("failed", "queued", "failed"),
        ("failed", "finished", "failed"),
        ("finished", "failed", "finished"),
        ("canceled", "scheduled", "canceled"),
        ("started", "queued", "started"),
        ("started", "finished", "started"),
        ("queued", "started", "queued"),
        ("queued", "finished", "queued"),
        ("queued", "scheduled", "scheduled"),
        ("scheduled", "queued", "scheduled"),
    ],
)
def test_a_job_in_two_sets_stays_in_one(place, was, also, becomes):
    """In the one that its hash speaks for; of two that it may wait in, in that from which it does not run too early."""
    job = place.job(was)
    place.redis("ZADD", place.set(also), 1, job)
    assert place.found() == ["wrong-set"]
    assert ("wrong-set", "repaired") in place.repair()
    assert place.found() == []
    assert place.status(job) == becomes
    if becomes == "scheduled":
        place.redis("ZADD", place.set("scheduled"), 1, job)
    assert place.drain() == ([job] if becomes in ("queued", "scheduled") else [])


# A member without a hash, a hash that is not a job


@pytest.mark.parametrize("status", STATUSES)
def test_a_member_without_a_text_goes(place, status):
    """Its id is kept under broken, and the others run."""
    gone, other = place.job(status), place.job()
    place.redis("UNLINK", place.key("job", gone))
    mended(place, "no-job")
    assert place.redis("ZSCORE", place.set(status), gone) is None
    (body,) = place.run(broken(place.verbs, "q"))
    assert (body.reason, body.raw) == (f"job {gone} has no body", gone.encode())
    assert place.drain() == [other]


@pytest.mark.parametrize("lacks", ["task", "args", "state"])
@pytest.mark.parametrize("status", ["queued", "started", "finished", None])
def test_a_key_that_is_no_job_is_kept_raw(place, status, lacks):
    """Whether a set holds it or none; what it held is under broken."""
    job, other = place.job(status or "queued"), place.job()
    raw = {"task": b"c1 l0,0\n\n\n[]", "args": b"c1 l4,0\necho\n", "state": b"junk"}[lacks]
    place.redis("SET", place.key("job", job), raw)
    if status is None:
        place.redis("ZREM", place.key("queue"), job)
    mended(place, "no-job")
    (body,) = place.run(broken(place.verbs, "q"))
    assert (body.reason, body.raw) == (f"job {job} is not a job", raw)
    assert place.drain() == [other]


# A state that does not agree


@pytest.mark.parametrize(
    ("status", "changes", "names", "runs"),
    [
        ("queued", {"token": "x"}, "token", True),
        ("queued", {"ended_at": 1}, "ended_at", True),
        ("scheduled", {"score": None}, "score", True),
        ("scheduled", {"score": "1e99"}, "score", True),
        ("scheduled", {"token": "x"}, "token", True),
        ("started", {"score": None}, "score", True),
        ("started", {"token": None}, "token", True),
        ("started", {"token": None, "score": None}, "token, score", True),
        ("started", {"ended_at": 1}, "ended_at", True),
        ("failed", {"score": None}, "score", False),
        ("failed", {"ended_at": None}, "ended_at", False),
        ("finished", {"token": "x"}, "token", False),
        ("canceled", {"ended_at": None, "score": None}, "ended_at, score", False),
    ],
)
def test_a_state_that_does_not_agree(place, status, changes, names, runs):
    """The set that holds a job is its status, and the rest is made to agree; what waited or ran, runs."""
    job, other = place.job(status), place.job()
    change_job(place.run, place.key("job", job), **changes)
    (finding,) = place.run(findings(place.verbs, "q"))
    assert finding.problem == f"is {status}, which does not agree with its {names}"
    mended(place, "fields")
    assert place.status(job) == status
    if status == "scheduled" or (status == "started" and "token" not in names):
        place.redis("ZADD", place.set(status), "XX", 1, job)
    if status in ("failed", "canceled"):
        assert place.run(place.verbs.requeue("q", [job])) == [1]
        runs = True
    assert sorted(place.drain()) == sorted([job, other] if runs else [other])


# Keys


@pytest.mark.parametrize("name", ["queue", *(status for status in STATUSES if status != "queued"), "seq"])
def test_jobs_of_a_key_of_another_type_come_back_once_it_is_renamed(place, name):
    """Until then a look and a repair say so, and change nothing; then the jobs are found, and the queue works again."""
    jobs = healthy(place)
    place.redis("DEL", place.key(name))
    place.redis("SADD", place.key(name), "junk")
    before = place.snapshot()
    for act in (place.found, place.repair):
        with pytest.raises(
            BrokerError, match="queue 'q': a key of it is of another type than ours; rename or delete it"
        ):
            act()
    assert place.snapshot() == before
    place.redis("RENAME", place.key(name), "aside")
    place.repair()
    assert place.found() == []
    ran = place.drain()
    assert jobs["queued"] in ran
    assert len(ran) == 1 + (name in ("scheduled", "started"))


def test_a_queue_in_no_list_is_listed(place, broker):
    """Also one into which another language has pushed by a wrong name."""
    place.run(broker.declare(["other"]))
    place.job()
    place.redis("LPUSH", "test:{typo}:inbox", b"{}")
    place.redis("LPUSH", "elsewhere:{q2}:inbox", b"{}")
    place.redis("SET", "test:{no name}:x", "1")
    found, repaired = [], []
    assert place.run(Fsck(broker, found.append).strays()) == ["q", "typo"]
    assert place.run(broker.queues()) == ["other"]
    assert place.run(Fsck(broker, repaired.append, repair=True).strays()) == ["q", "typo"]
    assert place.run(broker.queues()) == ["other", "q", "typo"]
    assert [(each.queue, each.outcome) for each in found + repaired] == [
        ("q", "found"), ("typo", "found"), ("q", "repaired"), ("typo", "repaired"),
    ]  # fmt: skip
    assert place.run(Fsck(broker, found.append).strays()) == []


# Beside others
