"""A dispatcher's round trips: what is asked again, and when, where a reply was lost."""

import asyncio

import pytest

from fusiond.broker.records import NewJob, Outcome
from fusiond.broker.redis.connection import connect_async
from fusiond.errors import BrokerUnavailable
from fusiond.worker.dispatcher.exchange import Exchange
from fusiond.worker.dispatcher.leases import renew
from fusiond.worker.dispatcher.verdicts import unsettled


class Lossy:
    """A connection on which Redis does what it is asked, and the reply of one call is lost, as with a dead node."""

    def __init__(self, connection):
        self._connection, self.lose = connection, None
        #: whether nothing reaches Redis
        self.away = False
        #: how many calls each round trip had
        self.calls = []

    async def run_many(self, calls):
        self.calls.append(len(calls))
        if self.away:
            raise BrokerUnavailable("away")
        replies = await self._connection.run_many(calls)
        if self.lose is not None:
            replies[self.lose], self.lose = BrokerUnavailable("lost"), None
        return replies


def test_a_claim_whose_reply_alone_was_lost_is_asked_again(broker_settings, tmp_path, broker, run):
    """Under its token, so that its jobs are had at once and once; they do not wait for their leases to expire."""

    async def story():
        async with connect_async(broker_settings, tmp_path) as connection:
            lossy = Lossy(connection)
            exchange = Exchange("host.1", broker, lossy)
            lossy.lose = 0
            first = await exchange.run([("a", 2), ("b", 2)])
            exchange.ask_lost()
            second = await exchange.run([("a", 1)])
            return first, second, await exchange.run([("a", 1)])

    for queue in "ab":
        run(broker.enqueue(queue, [NewJob(f"{queue}{n}", "t", b"[]") for n in range(3)]))
    first, second, third = asyncio.run(story())
    assert [(claimed.queue, [job.id for job in claimed.claim.jobs]) for claimed in first] == [("b", [b"b0", b"b1"])]
    assert [(claimed.queue, [job.id for job in claimed.claim.jobs]) for claimed in second] == [("a", [b"a0", b"a1"])]
    assert [(claimed.queue, [job.id for job in claimed.claim.jobs]) for claimed in third] == [("a", [b"a2"])]
    assert run(broker.job("a", "a0")).attempts == 1


def test_a_lost_node_holds_up_no_round_trip_of_the_others(broker_settings, tmp_path, broker, run):
    """What it was asked waits until it is to be asked again, and is neither forgotten nor said to be through."""

    async def story():
        async with connect_async(broker_settings, tmp_path) as connection:
            lossy = Lossy(connection)
            exchange = Exchange("host.1", broker, lossy)
            [claimed] = await exchange.run([("a", 1)])
            exchange.add_outcome("a", Outcome(claimed.claim.jobs[0].id, claimed.nonce, "finished"))
            lossy.lose = 0
            assert await exchange.run([]) == []
            assert (exchange.refused, exchange.asks_again(), exchange.done()) == (True, False, False)
            lossy.lose = 0
            assert await exchange.run([("a", 1)]) == []
            assert [each.queue for each in await exchange.run([("a", 1), ("b", 1)])] == ["b"]
            exchange.ask_lost()
            again = await exchange.run([])
            assert exchange.done()
            return lossy.calls, [(each.queue, each.claim.jobs[0].id) for each in again], exchange.counts["finished"]

    for queue in "ab":
        run(broker.enqueue(queue, [NewJob(f"{queue}{n}", "t", b"[]") for n in range(3)]))
    assert asyncio.run(story()) == ([1, 1, 1, 1, 2], [("a", b"a1")], 1)


def test_a_lease_is_kept_until_its_settle_is_answered(broker_settings, tmp_path, broker, run):
    """Two time-outs in a row take longer than a lease: what has run must not run again meanwhile."""

    async def story():
        async with connect_async(broker_settings, tmp_path) as connection:
            lossy = Lossy(connection)
            exchange = Exchange("host.1", broker, lossy)
            [claimed] = await exchange.run([("a", 2)])
            first, second = (Outcome(job.id, claimed.nonce, "finished") for job in claimed.claim.jobs)
            lossy.away = True
            exchange.add_outcome("a", first)
            with pytest.raises(BrokerUnavailable):
                await exchange.run([])
            exchange.add_outcome("a", second)
            waiting = [unsettled(queue, outcome) for queue, outcome in exchange.unsettled()]
            assert await renew(broker, connection, waiting) == (False, None)
            lossy.away = False
            await exchange.run([])
            await exchange.run([])
            assert list(exchange.unsettled()) == []
            return {attempt.id for attempt in waiting}, exchange.counts["finished"]

    run(broker.enqueue("a", [NewJob(f"a{n}", "t", b"[]") for n in range(2)]))
    assert asyncio.run(story()) == ({b"a0", b"a1"}, 2)
