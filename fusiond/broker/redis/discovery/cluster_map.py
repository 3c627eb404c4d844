"""
The nodes of a Cluster, for threads and for asyncio: redis-py's RedisCluster keeps the map of them.
"""

from __future__ import annotations

from redis.asyncio.cluster import ClusterNode as LoopNode
from redis.asyncio.cluster import RedisCluster as LoopClient
from redis.asyncio.retry import Retry as LoopRetry
from redis.backoff import NoBackoff
from redis.cluster import ClusterNode, RedisCluster
from redis.exceptions import RedisClusterException, RedisError
from redis.retry import Retry

from fusiond.broker.redis.address import Place
from fusiond.broker.redis.discovery import redis_py
from fusiond.broker.redis.links import LoopLink, ThreadLink
from fusiond.broker.redis.redis_errors import unavailable
from fusiond.broker.redis.servers import PATIENCE, LoopServer, ThreadServer
from fusiond.broker.redis.sessions import LoopSession, ThreadSession
from fusiond.errors import BrokerError, BrokerUnfit


class ThreadCluster(ThreadServer):
    """The nodes of a Cluster, for threads."""

    _client: RedisCluster | None = None

    def read_map(self) -> RedisCluster:
        """redis-py's client, which keeps the map. Raises BrokerUnavailable or BrokerUnfit."""
        try:
            if self._client is None:
                redis_py.check_files(self.where)
                nodes = [ClusterNode(*place) for place in self.where.places]
                retry = Retry(NoBackoff(), 0)
                options = redis_py.options(self.where, self.where.timeout)
                self._client = RedisCluster(startup_nodes=nodes, require_full_coverage=False, retry=retry, **options)
            else:
                self._client.nodes_manager.initialize()
        except (RedisClusterException, RedisError, OSError) as error:
            self._client = None  # the next time by the nodes of the URL
            raise _no_map(self.where.shown, error) from error
        for name in set(self._links) - {node.name for node in self._client.get_nodes()}:
            self._links.pop(name).close()
        return self._client

    def _make(self, node: str) -> ThreadLink:
        return ThreadLink(node, lambda: ThreadSession(self.where, _place(node)))


class LoopCluster(LoopServer):
    """The same for one event loop."""

    _client: LoopClient | None = None

    async def read_map(self) -> LoopClient:
        """As `ThreadCluster.read_map`."""
        try:
            if self._client is None:
                self._client = self._new_client()
            await self._client.nodes_manager.initialize()
        except (RedisClusterException, RedisError, OSError) as error:
            await self.close()
            self._client = None  # the next time by the nodes of the URL
            raise _no_map(self.where.shown, error) from error
        for name in set(self._links) - {node.name for node in self._client.get_nodes()}:
            self._links.pop(name).end()
        return self._client

    def _new_client(self) -> LoopClient:
        redis_py.check_files(self.where)
        options = redis_py.options(self.where, min(self.where.timeout, PATIENCE))
        options.pop("ssl_password", None)  # it knows no such option, and the files need no password
        return LoopClient(
            startup_nodes=[LoopNode(*place) for place in self.where.places],
            require_full_coverage=False,
            retry=LoopRetry(NoBackoff(), 0),
            **options,
        )

    def new_link(self, node: str) -> LoopLink:
        """As `LoopServer.new_link`."""
        return LoopLink(node, lambda: LoopSession.connected(self.where, _place(node)), self.where.timeout)

    async def close(self) -> None:
        """As `LoopServer.close`."""
        await super().close()
        if self._client is not None:
            await self._client.nodes_manager.aclose()
            await self._client.nodes_manager.aclose("startup_nodes")


def _no_map(shown: str, error: Exception) -> BrokerError:
    """The error of ours for a Cluster whose map no node told."""
    cause = error.__cause__ or error
    if isinstance(cause, BrokerError):
        return cause
    if "Cluster mode is not enabled" in str(cause):
        return BrokerUnfit(f"Redis at {shown} is not a node of a Cluster; write redis:// in broker.url")
    return unavailable(shown, redis_py.as_ours(cause if isinstance(cause, Exception) else error))


def _place(name: str) -> Place:
    host, _, port = name.rpartition(":")
    return host, int(port)
