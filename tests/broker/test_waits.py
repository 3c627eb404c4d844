"""fsck and jobs that wait for others: what can never go on is found, and repaired; what is on its way is left alone."""

import json

import pytest

from fusiond.broker.maintenance.waits import WaitFsck
from fusiond.broker.records import NewJob, Outcome
from fusiond.job import JobStatus

HOUR = 3_600_000


@pytest.fixture
def place(run, broker, redis):
    return Place(run, broker, redis)


class Place:
    """Parents in the queue `p`, and jobs in `q` that wait for them."""

    def __init__(self, run, broker, redis):
        self.run, self.broker, self.redis = run, broker, redis
        run(broker.declare(["p", "q", "other"]))

    def store(self, queue="q", deliver=True, **jobs):
        """Job → what it waits for, as `after` of a NewJob."""
        made = [NewJob(id_, "t", b"[[],{}]", after=after or None) for id_, after in jobs.items()]
        self.run(self.broker.enqueue(queue, made))
        if deliver:
            self.deliver()

    def deliver(self):
        for queue in ("q", "p"):
            self.run(self.broker.deliver(queue))

    def finish(self, id_):
        self.run(self.broker.claim("p", 1, dispatcher="d", nonce="n", lease_ms=HOUR, max_rescues=0))
        self.run(self.broker.settle("p", [Outcome(id_, "n", "finished", HOUR, 0, b"1")]))

    def findings(self, *, repair=False):
        found = []
        fsck = WaitFsck(self.broker, ["p", "q", "other"], found.append, repair=repair)
        for queue in ("p", "q"):
            self.run(fsck.queue(queue))
        self.run(fsck.circles())
        return [str(finding) for finding in found]

    def repair(self):
        """Twice: the second one finds nothing."""
        found = self.findings(repair=True)
        self.deliver()
        assert self.findings() == []
        return found

    def stands(self, id_):
        record = self.run(self.broker.job("q", id_))
        return json.loads(record.error)["code"] if record.error else record.status


def test_what_is_on_its_way_is_left_alone(place):
    """The question to a parent, its answer, a parent that runs, one that was moved."""
    place.store("p", a="", b="")
    place.store(deliver=False, c="0 0 p/a p/b")
    assert place.findings() == []
    place.deliver()
    assert place.findings() == []
    place.finish("a")
    assert place.findings() == []
    place.run(place.broker.move("p", "other"))
    assert place.findings() == []
    assert place.stands("c") is JobStatus.DEFERRED


def test_a_parent_that_was_lost_counts_as_failed(place):
    """So does one whose name can be none; what waits for any of them goes on."""
    place.store("p", a="", b="")
    place.store(c="0 0 p/a", d="1 0 p/a p/b", e="0 1 p/a")
    place.redis("DEL", "test:{p}:job:a", "test:{p}:children:a")
    place.redis("ZREM", "test:{p}:queue", "a")
    assert [finding.rpartition(" waits for ")[2] for finding in place.repair()] == ["job p/a, which is gone"] * 3
    assert [place.stands(id_) for id_ in "cde"] == ["PARENT_MISSING", JobStatus.DEFERRED, JobStatus.QUEUED]


def test_a_parent_that_does_not_know_of_the_job_is_asked_again(place):
    """And one that ended without telling has its end told."""
    place.store("p", a="")
    place.store(c="0 0 p/a")
    place.redis("DEL", "test:{p}:children:a")
    assert place.repair() == ["job q/c waits for job p/a, which does not know of it"]
    place.finish("a")
    place.redis("DEL", "test:{p}:outbox:q")
    assert place.repair() == ["job q/c waits for job p/a, which is finished, which it was not told"]
    assert place.stands("c") is JobStatus.QUEUED


def test_a_job_of_which_nothing_says_for_whom_it_waits_fails(place):
    """What it waited for may never come."""
    place.store("p", a="")
    place.store(c="0 0 p/a")
    place.redis("DEL", "test:{q}:parents:c")
    assert place.repair() == ["job q/c waits for others, and nothing says for which"]
    assert place.stands("c") == "PARENT_MISSING"


def test_the_jobs_of_a_circle_fail(place):
    """One that waits for itself, too; what waits for them fails in turn."""
    place.store(a="0 0 q/c", b="0 0 q/a", c="0 0 q/b", own="0 1 q/own", behind="0 0 q/c")
    found = place.repair()
    assert len(found) == 4
    assert "waits for a job that waits for it: q/own -> q/own" in " ".join(found)
    assert [place.stands(id_) for id_ in ("a", "b", "c", "own")] == ["PARENT_CIRCLE"] * 4
    assert place.stands("behind") == "PARENT_FAILED"
