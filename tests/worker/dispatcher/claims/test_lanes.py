"""When a dispatcher's second lane begins, and how long the first one waits."""

import asyncio

import pytest

from fusiond.broker.records import NewJob, Outcome
from fusiond.broker.redis.connection import connect_async
from fusiond.worker.dispatcher.claims.lanes import _WORTH, Lanes
from fusiond.worker.dispatcher.claims.queue_order import Share
from fusiond.worker.dispatcher.ends.outcomes import Outcomes
from tests.worker.dispatcher.claims.test_lane import CONF
from tests.worker.dispatcher.test_loop import Held


def test_the_second_lane_begins_beside_the_first_one_where_much_has_ended(broker_settings, tmp_path, broker, run):
    """Neither beside none, nor for a few outcomes, nor where no queue has more, nor beside one that gets no answer."""

    async def story():
        async with connect_async(broker_settings, tmp_path) as one, connect_async(broker_settings, tmp_path) as other:
            lanes = Lanes("host.1", broker, (held := Held(one), other), Outcomes(CONF, pytest.fail, pytest.fail))
            [claimed], _ = await lanes.first.settle_and_claim([Share("a", _WORTH + 1)])
            held.gate.clear()
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
            assert lanes.delay_before_next(jobs_wait=False) == 0.0
            end(lanes, [last])
            assert lanes.is_second_due({"a"})
            assert not lanes.is_second_due(set())
            lanes.first.failures = 1
            assert not lanes.is_second_due({"a"})
            held.gate.set()
            await trip
            return spare

    run(broker.enqueue("a", [NewJob(f"a{n}", "t", b"[]") for n in range(_WORTH + 5)]))
    asyncio.run(story())


def end(lanes, attempts):
    for attempt in attempts:
        lanes.outcomes.add(attempt, Outcome(attempt.id, attempt.token, "finished"))
