"""A dispatcher's round trips: what is asked again, and when, where a reply was lost."""

import asyncio

import pytest

from fusiond.broker.call import as_is, plain
from fusiond.broker.records import NewJob, Outcome
from fusiond.broker.redis.connection import connect_async
from fusiond.errors import BrokerUnavailable
from fusiond.worker.dispatcher.exchange import Exchange
from fusiond.worker.dispatcher.leases import renew
from fusiond.worker.dispatcher.queue_order import Share


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


def finished(attempt):
    return Outcome(attempt.id, attempt.token, "finished")


def test_a_claim_whose_reply_alone_was_lost_is_asked_again(broker_settings, tmp_path, broker, run):
    """Under its token, so that its jobs are had at once and once; they do not wait for their leases to expire."""

    async def story():
        async with connect_async(broker_settings, tmp_path) as connection:
            lossy = Lossy(connection)
            exchange = Exchange("host.1", broker, lossy, pytest.fail)
            lossy.lose = 0
            first = await exchange.settle_and_claim([Share("a", 2), Share("b", 2)])
            exchange.ask_lost()
            second = await exchange.settle_and_claim([Share("a", 1)])
            return first, second, await exchange.settle_and_claim([Share("a", 1)])

    for queue in "ab":
        run(broker.enqueue(queue, [NewJob(f"{queue}{n}", "t", b"[]") for n in range(3)]))
    first, second, third = asyncio.run(story())
    assert [(claimed.share.queue, [job.id for job in claimed.claim.jobs]) for claimed in first] == [
        ("b", [b"b0", b"b1"])
    ]
    assert [(claimed.share.queue, [job.id for job in claimed.claim.jobs]) for claimed in second] == [
        ("a", [b"a0", b"a1"])
    ]
    assert [(claimed.share.queue, [job.id for job in claimed.claim.jobs]) for claimed in third] == [("a", [b"a2"])]
    assert run(broker.job("a", "a0")).attempts == 1


def test_a_lost_node_holds_up_no_round_trip_of_the_others(broker_settings, tmp_path, broker, run):
    """What it was asked waits until it is to be asked again, and is neither forgotten nor said to be through."""

    async def story():
        async with connect_async(broker_settings, tmp_path) as connection:
            lossy = Lossy(connection)
            exchange = Exchange("host.1", broker, lossy, pytest.fail)
            [claimed] = await exchange.settle_and_claim([Share("a", 1)])
            exchange.add_outcome(claimed.attempts[0], finished(claimed.attempts[0]))
            lossy.lose = 0
            assert await exchange.settle_and_claim([]) == []
            assert (exchange.refused, exchange.done()) == (True, False)
            lossy.lose = 0
            assert await exchange.settle_and_claim([Share("a", 1)]) == []
            assert [each.share.queue for each in await exchange.settle_and_claim([Share("a", 1), Share("b", 1)])] == [
                "b"
            ]
            exchange.ask_lost()
            again = await exchange.settle_and_claim([])
            assert exchange.done()
            return (
                lossy.calls,
                [(each.share.queue, each.claim.jobs[0].id) for each in again],
                exchange.counts["finished"],
            )

    for queue in "ab":
        run(broker.enqueue(queue, [NewJob(f"{queue}{n}", "t", b"[]") for n in range(3)]))
    assert asyncio.run(story()) == ([1, 1, 1, 1, 2], [("a", b"a1")], 1)


def test_a_lease_is_kept_until_its_settle_is_answered(broker_settings, tmp_path, broker, run):
    """Two time-outs in a row take longer than a lease: what has run must not run again meanwhile."""

    async def story():
        async with connect_async(broker_settings, tmp_path) as connection:
            lossy = Lossy(connection)
            exchange = Exchange("host.1", broker, lossy, pytest.fail)
            [claimed] = await exchange.settle_and_claim([Share("a", 2)])
            first, second = claimed.attempts
            lossy.away = True
            exchange.add_outcome(first, finished(first))
            with pytest.raises(BrokerUnavailable):
                await exchange.settle_and_claim([])
            exchange.add_outcome(second, finished(second))
            waiting = list(exchange.unsettled())
            assert all(attempt.begun for attempt in waiting), "none of them expires any more"
            assert await renew(broker, connection, waiting) == (False, None)
            lossy.away = False
            await exchange.settle_and_claim([])
            await exchange.settle_and_claim([])
            assert list(exchange.unsettled()) == []
            return {attempt.id for attempt in waiting}, exchange.counts["finished"]

    run(broker.enqueue("a", [NewJob(f"a{n}", "t", b"[]") for n in range(2)]))
    assert asyncio.run(story()) == ({b"a0", b"a1"}, 2)


@pytest.mark.parametrize("again", [False, True])
def test_a_job_that_redis_has_canceled_instead_is_told_of_once(broker_settings, tmp_path, broker, run, again):
    """It was to be tried again, and a cancel had come: also where the first reply was lost."""
    told = []

    async def story():
        async with connect_async(broker_settings, tmp_path) as connection:
            lossy = Lossy(connection)
            exchange = Exchange("host.1", broker, lossy, lambda attempt, outcome: told.append((attempt, outcome.kind)))
            [claimed] = await exchange.settle_and_claim([Share("a", 1)])
            [attempt] = claimed.attempts
            await connection.run(broker.cancel("a", "a0"))
            exchange.add_outcome(attempt, Outcome(attempt.id, attempt.token, "retry", 1000))
            lossy.lose = 0 if again else None
            await exchange.settle_and_claim([])
            exchange.ask_lost()
            await exchange.settle_and_claim([])
            return attempt

    run(broker.enqueue("a", [NewJob("a0", "t", b"[]")]))
    attempt = asyncio.run(story())
    assert told == [(attempt, "canceled")]


def test_a_permit_is_stored_of_a_job_that_its_child_had_marked_as_begun(broker_settings, tmp_path, broker, run):
    """A child that finds a job taken back has marked it; noted as begun, it would run again after a lost lease."""

    async def story():
        async with connect_async(broker_settings, tmp_path) as connection:
            exchange = Exchange("host.1", broker, connection, pytest.fail)
            [claimed] = await exchange.settle_and_claim([Share("a", 1)])
            [attempt] = claimed.attempts
            attempt.begun = True
            await exchange.permit([attempt])
            return attempt

    run(broker.enqueue("a", [NewJob("a1", "t", b"[]")]))
    attempt = asyncio.run(story())
    assert attempt.permitted
    assert run(plain(as_is, "HGET", broker.keys.of("a", "job", "a1"), "permit")) == attempt.token.encode()
