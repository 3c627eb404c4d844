"""
Tell producers and operators from which queues a worker group claims.

1. say      as soon as it claims, and when its queues change
2. renew    every 10 s; a group that is killed or frozen counts as gone 30 s later
3. end      when it drains: from then on it claims nothing

Nothing depends on it but the warning that nothing serves a queue, and which of two files a producer follows.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from fusiond.broker.daemons import ALIVE_AGAIN
from fusiond.errors import BrokerError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fusiond.broker.redis.connection import AsyncConnection
    from fusiond.broker.verbs import Verbs

log = logging.getLogger(__name__)

#: seconds between two attempts to reach Redis
_AGAIN = 1.0


class Presence:
    """
    What Redis knows of one group.

    Args:
        daemon: the daemon's id.
        worker: the worker's name, `<host>.<pid>`.
        serving: gives the queues from which the group claims now; none while it is held or drains.
    """

    def __init__(
        self,
        broker: Verbs,
        connection: AsyncConnection,
        daemon: str,
        worker: str,
        serving: Callable[[], Sequence[str]],
    ) -> None:
        self._broker, self._connection = broker, connection
        self._daemon, self._worker, self._serving = daemon, worker, serving
        self._changed = asyncio.Event()
        self._said: tuple[str, ...] = ()

    def look(self) -> None:
        """What the group serves may have changed."""
        self._changed.set()

    async def keep(self) -> None:
        """Say it, again and again, until cancelled."""
        while True:
            self._changed.clear()
            pause = ALIVE_AGAIN
            try:
                await self._say(tuple(self._serving()))
            except BrokerError as error:
                log.debug("what this group serves did not reach Redis: %s", error)
                pause = _AGAIN
            await self._wait(pause)

    async def end(self) -> None:
        """Say that the group serves nothing any more. Raises BrokerError."""
        await self._say(())

    async def _say(self, queues: tuple[str, ...]) -> None:
        if queues or self._said:
            # until Redis has answered, either may be true
            self._said = self._said or queues
            await self._connection.run(self._broker.serve(self._daemon, self._worker, queues))
            self._said = queues

    async def _wait(self, seconds: float) -> None:
        if not self._changed.is_set():
            try:
                async with asyncio.timeout(seconds):
                    await self._changed.wait()
            except TimeoutError:
                pass
