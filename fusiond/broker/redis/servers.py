"""
The connections to one server: for threads, and for asyncio.

`discovery` has those to the primary that Sentinels name, and to the nodes of a Cluster.
"""

from __future__ import annotations

from fusiond.broker.redis.address import Address
from fusiond.broker.redis.links import LoopLink, ThreadLink
from fusiond.broker.redis.sessions import LoopSession, ThreadSession

#: seconds that a Sentinel, or with asyncio a node that is asked for the map, may take to answer: there are others
PATIENCE = 2.0


class ThreadServer:
    """One server, for threads."""

    def __init__(self, where: Address) -> None:
        """Connects to nothing yet."""
        self.where = where
        self._links: dict[str, ThreadLink] = {}

    def link(self, node: str) -> ThreadLink:
        """The connection to the node; "": to the only one."""
        return self._links.get(node) or self._links.setdefault(node, self._make(node))

    def reconnect(self) -> None:
        """End the connections; the next exchanges make them again."""
        for link in list(self._links.values()):
            link.close()

    def close(self) -> None:
        """The same, and whatever is kept beside them."""
        self.reconnect()

    def _make(self, _node: str) -> ThreadLink:
        return ThreadLink(self.where.shown, lambda: ThreadSession(self.where, self.where.places[0]))


class LoopServer:
    """The same for one event loop."""

    def __init__(self, where: Address) -> None:
        """As of `ThreadServer`."""
        self.where = where
        self._links: dict[str, LoopLink] = {}

    def link(self, node: str) -> LoopLink:
        """As `ThreadServer.link`."""
        return self._links.get(node) or self._links.setdefault(node, self.new_link(node))

    def new_link(self, _node: str) -> LoopLink:
        """A connection of its own."""
        where = self.where
        return LoopLink(where.shown, lambda: LoopSession.connected(where, where.places[0]), where.timeout)

    async def reconnect(self) -> None:
        """As `ThreadServer.reconnect`."""
        for link in list(self._links.values()):
            await link.close()

    async def close(self) -> None:
        """As `ThreadServer.close`, in the midst of an exchange, too."""
        for link in list(self._links.values()):
            link.end()
        self._links.clear()
