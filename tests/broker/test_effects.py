"""The effects: what a job's end has for other queues reaches them, once."""

import json

import pytest

from fusiond.broker.jobs import EFFECTS
from fusiond.broker.records import NewJob, Outcome
from fusiond.callbacks import follow_text
from fusiond.job import JobStatus, new_token

HOUR = 3_600_000
COUNT = {"queue": "other", "task": "count", "priority": 2}
HOOK = {"queue": "callbacks", "task": "fusiond.webhook", "priority": 1, "url": "https://ops.example.com/a?b=ü"}
BOTH = follow_text({"on_success": COUNT, "on_failure": HOOK})


@pytest.fixture
def desk(run, broker):
    return Desk(run, broker)


class Desk:
    """Has jobs stored, begun and ended."""

    def __init__(self, run, broker):
        self.run, self.broker = run, broker

    def enqueue(self, id_="a", args=b'[[1],{"x":[]}]', follow=BOTH, **options):
        assert self.run(self.broker.enqueue("q", [NewJob(id_, "t", args, follow=follow, **options)])) == ["stored"]

    def claim(self, queue="q", want=9, **options):
        token = new_token()
        asked = {"dispatcher": "d", "nonce": token, "lease_ms": HOUR, "max_rescues": 2} | options
        return token, self.run(self.broker.claim(queue, want, **asked)).jobs

    def settle(self, id_, token, kind="finished", payload=b"null"):
        return self.run(self.broker.settle("q", [Outcome(id_, token, kind, HOUR, 0, payload)]))

    def end(self, kind="finished", payload=b"null", id_="a", **options):
        """The job's end, and the delivery."""
        self.enqueue(id_, **options)
        token, _ = self.claim()
        replies = self.settle(id_, token, kind, payload)
        self.run(self.broker.deliver("q"))
        return replies

    def jobs(self, queue):
        return self.run(self.broker.jobs(queue, JobStatus.QUEUED))

    def event(self):
        """What the only callback is called with."""
        [job] = self.jobs("other")
        return json.loads(job.args)[1]["event"]


def test_a_callback_is_told_what_its_job_was_and_returned(desk):
    """The event names the job, and has its arguments and its result as they were stored."""
    assert desk.end(payload=b'{"big": 12345678901234567890, "e": [], "f": 1.10000000000000001}') == [1 + EFFECTS]
    event = desk.event()
    assert (event["id"], event["queue"], event["task"], event["status"]) == ("a", "q", "t", "finished")
    assert (event["args"], event["kwargs"], event["error"]) == ([1], {"x": []}, None)
    assert event["result"] == {"big": 12345678901234567890, "e": [], "f": 1.1}
    assert (event["attempts"], event["truncated"]) == (1, False)
    assert event["created_at"] <= event["ended_at"]
    [job] = desk.jobs("other")
    assert (job.task, job.priority) == ("count", 2)


def test_a_webhook_is_called_for_a_failure(desk):
    """Its job has the URL, and the event in the body."""
    desk.end("failed", b'{"code":"X"}')
    [job] = desk.jobs("callbacks")
    args, kwargs = json.loads(job.args)
    assert (job.task, args) == ("fusiond.webhook", [])
    assert (kwargs["url"], kwargs["allow_private"]) == (HOOK["url"], True)
    event = kwargs["body"]["event"]
    assert (event["status"], event["error"], event["result"]) == ("failed", {"code": "X"}, None)
    assert not desk.jobs("other")


@pytest.mark.parametrize(("args", "result"), [(70_000, 1), (1, 70_000), (3_000, 1)])
def test_large_values_are_left_out_and_it_is_said(desk, args, result):
    """A value above 64 kB is null, and `truncated` is true; one of a few kB is passed on."""
    desk.end(args=json.dumps([["x" * args], {}]).encode(), payload=json.dumps("y" * result).encode())
    event = desk.event()
    assert event["args"] == (None if args > 65536 else ["x" * args])
    assert event["result"] == (None if result > 65536 else "y" * result)
    assert event["truncated"] == (max(args, result) > 65536)


def test_a_repeated_settle_calls_back_once(desk):
    """The second one says that there is something in the effects, since the first reply may be lost."""
    desk.enqueue()
    token, _ = desk.claim()
    assert desk.settle("a", token) == [1 + EFFECTS]
    assert desk.settle("a", token) == [2 + EFFECTS]
    assert desk.run(desk.broker.deliver("q")) == 1
    assert len(desk.jobs("other")) == 1


def test_a_requeue_makes_a_new_end(desk):
    """Each end of the job calls back: two ends in the same millisecond, too."""
    desk.end("failed")
    for _ in range(50):
        assert desk.run(desk.broker.requeue("q", ["a"])) == [1]
        token, _ = desk.claim()
        desk.settle("a", token, "failed")
    desk.run(desk.broker.deliver("q"))
    assert len(desk.jobs("callbacks")) == 51


def test_what_was_delivered_is_not_delivered_again(desk, redis):
    """Someone who read the effects, and was frozen, delivers what was taken since: nothing happens."""
    desk.enqueue()
    token, _ = desk.claim()
    desk.settle("a", token)
    entries = redis("LRANGE", "test:{q}:effects:other", 0, -1)
    desk.run(desk.broker.deliver("q"))
    [job] = desk.jobs("other")
    taken, [ran] = desk.claim("other")
    desk.run(desk.broker.settle("other", [Outcome(ran.id, taken, "finished", 0)]))
    redis("DEL", f"test:{{other}}:job:{job.id}")
    redis("RPUSH", "test:{q}:effects:other", *entries)
    desk.run(desk.broker.deliver("q"))
    assert not desk.jobs("other")
    assert not redis("EXISTS", "test:{q}:effects:other")


def test_a_delivery_ignores_max_length(desk):
    """An end must not wait for room."""
    desk.run(desk.broker.configure("other", tasks={}, max_length=1))
    for id_ in "abc":
        desk.end(id_=id_)
    assert len(desk.jobs("other")) == 3


def test_a_callback_of_a_unique_task_is_left_out_while_its_job_waits(desk):
    """The lock of the task holds for callbacks, too."""
    follow = follow_text({"on_success": COUNT | {"unique": "ended,skip,0,"}})
    for id_ in "ab":
        desk.end(id_=id_, follow=follow)
    assert len(desk.jobs("other")) == 1
    assert desk.run(desk.broker.counts("other")).skipped == 1


def test_a_canceled_job_calls_nobody(desk):
    """A cancel is neither a success nor a failure."""
    desk.enqueue()
    desk.run(desk.broker.cancel("q", "a"))
    assert desk.run(desk.broker.deliver("q")) == 0


def test_a_job_that_redis_fails_calls_back(desk):
    """One that expires, or loses its lease too often, has failed."""
    desk.enqueue(expires_ms=0)
    desk.enqueue("b")
    desk.claim(lease_ms=-1)
    desk.claim(max_rescues=0)
    desk.run(desk.broker.deliver("q"))
    codes = {json.loads(job.args)[1]["body"]["event"]["error"]["code"] for job in desk.jobs("callbacks")}
    assert codes == {"EXPIRED", "LEASE_LOST"}


def test_an_entry_that_cannot_be_carried_out_does_not_stop_the_others(desk, redis):
    """It is kept under `broken`."""
    redis("HSET", "test:{q}:effects", "other", 1)
    redis("RPUSH", "test:{q}:effects:other", b"1 \xff", b"2 \x91\xa3new")
    desk.end()
    assert len(desk.jobs("other")) == 1
    assert desk.run(desk.broker.counts("other")).broken == 2


@pytest.mark.parametrize("unique", ["", "ended,skip,0,"])
def test_a_pushed_job_has_the_callbacks_of_its_task(desk, redis, unique):
    """The daemons tell Redis what they are; a name in the push stays in the header."""
    desk.run(desk.broker.configure("q", tasks={"t": (3, 1000, unique, BOTH)}))
    redis("LPUSH", "test:{q}:inbox", b'{"task":"t","id":"a","log_tag":"x","args":[5]}')
    token, [job] = desk.claim()
    desk.settle("a", token)
    desk.run(desk.broker.deliver("q"))
    assert desk.event()["args"] == [5]
    assert json.loads(job.header) == {"log_tag": "x", "follow": {"on_success": COUNT, "on_failure": HOOK}}
