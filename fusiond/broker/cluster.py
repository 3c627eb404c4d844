"""
A Redis Cluster, spoken to as if it were one node: `slots.py` says which of its nodes is asked what, here that is done.

Several nodes are asked side by side with asyncio, one after the other by threads.
"""

from __future__ import annotations

import asyncio
import random
import time
from typing import TYPE_CHECKING, Any

from fusiond.broker.node import TIMEOUT, AsyncNode, Node
from fusiond.broker.slots import Slots
from fusiond.errors import BrokerUnavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fusiond.broker.call import Call
    from fusiond.broker.slots import Answer, ClusterAddress, Part, Route
    from fusiond.broker.wire import AsyncWire


class Cluster:
    """For threads, which may share it."""

    def __init__(self, address: ClusterAddress, repeats: int = 0, timeout: float = TIMEOUT) -> None:
        self.address, self._repeats, self._timeout = address, repeats, timeout
        self._slots = Slots(address)
        self._nodes: dict[str, Node] = {}

    def exchange(self, calls: Sequence[Call[Any]]) -> list[Any]:
        """The replies as they came, errors among them; BrokerUnavailable where a node was lost, raised if all are."""
        return self._follow(self._slots.route(calls, self._repeats))

    def nodes(self) -> list[Node]:
        """All that jobs are on. Raises BrokerUnavailable."""
        self._follow(self._slots.read())
        return [self._node(name) for name in self._slots.primaries]

    def close(self) -> None:
        """End the connections; the next exchange would make new ones."""
        for node in list(self._nodes.values()):
            node.close()

    def _follow(self, route: Route) -> list[Any]:
        answers: list[Answer] = []
        try:
            step = next(route)
            while True:
                if isinstance(step, list):
                    answers = [self._ask(part) for part in step]
                else:
                    time.sleep(step)
                step = route.send(answers)
        except StopIteration as end:
            return list(end.value)
        finally:
            for name in self._nodes.keys() - self._slots.names:
                self._nodes.pop(name).close()

    def _ask(self, part: Part) -> Answer:
        try:
            return self._node(part.node).exchange(part.calls)
        except BrokerUnavailable as error:
            return error

    def _node(self, name: str) -> Node:
        return self._nodes.setdefault(name, Node(self.address.node(name), timeout=self._timeout))


class AsyncCluster:
    """For one event loop, whose tasks may share it."""

    def __init__(self, address: ClusterAddress, repeats: int = 0, timeout: float = TIMEOUT) -> None:
        self.address, self._repeats, self._timeout = address, repeats, timeout
        self._slots = Slots(address)
        self._nodes: dict[str, AsyncNode] = {}

    async def exchange(self, calls: Sequence[Call[Any]]) -> list[Any]:
        """As `Cluster.exchange`."""
        return await self._follow(self._slots.route(calls, self._repeats))

    async def nodes(self) -> list[AsyncNode]:
        """As `Cluster.nodes`."""
        await self._follow(self._slots.read())
        return [self._node(name) for name in self._slots.primaries]

    async def listener(self) -> AsyncWire:
        """A connection of its own, for messages: what is published on one node is heard on all."""
        if self._slots.stale:
            await self._follow(self._slots.read())
        try:
            return await self._node(random.choice(self._slots.primaries)).listener()  # noqa: S311 - spreads load
        except BrokerUnavailable:
            self._slots.stale = True
            raise

    def close(self) -> None:
        """As `Cluster.close`."""
        for node in self._nodes.values():
            node.close()

    async def _follow(self, route: Route) -> list[Any]:
        answers: list[Answer] = []
        try:
            step = next(route)
            while True:
                if isinstance(step, list):
                    answers = await self._ask_all(step)
                else:
                    await asyncio.sleep(step)
                step = route.send(answers)
        except StopIteration as end:
            return list(end.value)
        finally:
            for name in self._nodes.keys() - self._slots.names:
                self._nodes.pop(name).close()

    async def _ask_all(self, parts: list[Part]) -> list[Answer]:
        if len(parts) == 1:
            return [await self._ask(parts[0])]
        return await asyncio.gather(*map(self._ask, parts))

    async def _ask(self, part: Part) -> Answer:
        try:
            return await self._node(part.node).exchange(part.calls)
        except BrokerUnavailable as error:
            return error

    def _node(self, name: str) -> AsyncNode:
        return self._nodes.setdefault(name, AsyncNode(self.address.node(name), timeout=self._timeout))
