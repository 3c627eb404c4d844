"""Slices of `python -m tests.chaos.sentinel` and `.cluster`: a primary dies, a slot moves, and nothing is lost."""

from fusiond.broker.call import Call
from fusiond.broker.records import NewJob
from fusiond.broker.redis.connection import connect
from fusiond.broker.verbs import Verbs
from fusiond.config import model
from tests.chaos import cluster, sentinel
from tests.support.queue_state import findings
from tests.support.replicas import RedisCluster


def test_a_failover_of_sentinel_loses_nothing_that_a_replica_had():
    """The primary is killed or stopped under load; daemon and producer find the next one without a restart."""
    finding = sentinel.carry_out(1)
    assert finding.harm == []
    assert finding.floods[2].acknowledged
    assert not finding.floods[2].lost


def test_a_cluster_loses_nothing_to_a_dead_primary_nor_to_a_slot_that_moves():
    """Under load: a primary is killed, and a queue's slot moves, key by key and, where the server can, as one."""
    found, violations, *_ = cluster.carry_out(1)
    assert [violation for violation in violations if violation.startswith(sentinel.FATAL)] == []
    assert None not in found.records.values()


def test_jobs_move_between_queues_of_different_nodes_through_any_death_of_the_mover():
    """No script sees both queues; wherever the mover dies, the next one goes on, and each job is there once."""
    broker = Verbs()
    with RedisCluster() as servers:
        assert len({servers.owner(broker.keys.root(queue))[1].port for queue in ("a", "b")}) == 2
        with connect(model.Broker(url=servers.url), servers.directory, repeats=1) as connection:
            ids = []
            for killed in range(7):
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
                connection.run(broker.deliver(queue))
                assert connection.run(findings(broker, queue)) == []
            here, there = (connection.run(broker.counts(queue)) for queue in ("a", "b"))
            assert (here.waiting, there.queued, there.scheduled) == (0, len(ids) // 2, len(ids) // 2)
            found = [job.id for status in ("queued", "scheduled") for job in connection.run(broker.jobs("b", status))]
            assert sorted(found) == sorted(ids)
