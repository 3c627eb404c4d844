"""Tasks that an operator or a file suspends: their jobs are held, whoever claims, until that is over."""

import pytest

from fusiond.broker.call import as_is, plain
from fusiond.broker.records import NewJob, Outcome, TaskLimit
from tests.broker.test_held_tasks import HOUR, Caller, Place
from tests.broker.test_operator import interrupted
from tests.support.running import until


@pytest.fixture
def place(run, broker, redis):
    place = Place(run, broker, redis)
    run(broker.declare(["q"]))
    # both have the task
    place.old = Caller(place, "old", {"t", "n"})
    return place


def suspend(place, on=True):
    return place.run(place.broker.suspend_task("n", on=on, who="kim@box"))


def test_its_jobs_are_held_and_come_back_at_their_place(place):
    """Others of the queue pass them; no claim takes one, known version or not; resumed, each has its old place."""
    place.enqueue("a", "b")
    before = place.row()
    assert suspend(place)
    place.enqueue("c", task="t")
    assert place.new.claim(9) == ["c"]
    assert place.new.claim(9) == place.old.claim(9) == place.old.claim(9) == []
    assert (place.statuses("a", "b"), place.is_sound()) == (["held"] * 2, True)
    place.enqueue("later")
    assert not suspend(place, on=False)
    assert place.new.claim(0) == []
    assert place.new.claim(9) == ["a", "b", "later"]
    assert place.redis("ZRANGE", "test:{q}:held", 0, -1) == []
    assert before[0] == b"a"
    assert place.is_sound()


def test_no_enqueue_gives_one_to_a_dispatcher_that_waits(place):
    """The token that was left before does not count, and none is left meanwhile."""
    place.new.claim(1, reservation="early")
    suspend(place)
    place.enqueue("a")
    assert place.statuses("a") == ["queued"]
    assert place.new.claim(1, reservation="late") == []
    place.enqueue("b")
    assert place.new.claim(1) == []
    assert place.statuses("a", "b") == ["held"] * 2


def test_what_runs_goes_on_and_what_comes_back_is_held(place):
    """A retry that comes due, and a job that is released."""
    place.enqueue("a", "b", "c")
    assert place.new.claim(3) == ["a", "b", "c"]
    suspend(place)
    kinds = {"a": ("finished", HOUR), "b": ("retry", HOUR), "c": ("released", 0)}
    outcomes = [Outcome(name, place.new.token, kind, ms) for name, (kind, ms) in kinds.items()]
    assert place.run(place.broker.settle("q", outcomes)) == [1, 1, 1]
    place.redis("ZADD", "test:{q}:scheduled", 0, "b")
    assert place.new.claim(9) == []
    assert place.statuses("a", "b", "c") == ["finished", "held", "held"]


def test_held_ones_do_not_fail_for_want_of_a_daemon(place):
    """Whatever the sweep sees, they stay; from the resume on `fail_after` counts."""
    place.enqueue("a")
    suspend(place)
    place.new.claim(1)
    for groups in ([{"t"}], [{"t", "n"}]):
        assert [each[:4] for each in place.look(*groups, fail_after=0)] == [("n", 1, -1, "")]
    (held,) = place.look({"t"}, fail_after=0)
    for what in ("fail", "go"):
        assert place.run(place.broker.end_held("q", held._replace(what=what), 0, 0)) == [0, -1]
    suspend(place, on=False)
    assert [each.what for each in place.look({"t", "n"})] == ["go"]


def test_they_expire_are_canceled_and_count_for_the_length(place):
    """As all jobs that wait."""
    suspend(place)
    place.enqueue("a", "b", "c")
    place.enqueue("short", expires_ms=1)
    assert place.new.claim(9) == []
    assert place.run(place.broker.cancel("q", "a")) == "canceled"

    def expires():
        """A claim may come within the millisecond that the job has."""
        place.redis("ZADD", "test:{q}:again", 0, "xshort")
        place.new.claim(1)
        return place.statuses("short") == ["failed"]

    until(expires)
    place.run(place.broker.configure("q", tasks={}, max_length=2))
    assert place.run(place.broker.enqueue("q", [NewJob("d", "t", b"[]")])) == ["full"]
    assert place.statuses("a", "b", "c") == ["canceled", "held", "held"]
    assert place.is_sound()


def test_operator_and_file_are_apart_and_new_queues_obey(place):
    """Neither undoes what the other has said; the file's list is as a whole."""
    by_file = lambda *tasks: place.run(place.broker.suspend_tasks("q", tasks, by="file", on=None))  # noqa: E731
    named = lambda queue="q": {each.task: each.what for each in place.run(place.broker.counts(queue)).held_tasks}  # noqa: E731
    suspend(place)
    by_file("n", "t")
    assert named() == {"n": "operator", "t": "file"}
    assert suspend(place, on=False)
    assert named() == {"n": "file", "t": "file"}
    by_file("t")
    assert named() == {"t": "file"}
    by_file()
    suspend(place)
    place.run(place.broker.declare(["new"]))
    assert (named(), named("new")) == ({"n": "operator"}, {"n": "operator"})


def test_a_limit_of_the_task_holds_none_for_others_meanwhile(place):
    """Those that the limit held are held for the task once they may run; resumed, the limit counts as before."""
    place.run(place.broker.configure("q", tasks={"n": (1, None)}, limits={"n": TaskLimit((), 1)}))
    place.enqueue("a", "b", "c")
    assert place.new.claim(3) == ["a"]
    token = place.new.token
    suspend(place)
    place.run(place.broker.settle("q", [Outcome("a", token, "finished", HOUR)]))
    for _ in range(3):
        assert place.new.claim(3) == []
    assert (place.statuses("b", "c"), place.is_sound()) == (["held"] * 2, True)
    suspend(place, on=False)
    assert place.new.claim(3) == ["b"]
    place.run(place.broker.settle("q", [Outcome("b", place.new.token, "finished", HOUR)]))
    assert place.new.claim(3) == ["c"]
    assert place.is_sound()


def test_a_queue_that_is_declared_meanwhile_obeys(place):
    """Whatever step of the declaration the suspension comes behind."""
    steps = 0
    while True:
        place.redis("FLUSHALL")
        suspend_it = place.broker.suspend_task("n", on=True)
        if not interrupted(place.run, place.broker.declare(["new"]), steps, suspend_it):
            break
        assert [each.what for each in place.run(place.broker.counts("new")).held_tasks] == ["operator"], steps
        steps += 1
    assert steps >= 4


def test_without_one_the_name_is_dropped_again(place):
    """So the queue's claims and enqueues are as fast as before."""
    suspend(place)
    assert [each.task for each in place.look({"t", "n"})] == ["n"]
    suspend(place, on=False)
    assert place.look({"t", "n"}) == []
    assert not place.run(plain(as_is, "HEXISTS", "test:{q}:conf", "held_tasks"))
