"""
The primary that Sentinels name, for threads and for asyncio.

redis-py's Sentinel finds it. Added is ROLE: a server that a Sentinel names is asked whether it is a primary, for a
Sentinel may be late, or cut off from the others. Where it is none, another Sentinel is asked first the next time.
"""

from __future__ import annotations

from typing import Any, cast

from redis.asyncio.retry import Retry as LoopRetry
from redis.asyncio.sentinel import MasterNotFoundError as NotFoundByLoop
from redis.asyncio.sentinel import Sentinel as LoopSentinelClient
from redis.asyncio.sentinel import SentinelConnectionPool as LoopSentinelPool
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as NoConnection
from redis.retry import Retry
from redis.sentinel import MasterNotFoundError, Sentinel, SentinelConnectionPool

from fusiond.broker.redis.address import Address
from fusiond.broker.redis.links import LoopLink, ThreadLink
from fusiond.broker.redis.redis_errors import LOST, no_primary, sentinel_name
from fusiond.broker.redis.servers import PATIENCE, LoopServer, ThreadServer

_LOGIN = ("username", "password", "credential_provider")


class ThreadSentinel(ThreadServer):
    """The primary that Sentinels name, for threads."""

    def __init__(self, where: Address) -> None:
        """As `ThreadServer`."""
        super().__init__(where)
        self._sentinels = _sentinels(Sentinels, where, Retry(NoBackoff(), 0))
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
        self._sentinels = _sentinels(LoopSentinels, where, LoopRetry(NoBackoff(), 0))
        options = where.options | {"redis_connect_func": self._check_role}
        self._pool = LoopSentinelPool(where.service, self._sentinels, **options)

    def _make(self, _node: str) -> LoopLink:
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


class LoopSentinels(LoopSentinelClient):
    """The same for asyncio."""

    async def discover_master(self, service_name: str) -> tuple[str, int]:
        """Host and port."""
        try:
            return cast("tuple[str, int]", await super().discover_master(service_name))
        except NotFoundByLoop as error:
            raise no_primary(service_name, self.sentinels, error) from None


def _sentinels(kind: Any, where: Address, retry: Any) -> Any:
    """
    The Sentinels of `kind`; they have no databases.

    Each is told the user and password of the data servers, and asked once more without, in case it has none.
    """
    options = where.options | {"socket_connect_timeout": PATIENCE, "socket_timeout": PATIENCE, "retry": retry}
    options.pop("db", None)
    found = kind(where.hosts, sentinel_kwargs=options)
    if any(options.get(name) for name in _LOGIN):
        without = {name: value for name, value in options.items() if name not in _LOGIN}
        both = zip(found.sentinels, kind(where.hosts, sentinel_kwargs=without).sentinels, strict=True)
        found.sentinels = [client for pair in both for client in pair]
    return found


def _is_other(connection: Any, named: tuple[Any, Any]) -> bool:
    return (str(named[0]), int(named[1])) != (str(connection.host), int(connection.port))


def _judge_role(role: list[Any], connection: Any, sentinels: Any) -> None:
    """Raise unless it is a primary's."""
    if role[0] != b"master":
        late = sentinels.sentinels.pop(0)
        sentinels.sentinels.append(late)
        server = f"{connection.host}:{connection.port}"
        raise NoConnection(f"the Sentinel {sentinel_name(late)} names {server}, which is a {role[0].decode()}")
