"""
A child's event loop and its socket, on which frames come and go without a wait (wire.py).

Standard library only, CPython 3.9 and later: it runs under the application's own interpreter.
"""

from __future__ import annotations

import asyncio
import posix
import select
import selectors

from . import wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable


# Kept from before a task's module may replace it.
_select = select.select


class _Selector(selectors.EpollSelector):
    """
    Waits to the microsecond, where epoll takes whole milliseconds.

    Jobs that wait for 10 ms waited for 11: of 5,000 that 50 at once could do in a second, 4,300 were done.
    """

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """What is ready within so many seconds, by the system call of this name; it takes no descriptor above 1023."""
        if timeout is not None and timeout > 0 and self.fileno() < 1024:
            _select([self.fileno()], [], [], timeout)
            timeout = 0
        return super().select(timeout)


def new_loop() -> asyncio.AbstractEventLoop:
    """The loop of this process, made behind the fork."""
    loop = asyncio.new_event_loop()
    if type(loop) is asyncio.SelectorEventLoop:  # the tasks' modules may have set another policy
        loop.close()
        loop = asyncio.SelectorEventLoop(_Selector())
    asyncio.set_event_loop(loop)
    return loop


class LoopSocket:
    """The dispatcher's messages to this child, and the child's to the dispatcher."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        fd: int,
        on_messages: Callable[[list[tuple[bytes, bytes]]], None],
        on_sent: Callable[[], None],
        on_end: Callable[[], None],
    ) -> None:
        """
        Read from now on.

        Args:
            loop: of this process.
            fd: the socket.
            on_messages: takes kind and body of each message that came together.
            on_sent: called after each write.
            on_end: called when the dispatcher has closed the socket, or is gone.
        """
        self._loop, self._fd = loop, fd
        self._on_messages, self._on_sent, self._on_end = on_messages, on_sent, on_end
        #: from the socket, not whole yet; to the socket, not taken yet
        self._received, self._unsent = b"", b""
        self._pid = posix.getpid()
        posix.set_blocking(fd, False)
        loop.add_reader(fd, self._receive)

    @property
    def has_unsent(self) -> bool:
        """Whether something is on its way."""
        return bool(self._unsent)

    def _receive(self) -> None:
        try:
            data = posix.read(self._fd, 1 << 16)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._on_end()
            return
        buffer, at, messages = self._received + data, 0, []
        while found := wire.cut(buffer, at):
            kind, start, at = found
            messages.append((kind, buffer[start:at]))
        self._received = buffer[at:]
        self._on_messages(messages)

    def send(self, data: bytes = b"") -> None:
        """Send it, at once or as soon as there is room; a fork that a job has made must not speak for its parent."""
        if posix.getpid() != self._pid:
            posix._exit(1)
        had, self._unsent = bool(self._unsent), self._unsent + data
        try:
            self._unsent = self._unsent[posix.write(self._fd, self._unsent) :]
        except BlockingIOError:
            pass
        except OSError:
            self._on_end()
            return
        if self._unsent and not had:
            self._loop.add_writer(self._fd, self.send)
        elif had and not self._unsent:
            self._loop.remove_writer(self._fd)
        self._on_sent()
