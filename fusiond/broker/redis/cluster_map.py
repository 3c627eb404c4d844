"""
The nodes of a Cluster, for threads and for asyncio: redis-py's RedisCluster keeps the map of them.
"""

from __future__ import annotations

from typing import Any, cast

from redis.asyncio.cluster import ClusterNode as LoopNode
from redis.asyncio.cluster import RedisCluster as LoopClient
from redis.asyncio.retry import Retry as LoopRetry
from redis.backoff import NoBackoff
from redis.cluster import ClusterNode, RedisCluster
from redis.exceptions import RedisClusterException
from redis.retry import Retry

from fusiond.broker.redis import tls_files
from fusiond.broker.redis.links import LoopLink, ThreadLink
from fusiond.broker.redis.redis_errors import LOST, no_map
from fusiond.broker.redis.servers import PATIENCE, LoopServer, ThreadServer


class ThreadCluster(ThreadServer):
    """The nodes of a Cluster, for threads."""

    _client: RedisCluster | None = None

    def read_map(self) -> RedisCluster:
        """redis-py's client, which keeps the map. Raises BrokerUnavailable or BrokerUnfit."""
        try:
            if self._client is None:
                nodes = [ClusterNode(*host) for host in self.where.hosts]
                retry = Retry(NoBackoff(), 0)
                self._client = RedisCluster(
                    startup_nodes=nodes, require_full_coverage=False, retry=retry, **self.where.options
                )
            else:
                self._client.nodes_manager.initialize()
        except (RedisClusterException, *LOST) as error:
            tls_files.check(self.where.options)
            self._client = None  # the next time by the nodes of the URL
            raise no_map(self.where.shown, error) from error
        for name in set(self._links) - {node.name for node in self._client.get_nodes()}:
            self._links.pop(name).close()
        return self._client

    def _make(self, node: str) -> ThreadLink:
        client = cast("RedisCluster", self._client)
        known = client.get_node(node_name=node) or ClusterNode(*_host(node))
        return ThreadLink(
            node, self.where.options, client.get_redis_connection(known).connection_pool.make_connection()
        )


class LoopCluster(LoopServer):
    """The same for one event loop."""

    _client: LoopClient | None = None

    async def read_map(self) -> LoopClient:
        """As `ThreadCluster.read_map`."""
        if self._client is None:
            self._client = LoopClient(
                startup_nodes=[LoopNode(*host) for host in self.where.hosts],
                require_full_coverage=False,
                retry=LoopRetry(NoBackoff(), 0),
                **_of_loop_cluster(self.where.options, min(self._seconds, PATIENCE)),
            )
        try:
            await self._client.nodes_manager.initialize()
        except (RedisClusterException, *LOST) as error:
            tls_files.check(self.where.options)
            await self.close()
            self._client = None  # the next time by the nodes of the URL
            raise no_map(self.where.shown, error) from error
        for name in set(self._links) - {node.name for node in self._client.get_nodes()}:
            await self._links.pop(name).end()
        return self._client

    def _make(self, node: str) -> LoopLink:
        client = cast("LoopClient", self._client)
        known = client.get_node(node_name=node) or LoopNode(*_host(node), **client.connection_kwargs)
        connection = known.connection_class(**known.connection_kwargs)
        return LoopLink(node, self.where.options, connection, self._seconds)

    async def close(self) -> None:
        """As `LoopServer.close`."""
        await super().close()
        if self._client is not None:
            await self._client.nodes_manager.aclose()
            await self._client.nodes_manager.aclose("startup_nodes")


def _of_loop_cluster(options: dict[str, Any], seconds: float) -> dict[str, Any]:
    """It takes no password of a key, so the key must need none, or OpenSSL would ask the terminal."""
    tls_files.check(options)
    return {name: value for name, value in options.items() if name != "ssl_password"} | {"socket_timeout": seconds}


def _host(name: str) -> tuple[str, int]:
    host, _, port = name.rpartition(":")
    return host, int(port)
