"""Questions to Redis over a connection of their own, for threads or for asyncio."""

import asyncio

import pytest

from fusiond.broker.redis.connection import connect, connect_async

KINDS = pytest.mark.parametrize("kind", ["threads", "asyncio"])


def ask(kind, settings, runtime, calls, again=None, **options):
    """The replies. With `again` that is done then, and the same is asked once more over the same connection."""

    async def attempt():
        async with connect_async(settings, runtime, **options) as connection:
            replies = await connection.run_many(calls)
            if again:
                again()
                replies += await connection.run_many(calls)
            return replies

    if kind == "asyncio":
        return asyncio.run(attempt())
    with connect(settings, runtime, **options) as connection:
        replies = connection.run_many(calls)
        if again:
            again()
            replies += connection.run_many(calls)
        return replies
