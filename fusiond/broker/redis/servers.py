"""
redis-py's connections to one server: for threads, and for asyncio.

Its pools make them, with no retries of their own. sentinels.py and cluster_map.py have those to the primary that
Sentinels name, and to the nodes of a Cluster.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from redis.asyncio.connection import ConnectionPool as LoopPool
from redis.connection import ConnectionPool

from fusiond.broker.redis.address import Address
from fusiond.broker.redis.links import LoopLink, ThreadLink
from fusiond.broker.redis.redis_errors import LOST, unavailable

#: seconds that a Sentinel, or with asyncio a node that is asked for the map, may take to answer: there are others
PATIENCE = 2.0


class ThreadServer:
    """One server, for threads."""

    def __init__(self, where: Address) -> None:
        """Connects to nothing yet."""
        self.where = where
        self._links: dict[str, ThreadLink] = {}

    def link(self, node: str) -> ThreadLink:
        """The connection to the node; "": to the only one. Raises BrokerUnavailable."""
        if link := self._links.get(node):
            return link
        with _unavailable_if_not_made(self.where.shown):
            return self._links.setdefault(node, self._make(node))

    def reconnect(self) -> None:
        """End the connections; the next exchanges make them anew."""
        for link in list(self._links.values()):
            link.close()

    def close(self) -> None:
        """The same, and whatever is kept beside them."""
        self.reconnect()

    def _make(self, _node: str) -> ThreadLink:
        pool = ConnectionPool.from_url(self.where.url, **self.where.options)
        return ThreadLink(self.where.shown, self.where.options, pool.make_connection())


class LoopServer:
    """The same for one event loop."""

    def __init__(self, where: Address, seconds: float) -> None:
        """`seconds`: for each reply."""
        self.where, self._seconds = where, seconds
        self._links: dict[str, LoopLink] = {}

    def link(self, node: str) -> LoopLink:
        """As `ThreadServer.link`."""
        return self._links.get(node) or self._links.setdefault(node, self.new_link(node))

    def new_link(self, node: str) -> LoopLink:
        """A connection of its own. Raises BrokerUnavailable."""
        with _unavailable_if_not_made(self.where.shown):
            return self._make(node)

    def _make(self, _node: str) -> LoopLink:
        pool = LoopPool.from_url(self.where.url, **self.where.options)
        return LoopLink(self.where.shown, self.where.options, pool.make_connection(), self._seconds)

    async def reconnect(self) -> None:
        """As `ThreadServer.reconnect`."""
        for link in list(self._links.values()):
            await link.close()

    async def close(self) -> None:
        """As `ThreadServer.close`, in the midst of an exchange, too."""
        for link in list(self._links.values()):
            await link.end()
        self._links.clear()


@contextlib.contextmanager
def _unavailable_if_not_made(shown: str) -> Iterator[None]:
    """Raises BrokerUnavailable if no connection can be made: redis-py opens a file of its own for each."""
    try:
        yield
    except LOST as error:
        raise unavailable(shown, error) from error
