"""What a producer gets of unique jobs, by the catalogue that a daemon publishes."""

import pytest

from fusiond import BadArguments, Client, JobConflict, JobStatus
from fusiond.config.model.tasks import Unique

UNIQUE = {
    "skip": Unique(by=("kwargs.user",), until="ended"),
    "refuse": Unique(by=("args.0", "kwargs.user"), for_=600.0, on_conflict="refuse"),
    "replace": Unique(until="started", on_conflict="replace", max_wait=5.0),
}


@pytest.fixture
def client(redis_server, run, broker, namespace):
    said = {"queue": "sms", "priority": 1, "run": "shop.send"}
    tasks = {name: said | {"unique": unique.to_text()} for name, unique in UNIQUE.items()} | {"plain": said}
    run(broker.publish_catalogue("daemon", "h", tasks, priorities={}, queues=["sms", "other"]))
    with Client(redis_server.url, namespace=namespace) as client:
        yield client


def test_skip_returns_the_job_that_is_there(client):
    """`existing` says so; another user's job is another one, and so is one in another queue."""
    first, second = client.enqueue("skip", user=1), client.options(priority=9).enqueue("skip", user=1)
    assert (first.existing, second.existing, second) == (False, True, first)
    others = [client.enqueue("skip", user=each) for each in ("1", 2, True)]
    others.append(client.options(queue="other").enqueue("skip", user=1))
    assert not any(job.existing for job in others)
    assert len({first, *others}) == 5


def test_refuse_raises(client):
    """The message names the job that is there."""
    first = client.enqueue("refuse", "a", user=1)
    with pytest.raises(JobConflict, match=f"^job {first.name} exists already, and task 'refuse' is `unique`:"):
        client.enqueue("refuse", "a", user=1)


def test_replace_gives_a_new_job(client):
    """The one before is canceled."""
    first, second = (client.enqueue("replace", n) for n in range(2))
    assert (second.existing, first.status(), second.status()) == (False, JobStatus.CANCELED, JobStatus.QUEUED)


def test_of_many_those_that_are_there_come_back(client):
    """Each in its place, also where the first one is of the same call."""
    there = client.enqueue("skip", user=1)
    jobs = client.enqueue_many(
        [("skip", [], {"user": 1}), ("plain",), ("skip", [], {"user": 2}), ("skip", [], {"user": 2})]
    )
    assert [job.existing for job in jobs] == [True, False, False, True]
    assert (jobs[0], jobs[3]) == (there, jobs[2])


@pytest.mark.parametrize(
    ("args", "kwargs", "sentence"),
    [
        ((), {}, "args.0 is missing"),
        (("a",), {}, "kwargs.user is missing"),
        (("a",), {"user": 1.0}, "kwargs.user is neither a text, nor a boolean, nor an integer below 2"),
    ],
)
def test_a_call_without_its_argument_is_refused(client, args, kwargs, sentence):
    """The error names it."""
    with pytest.raises(BadArguments, match=f"^task 'refuse': the call cannot be unique: {sentence}"):
        client.enqueue("refuse", *args, **kwargs)
