"""When a dispatcher's second lane begins, and how long the first one waits."""

import asyncio

import pytest

from fusiond.broker.records import NewJob, Outcome
from fusiond.broker.redis.connection import connect_async
from fusiond.worker.dispatcher.claims.lanes import _WORTH, Lanes
from fusiond.worker.dispatcher.claims.queue_order import Share


class Slow:
    """A connection whose replies wait until they are let through."""

    def __init__(self, connection):
        self._connection, self.gate = connection, asyncio.Event()

    async def run_many(self, calls):
        replies = await self._connection.run_many(calls)
        await self.gate.wait()
        return replies


def test_the_second_lane_begins_beside_the_first_one_where_much_has_ended(broker_settings, tmp_path, broker, run):
    """Neither beside none, nor for a few outcomes, nor where no queue has more, nor beside one that gets no answer."""

    async def story():
        async with connect_async(broker_settings, tmp_path) as one, connect_async(broker_settings, tmp_path) as other:
            lanes = Lanes("host.1", broker, (slow := Slow(one), other), pytest.fail, on_outbox=pytest.fail)
            slow.gate.set()
            [claimed] = await lanes.first.settle_and_claim([Share("a", _WORTH + 1)])
            slow.gate.clear()
            *most, last, spare = claimed.attempts
            end(lanes, [*most, last])
            assert not lanes.is_second_due({"a"})
            lanes.outcomes.take()
            end(lanes, most)
            trip = asyncio.ensure_future(lanes.first.settle_and_claim([Share("a", 1)]))
            await asyncio.sleep(0)
            assert lanes.beside(lanes.second) == [Share("a", 1)]
            end(lanes, most)
            assert not lanes.is_second_due({"a"})
            assert lanes.rest(jobs_wait=False) == 0.0
            end(lanes, [last])
            assert lanes.is_second_due({"a"})
            assert not lanes.is_second_due(set())
            lanes.first.failures = 1
            assert not lanes.is_second_due({"a"})
            slow.gate.set()
            await trip
            return spare

    run(broker.enqueue("a", [NewJob(f"a{n}", "t", b"[]") for n in range(_WORTH + 5)]))
    asyncio.run(story())


def test_the_first_lane_waits_a_moment_for_the_second_one(broker_settings, tmp_path, broker, run, monkeypatch):
    """Where little has ended meanwhile: a round trip for a few outcomes costs half as much as one for hundreds."""
    # A busy machine may let this process wait for longer than the moment.
    monkeypatch.setattr("fusiond.worker.dispatcher.claims.lanes._WAIT", 3600)

    async def story():
        async with connect_async(broker_settings, tmp_path) as one, connect_async(broker_settings, tmp_path) as other:
            lanes = Lanes("host.1", broker, (one, slow := Slow(other)), pytest.fail, on_outbox=pytest.fail)
            [claimed] = await lanes.first.settle_and_claim([Share("a", _WORTH)])
            trip = asyncio.ensure_future(lanes.second.settle_and_claim([Share("a", 1)]))
            await asyncio.sleep(0)
            assert 0 < lanes.rest(jobs_wait=False) <= 3600
            end(lanes, claimed.attempts)
            assert lanes.rest(jobs_wait=False) == 0.0
            lanes.outcomes.take()
            lanes.second.failures = 1
            assert lanes.rest(jobs_wait=False) == 0.0, "it may take long"
            slow.gate.set()
            await trip
            assert lanes.rest(jobs_wait=False) == 0.0

    run(broker.enqueue("a", [NewJob(f"a{n}", "t", b"[]") for n in range(_WORTH + 5)]))
    asyncio.run(story())


def end(lanes, attempts):
    for attempt in attempts:
        lanes.outcomes.add(attempt, Outcome(attempt.id, attempt.token, "finished"))
