"""The producer's face: Client and AsyncClient."""

import asyncio
import importlib.metadata
import json
import signal
import socket
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest

import fusiond
from fusiond import (
    AsyncClient,
    BadArguments,
    BrokerUnavailable,
    BrokerUnfit,
    Client,
    ConfigError,
    EnqueueError,
    JobConflict,
    JobFailed,
    JobNotFound,
    JobStatus,
    ResultTimeout,
    UnknownTask,
)
from fusiond.broker.call import as_is, plain
from fusiond.broker.records import Outcome
from fusiond.broker.redis.connection import connect
from fusiond.broker.redis.durability import confirmation
from fusiond.config.model import Broker
from fusiond.job import id_of_key, new_token
from tests.support.replicas import Servers
from tests.support.running import until

TASKS = {
    "send": {"queue": "sms", "priority": 2, "expires": None, "run": "posixpath.join"},
    "code": {"queue": "sms", "priority": 1, "expires": 300.0, "run": "shop.code"},
    "report": {"queue": "reports", "priority": 0, "expires": None, "run": "shop.report"},
    "weekly": {"queue": "reports", "priority": 0, "expires": None, "run": "shop.twice"},
    "daily": {"queue": "reports", "priority": 0, "expires": None, "run": "shop.twice"},
}


def publish(run, broker, tasks, digest="h"):
    run(
        broker.publish_catalogue(
            "daemon",
            digest,
            tasks,
            priorities={"high": 2, "low": 0},
            queues=["sms", "reports", "default"],
            digests={"retry policies": {"none": "1", "standard": "2", "patient": "3"}},
        )
    )


@pytest.fixture
def client(redis_server, run, broker, namespace):
    publish(run, broker, TASKS)
    with Client(redis_server.url, namespace=namespace) as client:
        yield client


@pytest.fixture
def record(run, broker):
    return lambda job: run(broker.job(job.queue, job.id))


@pytest.fixture
def work(run, broker):
    """Claims the next job of a queue and settles it."""

    def work(queue, kind, payload, ms=3_600_000):
        token = new_token()
        claim = run(broker.claim(queue, 1, dispatcher="d", nonce=token, lease_ms=60_000, max_rescues=1))
        run(broker.settle(queue, [Outcome(job.id, token, kind, ms, 0, payload) for job in claim.jobs]))
        return claim.jobs

    return work


# Enqueue


def test_enqueue_stores_the_job_in_its_tasks_queue(client, record):
    """With the task's priority and expiry, arguments as JSON."""
    job = client.enqueue("code", "+49", ["ä", None], code=1.5)
    stored = record(job)
    assert (job.queue, stored.task, stored.priority, stored.status) == ("sms", "code", 1, "queued")
    assert json.loads(stored.args) == [["+49", ["ä", None]], {"code": 1.5}]
    assert stored.expires_at == stored.created_at + 300_000
    assert job.name == f"sms/{job.id}"


def test_options_are_obeyed(client, record):
    """Each of them; the client that they were made from stays as it was."""
    job = client.options(
        delay="5m",
        priority="high",
        queue="default",
        expires=timedelta(hours=1),
        meta={"a": []},
        log_tag="tag",
        timeout=30,
        retry="patient",
        result_ttl="1h",
        failure_ttl=0,
        description="Order 77: \u00e9",
        id="my:id",
    ).enqueue("report")
    stored = record(job)
    assert (stored.name, stored.status, stored.priority) == ("default/my:id", "scheduled", 2)
    assert stored.due_at == stored.created_at + 300_000
    assert stored.expires_at == stored.created_at + 3_600_000
    assert (stored.log_tag, json.loads(stored.meta)) == ("tag", {"a": []})
    assert (stored.retry, stored.result_ttl, stored.failure_ttl) == ("patient", 3600.0, 0.0)
    assert stored.description == "Order 77: \u00e9"
    assert record(client.options(priority=200).options(queue="default").enqueue("send")).priority == 200
    assert record(client.enqueue("report")).priority == 0


def test_a_timeout_travels_with_the_job(client, work):
    """Soft as given, hard 10 s later."""
    client.options(timeout="1m").enqueue("send")
    assert json.loads(work("sms", "finished", b"1")[0].header) == {"timeout": {"soft": 60.0, "hard": 70.0}}


@pytest.mark.parametrize(
    "when",
    [
        datetime(2030, 1, 31, 1, tzinfo=UTC),
        "2030-01-31T02:00+01:00",
        1896051600,
    ],
)
def test_enqueue_at(client, record, when):
    """A time with its zone, as one likes to write it."""
    assert record(client.enqueue_at(when, "report", region="eu")).due_at == 1896051600_000


def test_a_function_is_looked_up_by_its_path(client, record):
    """The function itself in place of the task's name."""
    import posixpath

    assert record(client.enqueue(posixpath.join, "a")).task == "send"
    with pytest.raises(UnknownTask, match=r"run: posixpath\.split"):
        client.enqueue(posixpath.split, "a")
    with pytest.raises(UnknownTask, match="pass the task's name"):
        client.enqueue(object(), "a")


# Idempotency


def test_a_key_makes_one_job_of_many_calls(client):
    """The same task and key are the same job; another body under the key is refused."""
    first, second = (client.options(key="otp-77").enqueue("send", 1) for _ in range(2))
    assert first == second
    assert first.id == id_of_key("send", "otp-77")
    assert client.options(key="otp-77").enqueue("code", 1) != first
    with pytest.raises(JobConflict, match="key 'otp-77'"):
        client.options(key="otp-77").enqueue("send", 2)


# What is refused


@pytest.mark.parametrize(
    "bad", [object(), {1, 2}, float("nan"), b"bytes", "\ud800", [datetime.now(UTC)]], ids=lambda bad: type(bad).__name__
)
def test_arguments_that_are_not_json_are_refused(client, run, broker, bad):
    """At the call, and nothing is stored."""
    with pytest.raises(BadArguments, match="cannot be stored as JSON"):
        client.enqueue("send", bad)
    loop = []
    loop.append(loop)
    with pytest.raises(BadArguments, match="cannot be stored as JSON"):
        client.enqueue_many([("send",), ("send", [loop])])
    assert run(broker.counts("sms")).queued == 0


def test_arguments_that_are_too_large_are_refused(client):
    """With both sizes."""
    with pytest.raises(BadArguments, match="at most 1048576 are allowed"):
        client.enqueue("send", "x" * 1_100_000)


def test_an_unknown_task_is_refused_with_the_one_that_was_meant(client):
    """Or with what there is."""
    with pytest.raises(UnknownTask, match="did you mean 'report'"):
        client.enqueue("reprot")
    with pytest.raises(UnknownTask, match="known tasks: code, daily"):
        client.enqueue("zzz")


def test_a_task_that_was_just_added_is_found(client, run, broker):
    """The catalogue is cached, and read again before a task is called unknown."""
    client.enqueue("send")
    publish(run, broker, TASKS | {"new": TASKS["send"]}, "h2")
    assert client.enqueue("new").status() == "queued"


def test_a_job_says_whether_a_living_group_serves_it(client, run, broker):
    """By what the daemons say at the enqueue; a group that has just begun is seen. A handle by name has no answer."""
    assert client.enqueue("send").served is False
    run(broker.serve("daemon", "host.1", ["sms"]))
    time.sleep(1.1)  # so long it is believed that nothing serves a task
    job = client.enqueue("send")
    assert job.served is True
    assert [job.served for job in client.enqueue_many([("send",), ("report",)])] == [True, False]
    assert client.options(queue="default").enqueue("send").served is False
    assert client.job(job.name).served is None
    assert client.job(job.name) == job
    assert hash(client.job(job.name)) == hash(job)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"delay": "5"}, "delay: '5' is not a duration"),
        ({"delay": -1}, "delay: -1 is not between"),
        ({"delay": float("nan")}, "is not between"),
        ({"expires": "1 h"}, "expires: '1 h' is not a duration"),
        ({"timeout": "x"}, "timeout: 'x'"),
        ({"timeout": 0}, "timeout: 0 is too short for any job; use 1s or more"),
        ({"timeout": "0s"}, "timeout: '0s' is too short for any job"),
        ({"expires": timedelta(0)}, "is too short for any job"),
        ({"at": datetime(2030, 1, 1)}, "no time zone"),  # noqa: DTZ001 - that is what is wrong with it
        ({"at": "tomorrow"}, "at: 'tomorrow' is not a time"),
        ({"priority": "hihg"}, "neither one of high, low nor a number"),
        ({"priority": 256}, "neither one of high, low nor a number"),
        ({"queue": "smss"}, "did you mean 'sms'"),
        ({"retry": "patent"}, "retry policy 'patent' is in no daemon's file; did you mean 'patient'"),
        ({"retry": 7}, "retry: 7 is not a text"),
        ({"result_ttl": "1 h"}, "result_ttl: '1 h' is not a duration"),
        ({"failure_ttl": -1}, "failure_ttl: -1 is not between"),
        ({"description": ""}, "description: '' is not a text of 1 to 255 bytes"),
        ({"queue": "{"}, "in no daemon's file"),
        ({"meta": {"a": object()}}, "meta cannot be stored as JSON"),
        ({"id": "a b"}, "job id 'a b'"),
        ({"id": "a", "key": "b"}, "exclude each other"),
    ],
)
def test_an_option_that_means_nothing_is_refused(client, run, broker, options, reason):
    """With its name and the remedy, and nothing is stored."""
    with pytest.raises(EnqueueError, match=reason):
        client.options(**options).enqueue("send")
    assert run(broker.counts("sms")).queued == run(broker.counts("sms")).scheduled == 0


# The handle


def test_a_result_is_what_the_function_returned(client, work):
    """As JSON has it; a second look gives it again."""
    job = client.enqueue("send")
    work("sms", "finished", b'{"a": [1, null]}')
    assert job.result(timeout=5) == job.result() == {"a": [1, None]}
    assert job.status() is JobStatus.FINISHED


def test_a_result_is_waited_for(client, work):
    """`result` comes back soon after the job has ended."""
    job = client.enqueue("send")
    ended = []
    thread = threading.Timer(0.2, lambda: (work("sms", "finished", b"7"), ended.append(time.monotonic())))
    thread.start()
    assert job.result(timeout=10) == 7
    thread.join()
    assert time.monotonic() - ended[0] < 5


def test_a_failure_is_raised_as_text(client, work):
    """Code, type, message and traceback; never rebuilt into the exception."""
    job = client.enqueue("send")
    work("sms", "failed", b'{"code":"EXCEPTION","type":"shop.NoMoney","message":"3 short","traceback":"Trace"}')
    with pytest.raises(JobFailed, match=r"shop\.NoMoney: 3 short") as caught:
        job.result(timeout=5)
    error = caught.value
    assert (error.code, error.type, error.traceback) == ("EXCEPTION", "shop.NoMoney", "Trace")


def test_a_result_that_does_not_come_in_time(client):
    """ResultTimeout says how the job stands; it goes on."""
    job = client.enqueue("send")
    with pytest.raises(ResultTimeout, match="has not ended in time: it is queued"):
        job.result(timeout=0.05)
    assert job.status() == "queued"


def test_a_job_that_is_not_there(client):
    """JobNotFound, from each method."""
    job = client.job("sms/nothing")
    for ask in (job.status, job.result, job.cancel):
        with pytest.raises(JobNotFound, match="sms/nothing"):
            ask()
    with pytest.raises(ValueError, match="queue/id"):
        client.job("nothing")


# Durability


@pytest.fixture
def replicated(broker, namespace, tmp_path):
    """A primary with a replica, and the catalogue."""
    with Servers() as servers:
        primary = servers.add()
        replica = servers.add("--replicaof", "127.0.0.1", primary.port)
        until(lambda: "state=online" in primary.info("replication").get("slave0", ""))
        with connect(Broker(url=f"redis://{primary.name}", namespace=namespace), tmp_path) as connection:
            publish(connection.run, broker, TASKS)
        yield primary, replica


def test_a_repeat_is_confirmed_as_the_first_call_would_be(replicated, namespace, monkeypatch):
    """The job is there already, stored over another connection, but no replica has it: that is said again."""
    monkeypatch.setattr("fusiond.broker.redis.durability.CONFIRM_MS", 100)
    primary, replica = replicated

    def enqueue():
        with Client(f"redis://{primary.name}", namespace=namespace, durability="replica") as another:
            return another.options(key="k").enqueue("send", 1)

    replica.process.send_signal(signal.SIGSTOP)
    for _ in range(2):
        with pytest.raises(BrokerUnavailable, match="same id or key"):
            enqueue()
    replica.process.send_signal(signal.SIGCONT)
    monkeypatch.setattr("fusiond.broker.redis.durability.CONFIRM_MS", 10_000)
    assert replica.do("EXISTS", f"{namespace}:{{sms}}:job:{enqueue().id}") == 1


def test_fsync_waits_for_the_disk(redis_server, client, namespace, run, broker):
    """With an append-only file the job is on disk when enqueue returns; without one nothing is stored."""
    with Client(redis_server.url, namespace=namespace, durability="fsync") as careful:
        with pytest.raises(BrokerUnfit, match="appendonly yes"):
            careful.enqueue("send")
        assert run(broker.counts("sms")).queued == 0
        # what every Redis can do, those without WAITAOF too
        run(plain(as_is, "CONFIG", "SET", "appendfsync", "always"))
        run(plain(as_is, "CONFIG", "SET", "appendonly", "yes"))
        try:
            assert careful.enqueue("send").status() == "queued"
        finally:
            run(plain(as_is, "CONFIG", "SET", "appendonly", "no"))
            run(plain(as_is, "CONFIG", "SET", "appendfsync", "everysec"))


def test_a_redis_that_is_loading_may_have_an_append_only_file():
    """It answers INFO and says it has none: that is no reason to give up."""
    plan = confirmation("fsync", 1)
    next(plan)
    with pytest.raises(BrokerUnavailable, match="loading"):
        plan.send({"loading": "1", "aof_enabled": "0"})


# asyncio


def test_the_async_client_does_the_same(client, redis_server, namespace, work):
    """Every method, with await."""

    async def story():
        async with AsyncClient(redis_server.url, namespace=namespace) as jobs:
            job = await jobs.options(priority="high").enqueue("send", 1)
            with pytest.raises(ResultTimeout):
                await job.result(timeout=0.01)
            work("sms", "finished", b"[2]")
            assert await job.result(timeout=5) == [2]
            assert await job.status() == "finished"
            later = await jobs.enqueue_in("1h", "send")
            assert await later.cancel()
            assert await (await jobs.enqueue_at(2e9, "send")).status() == "scheduled"
            many = await jobs.enqueue_many([("send", [n]) for n in range(3)])
            assert [await each.status() for each in many] == ["queued"] * 3
            at_once = await asyncio.gather(*(jobs.enqueue("report", n) for n in range(20)))
            assert len({each.id for each in at_once}) == 20
            with pytest.raises(UnknownTask):
                await jobs.enqueue("nope")
            assert await jobs.job(job.name).status() == "finished"

    asyncio.run(story())


# Where it finds its broker


def test_a_url_names_the_namespace_and_an_argument_outranks_it(client, redis_server, monkeypatch, namespace):
    """In $FUSION_URL as `fusiond dev` prints it; two of them are refused."""
    monkeypatch.setenv("FUSION_URL", f"{redis_server.url}?namespace={namespace}")
    with Client() as found:
        assert found.enqueue("send").status() == "queued"
    with Client(f"{redis_server.url}?namespace=other", namespace=namespace) as found:
        assert found.enqueue("send").status() == "queued"
    with pytest.raises(BrokerUnavailable, match="several namespaces"):
        Client(f"{redis_server.url}?namespace=a&namespace=b")


def test_the_file_names_the_redis(client, redis_server, monkeypatch, tmp_path):
    """Its namespace too, where neither a URL nor $FUSION_URL is given."""
    monkeypatch.setenv("FUSION_CONFIG", str(tmp_path / "fusion.yaml"))
    (tmp_path / "fusion.yaml").write_text(f"version: 1\nbroker: {{url: '{redis_server.url}', namespace: test}}\n")
    with Client() as found:
        assert found.enqueue("send").status() == "queued"


def test_the_files_embedded_redis_is_found(redis_server, run, broker, monkeypatch, tmp_path):
    """Through the runtime directory."""
    publish(run, broker, TASKS)
    runtime = redis_server.directory / "run"
    (runtime / "redis").mkdir(parents=True, exist_ok=True)
    (runtime / "redis" / "redis.sock").unlink(missing_ok=True)
    (runtime / "redis" / "redis.sock").symlink_to(redis_server.path)
    monkeypatch.setenv("FUSION_CONFIG", str(tmp_path / "fusion.yaml"))
    (tmp_path / "fusion.yaml").write_text(
        f"version: 1\nbroker: {{url: embedded, namespace: test}}\nruntime_directory: {runtime}\n"
    )
    with Client() as found:
        assert found.enqueue("send").status() == "queued"


def test_neither_url_nor_file_nor_variable(monkeypatch, tmp_path):
    """The sentence is for who writes Python: it names no option of a command."""
    monkeypatch.delenv("FUSION_CONFIG", raising=False)
    monkeypatch.delenv("FUSION_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PWD", str(tmp_path))
    monkeypatch.setattr("fusiond.paths.ETC", tmp_path / "etc.yaml")
    with pytest.raises(ConfigError, match=r"give the Client a URL, or set \$FUSION_URL"):
        Client()


# The face itself


def test_the_face_has_all_that_it_names():
    """Each name of __all__ can be had, others cannot; the version is the package's."""
    assert fusiond.__version__ == importlib.metadata.version("fusiond")
    for name in fusiond.__all__:
        assert getattr(fusiond, name).__name__ == name
    with pytest.raises(AttributeError, match="nothing"):
        _ = fusiond.nothing


def test_a_timeout_bounds_a_call_to_a_redis_that_hangs(redis_server, run, broker, namespace):
    """Twice the timeout at the most, since a call that got no answer is sent once more; and it is above 0."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"redis://127.0.0.1:{silent.getsockname()[1]}"
        began = time.monotonic()
        with Client(url, namespace=namespace, timeout=0.2) as client, pytest.raises(BrokerUnavailable):
            client.counts("sms")
        assert time.monotonic() - began < 9  # the 5 s of the default, twice, are 10

        async def story():
            async with AsyncClient(url, namespace=namespace, timeout=0.2) as client:
                await client.counts("sms")

        began = time.monotonic()
        with pytest.raises(BrokerUnavailable):
            asyncio.run(story())
        assert time.monotonic() - began < 9
    for wrong in (0, -1, float("nan")):
        with pytest.raises(ValueError, match="above 0"):
            Client(redis_server.url, timeout=wrong)


def test_counts_and_failed_jobs(client, run, broker, work):
    """By queue; the newest failure first, from all queues; each is requeued or discarded by its handle."""
    run(broker.declare(["sms", "reports"]))
    sent, reported, waits = client.enqueue("send"), client.enqueue("report"), client.enqueue("report")
    error = json.dumps({"code": "EXCEPTION", "type": "ValueError", "message": "no", "traceback": ""}).encode()
    work("sms", "failed", error)
    work("reports", "failed", error)
    assert {queue: (found.queued, found.failed) for queue, found in client.counts().items()} == {
        "sms": (0, 1),
        "reports": (1, 1),
    }
    assert client.counts("sms").keys() == {"sms"}
    assert {job.id for job in client.failed()} == {sent.id, reported.id}
    assert [job.id for job in client.failed("sms")] == [sent.id]
    assert len(client.failed(limit=1)) == 1
    [record] = client.failed("sms")
    assert client.job(record.name).requeue()
    assert sent.status() == JobStatus.QUEUED
    assert reported.discard()
    assert not waits.discard()
    assert not client.job("reports/none").requeue()
