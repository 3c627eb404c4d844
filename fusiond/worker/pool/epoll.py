"""
The sockets of a group's children, behind one descriptor of the loop's.

In isolation `fork` a socket lives for one job. To add it to the loop, to take it out again, and a turn of the loop for
each that has something to say was a fifth of what the dispatcher did for a job.
"""

from __future__ import annotations

import select
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from fusiond.worker.pool.slots import Slot


class Epoll:
    """Calls `hear` with each slot whose child has sent something, or has closed its socket, until it is removed."""

    def __init__(self, loop: asyncio.AbstractEventLoop, hear: Callable[[Slot], None]) -> None:
        self._epoll, self._loop, self._hear = select.epoll(), loop, hear
        self._slots: dict[int, Slot] = {}
        loop.add_reader(self._epoll.fileno(), self._look)

    def add(self, slot: Slot) -> None:
        """Listen to the slot's new child."""
        self._epoll.register(slot.fileno(), select.EPOLLIN)
        self._slots[slot.fileno()] = slot

    def remove(self, slot: Slot) -> None:
        """Listen to this child no more, and before its socket is closed: its number may soon be another's."""
        if self._slots.pop(slot.fileno(), None):
            self._epoll.unregister(slot.fileno())

    def close(self) -> None:
        """Listen to nobody."""
        self._loop.remove_reader(self._epoll.fileno())
        self._epoll.close()

    def _look(self) -> None:
        for fd, _event in self._epoll.poll(0):
            slot = self._slots.get(fd)
            if slot:  # else it was removed on account of another, a moment ago
                self._hear(slot)
