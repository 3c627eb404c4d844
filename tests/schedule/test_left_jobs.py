"""What a change says of the jobs that wait for what it removes."""

import json

from fusiond.broker.call import as_is, plain
from fusiond.broker.records import NewJob
from fusiond.config.accepted.plan import compare
from fusiond.config.model import Config, CronEntry, Queue, Task
from fusiond.schedule import left_jobs as counting
from fusiond.schedule.left_jobs import left_jobs


def enqueue(run, broker, queue, *names, task="t", **options):
    run(broker.enqueue(queue, [NewJob(name, task, b"[[],{}]", **options) for name in names]))


def messages(run, broker, old, new):
    return [each.message for each in run(left_jobs(broker, compare(old, new)))]


def test_each_removed_name_is_named_with_its_jobs(run, broker):
    """Those that are ready, scheduled or held, in whatever queue; what nothing waits for is not mentioned."""
    run(broker.declare(["default", "pics"]))
    enqueue(run, broker, "default", "a", task="thumbnail")
    enqueue(run, broker, "pics", "b", task="thumbnail", delay_ms=10**6)
    enqueue(run, broker, "pics", "c")
    enqueue(run, broker, "default", "cron:nightly:7", task="known")
    run(plain(as_is, "LPUSH", "test:{pics}:inbox", json.dumps({"task": "t"})))
    known = Task("known", "x.y")
    old = Config(
        queues={name: Queue(name) for name in ("default", "pics", "idle")},
        tasks={"thumbnail": Task("thumbnail", "x.y"), "unused": Task("unused", "x.y"), "known": known},
        cron={"nightly": CronEntry("nightly", "known", every=9.0)},
    )
    found = messages(run, broker, old, Config(tasks={"known": known}))
    assert [each.partition(", which")[0] for each in found] == [
        "3 jobs wait in queue 'pics'",
        "2 jobs wait for task 'thumbnail'",
        "1 job waits of cron entry 'nightly'",
    ]
    assert messages(run, broker, old, old) == []


def test_jobs_that_are_being_held_are_counted_once(run, broker):
    """A claim moves five hundred of them from the row to the held jobs between any two looks; many have one turn."""
    run(broker.declare(["default"]))
    run(plain(as_is, "HSET", "test:{default}:conf", "fair", "kwargs.of", "held_tasks", "1 thumbnail "))
    ids = [f"j{n}" for n in range(1700)] + [f"cron:nightly:{n}" for n in range(1300)]
    jobs = [NewJob(each, "thumbnail", b'[[],{"of":"%d"}]' % (n % 1250)) for n, each in enumerate(ids)]
    run(broker.enqueue("default", jobs))
    claim = {"dispatcher": "d", "lease_ms": 10**6, "max_rescues": 2, "few": (1, ()), "has": "1"}

    def looks():
        plan, reply, looked = left_jobs(broker, compare(old, Config())), None, 0
        while True:
            try:
                asked = plan.send(reply)
            except StopIteration as end:
                return end.value, looked
            reply, looked = run(asked), looked + 1
            run(broker.claim("default", 1, nonce=f"n{looked}", **claim))

    old = Config(
        tasks={"thumbnail": Task("thumbnail", "x.y")},
        cron={"nightly": CronEntry("nightly", "thumbnail", every=9.0)},
    )
    found, looked = looks()
    assert [(each.name, each.jobs) for each in found] == [("thumbnail", 3000), ("nightly", 1300)]
    assert looked < 15
    assert run(broker.counts("default")).held == 3000


def test_a_long_backlog_is_not_counted_to_its_end(run, broker, monkeypatch):
    """A reload must not wait for that."""
    monkeypatch.setattr(counting, "MOST", 500)
    run(broker.declare(["default"]))
    enqueue(run, broker, "default", *(f"j{n}" for n in range(501)), task="thumbnail")
    old = Config(tasks={"thumbnail": Task("thumbnail", "x.y")})
    [message] = messages(run, broker, old, Config())
    assert message.startswith("500 or more jobs wait for task 'thumbnail'")
