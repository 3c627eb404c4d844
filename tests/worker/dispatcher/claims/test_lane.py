"""A dispatcher's round trips: what is asked again, and when, where a reply was lost."""

import asyncio
import contextlib

import pytest

from fusiond.broker.records import NewJob, Outcome
from fusiond.broker.redis.connection import connect_async
from fusiond.config.model import Config, WorkerGroup
from fusiond.errors import BrokerUnavailable
from fusiond.worker.dispatcher.claims.lane import Lane
from fusiond.worker.dispatcher.claims.lanes import Lanes
from fusiond.worker.dispatcher.claims.leases import renew
from fusiond.worker.dispatcher.claims.queue_order import Share
from fusiond.worker.dispatcher.ends.outcomes import Outcomes, Refusals
from fusiond.worker.pool.group_config import GroupConfig

CONF = GroupConfig(Config(), WorkerGroup("main"))


class Lossy:
    """A connection on which Redis does what it is asked, and the reply of one call is lost, as with a dead node."""

    def __init__(self, connection):
        self._connection, self.lose = connection, None
        #: whether nothing reaches Redis
        self.away = False
        self.asked = []
        #: how many calls each round trip had
        self.calls = []

    async def run_many(self, calls):
        self.asked += calls
        self.calls.append(len(calls))
        if self.away:
            raise BrokerUnavailable("away")
        replies = await self._connection.run_many(calls)
        if self.lose is not None:
            replies[self.lose], self.lose = BrokerUnavailable("lost"), None
        return replies


@pytest.fixture
def played(broker_settings, tmp_path, broker):
    """`played(story)`: what `story(lane, its connection, its outcomes)` returns."""

    def played(story, on_end=pytest.fail):
        async def play():
            async with connect_async(broker_settings, tmp_path) as connection:
                lossy, outcomes = Lossy(connection), Outcomes(CONF, on_end, pytest.fail)
                return await story(Lane("host.1", broker, lossy, outcomes, Refusals()), lossy, outcomes)

        return asyncio.run(play())

    return played


def finished(attempt):
    return Outcome(attempt.id, attempt.token, "finished")


def test_a_repeat_says_that_it_is_one(played):
    """And the next claim, which has a nonce of its own, is none."""

    async def story(lane, lossy, _):
        for lossy.away in (True, True, False, False):
            with contextlib.suppress(BrokerUnavailable):
                await lane.settle_and_claim([Share("a", 2)])
        return [(call.words[6], int(call.words[11])) for call in lossy.asked]

    nonces, again = zip(*played(story), strict=True)
    assert again == (0, 1, 1, 0)
    assert nonces[0] == nonces[1] == nonces[2] != nonces[3]


def test_the_chores_of_a_full_group_are_done_after_a_lost_request(played, broker, run, redis):
    """It claims no jobs, so that the inbox is taken in."""
    redis("LPUSH", broker.keys.of("a", "inbox"), b'{"task":"t"}')

    async def story(lane, lossy, _):
        for lossy.away in (True, False):
            with contextlib.suppress(BrokerUnavailable):
                await lane.settle_and_claim([Share("a", 0)])

    played(story)
    assert run(broker.counts("a")).queued == 1


class Deaf(Lossy):
    """A connection on which Redis does what it is asked, and the whole reply is lost, once."""

    deaf = True

    async def run_many(self, calls):
        replies = await super().run_many(calls)
        if self.deaf:
            self.deaf = False
            raise BrokerUnavailable("lost")
        return replies


def test_each_lane_has_what_it_claimed_whose_reply_was_lost(broker_settings, tmp_path, broker, run):
    """Both replies are lost, in whatever order they are asked for again: each lane has its own jobs, once."""

    async def story():
        async with connect_async(broker_settings, tmp_path) as one, connect_async(broker_settings, tmp_path) as other:
            lanes = Lanes("host.1", broker, (Deaf(one), Deaf(other)), Outcomes(CONF, pytest.fail, pytest.fail))
            for lane in (lanes.first, lanes.second):
                with pytest.raises(BrokerUnavailable):
                    await lane.settle_and_claim([Share("a", 2)])
            assert not lanes.is_done
            found = [(await lane.settle_and_claim([Share("a", 2)]))[0] for lane in (lanes.first, lanes.second)]
            assert lanes.is_done
            return [[attempt.id for attempt in claimed.attempts] for [claimed] in found]

    run(broker.enqueue("a", [NewJob(f"a{n}", "t", b"[]") for n in range(6)]))
    assert asyncio.run(story()) == [[b"a0", b"a1"], [b"a2", b"a3"]]
    assert [run(broker.job("a", f"a{n}")).attempts for n in range(6)] == [1, 1, 1, 1, 0, 0]


def test_a_lane_settles_what_the_other_one_claimed(broker_settings, tmp_path, broker, run):
    """An outcome goes with whichever lane goes first, under the token of its claim; its lease is kept until then."""

    async def story():
        async with connect_async(broker_settings, tmp_path) as one, connect_async(broker_settings, tmp_path) as other:
            lanes = Lanes("host.1", broker, (one, Deaf(other)), Outcomes(CONF, pytest.fail, pytest.fail))
            [claimed], _ = await lanes.first.settle_and_claim([Share("a", 1)])
            [attempt] = claimed.attempts
            lanes.outcomes.add(attempt, finished(attempt))
            with pytest.raises(BrokerUnavailable):
                await lanes.second.settle_and_claim([])
            # Redis has it, and nobody knows.
            assert list(lanes.unsettled()) == [attempt]
            assert await lanes.first.settle_and_claim([]) == ([], [])
            assert not lanes.is_done
            await lanes.second.settle_and_claim([])
            assert lanes.is_done
            return lanes.outcomes.counts["finished"]

    run(broker.enqueue("a", [NewJob("a0", "t", b"[]")]))
    assert asyncio.run(story()) == 1
    assert run(broker.job("a", "a0")).status == "finished"


def test_what_a_lost_node_owes_one_lane_that_lane_asks_for(broker_settings, tmp_path, broker, run):
    """Its nonce is under its own name; what it was to settle goes with either lane."""

    async def story():
        async with connect_async(broker_settings, tmp_path) as one, connect_async(broker_settings, tmp_path) as other:
            lanes = Lanes("host.1", broker, (one, lossy := Lossy(other)), Outcomes(CONF, pytest.fail, pytest.fail))
            [claimed], _ = await lanes.first.settle_and_claim([Share("a", 1)])
            lanes.outcomes.add(claimed.attempts[0], finished(claimed.attempts[0]))
            lossy.lose = 0
            [claimed], _ = await lanes.second.settle_and_claim([Share("a", 1)])
            lossy.lose = 0
            assert await lanes.second.settle_and_claim([Share("a", 1)]) == ([], [])
            assert (lanes.second.has_lost, lanes.refused, lanes.is_done) == (True, True, False)
            lanes.ask_lost()
            assert await lanes.first.settle_and_claim([]) == ([], [])
            assert lanes.is_done
            [again], _ = await lanes.second.settle_and_claim([])
            assert not lanes.second.has_lost
            return [each.attempts[0].id for each in (claimed, again)], lanes.outcomes.counts["finished"]

    run(broker.enqueue("a", [NewJob(f"a{n}", "t", b"[]") for n in range(4)]))
    assert asyncio.run(story()) == ([b"a1", b"a2"], 1)


def test_a_lost_node_holds_up_no_round_trip_of_the_others(played, broker, run):
    """What it was asked waits until it is to be asked again, and is neither forgotten nor said to be through."""

    async def story(lane, lossy, outcomes):
        [claimed], _ = await lane.settle_and_claim([Share("a", 1)])
        outcomes.add(claimed.attempts[0], finished(claimed.attempts[0]))
        lossy.lose = 0
        assert await lane.settle_and_claim([]) == ([], [])
        assert (lane.refused, outcomes.is_done) == (True, False)
        lossy.lose = 0
        assert await lane.settle_and_claim([Share("a", 1)]) == ([], [])
        [other], _ = await lane.settle_and_claim([Share("a", 1), Share("b", 1)])
        assert other.share.queue == "b"
        lane.ask_lost()
        [again], _ = await lane.settle_and_claim([])
        assert lane.is_done
        assert outcomes.is_done
        assert (again.share.queue, again.claim.jobs[0].id) == ("a", b"a1")
        return lossy.calls, outcomes.counts["finished"]

    for queue in "ab":
        run(broker.enqueue(queue, [NewJob(f"{queue}{n}", "t", b"[]") for n in range(3)]))
    assert played(story) == ([1, 1, 1, 1, 2], 1)
    assert run(broker.job("a", "a1")).attempts == 1


def test_a_lease_is_kept_until_its_settle_is_answered(played, broker, run):
    """Two time-outs in a row take longer than a lease: what has run must not run again meanwhile."""

    async def story(lane, lossy, outcomes):
        [claimed], _ = await lane.settle_and_claim([Share("a", 2)])
        first, second = claimed.attempts
        lossy.away = True
        outcomes.add(first, finished(first))
        with pytest.raises(BrokerUnavailable):
            await lane.settle_and_claim([])
        outcomes.add(second, finished(second))
        waiting = [*outcomes.unsettled(), *lane.unsettled()]
        lossy.away = False
        assert await renew(broker, lossy, waiting) == (False, None)
        await lane.settle_and_claim([])
        await lane.settle_and_claim([])
        assert [*outcomes.unsettled(), *lane.unsettled()] == []
        return {attempt.id for attempt in waiting}, outcomes.counts["finished"]

    run(broker.enqueue("a", [NewJob(f"a{n}", "t", b"[]") for n in range(2)]))
    assert played(story) == ({b"a0", b"a1"}, 2)


@pytest.mark.parametrize("again", [False, True])
def test_a_job_that_redis_has_canceled_instead_is_told_of_once(played, broker, run, again):
    """It was to be tried again, and a cancel had come: also where the first reply was lost."""
    told = []

    async def story(lane, lossy, outcomes):
        [claimed], _ = await lane.settle_and_claim([Share("a", 1)])
        [attempt] = claimed.attempts
        await lossy.run_many([broker.cancel("a", "a0")])
        outcomes.add(attempt, Outcome(attempt.id, attempt.token, "retry", 1000))
        lossy.lose = 0 if again else None
        await lane.settle_and_claim([])
        lane.ask_lost()
        await lane.settle_and_claim([])
        return attempt

    run(broker.enqueue("a", [NewJob("a0", "t", b"[]")]))
    attempt = played(story, lambda attempt, outcome: told.append((attempt, outcome.kind)))
    assert told == [(attempt, "canceled")]
