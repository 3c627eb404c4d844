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
from fusiond.worker.dispatcher.claims.exchange import _Asked
from fusiond.worker.dispatcher.claims.queue_order import Share
from fusiond.worker.dispatcher.ends.courier import Courier
from fusiond.worker.dispatcher.loop import Dispatcher, Phase
from fusiond.worker.pool.attempt import Attempt
from fusiond.worker.pool.pool_reports import Room
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


@contextlib.asynccontextmanager
async def dispatcher(settings, tmp_path, broker):
    """A dispatcher that has room for three jobs and no children; it goes round only when told to."""
    async with contextlib.AsyncExitStack() as stack:
        first, second = [Held(await stack.enter_async_context(connect_async(settings, tmp_path))) for _ in range(2)]
        config = Config(queues={"a": Queue("a")}, tasks={"t": Task("t", "x.y")}, workers={"main": WorkerGroup("main")})
        made = Dispatcher(
            "host.1", config, config.workers["main"], broker, (first, second),
            leases=first, courier=Courier(broker, first, None), outage=None, on_problems=pytest.fail,
        )  # fmt: skip
        made.pool.room = lambda: (0, 3)
        made.go()
        try:
            yield made, first, second
        finally:
            made.close()


def test_a_lane_without_an_answer_leaves_the_queues_to_the_other_one(broker_settings, tmp_path, broker, run):
    """What it asks again is what it asked before: a wake-up since then is for the lane that has its answers."""

    async def story():
        async with dispatcher(broker_settings, tmp_path, broker) as (made, _, second):
            second.away = True
            with pytest.raises(BrokerUnavailable):
                await made._round_trip(made._lanes.second)
            made.claim_from("a")
            with pytest.raises(BrokerUnavailable):
                await made._round_trip(made._lanes.second)
            await made._round_trip(made._lanes.first)
            return [attempt.id for attempt in made._waiting]

    run(broker.enqueue("a", [NewJob("one", "t", b"[]")]))
    assert asyncio.run(story()) == [b"one"]


def test_an_answer_that_was_overtaken_leaves_the_time_of_the_next_job(broker_settings, tmp_path, broker, run):
    """It is of before the job was there, and would have it wait for the next poll."""

    async def story():
        async with (
            dispatcher(broker_settings, tmp_path, broker) as (made, first, _),
            connect_async(broker_settings, tmp_path) as own,
        ):
            first.gate.clear()
            trip = asyncio.ensure_future(made._round_trip(made._lanes.first))
            await first.answered.wait()
            await own.run(broker.enqueue("a", [NewJob("later", "t", b"[]", delay_ms=1000)]))
            made.pool.room = lambda: (0, 5)
            made.claim_from("a")
            await made._round_trip(made._lanes.second)
            due = made._timers._running["due a"]
            first.gate.set()
            await trip
            assert made._timers._running["due a"] is due
            assert not due.cancelled()

    asyncio.run(story())


def test_a_free_child_wakes_the_loop_unless_that_only_waits_for_its_next_round_trip(broker_settings, tmp_path, broker):
    """Jobs wait for children, so these have work until the timer ends; all else must not wait for it."""

    def changed(made, what):
        """A child is free; whether the loop turns."""
        made._waiting.for_child.append(
            Attempt("a", b"one", "t0", b"t", b"[]", b"", 1, 0, 0, 1 << 62, time.monotonic_ns())
        )
        made._timers.start("rest", 60.0)
        what(made)
        made._wake.clear()
        made._on_report(Room())
        return made._wake.is_set()

    def wait_for_a_permit(made):
        made._waiting.for_permit.append(made._waiting.for_child.pop())
        made._waiting.for_child.append(made._waiting.for_permit[0])

    def end(made):
        made.phase = Phase.DRAINING

    def use_the_second_lane(made):
        made._lanes.second.is_under_way = True

    async def story(what):
        async with dispatcher(broker_settings, tmp_path, broker) as (made, _, _):
            return changed(made, what)

    changes = [wait_for_a_permit, end, use_the_second_lane, lambda made: made._waiting.for_child.clear()]
    assert not asyncio.run(story(lambda _: None))
    assert all(asyncio.run(story(change)) for change in changes)


def test_children_are_heard_late_only_while_the_next_ones_have_jobs(broker_settings, tmp_path, broker):
    """An outcome is wanted at once where it makes room for a job that is yet to be claimed, or the group is to end."""

    def no_answer(made):
        made._lanes.first.failures = 1

    def wait_for_a_permit(made):
        made._waiting.for_permit.append(made._waiting.for_child[0])

    def end(made):
        made.phase = Phase.DRAINING

    async def story(change):
        heard = []
        async with dispatcher(broker_settings, tmp_path, broker) as (made, _, _):
            made.pool.listen = lambda *, on: heard.append(on)
            made._waiting.for_child.append(
                Attempt("a", b"one", "t0", b"t", b"[]", b"", 1, 0, 0, 1 << 62, time.monotonic_ns())
            )
            made._on_report(Room())
            assert heard == [False]
            change(made)
            made._on_report(Room())
        return heard

    for change in (no_answer, wait_for_a_permit, end, lambda made: made._waiting.for_child.clear()):
        assert asyncio.run(story(change)) == [False, True]


def test_what_has_ended_is_heard_before_a_round_trip(broker_settings, tmp_path, broker):
    """So that it is settled in this one, whether the loop has rested or not."""

    async def story():
        steps = []
        async with dispatcher(broker_settings, tmp_path, broker) as (made, _, _):
            made.pool.hear = lambda: steps.append("hear")
            settle = made._lanes.first.settle_and_claim
            made._lanes.first.settle_and_claim = lambda *args: steps.append("settle") or settle(*args)
            await made._round_trip(made._lanes.first)
        return steps

    assert asyncio.run(story()) == ["hear", "settle"]


def test_a_rest_that_began_beside_the_second_lane_ends_sooner_without_it(broker_settings, tmp_path, broker):
    """Its timer was started for the time that the first lane waits for more outcomes."""

    async def story():
        async with dispatcher(broker_settings, tmp_path, broker) as (made, _, _):
            loop, lanes = asyncio.get_running_loop(), made._lanes
            lanes.first.sent = time.monotonic_ns()
            made._waiting.for_child.append(
                Attempt("a", b"one", "t0", b"t", b"[]", b"", 1, 0, 0, 1 << 62, time.monotonic_ns())
            )
            made._timers.start("rest", 60.0)
            await made._try(lanes.first)
            return made._timers._running["rest"].when() - loop.time()

    assert asyncio.run(story()) < 1.0


@pytest.mark.parametrize("since", ["Redis has not answered", "this process was frozen"])
def test_a_claim_does_not_rescue_what_is_held_here(since, broker_settings, tmp_path, broker, run):
    """Its lease is over, nobody else has taken the job yet: the lease is renewed first."""

    async def story():
        async with (
            dispatcher(broker_settings, tmp_path, broker) as (made, _, _),
            connect_async(broker_settings, tmp_path) as own,
        ):
            lane = made._lanes.first
            await made._round_trip(lane)
            [attempt] = made._waiting
            await own.run(plain(as_is, "ZADD", broker.keys.of("a", "started"), "XX", "1", "one"))
            attempt.lease = 0
            if since == "Redis has not answered":
                lane.failures = 1
            else:
                lane.sent_boot -= 10**9
            made.claim_from("a")
            await made._round_trip(lane)
            assert list(made._waiting) == [attempt]
            assert attempt.lease > boot_ns()
            record = await own.run(broker.job("a", "one"))
            assert (record.attempts, record.rescues) == (1, 0)

    run(broker.enqueue("a", [NewJob("one", "t", b"[]")]))
    asyncio.run(story())


@pytest.mark.parametrize("owed", ["a claim", "an outcome"])
def test_a_lost_node_of_a_cluster_is_not_asked_to_renew(owed, broker_settings, tmp_path, broker):
    """All other nodes would wait for its answer with each round trip."""

    async def story():
        async with dispatcher(broker_settings, tmp_path, broker) as (made, first, _):
            attempt = Attempt("a", b"one", "t0", b"t", b"[]", b"", 1, 0, 0, 0, time.monotonic_ns())
            if owed == "a claim":
                made._lanes.first._lost = [_Asked(Share("a", 1), "n", "")]
            else:
                made._lanes.outcomes.keep("a", [(attempt, None)], unanswered=True)
            first.away = True
            return await made._lanes.first.renew_expired([attempt])

    assert not asyncio.run(story())


@pytest.mark.parametrize(("kind", "waits"), [(FINISHED, True), (STOPPED, False)])
def test_a_drain_waits_for_outcomes_of_jobs_that_were_not_confirmed(kind, waits, broker_settings, tmp_path, broker):
    """Redis is away. Not for jobs that were cut off: Redis takes them back by itself."""

    async def story():
        async with dispatcher(broker_settings, tmp_path, broker) as (made, _, _):
            now = time.monotonic_ns()
            attempt = Attempt("a", b"one", "t0", b"t", b"[]", b"", 1, 0, 0, boot_ns(), now, unconfirmed=True)
            made._endings.on_outcome(attempt, OutcomeMessage(1, kind, GIVE_UP, 0.0, b"null"))
            made.drain()
            made._lanes.first.failures = 1
            made._give_up = 1.0  # long ago
            return not made._gives_up()

    assert asyncio.run(story()) == waits
