"""Jobs that are held for their task, since not every dispatcher of their queue can run it."""

import dataclasses
import json

import pytest

from fusiond.broker.hosts.host_records import NO_CATALOGUE
from fusiond.broker.maintenance.held_verbs import STEP
from fusiond.broker.records import NewJob, Outcome, TaskLimit, undeclared
from fusiond.job import JobStatus, new_token
from tests.support.job_text import change_job
from tests.support.queue_state import findings

HOUR = 3_600_000
ERROR = b'{"code":"TASK_NOT_FOUND","type":"","message":"no","traceback":""}'


class Caller:
    """A dispatcher, driven by hand, whose file has some of the tasks."""

    def __init__(self, place, name, tasks):
        self.place, self.name, self.tasks, self.said = place, name, tasks, ""

    def claim(self, want=1, **more):
        """One claim; the names of the jobs."""
        self.token = new_token()
        version, *named = self.said.split() or [""]
        has = " ".join([version, *(task for task in named if task in self.tasks)])
        options = {"lease_ms": HOUR, "max_rescues": 2, "few": (want, ()), "has": has, **more}
        self.last = self.place.run(
            self.place.broker.claim("q", want, dispatcher=self.name, nonce=self.token, **options)
        )
        if self.last.held_tasks is not None:
            self.said = self.last.held_tasks
        return [job.id.decode() for job in self.last.jobs]

    def refuse(self, error=ERROR):
        """Give back what it claimed last: it cannot run the task."""
        outcomes = [Outcome(job.id, self.token, "unknown", HOUR, 0, error, "unknown task") for job in self.last.jobs]
        assert set(self.place.run(self.place.broker.settle("q", outcomes))) == {1}


class Place:
    """A queue with two dispatchers: `old` knows task t, `new` also task n."""

    def __init__(self, run, broker, redis):
        self.run, self.broker, self.redis = run, broker, redis
        self.old, self.new = Caller(self, "old", {"t"}), Caller(self, "new", {"t", "n"})

    def enqueue(self, *names, task="n", **options):
        self.run(self.broker.enqueue("q", [NewJob(name, task, b"[[],{}]", **options) for name in names]))

    def hold(self, *names, **options):
        """Jobs of task n that `old` has found."""
        self.enqueue(*names, **options)
        self.old.claim(len(names))
        self.old.refuse()

    def row(self):
        return self.redis("ZRANGE", "test:{q}:queue", 0, -1, "WITHSCORES")

    def statuses(self, *names):
        return [self.run(self.broker.status("q", name)) for name in names]

    def look(self, *groups, fail_after=HOUR):
        """What the sweep is to do, while groups that have these tasks claim from the queue."""
        catalogue = dataclasses.replace(NO_CATALOGUE, groups=[(("q",), frozenset(tasks)) for tasks in groups])
        return self.run(self.broker.look_at_held_tasks("q", catalogue, fail_after))

    def is_sound(self):
        return self.run(findings(self.broker, "q")) == []


@pytest.fixture
def place(run, broker, redis):
    return Place(run, broker, redis)


def test_a_job_of_an_unknown_task_is_held_until_a_dispatcher_has_it(place):
    """At its old place, no attempt burnt; the one that lacks the task gets none of its jobs, then or later."""
    place.hold("a")
    before = place.redis("ZSCORE", "test:{q}:held", "a")
    place.enqueue("b", "c")
    assert place.old.claim(5) == []
    assert place.statuses("a", "b", "c") == ["held"] * 3
    assert place.is_sound()
    assert place.new.claim(5) == []
    assert place.new.last.more
    assert place.new.claim(5) == ["a", "b", "c"]
    record = place.run(place.broker.job("q", "a"))
    assert (record.attempts, record.last_outcome, record.limit) == (1, "unknown task", "")
    place.run(place.broker.settle("q", [Outcome("a", place.new.token, "released", 0)]))
    assert place.row() == [b"a", before]
    assert place.is_sound()


def test_other_jobs_do_not_wait_behind_held_ones(place):
    """A thousand of them lie in front of a job whose task is known: it comes within four claims."""
    place.hold("first")
    place.enqueue(*(f"n{n}" for n in range(1000)))
    place.enqueue("known", task="t")
    found = [place.old.claim(1) for _ in range(4)]
    assert ["known"] in found[:4]
    assert place.run(place.broker.counts("q")).held == 1001


def test_held_jobs_keep_their_order_among_the_others(place):
    """By priority, then by arrival, whatever has been held and came back."""
    place.hold("held", "later")
    place.enqueue("urgent", task="t", priority=9)
    place.enqueue("last", task="t")
    place.new.claim(0)
    assert [place.new.claim(1) for _ in range(4)] == [["urgent"], ["held"], ["later"], ["last"]]
    assert not place.new.last.more


def test_who_has_the_task_takes_back_no_more_than_it_wants(place):
    """The others stay held: who lacks the task must not find them in the row again."""
    place.hold(*(f"n{n}" for n in range(9)))
    place.new.claim(1)
    assert place.new.claim(2) == ["n0", "n1"]
    assert place.new.last.more
    assert place.row() == []


def test_who_can_run_some_jobs_of_a_task_gets_so_many(place):
    """Whether they are held or wait in front; the rest is held then, and others pass it."""
    place.hold("a", "b")
    place.enqueue("c", "d")
    place.enqueue("t", task="t")
    place.new.claim(0)
    place.new.tasks = {"n=3", "t"}
    place.new.said = place.new.said.replace(" n ", " n=3 ")
    assert place.new.claim(5) == ["a", "b", "c", "t"]
    assert place.statuses("d") == ["held"]
    assert not place.new.last.more
    assert place.is_sound()


@pytest.mark.parametrize("held", [True, False])
def test_what_a_pool_refuses_is_as_if_it_had_not_been_claimed(held, place):
    """At its place; nothing is counted, and its history does not tell of it. A repeat of that changes nothing."""
    place.enqueue("a", "b")
    before = place.row()
    place.new.claim()
    refused = [Outcome("a", place.new.token, "refused", int(held))]
    assert [place.run(place.broker.settle("q", refused)) for _ in range(2)] == [[1], [2]]
    record = place.run(place.broker.job("q", "a"))
    assert (record.status, record.attempts, record.history) == ("held" if held else "queued", 0, ())
    assert place.is_sound()
    if held:
        place.new.claim(0)
        place.new.claim(0)
        place.new.claim(2)
    else:
        assert place.row() == before


def test_a_dispatcher_that_waits_is_woken_by_the_first_held_job(place):
    """It may have the task: the job begins at once there, and not at the next poll."""
    place.enqueue("a")
    place.old.claim()
    place.new.claim(2, reservation="token")
    assert place.redis("EXISTS", "test:{q}:wake") == 1
    place.old.refuse()
    assert place.redis("EXISTS", "test:{q}:wake") == 0
    place.new.claim(2), place.new.claim(2), place.new.claim(2, reservation="token")
    assert place.redis("GET", "test:{q}:wake") == b"1", "a wake-up must not carry a job to who may lack its task"
    place.enqueue("b")
    assert place.redis("EXISTS", "test:{q}:wake") == 0


def test_what_is_said_of_a_claim_that_is_lost_is_said_again(place):
    """A repeat gives the same jobs; the next claim tells of the held tasks once more."""
    place.hold("a")
    version, said = place.new.said, place.new.claim(2)
    assert said == []
    place.new.said = version
    place.new.claim(2)
    assert place.new.last.held_tasks.split()[1:] == ["n"]
    assert place.new.claim(2) == ["a"]


def test_a_held_job_is_canceled_replaced_moved_and_counted(place):
    """As any job that waits."""
    place.run(place.broker.configure("q", max_length=4, tasks={"n": (1, None)}))
    place.hold("a", "b")
    place.run(place.broker.enqueue("q", [NewJob("u", "n", b"[[],{}]", unique="ended,replace,0,")]))
    place.old.claim()
    assert place.run(place.broker.enqueue("q", [NewJob(name, "n", b"[]") for name in "xy"])) == ["full", "full"]
    place.run(place.broker.enqueue("q", [NewJob("v", "n", b"[[],{}]", unique="ended,replace,0,")]))
    assert place.run(place.broker.cancel("q", "a")) == "canceled"
    assert place.statuses("a", "b", "u") == ["canceled", "held", "canceled"]
    place.run(place.broker.move("q", "other", limit=9))
    assert place.run(place.broker.status("other", "b")) == "queued"
    assert place.redis("EXISTS", "test:{q}:held", "test:{q}:held:?n", "test:{q}:again") == 0
    assert place.is_sound()


def test_a_job_that_a_limit_had_held_passes_its_turn_on(place):
    """The limit must not wait for a job that is held for its task."""
    limits = {"n": TaskLimit((), 1)}
    place.run(place.broker.configure("q", tasks={"n": (1, None)}, limits=limits))
    place.enqueue("a", "b", "c")
    assert place.new.claim(3) == ["a"]
    place.run(place.broker.settle("q", [Outcome("a", place.new.token, "unknown", HOUR, 0, ERROR)]))
    for _ in range(4):
        place.old.claim(3)
    assert place.redis("ZCARD", "test:{q}:held:?n") == 3
    assert place.redis("EXISTS", "test:{q}:held:n") == 0
    assert place.is_sound()
    place.new.claim(3)
    assert place.new.claim(3) == ["a"]


def test_where_each_group_has_the_task_its_jobs_go_on(place):
    """All of them, in steps, at their old places; then the task has no name any more and costs nothing."""
    place.hold("a")
    place.enqueue(*(f"n{n}" for n in range(STEP)))
    place.old.claim()
    [held] = place.look({"t"}, {"t", "n"})
    assert (held.task, held.jobs, held.ms, held.what) == ("n", STEP + 1, -1, "")
    [held] = place.look({"n"}, {"t", "n"})
    assert held.what == "go"
    assert place.run(place.broker.end_held("q", held, 0, HOUR)) == [STEP, 0]
    assert place.run(place.broker.end_held("q", held, 0, HOUR)) == [1, -1]
    assert place.row()[::2][:2] == [b"a", b"n0"]
    assert place.look({"n"}) == []
    assert place.redis("HKEYS", "test:{q}:conf") == []
    assert place.is_sound()


def test_what_nobody_can_run_fails_after_its_time(place):
    """With the error of the dispatcher that had it; not a job that came later, and none that somebody can run."""
    place.hold("a", "b")
    later = 90 * 60 * 1000
    _age(place, later)
    place.enqueue("new")
    place.old.claim()
    assert [held.what for held in place.look({"t"}, {"n"})] == [""]
    _age(place, later)
    [held] = place.look({"t"})
    assert (held.what, held.jobs) == ("fail", 3)
    change_job(place.run, "test:{q}:job:a", created_at=1)
    assert place.run(place.broker.end_held("q", held, 0, HOUR)) == [1, -1]
    record = place.run(place.broker.job("q", "a"))
    assert (record.status, json.loads(record.error)["message"]) == (JobStatus.FAILED, "no")
    assert place.statuses("b", "new") == ["held", "held"]
    assert [held.what for held in place.look({"t"})] == [""], "the others are not looked at again at once"
    assert place.is_sound()


def test_only_the_time_counts_in_which_the_queue_is_served(place):
    """While no group serves it, or no daemon looks, nobody could have declared the task in time."""
    place.hold("a")
    _age(place, HOUR // 2, looked=HOUR // 2)
    assert [held.what for held in place.look()] == [""]
    _age(place, HOUR // 2 + 1)
    [held] = place.look({"t"}, fail_after=HOUR)
    assert held.what == "", "half an hour did not count"
    _age(place, 1, looked=HOUR)
    assert [held.what for held in place.look({"t"})] == [""], "nor one in which no daemon has looked"


@pytest.mark.parametrize(
    ("code", "message", "said"),
    [
        ("IMPORT_ERROR", "no module shop", "no module shop"),
        ("TASK_NOT_FOUND", "shop.N: is a class", "shop.N: is a class"),
        ("TASK_NOT_FOUND", undeclared("n"), ""),
    ],
)
def test_the_counts_name_the_tasks(place, code, message, said):
    """For `status`: the task, how many, since when, and why the function does not load, if it is declared."""
    place.enqueue("a")
    place.old.claim()
    place.old.refuse(json.dumps({"code": code, "message": message}).encode())
    [held] = place.run(place.broker.counts("q")).held_tasks
    assert (held.task, held.jobs, held.error, held.ms < HOUR) == ("n", 1, said, True)


def test_fsck_repairs_a_held_job_of_which_nothing_tells(place):
    """Its set or the name of its task was deleted by hand: the next claim finds it."""
    place.hold("a", "b")
    place.redis("ZREM", "test:{q}:held:?n", "a")
    place.redis("HDEL", "test:{q}:conf", "held_tasks")
    assert not place.is_sound()
    place.run(place.broker.inspect("q", "keys", [b"a", b"b"], repair=True))
    assert place.is_sound()
    assert place.new.claim(5) == ["a", "b"]


def test_there_is_an_end_to_the_names(place):
    """What writes to Redis may make up thousands of tasks: jobs of further ones come back later."""
    names = " ".join(f"x{n}" for n in range(1000))
    place.redis("HSET", "test:{q}:conf", "held_tasks", f"1 {names} ")
    place.hold("a")
    assert place.statuses("a") == ["scheduled"]


def _age(place, ms, looked=0):
    """As if so much time had passed since the task was named; `looked`: and since a daemon has looked last."""
    since, rest = place.redis("HGET", "test:{q}:conf", "held:n").split(b" ", 1)
    place.redis("HSET", "test:{q}:conf", "held:n", b"%d %b" % (int(since) - ms, rest))
    moment = place.redis("HGET", "test:{q}:conf", "held_looked")
    place.redis("HSET", "test:{q}:conf", "held_looked", int(moment) - looked)
