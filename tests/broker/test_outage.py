"""Waiting for Redis: who waits is told at its first answer, and asks little meanwhile."""

import asyncio
import os
import signal
import time

import pytest

from fusiond.broker.call import as_is, plain
from fusiond.broker.redis.connection import connect_async
from fusiond.broker.redis.outage import Outage, pause

#: s; a wait that is told of the return lasts a second or so, on a busy machine longer, and one that is not 15 s
LONG_BEFORE = 10.0


@pytest.fixture
def waits(broker_settings, broker, tmp_path):
    """`waits(during, count)`: how long `count` waits of 20 s take while `during()` is done after a second."""

    def measure(during, count=3, longest=20.0):
        async def main():
            async with connect_async(broker_settings, tmp_path) as connection:
                wait = Outage(connection, broker.keys)
                waiting = [asyncio.ensure_future(wait.wait(20, longest=longest)) for _ in range(count)]
                await asyncio.sleep(1.0)
                during()
                began = time.monotonic()
                await asyncio.gather(*waiting)
                return time.monotonic() - began

        return asyncio.run(main())

    return measure


def test_the_pause_grows_to_half_a_minute_and_is_spread():
    """0.5 s doubling to 30 s, ± a quarter, for ever."""
    for failures, expected in [(1, 0.5), (2, 1.0), (3, 2.0), (7, 30.0), (10_000, 30.0)]:
        drawn = {pause(failures) for _ in range(50)}
        assert expected * 0.75 <= min(drawn) < max(drawn) <= expected * 1.25


def test_a_server_that_is_started_again_is_noticed(redis_server, waits):
    """All who wait go on soon after the return."""
    redis_server.kill()
    assert waits(redis_server.start) < LONG_BEFORE


def test_a_server_that_goes_on_is_noticed(redis_server, waits):
    """The question that a stopped server has had is answered at once."""
    os.kill(redis_server.process.pid, signal.SIGSTOP)
    assert waits(lambda: os.kill(redis_server.process.pid, signal.SIGCONT)) < LONG_BEFORE


def test_a_replica_that_takes_over_is_noticed(redis_server, run, waits):
    """One that answers, and refuses what changes anything, is away."""
    run(plain(as_is, "REPLICAOF", "127.0.0.1", "1"))
    try:
        assert waits(lambda: run(plain(as_is, "REPLICAOF", "NO", "ONE"))) < LONG_BEFORE
    finally:
        run(plain(as_is, "REPLICAOF", "NO", "ONE"))


@pytest.mark.proof
def test_a_server_that_answers_all_along_shortens_no_pause(redis_server, waits):
    """What fails although Redis answers is not tried again sooner for that."""
    assert waits(lambda: None, longest=4.0) > 1.8
