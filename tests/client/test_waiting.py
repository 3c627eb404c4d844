"""What waits for a job goes on through an outage of Redis, until its own time is over."""

import asyncio
import threading
import time

import pytest

from fusiond.broker.call import as_is, looked_at, plain
from fusiond.broker.redis.connection import connect, connect_async
from fusiond.errors import BrokerUnavailable
from tests.support.running import until

READ = plain(as_is, "GET", "waited-for")


def look():
    return (yield READ)


def wait(kind, settings, directory, timeout):
    """What a wait for a key comes to, over a connection for threads or for asyncio."""
    plan = looked_at(look, lambda found: found == b"done", timeout)
    if kind == "threads":
        with connect(settings, directory) as connection:
            return connection.run(plan)

    async def main():
        async with connect_async(settings, directory) as connection:
            return await connection.run(plan)

    return asyncio.run(main())


@pytest.mark.parametrize("kind", ["threads", "asyncio"])
def test_a_wait_goes_on_through_a_restart(kind, broker_settings, redis_server, tmp_path):
    """Redis is away when it looks, and back, with what is waited for, before its time is over."""
    redis_server.ask("SET", "waited-for", "not yet")
    found = []
    waiting = threading.Thread(target=lambda: found.append(wait(kind, broker_settings, tmp_path, 60)))
    waiting.start()
    until(lambda: "get" in str(redis_server.ask("INFO", "commandstats")))
    redis_server.kill()
    time.sleep(0.6)  # several looks
    redis_server.restart()
    redis_server.ask("SET", "waited-for", "done")
    waiting.join(30)
    assert found == [b"done"]


@pytest.mark.parametrize("kind", ["threads", "asyncio"])
def test_a_wait_ends_when_its_time_is_over(kind, broker_settings, redis_server, tmp_path):
    """With the reason: what was found last, or that Redis is away."""
    redis_server.ask("SET", "waited-for", "not yet")
    assert wait(kind, broker_settings, tmp_path, 0.05) == b"not yet"
    redis_server.kill()
    began = time.monotonic()
    with pytest.raises(BrokerUnavailable):
        wait(kind, broker_settings, tmp_path, 0.5)
    assert time.monotonic() - began >= 0.5
