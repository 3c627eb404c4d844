"""What a dispatcher's loop waits for, where one of its two lanes is answered late or not at all."""

import asyncio
import contextlib
import time

import pytest

from fusiond.broker.call import as_is, plain
from fusiond.broker.records import NewJob
from fusiond.broker.redis.connection import connect_async
from fusiond.config.model import Config, Queue, Task, WorkerGroup
from fusiond.errors import BrokerUnavailable
from fusiond.worker.dispatcher.claims.lane import _Asked
from fusiond.worker.dispatcher.claims.queue_order import Share
from fusiond.worker.dispatcher.ends.effect_courier import EffectCourier
from fusiond.worker.dispatcher.loop import Dispatcher
from fusiond.worker.pool.attempt import Attempt
from fusiond.worker.pool.group_config import GroupConfig
from fusiond.worker.runtime.wire import FINISHED, GIVE_UP, STOPPED, OutcomeMessage, boot_ns


class Held:
    """A connection whose replies wait until they are let through, or which does not reach Redis at all."""

    def __init__(self, connection):
        self._connection, self.gate, self.away = connection, asyncio.Event(), False
        #: Redis has done what it was asked
        self.answered = asyncio.Event()
        self.gate.set()

    async def run_many(self, calls):
        if self.away:
            raise BrokerUnavailable("away")
        replies = await self._connection.run_many(calls)
        self.answered.set()
        await self.gate.wait()
        return replies


@pytest.fixture
def played(broker_settings, tmp_path, broker):
    """
    What `story(dispatcher, its first connection, its second one)` returns.

    The dispatcher has room for three jobs and no children; it goes round only when told to.
    """

    async def play(story):
        async with contextlib.AsyncExitStack() as stack:
            links = [stack.enter_async_context(connect_async(broker_settings, tmp_path)) for _ in range(2)]
            first, second = [Held(await link) for link in links]
            main = WorkerGroup("main")
            config = Config(queues={"a": Queue("a")}, tasks={"t": Task("t", "x.y")}, workers={"main": main})
            made = Dispatcher(
                "host.1", GroupConfig(config, main), broker, iter((first, first, second, first)).__next__,
                courier=EffectCourier(broker, first, None), outage=None,
                on_problems=pytest.fail,
            )  # fmt: skip
            made.pool.capacity.room = lambda: (0, 3)
            made.go()
            stack.callback(made.close)
            return await story(made, first, second)

    return lambda story: asyncio.run(play(story))


def test_a_lane_without_an_answer_leaves_the_queues_to_the_other_one(played, broker, run):
    """What it asks again is what it asked before: a wake-up since then is for the lane that has its answers."""

    async def story(made, _, second):
        second.away = True
        with pytest.raises(BrokerUnavailable):
            await made._round_trip(made._lanes.second)
        made.planner.claim_from("a")
        with pytest.raises(BrokerUnavailable):
            await made._round_trip(made._lanes.second)
        await made._round_trip(made._lanes.first)
        return [attempt.id for attempt in made._waiting]

    run(broker.enqueue("a", [NewJob("one", "t", b"[]")]))
    assert played(story) == [b"one"]


def test_an_answer_that_was_overtaken_leaves_the_time_of_the_next_job(played, broker, run):
    """It is of before the job was there, and would have it wait for the next poll."""

    async def story(made, first, _):
        first.gate.clear()
        trip = asyncio.ensure_future(made._round_trip(made._lanes.first))
        await first.answered.wait()
        run(broker.enqueue("a", [NewJob("later", "t", b"[]", delay_ms=4000)]))
        made.pool.capacity.room = lambda: (0, 5)
        made.planner.claim_from("a")
        await made._round_trip(made._lanes.second)
        due = made._timers._running["due a"]
        first.gate.set()
        await trip
        assert made._timers._running["due a"] is due
        assert not due.cancelled()

    played(story)


@pytest.mark.parametrize("since", ["Redis has not answered", "this process was frozen"])
def test_a_claim_does_not_rescue_what_is_held_here(since, played, broker, run):
    """Its lease is over, nobody else has taken the job yet: the lease is renewed first."""

    async def story(made, *_):
        lane = made._lanes.first
        await made._round_trip(lane)
        [attempt] = made._waiting
        run(plain(as_is, "ZADD", broker.keys.of("a", "started"), "XX", "1", "one"))
        attempt.lease = 0
        if since == "Redis has not answered":
            lane.failures = 1
        else:
            lane.sent_boot -= 6 * 10**9
        made.planner.claim_from("a")
        await made._round_trip(lane)
        assert list(made._waiting) == [attempt]
        assert attempt.lease > boot_ns()
        record = run(broker.job("a", "one"))
        assert (record.attempts, record.rescues) == (1, 0)

    run(broker.enqueue("a", [NewJob("one", "t", b"[]")]))
    played(story)


@pytest.mark.parametrize("owed", ["a claim", "an outcome"])
def test_a_lost_node_of_a_cluster_is_not_asked_to_renew(owed, played):
    """All other nodes would wait for its answer with each round trip."""

    async def story(made, first, _):
        attempt = Attempt("a", b"one", "t0", b"t", b"[]", b"", 1, 0, 0, 0, time.monotonic_ns())
        if owed == "a claim":
            made._lanes.first._lost = [_Asked(Share("a", 1), "n", "")]
        else:
            made._lanes.outcomes.keep("a", [(attempt, None)], unanswered=True)
        first.away = True
        return await made._lanes.first.renew_expired([attempt])

    assert not played(story)


@pytest.mark.parametrize(("kind", "waits"), [(FINISHED, True), (STOPPED, False)])
def test_a_drain_waits_for_outcomes_while_redis_is_away(kind, waits, played):
    """Not for jobs that were cut off, since their leases are over: another dispatcher takes them back."""

    async def story(made, *_):
        attempt = Attempt("a", b"one", "t0", b"t", b"[]", b"", 1, 0, 0, boot_ns(), time.monotonic_ns())
        made._settler.on_outcome(attempt, OutcomeMessage(1, kind, GIVE_UP, 0.0, b"null"))
        made.drain()
        made._lanes.first.failures = 1
        made._give_up = 1.0  # long ago
        return not made._gives_up()

    assert played(story) == waits
