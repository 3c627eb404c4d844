"""Jobs that move to another queue: whole, once, and through any death on the way."""

import contextlib
import json

import pytest

from fusiond.broker.call import Call, as_is, plain
from fusiond.broker.records import NewJob, Outcome
from fusiond.errors import BrokerError
from fusiond.job import new_token
from tests.support.running import until

A, B = "fast", "default"


@pytest.fixture
def yard(run, broker, connection):
    return Yard(run, broker, connection)


class Yard:
    """Two queues, what an operator does, and a worker of each."""

    def __init__(self, run, broker, connection):
        self.run, self.broker, self.connection = run, broker, connection
        run(broker.declare([A, B]))

    def enqueue(self, *ids, queue=A, **more):
        self.run(self.broker.enqueue(queue, [NewJob(id_, "t", b'[["x"],{}]', **more) for id_ in ids]))

    def claim(self, queue=B, want=100, lease_ms=60_000):
        token = new_token()
        claim = self.broker.claim(queue, want, dispatcher="d", nonce=token, lease_ms=lease_ms, max_rescues=25)
        return [(job.id.decode(), token) for job in self.run(claim).jobs]

    def finish(self, queue=B):
        """Run all that is ready; the ids, in their order."""
        begun = self.claim(queue)
        if begun:
            self.run(self.broker.settle(queue, [Outcome(*one, "finished", 60_000, payload=b"1") for one in begun]))
        return [id_ for id_, _ in begun]

    def move(self, source=A, target=B, **more):
        return self.run(self.broker.move(source, target, **more))

    def steps(self, plan, count):
        """Do so many round trips of a plan, and leave it there, as one that is killed or frozen does."""
        reply = None
        for _ in range(count):
            reply = self._answer(plan.send(reply))
        return plan, reply

    def _answer(self, step):
        return self.run(step) if isinstance(step, Call) else [self.run(call) for call in step]

    def go_on(self, plan, reply):
        """The frozen one continues."""
        try:
            while True:
                reply = self._answer(plan.send(reply))
        except StopIteration as end:
            return end.value

    def sweep(self):
        """What a scheduler does of it."""
        for queue in (A, B):
            self.run(self.broker.deliver(queue))

    def job(self, id_, queue=B):
        return self.run(self.broker.job(queue, id_))

    def counts(self, queue):
        found = self.run(self.broker.counts(queue))
        return {name: getattr(found, name) for name in ("queued", "scheduled", "deferred", "started", "inbox")}

    def undelivered(self):
        keys = [self.broker.keys.of(here, "effects", there) for here, there in ((A, B), (B, A))]
        return [self.run(plain(as_is, "LLEN", key)) for key in keys]


EMPTY = {"queued": 0, "scheduled": 0, "deferred": 0, "started": 0, "inbox": 0}


def test_a_job_moves_with_all_that_it_is(yard):
    """Id, arguments, priority, attempts, expiry and what its producer gave; behind those of its priority."""
    header = {"key": "k", "log_tag": "tag", "meta": b'{"a":1}', "timeout": b'{"soft":1,"hard":2}'}
    yard.enqueue("a", priority=7, expires_ms=3_600_000, **header)
    [attempt] = yard.claim(A)
    yard.run(yard.broker.settle(A, [Outcome(*attempt, "retry", 0, 1, b'{"code":"EXCEPTION"}', "retry")]))
    before = yard.job("a", A)
    assert before.status == "scheduled"
    yard.enqueue("first", queue=B, priority=7)
    yard.enqueue("low", queue=B, priority=1)
    assert yard.move() == (1, 0, [])
    assert yard.job("a", A) is None
    after = yard.job("a")
    same = (
        "id",
        "task",
        "args",
        "attempts",
        "crashes",
        "rescues",
        "created_at",
        "expires_at",
        "key",
        "log_tag",
        "meta",
    )
    assert [getattr(after, name) for name in same] == [getattr(before, name) for name in same]
    assert (after.priority, after.last_outcome, before.attempts) == (7, "moved", 1)
    assert yard.finish() == ["first", "a", "low"]
    assert yard.undelivered() == [0, 0]


def test_jobs_keep_their_order_and_their_time(yard):
    """Priority first, then arrival; a delayed job keeps the moment at which it comes due."""
    yard.enqueue("low", priority=1)
    yard.enqueue("x", "y", "z", priority=5)
    yard.enqueue("later", delay_ms=3_600_000)
    due = yard.job("later", A).due_at
    moved = [yard.move(limit=2).jobs for _ in range(4)]
    assert moved == [2, 2, 1, 0]
    assert yard.job("later").due_at == due
    assert yard.finish() == ["x", "y", "z", "low"]
    assert yard.counts(A) == EMPTY


def test_the_inbox_and_what_a_dead_dispatcher_left_come_along(yard):
    """A claim would have taken them in; nothing claims from that queue any more."""
    yard.run(plain(as_is, "LPUSH", yard.broker.keys.of(A, "inbox"), json.dumps({"task": "t", "id": "pushed"})))
    yard.enqueue("runs")
    assert sorted(id_ for id_, _ in yard.claim(A)) == ["pushed", "runs"]
    yard.run(plain(as_is, "LPUSH", yard.broker.keys.of(A, "inbox"), json.dumps({"task": "t", "id": "pushed-2"})))
    yard.enqueue("lost")
    yard.claim(A, want=1, lease_ms=0)
    moved = yard.move()
    assert (moved.jobs, moved.running) == (2, 2)
    assert (yard.job("lost").rescues, yard.job("lost").attempts) == (1, 1)
    assert set(yard.finish()) == {"pushed-2", "lost"}
    assert yard.counts(A) == EMPTY | {"started": 2}


def test_an_id_that_another_job_has_stays(yard):
    """It is named, the others move, and it can be gone past."""
    yard.enqueue("a", "b", "c", "d")
    yard.run(yard.broker.enqueue(B, [NewJob("b", "other", b"[]")]))
    moved = yard.move(limit=2)
    assert (moved.jobs, [job.id for job in moved.taken]) == (1, [b"b"])
    moved = yard.move(skip=(1, 0))
    assert (moved.jobs, moved.taken) == (2, [])
    assert yard.job("b", A).status == "queued"
    assert yard.finish(A) == ["b"]


#: round trips of a move of some jobs
STEPS = 6


@pytest.mark.parametrize("has_ended", [False, True])
def test_what_waits_for_a_job_that_becomes_one_with_another_goes_on(yard, has_ended):
    """It waits for the one that is there, or hears at once how that has ended."""
    yard.enqueue("twin")
    yard.enqueue("child", after=f"0 0 {A}/twin")
    yard.sweep()
    yard.enqueue("twin", queue=B)
    if has_ended:
        assert yard.finish() == ["twin"]
    yard.move()
    yard.sweep()
    yard.finish(B)
    yard.sweep()
    assert yard.finish(A) == ["child"]


@pytest.mark.parametrize("killed", range(1, STEPS + 1))
@pytest.mark.parametrize("then", ["again", "sweep"])
def test_killed_anywhere_no_job_is_lost_or_doubled(yard, killed, then):
    """The same command again, or any scheduler, goes on from there; meanwhile no job can be claimed twice."""
    ids = ["a", "b", "c"]
    yard.enqueue(*ids)
    yard.enqueue("later", delay_ms=1)
    yard.steps(yard.broker.move(A, B), killed)
    ran = yard.finish(A) + yard.finish(B)
    yard.move() if then == "again" else yard.sweep()
    yard.sweep()
    until(lambda: len(ran.extend(yard.finish(A) + yard.finish(B)) or ran) >= 4)
    assert sorted(ran) == [*ids, "later"]
    assert (yard.counts(A), yard.counts(B)) == (EMPTY, EMPTY)
    assert yard.undelivered() == [0, 0]


@pytest.mark.parametrize("killed", range(1, STEPS + 3))
def test_killed_anywhere_a_job_that_cannot_move_comes_back(yard, killed):
    """To its old place, before one that was enqueued behind it."""
    yard.enqueue("a")
    yard.run(yard.broker.enqueue(B, [NewJob("a", "other", b"[]")]))
    with contextlib.suppress(StopIteration):
        yard.steps(yard.broker.move(A, B), killed)
    yard.enqueue("b")
    yard.sweep()
    assert yard.finish(A) == ["a", "b"]
    assert (yard.job("a").task, yard.job("a", A).task) == ("other", "t")
    assert yard.undelivered() == [0, 0]


def test_a_job_that_comes_back_to_a_lost_lock_fails(yard):
    """Another job got its lock in either queue while it moved; it is kept, and its children are told."""
    rule = {"unique": "ended,skip,0,x"}
    yard.enqueue("a", **rule)
    yard.enqueue("rival", queue=B, **rule)
    yard.enqueue("child", queue=B, after=f"0 0 {A}/a")
    yard.sweep()
    yard.steps(yard.broker.move(A, B), 2)
    yard.enqueue("next", **rule)
    yard.sweep()
    yard.sweep()
    failed = [yard.job("a", A), yard.job("child")]
    assert [(job.status, json.loads(job.error)["code"]) for job in failed] == [
        ("failed", "CONFLICT"),
        ("failed", "PARENT_FAILED"),
    ]
    assert (yard.finish(A), yard.finish()) == (["next"], ["rival"])
    assert yard.undelivered() == [0, 0]


def test_a_large_job_moves_whole(yard):
    """Jobs go to the effects a megabyte at a time; their arguments arrive byte for byte."""
    args = b'[["%s"],{}]' % (b"x" * 700_000)
    yard.run(yard.broker.enqueue(A, [NewJob(id_, "t", args) for id_ in ("a", "b", "c")]))
    assert [yard.move().jobs for _ in range(3)] == [2, 1, 0]
    assert [yard.job(id_).args for id_ in ("a", "b", "c")] == [args] * 3
    assert yard.finish() + yard.finish() == ["a", "b", "c"]


def test_nothing_leaves_while_the_effects_is_of_another_type(yard):
    """An error comes before the first job is touched."""
    yard.enqueue("a")
    yard.run(plain(as_is, "SET", yard.broker.keys.of(A, "effects", B), "text"))
    with pytest.raises(BrokerError, match="another type"):
        yard.move()
    assert yard.finish(A) == ["a"]


@pytest.mark.parametrize("frozen", range(1, STEPS))
def test_a_frozen_mover_that_continues_brings_nothing_back(yard, frozen):
    """Others have moved the job, it ran and was forgotten: what the frozen one delivers was taken before."""
    yard.enqueue("a")
    plan, reply = yard.steps(yard.broker.move(A, B), frozen)
    yard.move()
    yard.sweep()
    assert yard.finish() == ["a"]
    yard.run(plain(as_is, "DEL", yard.broker.keys.of(B, "job", "a"), yard.broker.keys.of(B, "finished")))
    yard.go_on(plan, reply)
    yard.sweep()
    assert yard.finish() + yard.finish(A) == []
    assert (yard.counts(A), yard.counts(B), yard.undelivered()) == (EMPTY, EMPTY, [0, 0])


@pytest.mark.parametrize("asked", range(STEPS + 1))
@pytest.mark.parametrize("queue", [A, B])
def test_a_cancel_on_the_way_counts(yard, asked, queue):
    """At any step, by its name in either queue: where the answer is not `missing`, the job never runs."""
    yard.enqueue("a")
    plan, reply = yard.steps(yard.broker.move(A, B), asked)
    answer = yard.run(yard.broker.cancel(queue, "a"))
    with contextlib.suppress(StopIteration):
        yard.go_on(plan, reply)
    yard.move()
    yard.sweep()
    ran = yard.finish(A) + yard.finish(B)
    assert ran == (["a"] if answer == "missing" else [])
    if answer != "missing":
        held = yard.job("a") or yard.job("a", A)
        assert held.status == "canceled"
    assert yard.undelivered() == [0, 0]
