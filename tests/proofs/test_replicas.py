"""A daemon and a producer over Sentinel and over a Cluster: a primary dies, a slot moves, and nothing is lost."""

import threading
import time

from fusiond.broker.call import Call
from fusiond.broker.records import NewJob
from fusiond.broker.redis.connection import connect
from fusiond.broker.verbs import Verbs
from fusiond.client import Client
from fusiond.config import model
from fusiond.errors import BrokerError
from fusiond.job import JobStatus
from tests.support.queue_state import findings
from tests.support.replicas import RedisCluster, Sentinels
from tests.support.running import until

#: one in each third of the slots
QUEUES = ("a", "b", "c")
QUEUED = "queues: {a: {}, b: {}, c: {}}\n"
TASKS = "".join(f"  note_{name}: {{run: stories.note, queue: {name}}}\n" for name in QUEUES)


class Producer(threading.Thread):
    """Enqueues until it is stopped, each job again under its id until it is acknowledged, as a careful one does."""

    def __init__(self, url, story):
        super().__init__(daemon=True)
        self._client, self._log = Client(url, durability="replica"), str(story.runs)
        self._over = threading.Event()
        self.acknowledged, self.refused = [], 0

    def run(self):
        number = 0
        while not self._over.wait(0.003):
            task = f"note_{QUEUES[number % 3]}"
            if self._insist(task, number):
                number += 1

    def _insist(self, task, number):
        while not self._over.is_set():
            try:
                job = self._client.options(id=f"n{number}").enqueue(task, number, log=self._log)
            except BrokerError:
                self.refused += 1
                time.sleep(0.02)
            else:
                self.acknowledged.append((number, job.queue, job.id))
                return True
        return False

    def more(self, count):
        """Wait until so many more are acknowledged."""
        goal = len(self.acknowledged) + count
        until(lambda: len(self.acknowledged) >= goal)

    def stop(self):
        self._over.set()
        self.join()


def start(daemon, url):
    """The daemon on that Redis, and a producer whose first jobs are in."""
    group = "main: {queues: '*', processes: 2, isolation: process}"
    body = daemon.body(group, tasks=TASKS, more=QUEUED)
    daemon.start(body.replace("'embedded'", f"'{url}'"))
    producer = Producer(url, daemon)
    producer.start()
    producer.more(50)
    return producer


def assert_nothing_is_lost(daemon, url, producer):
    """Every acknowledged job has finished, and ran."""
    producer.more(50)
    producer.stop()
    broker = Verbs()
    with connect(model.Broker(url=url), daemon.runtime, repeats=1) as connection:

        def states():
            asked = [broker.outcome(queue, id_) for _, queue, id_ in producer.acknowledged]
            return [outcome and outcome.status for outcome in connection.run_many(asked)]

        until(lambda: all(state is None or state.ended for state in states()), daemon.text, timeout=60)
        assert states().count(JobStatus.FINISHED) == len(producer.acknowledged), states()
        assert [finding for queue in QUEUES for finding in connection.run(findings(broker, queue))] == []
    ran = {int(line.split()[0]) for line in daemon.runs.read_text().splitlines()}
    assert {number for number, *_ in producer.acknowledged} <= ran


def test_a_failover_of_sentinel_loses_nothing_that_a_replica_had(daemon):
    """The primary is killed under load; daemon and producer find the next one without a restart."""
    with Sentinels(replicas=1) as sentinels:
        producer = start(daemon, sentinels.url)
        sentinels.fail_over()
        assert_nothing_is_lost(daemon, sentinels.url, producer)
        assert producer.refused, "nobody noticed"
        assert daemon.stop() == 0


def test_a_cluster_loses_nothing_to_a_dead_primary_nor_to_a_slot_that_moves(daemon):
    """A queue's slot is moved key by key under load, then the node that it has come to is killed."""
    with RedisCluster(timeout=2000) as cluster:
        producer = start(daemon, cluster.url)
        producer.more(200)
        slot, owner = cluster.owner(Verbs().keys.root("b"))
        target = next(node for node in cluster.primaries() if node is not owner)
        assert cluster.migrate(slot, target, batch=2) > 50
        producer.more(50)
        assert cluster.owner(Verbs().keys.root("b")) == (slot, target)
        cluster.fail_over(target)
        assert_nothing_is_lost(daemon, cluster.url, producer)
        assert daemon.stop() == 0


def test_jobs_move_between_queues_of_different_nodes_through_any_death_of_the_mover():
    """No script sees both queues; wherever the mover dies, the next one goes on, and each job is there once."""
    broker = Verbs()
    with RedisCluster() as cluster:
        assert len({cluster.owner(broker.keys.root(queue))[1].port for queue in ("a", "b")}) == 2
        with connect(model.Broker(url=cluster.url), cluster.directory, repeats=1) as connection:
            ids = []
            for killed in range(9):
                ids += [f"j{killed}", f"later{killed}"]
                call = broker.enqueue("a", [NewJob(ids[-2], "t", b"[]"), NewJob(ids[-1], "t", b"[]", delay_ms=60_000)])
                connection.run(call)
                plan, reply = broker.move("a", "b"), None
                for _ in range(killed):
                    step = plan.send(reply)
                    reply = connection.run(step) if isinstance(step, Call) else connection.run_many(step)
                plan.close()
            connection.run(broker.move("a", "b"))
            for queue in ("a", "b"):
                connection.run(broker.finish_moves(queue))
                connection.run(broker.finish_arrivals(queue))
                assert connection.run(findings(broker, queue)) == []
            here, there = (connection.run(broker.counts(queue)) for queue in ("a", "b"))
            assert (here.waiting, there.queued, there.scheduled) == (0, len(ids) // 2, len(ids) // 2)
            found = [job.id for status in ("queued", "scheduled") for job in connection.run(broker.jobs("b", status))]
            assert sorted(found) == sorted(ids)
