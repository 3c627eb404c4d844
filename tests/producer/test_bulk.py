"""`enqueue_many`: jobs are sent while Redis stores the ones before, and whatever stops it says what was stored."""

import asyncio
import contextlib
import signal
import tracemalloc
from functools import partial

import pytest

from fusiond import AsyncClient, BadArguments, BrokerUnavailable, Client, QueueFull, UnknownTask
from fusiond.broker.call import as_is, plain
from fusiond.broker.redis import protocol
from fusiond.broker.redis.connection import connect
from fusiond.broker.redis.sessions import LoopSession, ThreadSession
from fusiond.config.model import Broker
from fusiond.producer.bulk import CHUNK
from tests.support.asking import KINDS
from tests.support.replicas import RedisCluster, Servers
from tests.support.running import until

TASKS = {
    name: {"queue": queue, "priority": 1, "expires": None, "run": f"shop.{name}"}
    for name, queue in (("send", "sms"), ("report", "reports"), ("other", "others"))
}
#: more than may be unanswered at once
MANY = CHUNK * (protocol.AHEAD + 4) + 7


def declare(run, broker):
    run(broker.publish_catalogue("daemon", "h", TASKS, priorities={}, queues=["sms", "reports", "others"]))


@pytest.fixture
def client(redis_server, run, broker, namespace):
    declare(run, broker)
    with Client(redis_server.url, namespace=namespace) as client:
        yield client


def send(kind, jobs, url, **options):
    """`enqueue_many` with threads or with asyncio; then one more, over the same connection."""

    async def story():
        async with AsyncClient(url, **options) as own:
            try:
                return await own.enqueue_many(jobs)
            finally:
                with contextlib.suppress(BrokerUnavailable):
                    await own.enqueue("other")

    if kind == "asyncio":
        return asyncio.run(story())
    with Client(url, **options) as own:
        try:
            return own.enqueue_many(jobs)
        finally:
            with contextlib.suppress(BrokerUnavailable):
                own.enqueue("other")


@pytest.fixture
def enqueue_many(client, redis_server, namespace):
    """`enqueue_many(kind, jobs)`, to the test's Redis."""
    return partial(send, url=redis_server.url, namespace=namespace)


@pytest.fixture
def held(run, broker):
    """The full names of a queue's jobs, in the order in which they are to run."""

    def held(queue="sms"):
        # by a claim, which is what runs them
        names = []
        while claim := run(
            broker.claim(queue, 500, dispatcher="d", nonce=f"n{len(names)}", lease_ms=60_000, max_rescues=1)
        ).jobs:
            names += [f"{queue}/{job.id.decode()}" for job in claim]
        return names

    return held


def jobs_with(what, at, count=MANY):
    """Jobs, and something that happens before the one of that number is given."""
    for n in range(count):
        if n == at:
            what()
        yield ("send", [n])


def raising(error):
    def what():
        raise error

    return what


@KINDS
def test_more_than_redis_may_have_unanswered_are_stored_in_order(enqueue_many, held, kind):
    """Of two queues, in chunks that are full at different times."""
    jobs = [("send" if n % 3 else "report", [n]) for n in range(MANY)]
    handles = enqueue_many(kind, iter(jobs))
    assert [handle.queue for handle in handles] == ["sms" if n % 3 else "reports" for n in range(MANY)]
    for queue in "sms", "reports":
        assert held(queue) == [handle.name for handle in handles if handle.queue == queue]


@KINDS
@pytest.mark.parametrize("at", [2, 9])
def test_a_connection_lost_in_the_middle_makes_each_job_once(enqueue_many, held, monkeypatch, kind, at):
    """Replies are lost, and with them the connection: their chunks are sent again, with the same ids."""
    connection = ThreadSession if kind == "threads" else LoopSession
    read, replies = connection.read, []

    def note(reply):
        replies.append(reply)
        # by digits: what stores jobs is answered so
        if sum(isinstance(each, bytes) and len(each) == CHUNK for each in replies) == at:
            replies.append(b"0" * CHUNK)
            raise ConnectionResetError
        return reply

    async def read_later(self, **more):
        return note(await read(self, **more))

    monkeypatch.setattr(
        connection, "read", read_later if kind == "asyncio" else lambda self, **more: note(read(self, **more))
    )
    handles = enqueue_many(kind, jobs_with(int, 0))
    assert len(replies) > at
    assert held() == [handle.name for handle in handles]


@KINDS
def test_a_server_that_stays_away_leaves_some_unknown(enqueue_many, redis_server, held, kind):
    """What was answered is stored; what was sent before the server died may be."""
    with pytest.raises(BrokerUnavailable, match=r"jobs were stored before, .* more may be stored") as raised:
        enqueue_many(kind, jobs_with(redis_server.kill, CHUNK * 11))
    stored, unknown = raised.value.enqueued
    assert [*stored, *sorted(unknown)] == list(range(len(stored) + len(unknown)))
    assert len(stored) + len(unknown) >= 11 * CHUNK


@KINDS
def test_a_full_queue_in_the_middle(enqueue_many, run, broker, held, kind):
    """The chunks that fitted are stored, those of other queues too; which, the error says."""
    run(broker.configure("sms", max_length=2 * CHUNK + 2, tasks={}))
    jobs = [("send" if n % 2 else "report", [n]) for n in range(MANY)]
    with pytest.raises(QueueFull, match=r"'sms' is at its max_length; \d+ jobs were stored before$") as raised:
        enqueue_many(kind, jobs)
    stored = raised.value.enqueued.stored
    assert [name for name in stored.values() if name.startswith("sms/")] == held()
    assert [name for name in stored.values() if name.startswith("reports/")] == held("reports")
    assert all(name.startswith("sms/" if n % 2 else "reports/") for n, name in stored.items())
    assert len([n for n in stored if n % 2]) == 2 * CHUNK
    assert raised.value.enqueued.unknown == {}


@KINDS
@pytest.mark.parametrize(
    ("bad", "error"), [(("send", [{1}]), BadArguments), (("nope",), UnknownTask)], ids=["arguments", "task"]
)
def test_a_refused_job_in_the_middle(enqueue_many, held, kind, bad, error):
    """What was sent before is stored; what was not, is not."""
    jobs = [("send", [n]) for n in range(MANY)]
    jobs[3 * CHUNK + 5] = bad
    with pytest.raises(error, match=f"; {3 * CHUNK} jobs were stored before") as raised:
        enqueue_many(kind, jobs)
    assert held() == list(raised.value.enqueued.stored.values())
    assert list(raised.value.enqueued.stored) == list(range(3 * CHUNK))


@KINDS
def test_an_iterator_that_raises_in_the_middle(enqueue_many, held, kind):
    """Its own exception, with a note; and with what is stored."""
    with pytest.raises(ZeroDivisionError) as raised:
        enqueue_many(kind, jobs_with(raising(ZeroDivisionError("mine")), 10 * CHUNK + 5))
    assert str(raised.value) == "mine"
    assert raised.value.__notes__ == [f"enqueue_many: {10 * CHUNK} jobs were stored before"]
    assert list(raised.value.enqueued.stored) == list(range(10 * CHUNK))
    assert held() == list(raised.value.enqueued.stored.values())


def test_a_cancellation_in_the_middle(enqueue_many, held):
    """As of any task; the connection is made again."""

    def cancel():
        asyncio.current_task().cancel()

    with pytest.raises(asyncio.CancelledError) as raised:
        enqueue_many("asyncio", jobs_with(cancel, 10 * CHUNK + 5))
    stored, unknown = raised.value.enqueued
    there = held()
    assert set(stored.values()) <= set(there) <= {*stored.values(), *unknown.values()}
    assert stored
    assert unknown
    assert len(held("others")) == 1


def test_an_endless_iterator_takes_no_more_memory(client, held):
    """Only the names of jobs are kept: 40 MB of arguments pass through a few."""
    body = "x" * 100_000

    def endless():
        while True:
            yield ("send", [body])

    def given(iterator, count):
        for _ in range(count):
            yield next(iterator)
        raise KeyboardInterrupt

    tracemalloc.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            client.enqueue_many(given(endless(), 400))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 15_000_000


def test_the_iterator_may_use_the_client(client, held):
    """No lock is held while the caller's code runs; what is sent ahead is read first."""

    def jobs():
        for n in range(MANY):
            if n % 400 == 1:
                assert client.enqueue("report", n).status() == "queued"
            yield ("send", [n])

    handles = client.enqueue_many(jobs())
    assert held() == [handle.name for handle in handles]
    assert len(held("reports")) == len(range(1, MANY, 400))


# Several servers, and what confirms


@KINDS
def test_each_chunk_is_confirmed_by_a_replica(broker, namespace, tmp_path, monkeypatch, kind):
    """Until the replica stops: what it has not confirmed may be stored."""
    with Servers() as servers:
        primary = servers.add()
        replica = servers.add("--replicaof", "127.0.0.1", primary.port)
        until(lambda: "state=online" in primary.info("replication").get("slave0", ""))
        url, options = f"redis://{primary.name}", {"namespace": namespace, "durability": "replica"}
        with connect(Broker(url=url, namespace=namespace), tmp_path) as connection:
            declare(connection.run, broker)
        handles = send(kind, jobs_with(int, 0), url, **options)
        assert replica.do("EXISTS", f"{namespace}:{{sms}}:job:{handles[-1].id}") == 1
        # A busy replica confirms the first chunks within that.
        monkeypatch.setattr("fusiond.broker.redis.durability.CONFIRM_MS", 2_000)
        stop = lambda: replica.process.send_signal(signal.SIGSTOP)  # noqa: E731
        with pytest.raises(BrokerUnavailable, match="has not confirmed") as raised:
            send(kind, jobs_with(stop, 11 * CHUNK), url, **options)
        stored, unknown = raised.value.enqueued
        assert stored
        assert unknown


class _TwoNodes(RedisCluster):
    """A Cluster without replicas."""

    def __init__(self):
        Servers.__init__(self)
        self.nodes = [self.add("--cluster-enabled", "yes") for _ in range(2)]
        self.nodes[0].do("CLUSTER", "MEET", "127.0.0.1", self.nodes[1].port)
        for node, bounds in zip(self.nodes, [(0, 8000), (8001, 16383)], strict=True):
            node.do("CLUSTER", "ADDSLOTSRANGE", *bounds)
        until(lambda: all(b"cluster_state:ok" in node.do("CLUSTER", "INFO") for node in self.nodes))
        until(lambda: all(len(node.do("CLUSTER", "SLOTS")) == 2 for node in self.nodes))


@pytest.mark.proof
@KINDS
def test_a_slot_moves_in_the_middle(broker, namespace, tmp_path, kind):
    """Chunks of three queues go to their nodes; those of the moved slot follow it, and keep their order."""
    with _TwoNodes() as cluster:
        url = cluster.url
        with connect(Broker(url=url, namespace=namespace), tmp_path) as connection:
            declare(connection.run, broker)

            def move():
                key = f"{namespace}:{{sms}}:queue"
                slot, owner = cluster.owner(key)
                until(lambda: owner.do("ZCARD", key))
                assert cluster.migrate(slot, next(node for node in cluster.nodes if node is not owner), batch=100)

            def jobs():
                for n, _ in enumerate(jobs_with(move, 2 * MANY, 3 * MANY)):
                    yield (("send", "send", "report", "other")[n % 4], [n])

            handles = send(kind, jobs(), url, namespace=namespace)
            for queue in "sms", "reports", "others":
                wanted = [each.id for each in handles if each.queue == queue]
                held = connection.run(plain(as_is, "ZRANGE", broker.keys.of(queue, "queue"), 0, len(wanted) - 1))
                assert [id_.decode() for id_ in held] == wanted
