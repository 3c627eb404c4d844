"""
Which of redis-py's connections leads to which server: to one, to the primary that Sentinels name, to a Cluster's nodes.

redis-py finds them: its pools, its Sentinel and its RedisCluster, for threads and for asyncio, with no retries of their
own. Added is ROLE: a server that a Sentinel names is asked whether it is a primary, for a Sentinel may be late, or cut
off from the others. Where it is none, another Sentinel is asked first the next time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from redis import ConnectionPool
from redis import asyncio as loop
from redis.asyncio.retry import Retry as LoopRetry
from redis.asyncio.sentinel import SentinelConnectionPool as LoopSentinelPool
from redis.backoff import NoBackoff
from redis.cluster import ClusterNode, RedisCluster
from redis.exceptions import ConnectionError as NoConnection
from redis.exceptions import RedisClusterException
from redis.retry import Retry
from redis.sentinel import MasterNotFoundError, Sentinel, SentinelConnectionPool

from fusiond.broker.redis import tls_files
from fusiond.broker.redis.links import LoopLink, ThreadLink
from fusiond.broker.redis.redis_errors import LOST, no_map, no_primary, sentinel_name

if TYPE_CHECKING:
    from fusiond.broker.redis.address import Address

#: seconds that a Sentinel may take to connect and to answer: there are others
SENTINEL_PATIENCE = 2.0
#: seconds that a node may take to tell the map, with asyncio: there are others
MAP_PATIENCE = 2.0

_LOGIN = ("username", "password", "credential_provider")


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

    def new_link(self, _node: str) -> LoopLink:
        """A connection of its own."""
        pool = loop.ConnectionPool.from_url(self.where.url, **self.where.options)
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


class ThreadSentinel(ThreadServer):
    """The primary that Sentinels name, for threads."""

    def __init__(self, where: Address) -> None:
        """As `ThreadServer`."""
        super().__init__(where)
        once = Retry(NoBackoff(), 0)
        self._sentinels = Sentinels(where.hosts, sentinel_kwargs=_of_sentinels(where, once))
        others = Sentinels(where.hosts, sentinel_kwargs=_of_sentinels(where, once, login=False))
        _add_anonymous(self._sentinels, others)
        options = where.options | {"redis_connect_func": self._check_role}
        self._pool = SentinelConnectionPool(where.service, self._sentinels, **options)

    def is_elsewhere(self) -> bool:
        """Whether the Sentinels name another primary than it is connected to; False where none can be asked."""
        link = self.link("")
        try:
            return link.is_open and _is_other(link.connection, self._pool.get_master_address())
        except LOST:
            return False

    def close(self) -> None:
        """As `ThreadServer.close`."""
        super().close()
        for client in self._sentinels.sentinels:
            client.close()

    def _make(self, _node: str) -> ThreadLink:
        return ThreadLink(self.where.shown, self.where.options, self._pool.make_connection())

    def _check_role(self, connection: Any) -> None:
        connection.on_connect()
        connection.send_command("ROLE")
        _judge_role(connection.read_response(), connection, self._sentinels)


class LoopSentinel(LoopServer):
    """The same for one event loop."""

    def __init__(self, where: Address, seconds: float) -> None:
        """As `LoopServer`."""
        super().__init__(where, seconds)
        once = LoopRetry(NoBackoff(), 0)
        self._sentinels = LoopSentinels(where.hosts, sentinel_kwargs=_of_sentinels(where, once))
        others = LoopSentinels(where.hosts, sentinel_kwargs=_of_sentinels(where, once, login=False))
        _add_anonymous(self._sentinels, others)
        options = where.options | {"redis_connect_func": self._check_role}
        self._pool = LoopSentinelPool(where.service, self._sentinels, **options)

    def new_link(self, _node: str) -> LoopLink:
        """As `LoopServer.new_link`."""
        return LoopLink(self.where.shown, self.where.options, self._pool.make_connection(), self._seconds)

    async def is_elsewhere(self) -> bool:
        """As `ThreadSentinel.is_elsewhere`."""
        connection: Any = self.link("").connection
        try:
            return connection.is_connected and _is_other(connection, await self._pool.get_master_address())
        except LOST:
            return False

    async def close(self) -> None:
        """As `LoopServer.close`."""
        await super().close()
        for client in self._sentinels.sentinels:
            await client.aclose()

    async def _check_role(self, connection: Any) -> None:
        await connection.on_connect()
        await connection.send_command("ROLE")
        _judge_role(await connection.read_response(), connection, self._sentinels)


class Sentinels(Sentinel):
    """redis-py's, with a sentence that says of each Sentinel what is wrong."""

    def discover_master(self, service_name: str) -> tuple[str, int]:
        """Host and port."""
        try:
            return cast("tuple[str, int]", super().discover_master(service_name))
        except MasterNotFoundError as error:
            raise no_primary(service_name, self.sentinels, error) from None


class LoopSentinels(loop.Sentinel):
    """The same for asyncio."""

    async def discover_master(self, service_name: str) -> tuple[str, int]:
        """Host and port."""
        try:
            return cast("tuple[str, int]", await super().discover_master(service_name))
        except loop.sentinel.MasterNotFoundError as error:
            raise no_primary(service_name, self.sentinels, error) from None


def _of_sentinels(where: Address, retry: Any, *, login: bool = True) -> dict[str, Any]:
    """
    Of connections to Sentinels, which have no databases.

    They are told the user and password of the data servers, and asked once more without, in case they have none.
    """
    given = {name: value for name, value in where.options.items() if name != "db" and (login or name not in _LOGIN)}
    return given | {"socket_connect_timeout": SENTINEL_PATIENCE, "socket_timeout": SENTINEL_PATIENCE, "retry": retry}


def _add_anonymous(sentinels: Any, others: Any) -> None:
    if any(sentinels.sentinel_kwargs.get(name) for name in _LOGIN):
        both = zip(sentinels.sentinels, others.sentinels, strict=True)
        sentinels.sentinels = [client for pair in both for client in pair]


def _is_other(connection: Any, named: tuple[Any, Any]) -> bool:
    return (str(named[0]), int(named[1])) != (str(connection.host), int(connection.port))


def _judge_role(role: list[Any], connection: Any, sentinels: Any) -> None:
    """Raise unless it is a primary's."""
    if role[0] != b"master":
        late = sentinels.sentinels.pop(0)
        sentinels.sentinels.append(late)
        server = f"{connection.host}:{connection.port}"
        raise NoConnection(f"the Sentinel {sentinel_name(late)} names {server}, which is a {role[0].decode()}")


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

    _client: loop.RedisCluster | None = None

    async def read_map(self) -> loop.RedisCluster:
        """As `ThreadCluster.read_map`."""
        if self._client is None:
            self._client = loop.RedisCluster(
                startup_nodes=[loop.cluster.ClusterNode(*host) for host in self.where.hosts],
                require_full_coverage=False,
                retry=LoopRetry(NoBackoff(), 0),
                **_of_loop_cluster(self.where.options, min(self._seconds, MAP_PATIENCE)),
            )
        try:
            await self._client.nodes_manager.initialize()
        except (RedisClusterException, *LOST) as error:
            tls_files.check(self.where.options)
            await self._forget()
            raise no_map(self.where.shown, error) from error
        for name in set(self._links) - {node.name for node in self._client.get_nodes()}:
            await self._links.pop(name).end()
        return self._client

    def new_link(self, node: str) -> LoopLink:
        """As `LoopServer.new_link`."""
        client = cast("loop.RedisCluster", self._client)
        known = client.get_node(node_name=node) or loop.cluster.ClusterNode(*_host(node), **client.connection_kwargs)
        return LoopLink(node, self.where.options, known.acquire_connection(), self._seconds, known.release)

    async def close(self) -> None:
        """As `LoopServer.close`."""
        await super().close()
        if self._client is not None:
            await self._client.nodes_manager.aclose()
            await self._client.nodes_manager.aclose("startup_nodes")

    async def _forget(self) -> None:
        """The next time by the nodes of the URL."""
        await self.close()
        self._client = None


def _of_loop_cluster(options: dict[str, Any], seconds: float) -> dict[str, Any]:
    """It takes no password of a key, so the key must need none, or OpenSSL would ask the terminal."""
    tls_files.check(options)
    return {name: value for name, value in options.items() if name != "ssl_password"} | {"socket_timeout": seconds}


def _host(name: str) -> tuple[str, int]:
    host, _, port = name.rpartition(":")
    return host, int(port)
