"""
When a dispatcher reads what its children have sent: as soon as they send it, or later, where that saves time.

A child that runs a function as its one job dies right after the outcome. While other jobs wait for a child, the
dispatcher can do nothing with the outcome before: the slot is free once the child is dead, and the next round trip
settles the outcome. To read it with the report of the death saves one of two wake-ups for each job.

Knows sockets only. children.py says what an outcome means.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable

from fusiond.worker.pool.slots import ChildHandle

#: s; what a child has sent is read by then, though the child has not died
_LATEST = 0.02
#: s; children are read at once for so long after an outcome that came in parts, or whose child takes another job:
#: others will be like it
_SOON = 1.0


class ChildReader:
    """The sockets of the children of one group."""

    def __init__(self, read: Callable[[ChildHandle], None], *, may_wait: bool) -> None:
        """
        Nothing is read yet.

        Args:
            read: reads from a child.
            may_wait: each child sends one outcome and nothing else. Others are always read at once.
        """
        self._read, self._may_wait = read, may_wait
        self._loop = asyncio.get_running_loop()
        # The loop watches one epoll descriptor for all children's sockets. With isolation `fork` a socket lives for one
        # job; to add it to the loop and to remove it took a fifth of the dispatcher's time for a job.
        self._epoll = select.epoll()
        self._loop.add_reader(self._epoll.fileno(), self._read_all)
        self._children: dict[int, ChildHandle] = {}
        self._reads_at_once, self._soon_until = True, 0.0
        #: when it will read at once again; None: it does
        self._again: asyncio.TimerHandle | None = None

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._epoll.closed

    def add(self, child: ChildHandle) -> None:
        """Read from this child, too."""
        fd = child.socket.fileno()
        self._children[fd] = child
        self._epoll.register(fd, select.EPOLLIN)

    def close_socket(self, child: ChildHandle) -> None:
        """Close the child's socket, which ends an idle child; closing also removes the socket from the epoll."""
        if (fd := child.socket.fileno()) >= 0:
            self._children.pop(fd, None)
            child.socket.close()

    def read_at_once(self, *, on: bool) -> None:
        """Read what children send as soon as they send it; off: when `poll` is called, or after _LATEST seconds."""
        on = on or not self._may_wait or self._loop.time() < self._soon_until
        if on == self._reads_at_once or self.closed:
            return
        self._reads_at_once = on
        if on:
            self._loop.add_reader(self._epoll.fileno(), self._read_all)
        else:
            self._loop.remove_reader(self._epoll.fileno())
        if self._again:
            self._again.cancel()
        # By a timer of its own: the dispatcher may be waiting for an answer of Redis.
        self._again = None if on else self._loop.call_later(_LATEST, self._resume)

    def read_soon(self) -> None:
        """Read at once for a while: outcomes come in parts, or their children take other jobs, and do not die."""
        self._soon_until = self._loop.time() + _SOON
        self.read_at_once(on=True)

    def poll(self) -> None:
        """Read now what children have sent meanwhile."""
        if not self._reads_at_once:
            self._read_all()

    def close(self) -> None:
        """Read no more."""
        self.read_at_once(on=True)
        self._loop.remove_reader(self._epoll.fileno())
        self._epoll.close()

    def _resume(self) -> None:
        self.read_at_once(on=True)
        self._read_all()

    def _read_all(self) -> None:
        for fd, _event in self._epoll.poll(0):
            if child := self._children.get(fd):  # else its socket was closed a moment ago, because of another child
                self._read(child)
