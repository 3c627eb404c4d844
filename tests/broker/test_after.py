"""Jobs that wait for others: when they run, when they fail, and who tells them."""

import json
import time

import pytest

from fusiond.broker.records import NewJob, Outcome
from fusiond.callbacks import follow_text
from fusiond.enqueue_options import Options, encoded_options, waiting_for
from fusiond.errors import EnqueueError
from fusiond.job import JobStatus, new_token
from tests.support.queue_state import findings

HOUR = 3_600_000


@pytest.fixture
def story(run, broker):
    return Story(run, broker)


class Story:
    """Parents in the queue `p`, and jobs in `q` that wait for them."""

    def __init__(self, run, broker):
        self.run, self.broker = run, broker

    def parents(self, *ids):
        self.run(self.broker.enqueue("p", [NewJob(id_, "t", b"[[],{}]") for id_ in ids]))

    def wait(self, id_="c", *parents, join="all", rule="fail", queue="q", **options):
        after = waiting_for(Options(after=parents, join=join, on_parent_failure=rule))
        job = NewJob(id_, "t", b"[[1],{}]", after=after, **options)
        stored = self.run(self.broker.enqueue(queue, [job]))
        self.deliver(queue)
        return stored

    def deliver(self, *queues):
        for queue in queues or ("p", "q"):
            self.run(self.broker.deliver(queue))

    def begin(self, *ids, queue="p"):
        token = new_token()
        asked = {"dispatcher": token, "nonce": token, "lease_ms": HOUR, "max_rescues": 2}
        claimed = {job.id.decode() for job in self.run(self.broker.claim(queue, 9, **asked)).jobs}
        assert claimed >= set(ids)
        return token

    def end(self, token, queue="p", **kinds):
        outcomes = [Outcome(id_, token, kind, HOUR, 0, b'{"code":"X"}') for id_, kind in kinds.items()]
        self.run(self.broker.settle(queue, outcomes))
        self.deliver()

    def status(self, id_="c", queue="q"):
        return self.run(self.broker.status(queue, id_))

    def code(self, id_="c", queue="q"):
        error = self.run(self.broker.job(queue, id_)).error
        return error and json.loads(error)["code"]


CASES = [
    # join, on_parent_failure, how the parents end → the job's status after each end
    ("all", "fail", ["finished", "finished"], ["deferred", "queued"]),
    # No end.
    ("all", "fail", ["retry"], ["deferred"]),
    ("all", "fail", ["finished", "failed"], ["deferred", "failed"]),
    ("all", "fail", ["canceled", "finished"], ["failed", "failed"]),
    ("all", "run", ["failed", "canceled"], ["deferred", "queued"]),
    ("any", "fail", ["failed", "finished"], ["deferred", "queued"]),
    ("any", "fail", ["failed", "failed"], ["deferred", "failed"]),
    ("any", "run", ["failed", "finished"], ["queued", "queued"]),
    (2, "fail", ["finished", "failed", "finished"], ["deferred", "deferred", "queued"]),
    (2, "fail", ["failed", "failed", "finished"], ["deferred", "failed", "failed"]),
]


@pytest.mark.parametrize(("join", "rule", "kinds", "statuses"), CASES)
def test_join_and_on_parent_failure(story, join, rule, kinds, statuses):
    """The job runs once enough parents have ended well, and fails once they no longer can."""
    ids = "abc"[: len(kinds)]
    story.parents(*ids)
    story.wait("c", *(f"p/{id_}" for id_ in ids), join=join, rule=rule)
    token = story.begin(*ids)
    for id_, kind, status in zip(ids, kinds, statuses, strict=True):
        story.end(token, **{id_: kind})
        assert story.status() == status
    assert story.code() == ("PARENT_FAILED" if statuses[-1] == "failed" else None)


def test_parents_that_have_ended_or_are_gone(story):
    """One that has finished counts at once, one that nobody knows counts as failed."""
    story.parents("a")
    story.end(story.begin("a"), a="finished")
    story.wait("c", "p/a")
    assert story.status() is JobStatus.QUEUED
    story.wait("d", "p/a", "p/never")
    assert (story.status("d"), story.code("d")) == (JobStatus.FAILED, "PARENT_MISSING")
    story.wait("e", "p/never", rule="run")
    assert story.status("e") is JobStatus.QUEUED


def test_a_chain_fails_to_its_end(story):
    """Each job that fails for its parent is a parent itself, and its own callbacks are called."""
    story.parents("a")
    follow = follow_text({"on_failure": {"queue": "told", "task": "page", "priority": 1}})
    story.wait("c", "p/a", follow=follow)
    story.wait("d", "q/c")
    story.wait("e", "q/d", "p/a", rule="run")
    story.end(story.begin("a"), a="failed")
    assert [story.code(id_) for id_ in "cd"] == ["PARENT_FAILED", "PARENT_FAILED"]
    assert story.status("e") is JobStatus.QUEUED
    assert len(story.run(story.broker.jobs("told", JobStatus.QUEUED))) == 1


def test_a_job_that_waits_is_canceled(story, redis):
    """What its parents say later changes nothing; a requeue runs it, whatever they do."""
    story.parents("a")
    story.wait("c", "p/a")
    assert story.run(story.broker.cancel("q", "c")) == "canceled"
    assert not redis("EXISTS", "test:{q}:parents:c")
    story.end(story.begin("a"), a="finished")
    assert story.status() is JobStatus.CANCELED
    assert story.run(story.broker.requeue("q", ["c"])) == [1]
    assert story.status() is JobStatus.QUEUED


def test_a_job_that_waits_expires_at_a_sweep(story):
    """It has not begun in time, whatever it waited for."""
    story.parents("a")
    story.wait("c", "p/a", expires_ms=0)
    story.run(story.broker.sweep("q"))
    assert story.code() == "EXPIRED"


def test_a_delay_begins_at_the_enqueue(story):
    """A parent that ends before it is over leaves the job scheduled."""
    story.parents("a")
    story.wait("c", "p/a", delay_ms=HOUR)
    story.end(story.begin("a"), a="finished")
    job = story.run(story.broker.job("q", "c"))
    assert job.status is JobStatus.SCHEDULED
    assert job.due_at < time.time() * 1000 + HOUR


def test_a_repeated_enqueue_stores_and_asks_once(story, redis):
    """The producer did not hear the first reply."""
    story.parents("a")
    assert story.wait("c", "p/a") == ["stored"]
    assert story.wait("c", "p/a") == ["same"]
    assert redis("LLEN", "test:{p}:children:a") == 1


def test_a_job_that_waits_for_others_does_not_count_towards_the_maximum(story):
    """Neither when it comes nor while it waits; nor is one that a unique job replaces."""
    story.run(story.broker.configure("q", tasks={}, max_length=1))
    story.parents("a")
    assert [story.wait(id_, "p/a") for id_ in ("b", "c")] == [["stored"]] * 2
    ready = [NewJob(id_, "t", b"[[],{}]") for id_ in ("d", "e")]
    assert story.run(story.broker.enqueue("q", ready[:1])) == ["stored"]
    assert story.wait("f", "p/a") == ["stored"]
    assert story.wait("g", "p/a", unique="ended,replace,0,") == ["stored"]
    assert story.wait("h", "p/a", unique="ended,replace,0,") == ["stored"]
    assert story.run(story.broker.enqueue("q", ready[1:])) == ["full"]


def test_a_parent_that_moves_takes_its_children_along(story):
    """They know it by its old name, and are told by its new queue."""
    story.parents("a")
    story.wait("c", "p/a")
    story.run(story.broker.move("p", "r"))
    story.deliver("p")
    token = story.begin("a", queue="r")
    story.end(token, "r", a="finished")
    story.deliver("r")
    assert story.status() is JobStatus.QUEUED


def test_a_fan_in_and_a_fan_out_take_linear_time(story, redis):
    """Ten times as many jobs make Redis do ten times as much."""
    assert spread(story, redis, 500, "large") < 11 * spread(story, redis, 50, "small")


def spread(story, redis, count, name):
    """The commands that Redis carries out for so many children of one parent, and one child of these."""
    redis("CONFIG", "RESETSTAT")
    children = [f"{name}{number}" for number in range(count)]
    story.parents(name)
    after = waiting_for(Options(after=[f"p/{name}"]))
    story.run(story.broker.enqueue("q", [NewJob(id_, "t", b"[[],{}]", after=after) for id_ in children]))
    story.deliver("q")
    story.wait("join-" + name, *(f"q/{id_}" for id_ in children))
    story.end(story.begin(name), **{name: "finished"})
    token = new_token()
    asked = {"dispatcher": token, "nonce": token, "lease_ms": HOUR, "max_rescues": 2}
    assert len(story.run(story.broker.claim("q", count + 1, **asked)).jobs) == count
    story.end(token, "q", **dict.fromkeys(children, "finished"))
    assert story.status("join-" + name) is JobStatus.QUEUED
    story.run(story.broker.cancel("q", "join-" + name))
    return sum(int(line.split(b"=")[1].split(b",")[0]) for line in redis("INFO", "commandstats").splitlines()[1:])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"after": ["nothing"]}, "queue/id"),
        ({"after": 5}, "not a list"),
        ({"after": ["p/a"], "join": 2}, "from 1 to 1"),
        ({"after": ["p/a"], "join": "most"}, "neither 'all' nor 'any'"),
        ({"after": ["p/a"], "on_parent_failure": "no"}, "neither 'fail' nor 'run'"),
        ({"join": "any"}, "`after` only"),
    ],
)
def test_what_cannot_be_waited_for_is_refused(options, sentence):
    """At the call, with what is wrong."""
    with pytest.raises(EnqueueError, match=sentence):
        encoded_options(Options(**options))


def test_it_is_known_for_whom_a_job_waits(story):
    """How many must still end well, and which have not ended."""
    story.parents("a", "b", "d")
    story.wait("c", "p/a", "p/b", "p/d", join=2)
    story.end(story.begin("a", "b", "d"), a="finished")
    assert story.run(story.broker.parents("q", "c")) == (1, ["p/b", "p/d"])


def test_a_unique_job_that_waits_for_others_is_replaced(story, redis):
    """It is canceled, and a place in the row is not left by that: it had none."""
    story.parents("a")
    story.wait("one", "p/a", unique="ended,replace,0,x", expires_ms=HOUR)
    story.run(story.broker.configure("q", tasks={}, max_length=1))
    story.run(story.broker.enqueue("q", [NewJob("other", "t", b"[[],{}]")]))
    two = NewJob("two", "t", b"[[],{}]", unique="ended,replace,0,x")
    assert story.run(story.broker.enqueue("q", [two])) == ["full"]
    assert story.run(story.broker.cancel("q", "other")) == "canceled"
    assert story.run(story.broker.enqueue("q", [two])) == ["stored"]
    assert (story.status("one"), story.status("two")) == (JobStatus.CANCELED, JobStatus.QUEUED)
    assert not redis("EXISTS", "test:{q}:parents:one", "test:{q}:expiring", "test:{q}:deferred")
    story.end(story.begin("a"), a="finished")
    assert story.status("one") is JobStatus.CANCELED
    assert story.run(findings(story.broker, "q")) == []
