"""Pools and `max_running`: several dispatchers on one Redis, whose jobs say how many of them run at once."""

import dataclasses
import signal
import time

import pytest

from fusiond.broker.call import as_is, plain
from fusiond.config.model.limits import RateLimit, SharedPool
from tests.chaos.package import SHORT_LEASES, Edit
from tests.support.queue_state import findings
from tests.support.running import until

#: s; until the slots of a dispatcher that was killed are free
KEPT = 4.0
SHORT = (SHORT_LEASES, Edit("worker/dispatcher/claims/pool_slots.py", "KEPT = LEASE + 5.0", f"KEPT = {KEPT}"))
#: who needs much is left slots after 1 s, too
SOON = Edit("broker/lua/pools.lua", "SOON, LATE = 1000, 30000", "SOON, LATE = 1000, 1000")


class Hosts:
    """Dispatchers with one file: tasks that need slots of pool `p`, and one that needs none."""

    def __init__(self, place):
        self.place, self.path = place, place.path()
        self.slots, self.whole, self.needs = SharedPool("p", 2), None, {"one": 1, "once": 1, "all": 5, "none": 0}

    def change(self, config):
        pools = {"p": self.slots} if self.slots else {}
        return dataclasses.replace(config, pools=pools, max_running=self.whole)

    def keys(self):
        tasks = {
            name: {
                "run": "jobs.share_slots",
                "retry": "none" if name == "once" else "single",
                "pools": {"p": need} if need and self.slots else {},
            }
            for name, need in self.needs.items()
        }
        return {"tasks": tasks, "processes": 4, "queues": ("default", "other")}

    def start(self, count=2, **more):
        for call in self.place.broker.declare_pools(self.change(self.place.config())):
            self.place.run(call)
        return [self.place.start(**self.keys(), change=self.change, **more) for _ in range(count)]

    def enqueue(self, task, count, slots=1, seconds=0.02, queue="default"):
        calls = [(task, self.path, slots, seconds) for _ in range(count)]
        return self.place.enqueue_many(calls, queue)

    def peak(self):
        return max(int(line) for line in self.place.lines(self.path))

    def uses(self):
        return self.place.run(self.place.broker.pool_uses())

    def until_ended(self, ids, queue="default", timeout=60):
        for id_ in ids:
            self.place.until(id_, queue=queue, timeout=timeout)


@pytest.fixture
def hosts(place):
    return Hosts(place)


def test_no_more_slots_are_held_than_there_are(hosts, place):
    """On all hosts together; a refusal leaves no trace in the job, and jobs of other tasks go on meanwhile."""
    hosts.start()
    ids = hosts.enqueue("one", 30, seconds=0.05) + hosts.enqueue("once", 10, seconds=0.05)
    others = hosts.enqueue("none", 5, slots=0)
    hosts.until_ended([*ids, *others])
    assert hosts.peak() == 2
    jobs = [place.job(id_) for id_ in ids]
    assert {(job.status, job.attempts, job.rescues) for job in jobs} == {("finished", 1, 0)}
    assert not any(job.history for job in jobs)
    until(lambda: hosts.uses()["p"].held == 0, hosts.uses)


def test_who_needs_much_begins_though_others_always_wait(hosts, place):
    """Once it has waited for a while, what it needs is left to it as the others end."""
    hosts.slots = SharedPool("p", 5)
    hosts.start(own=place.edited(SOON))
    small = hosts.enqueue("one", 200, seconds=0.2)
    place.until_lines(hosts.path, 5)
    [much] = hosts.enqueue("all", 1, slots=5, queue="other")
    hosts.until_ended([much], "other")
    assert any(place.status(id_) == "held" for id_ in small)
    assert hosts.peak() == 5


@pytest.mark.parametrize("why", ["suspended", "does not load", "canceled"])
def test_who_cannot_begin_takes_nothing_from_the_others(why, hosts, place):
    """Slots are left to a task only while a job of it waits that may begin."""
    hosts.slots, hosts.needs = SharedPool("p", 1), {"one": 1, "other": 1}
    lost = {"other": {"run": "jobs.no_such_function"}} if why == "does not load" else {}
    keys = hosts.keys()
    keys["tasks"]["other"] |= lost.get("other", {})
    place.start(**keys, change=hosts.change)
    hosts.enqueue("one", 1, seconds=2.0)
    place.until_lines(hosts.path, 1)
    [other] = hosts.enqueue("other", 1)
    place.until(other, "held")
    ids = hosts.enqueue("one", 30, seconds=0.1)
    if why == "suspended":
        place.run(place.broker.suspend_tasks("default", ["other"], by="operator", on=True))
    if why == "canceled":
        place.cancel(other)
    hosts.until_ended(ids, timeout=25)
    assert place.status(other) == ("canceled" if why == "canceled" else "held")


def test_jobs_that_need_a_pool_do_not_wait_behind_those_that_need_none(hosts, place):
    """No child is free at a look, since the others always wait; the next free one is theirs all the same."""
    hosts.slots = SharedPool("p", None, RateLimit("1/s", 1))
    place.start(**{**hosts.keys(), "processes": 2}, change=hosts.change)
    ids = hosts.enqueue("one", 4)
    others = hosts.enqueue("none", 150, seconds=0.4)
    hosts.until_ended(ids)
    assert place.status(others[-1]) == "queued"


def test_max_running_holds_over_queues_and_hosts(hosts, place):
    """Also for jobs that wake-ups bring, and what it refuses goes back to its place."""
    hosts.slots, hosts.whole = None, 3
    hosts.start()
    ids = {queue: hosts.enqueue("none", 30, seconds=0.03, queue=queue) for queue in ("default", "other")}
    for queue, some in ids.items():
        # so long that three of them meet on a busy machine, too
        some += [place.enqueue("none", hosts.path, 1, 0.3, queue=queue) for _ in range(5)]
        hosts.until_ended(some, queue)
    assert hosts.peak() == 3
    job = place.job(ids["other"][-1], "other")
    assert (job.attempts, job.history) == (1, ())


def test_a_rate_of_a_pool_holds_for_all_its_tasks(hosts):
    """They begin about as fast as it allows, and no faster."""
    hosts.slots = SharedPool("p", None, RateLimit("20/s", 1))
    hosts.start()
    began = time.monotonic()
    hosts.until_ended(hosts.enqueue("one", 21))
    assert 0.95 < time.monotonic() - began < 15


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_the_slots_of_a_dispatcher_that_dies_or_stands_still_come_back(how, hosts, place):
    """After their deadline, which is behind the end of its jobs' leases, and never earlier."""
    first, *_ = hosts.start(own=place.edited(*SHORT))
    ids = hosts.enqueue("one", 30, seconds=0.5)
    place.until_lines(hosts.path, 4)
    first.signal(how)
    if how == signal.SIGSTOP:
        time.sleep(KEPT + 1.0)
        first.signal(signal.SIGCONT)
    hosts.until_ended(ids)
    assert hosts.peak() == 2


def test_a_dispatcher_that_ends_frees_its_slots_at_once(hosts, place):
    """Otherwise each restart would have the others wait."""
    [first] = hosts.start(1)
    hosts.enqueue("one", 2, seconds=30.0)
    place.until_lines(hosts.path, 2)
    first.signal(signal.SIGTERM)
    first.until_said("stopping: running jobs")
    first.signal(signal.SIGTERM)
    first.wait()
    assert hosts.uses()["p"].held == 0


def test_a_pool_that_shrinks_takes_nothing_away_and_one_that_goes_lets_jobs_go_on(hosts, place):
    """What is held stays; nothing begins until there is room; without the pool what waits for it begins."""
    hosts.slots = SharedPool("p", 4)
    [first] = hosts.start(1, link=True)
    long = hosts.enqueue("one", 3, seconds=60.0)
    place.until_lines(hosts.path, 3)
    hosts.slots = SharedPool("p", 1)
    first.apply_config(hosts.change(place.config(**hosts.keys())))
    [more] = hosts.enqueue("one", 1)
    place.until(more, "held")
    assert hosts.uses()["p"].held == 3
    assert [place.status(id_) for id_ in long] == ["started"] * 3
    hosts.slots = None
    first.apply_config(hosts.change(place.config(**hosts.keys())))
    hosts.until_ended([more])
    first.until_said("pool 'p' is not in the file any more")


def test_a_pool_that_a_reload_adds_holds_from_the_next_job_on(hosts, place):
    """The group goes on in place; until then it has asked for nothing."""
    hosts.slots = None
    [first] = hosts.start(1, link=True)
    hosts.until_ended(hosts.enqueue("one", 4))
    assert place.run(plain(as_is, "KEYS", f"{place.broker.keys.namespace}:{{/pools}}:slots:*")) == []
    hosts.slots, hosts.path = SharedPool("p", 1), place.path()
    first.apply_config(hosts.change(place.config(**hosts.keys())))
    hosts.until_ended(hosts.enqueue("one", 8))
    assert hosts.peak() == 1


def test_jobs_wait_while_pools_cannot_be_asked(hosts, place):
    """They are held, and none begins; then they go on."""
    key = f"{place.broker.keys.namespace}:{{/pools}}:slots:p"
    place.run(plain(as_is, "SET", key, "no set"))
    hosts.start(1)
    ids = hosts.enqueue("one", 3)
    for id_ in ids:
        place.until(id_, "held")
    place.programs[0].until_said("pools cannot be asked")
    assert place.run(findings(place.broker, "default")) == []
    place.run(plain(as_is, "DEL", key))
    hosts.until_ended(ids)
    assert len(place.lines(hosts.path)) == 3
