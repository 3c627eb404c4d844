"""
The primary that Sentinels name, for threads and for asyncio.

redis-py's Sentinel finds it. Added is ROLE: a server that a Sentinel names is asked whether it is a primary, for a
Sentinel may be late, or cut off from the others. Where it is none, another Sentinel is asked first the next time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from hiredis import pack_command
from redis.asyncio.retry import Retry as LoopRetry
from redis.asyncio.sentinel import MasterNotFoundError as NotFoundByLoop
from redis.asyncio.sentinel import Sentinel as LoopSentinelClient
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry
from redis.sentinel import MasterNotFoundError
from redis.sentinel import Sentinel as ThreadSentinelClient

from fusiond.broker.redis.address import Address, Place
from fusiond.broker.redis.discovery import redis_py
from fusiond.broker.redis.links import LoopLink, ThreadLink
from fusiond.broker.redis.redis_errors import LOST, ReplyError
from fusiond.broker.redis.servers import PATIENCE, LoopServer, ThreadServer
from fusiond.broker.redis.sessions import LoopSession, ThreadSession
from fusiond.errors import BrokerUnavailable

_ROLE = pack_command(("ROLE",))
#: of redis-py's exceptions from a Sentinel, by class: what is wrong with it
_KINDS = {"AuthenticationError": "log-in refused", "TimeoutError": "no answer in time"}


class ThreadSentinel(ThreadServer):
    """The primary that Sentinels name, for threads."""

    def __init__(self, where: Address) -> None:
        """As `ThreadServer`."""
        super().__init__(where)
        self._sentinels = _sentinels(ThreadSentinelClient, where, Retry(NoBackoff(), 0))

    def is_elsewhere(self) -> bool:
        """Whether the Sentinels name another primary than it is connected to; False where none can be asked."""
        place = self.link("").place
        try:
            return place is not None and place != self._named()
        except (*LOST, BrokerUnavailable):
            return False

    def close(self) -> None:
        """As `ThreadServer.close`."""
        super().close()
        for client in self._sentinels.sentinels:
            client.close()

    def _make(self, _node: str) -> ThreadLink:
        return ThreadLink(self.where.shown, self._dial)

    def _dial(self) -> ThreadSession:
        redis_py.check_files(self.where)
        made = ThreadSession(self.where, self._named())
        try:
            made.send(_ROLE)
            _judge_role(made.read(), made.place, self._sentinels)
        except BaseException:
            made.close()
            raise
        return made

    def _named(self) -> Place:
        try:
            return _place(self._sentinels.discover_master(self.where.service))
        except MasterNotFoundError as error:
            raise _no_primary(self.where.service, self._sentinels.sentinels, error) from None
        except RedisError as error:
            raise redis_py.as_ours(error) from error


class LoopSentinel(LoopServer):
    """The same for one event loop."""

    def __init__(self, where: Address) -> None:
        """As `LoopServer`."""
        super().__init__(where)
        self._sentinels = _sentinels(LoopSentinelClient, where, LoopRetry(NoBackoff(), 0))

    def new_link(self, _node: str) -> LoopLink:
        """As `LoopServer.new_link`."""
        return LoopLink(self.where.shown, self._dial, self.where.timeout)

    async def is_elsewhere(self) -> bool:
        """As `ThreadSentinel.is_elsewhere`."""
        place = self.link("").place
        try:
            return place is not None and place != await self._named()
        except (*LOST, BrokerUnavailable):
            return False

    async def close(self) -> None:
        """As `LoopServer.close`."""
        await super().close()
        for client in self._sentinels.sentinels:
            await client.aclose()

    async def _dial(self) -> LoopSession:
        redis_py.check_files(self.where)
        made = await LoopSession.connected(self.where, await self._named())
        try:
            async with asyncio.timeout(self.where.timeout):
                await made.send(_ROLE)
                _judge_role(await made.read(), made.place, self._sentinels)
        except BaseException:
            made.close()
            raise
        return made

    async def _named(self) -> Place:
        try:
            return _place(await self._sentinels.discover_master(self.where.service))
        except NotFoundByLoop as error:
            raise _no_primary(self.where.service, self._sentinels.sentinels, error) from None
        except RedisError as error:
            raise redis_py.as_ours(error) from error


def _sentinels(kind: Any, where: Address, retry: Any) -> Any:
    """
    The Sentinels of `kind`; they have no databases.

    Each is told the user and password of the data servers, and asked once more without, in case it has none.
    """
    options = redis_py.options(where, PATIENCE) | {"retry": retry}
    found = kind(where.places, sentinel_kwargs=options)
    if options.pop("credential_provider", None):
        both = zip(found.sentinels, kind(where.places, sentinel_kwargs=options).sentinels, strict=True)
        found.sentinels = [client for pair in both for client in pair]
    return found


def _place(named: tuple[Any, Any]) -> Place:
    return str(named[0]), int(named[1])


def _no_primary(service: str, sentinels: Sequence[Any], error: Exception) -> ConnectionError:
    """What redis-py raises where no Sentinel names a primary, as a sentence without the words of its objects."""
    # Of one that is asked twice, with a password and without, the second time counts.
    said_of = {_name(one): str(error).partition(f"{one} - ")[2].partition(",")[0] for one in sentinels}
    problems = [
        f"{name}: {_KINDS.get(kind.rpartition(':')[2], 'it cannot be reached') if kind else 'it knows none that is up'}"
        for name, kind in said_of.items()
    ]
    return ConnectionError(f"no Sentinel names a primary of the service {service!r}: {'; '.join(problems)}")


def _name(client: Any) -> str:
    """`host:port` of redis-py's client of a Sentinel."""
    options = client.connection_pool.connection_kwargs
    return f"{options['host']}:{options['port']}"


def _judge_role(role: Any, place: Any, sentinels: Any) -> None:
    """Raise unless it is a primary's."""
    if isinstance(role, ReplyError):
        raise role
    if not isinstance(role, list):
        raise ConnectionError(f"{place[0]}:{place[1]} does not say which role it has")
    if role[0] != b"master":
        late = sentinels.sentinels.pop(0)
        sentinels.sentinels.append(late)
        raise ConnectionError(f"the Sentinel {_name(late)} names {place[0]}:{place[1]}, which is a {role[0].decode()}")
