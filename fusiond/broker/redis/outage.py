"""
Notice that Redis is back, for all parts of a program that wait for it.

1. ask    about once a second, over a connection of its own, for as long as anybody waits: whether Redis takes a write
          and lets its user do all that fusiond does. A replica, or one that cannot save, would answer a PING. To where
          nobody listens that costs next to nothing; a server that hangs has one question to answer when it goes on
2. tell   everybody who waits, at an answer that follows a failure or was long in coming

What fails although Redis answers is not helped by asking sooner: then the caller's own pause, which grows, holds.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable

from fusiond.broker.keys import Keys
from fusiond.broker.redis.connection import AsyncConnection
from fusiond.broker.redis.server_requirements import check_rights
from fusiond.errors import BrokerError
from fusiond.program import wait_until_set

#: s; between two questions, ± a quarter, so that many programs do not come back at once
PACE = 1.0
#: s; an answer that took longer is one of a server that was away
_LONG = 0.5
#: s; for an answer to `trouble`
_SOON = 0.8
#: s; the first and the longest pause between two attempts
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0


def pause(failures: int, longest: float = _LONGEST_PAUSE) -> float:
    """Seconds until Redis is tried again after so many failures in a row: 0.5, 1, 2 … `longest`, ± a quarter."""
    return _spread(min(_FIRST_PAUSE * 2.0 ** min(failures - 1, 16), longest))


def _spread(seconds: float) -> float:
    """Many programs wait for one Redis."""
    return seconds * random.uniform(0.75, 1.25)  # noqa: S311 - guards no secret


def retrying(error: BrokerError) -> str:
    """What the log says once when Redis has gone away."""
    return f"{error}.".replace("?.", "?") + " Retrying until Redis answers."


async def trouble(connection: AsyncConnection, keys: Keys) -> str:
    """Why Redis cannot be worked with just now, as a sentence; "" where it takes a write."""
    try:
        async with asyncio.timeout(_SOON):
            await connection.run(check_rights(keys, connection.shown))
    except TimeoutError:
        return f"Redis at {connection.shown} does not answer within {_SOON:g} s"
    except BrokerError as error:
        return str(error)
    return ""


class Outage:
    """One program's wait for Redis."""

    def __init__(self, connection: AsyncConnection, keys: Keys) -> None:
        """`connection`: for nothing else."""
        self._connection = connection
        self._keys = keys
        self._back = asyncio.Event()
        self._waiting = 0
        self._asking: asyncio.Task[None] | None = None

    async def wait(
        self, failures: int, interrupt: asyncio.Event | None = None, *, longest: float = _LONGEST_PAUSE
    ) -> None:
        """Until Redis has come back, the pause after so many failures is over, or `interrupt` is set."""
        self._waiting += 1
        self._asking = self._asking or asyncio.ensure_future(self._ask())
        events = [self._back] if interrupt is None else [self._back, interrupt]
        waits = [asyncio.ensure_future(event.wait()) for event in events]
        try:
            await asyncio.wait(waits, timeout=pause(failures, longest), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            self._waiting -= 1
            if not self._waiting:
                self._asking.cancel()
                self._asking = None

    async def repeat(
        self,
        work: Callable[[], Awaitable[None]],
        wake: asyncio.Event,
        rest: Callable[[], float],
        on_failure: Callable[[BrokerError], None],
        *,
        longest: float = _LONGEST_PAUSE,
    ) -> None:
        """
        Do something in Redis again and again, until cancelled.

        Args:
            work: what is done. If it raises BrokerError, it is done again after `wait`.
            wake: set by others, to have it done at once; cleared here.
            rest: returns the seconds after which it is done without `wake`, too.
            on_failure: called with each failure.
            longest: as of `wait`.
        """
        failures = 0
        while True:
            if failures:
                await self.wait(failures, longest=longest)
            else:
                await wait_until_set(wake, rest())
            wake.clear()
            try:
                await work()
                failures = 0
            except BrokerError as error:
                failures += 1
                on_failure(error)

    async def _ask(self) -> None:
        """Until cancelled."""
        away = False
        try:
            while True:
                asked = time.monotonic()
                try:
                    await self._connection.run(check_rights(self._keys, self._connection.shown))
                except BrokerError:
                    away = True
                else:
                    if away or time.monotonic() - asked > _LONG:
                        self._back.set()
                        self._back = asyncio.Event()  # for those who wait from now on: the next return
                    away = False
                await asyncio.sleep(_spread(PACE))
        finally:
            await self._connection.close()
