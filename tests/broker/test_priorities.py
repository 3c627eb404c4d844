"""`prioritize`: jobs that wait get another priority, whatever they wait for."""

import json

import pytest

from fusiond.broker.records import NewJob, Outcome, TaskLimit
from fusiond.job import new_token
from tests.support.queue_state import findings

HOUR = 3_600_000
LOW, HIGH = 1, 200
CHANGED, SAME, RUNS, ENDED, MISSING = 1, 2, 3, 4, 0


@pytest.fixture
def row(run, broker, redis):
    return Row(run, broker, redis)


class Row:
    """A queue, driven by hand; at the end of each test it is as fsck wants it."""

    def __init__(self, run, broker, redis):
        self.run, self.broker, self.redis = run, broker, redis

    def configure(self, **more):
        self.run(self.broker.configure("q", tasks={"t": (LOW, None)}, **more))

    def add(self, *names, priority=LOW, args=b"[[],{}]", **options):
        jobs = [NewJob(name, "t", args, priority, **options) for name in names]
        assert set(self.run(self.broker.enqueue("q", jobs))) == {"stored"}

    def prioritize(self, *names, priority=HIGH):
        return self.run(self.broker.prioritize("q", names, priority, who="kim@box"))

    def claim(self, want=9):
        """Their token, and the next ones in their order."""
        token = new_token()
        claim = self.broker.claim("q", want, dispatcher="d", nonce=token, lease_ms=HOUR, max_rescues=9)
        return token, [job.id.decode() for job in self.run(claim).jobs]

    def settle(self, name, token, kind, **more):
        self.run(self.broker.settle("q", [Outcome(name, token, kind, **more)]))

    def is_clean(self):
        return self.run(findings(self.broker, "q")) == []

    def record(self, name):
        return self.run(self.broker.job("q", name))


def test_a_claim_takes_them_first_in_the_order_in_which_they_came(row):
    """Among those of the priority, each keeps the place of its arrival, in whatever order they are named."""
    row.add("a", "b")
    row.add("high", priority=HIGH)
    row.add("c", "d")
    assert row.prioritize("d", "b") == [CHANGED, CHANGED]
    assert (row.record("b").priority, row.is_clean()) == (HIGH, True)
    assert row.claim()[1] == ["b", "high", "d", "a", "c"]


def test_a_repeat_changes_nothing_and_what_cannot_wait_is_refused(row):
    """Each for itself: one that runs, one that has ended, and one that is not there."""
    row.add("runs", "ended")
    token, _ = row.claim()
    row.settle("ended", token, "finished")
    row.add("a")
    assert row.prioritize("runs", "a", "ended", "none") == [RUNS, CHANGED, ENDED, MISSING]
    assert row.prioritize("a") == [SAME]
    assert (row.record("runs").priority, row.record("ended").priority, row.is_clean()) == (LOW, LOW, True)


def test_one_that_was_released_has_the_priority_in_its_text_too(row):
    """There the score of the earlier claim was, by which fsck queues a job that is in no set."""
    row.add("a")
    token, _ = row.claim()
    row.settle("a", token, "released")
    assert row.prioritize("a") == [CHANGED]
    row.redis("ZREM", "test:{q}:queue", "a")
    assert row.run(findings(row.broker, "q", repair=True))
    assert (row.record("a").status, row.record("a").priority) == ("queued", HIGH)


@pytest.mark.parametrize("options", [{"delay_ms": HOUR}, {"after": "0 1 q/parent"}])
def test_one_that_is_not_ready_yet_has_it_when_it_is(row, options):
    """Scheduled, or waiting for another job: it comes behind those of the priority that came before."""
    row.add("parent")
    token, _ = row.claim()
    row.add("late", **options)
    row.run(row.broker.deliver("q"))
    assert row.prioritize("late") == [CHANGED]
    assert (row.record("late").priority, row.is_clean()) == (HIGH, True)
    row.add("low")
    row.add("high", priority=HIGH)
    row.redis("ZADD", "test:{q}:scheduled", "XX", 0, "late")
    row.settle("parent", token, "finished")
    row.run(row.broker.deliver("q"))
    assert row.claim()[1] == ["high", "late", "low"]


def test_among_those_that_a_limit_holds_it_goes_first(row):
    """The set of its key has the new place, too."""
    row.configure(limits={"t": TaskLimit((), 1)})
    row.add("a", "b", "c")
    token, claimed = row.claim()
    assert (claimed, row.prioritize("c"), row.is_clean()) == (["a"], [CHANGED], True)
    row.settle("a", token, "finished")
    assert row.claim()[1] == ["c"]


def test_among_those_of_a_task_that_the_host_lacks_it_goes_first(row):
    """They are held by their task; the claim of a host that has it takes the best one."""
    row.add("a", "b", "c")
    row.settle("a", row.claim(1)[0], "unknown", payload=b"{}")
    row.run(row.broker.claim("q", 9, dispatcher="d", nonce="n", lease_ms=HOUR, max_rescues=9, has=""))
    assert [row.record(name).status for name in "abc"] == ["held"] * 3
    assert (row.prioritize("c"), row.is_clean()) == ([CHANGED], True)
    version = row.redis("HGET", "test:{q}:conf", "held_tasks").split()[0].decode()
    claim = row.broker.claim("q", 1, dispatcher="d", nonce="m", lease_ms=HOUR, max_rescues=9, has=f"{version} t")
    assert [job.id for job in row.run(claim).jobs] == [b"c"]


def test_with_turns_it_gets_the_next_turn_of_its_tenant(row):
    """One that has many jobs does not pass the others of the priority with all of them."""
    row.configure(fair_by=("kwargs.of",))
    of = {tenant: json.dumps([[], {"of": tenant}]).encode() for tenant in "ab"}
    row.add("a1", "a2", "a3", args=of["a"])
    row.add("b1", args=of["b"])
    row.add("b2", "b3", args=of["b"], priority=HIGH)
    assert row.prioritize("a2", "a3") == [CHANGED, CHANGED]
    assert row.is_clean()
    assert row.claim()[1] == ["a2", "b2", "a3", "b3", "a1", "b1"]
