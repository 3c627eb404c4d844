"""
The dispatcher's end of the socket to one child: frames of jobs out, frames of outcomes in.

Never blocks: what the socket has no room for follows when it has. Knows no job.
"""

from __future__ import annotations

import _socket
import asyncio
import socket
import struct
from typing import TYPE_CHECKING

from fusiond.worker.runtime import wire

if TYPE_CHECKING:
    from collections.abc import Iterator

#: bytes; room for a batch of small jobs without a second send
_SEND_BUFFER = 1 << 18
#: struct timeval, 10 ms; a one-job child whose job has not come by then makes ready for it meanwhile
_PATIENCE = struct.pack("ll", 0, 10_000)
#: bytes received at once; memory for more comes from the kernel each time, which costs ten times the read
_RECEIVE = 1 << 16


class ChildSocket:
    """The socket of one child, from its fork to its end."""

    __slots__ = ("_received", "_sock", "_unsent", "closed", "silent")

    def __init__(self, sock: _socket.socket) -> None:
        self._sock = sock
        self._received, self._unsent = bytearray(), bytearray()
        #: one of both has closed its end
        self.closed = False
        #: nothing more was there to be received
        self.silent = False

    @classmethod
    def pair(cls, *, one_job: bool) -> tuple[ChildSocket, _socket.socket]:
        """Our end and the child's; the latter is the caller's to send on and to close. Raises OSError."""
        # Without the class that the module socket puts around each, which costs as much as the pair.
        ours, theirs = _socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        if one_job:
            theirs.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _PATIENCE)
        else:
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
            theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
        return cls(ours), theirs

    def fileno(self) -> int:
        """The descriptor; -1 once it is closed."""
        return self._sock.fileno()

    def close(self) -> None:
        """Close our end: an idle child ends."""
        if self._unsent:
            asyncio.get_running_loop().remove_writer(self._sock.fileno())
            self._unsent.clear()
        self._sock.close()
        self.closed = True

    def send(self, data: bytes) -> None:
        """Send it, at once or as soon as there is room."""
        if self._unsent:
            self._unsent += data
            return
        sent = self._try_send(data)
        if sent < len(data):
            self._unsent += data[sent:]
            asyncio.get_running_loop().add_writer(self._sock.fileno(), self._send_rest)

    def _send_rest(self) -> None:
        del self._unsent[: self._try_send(self._unsent)]
        if not self._unsent:
            asyncio.get_running_loop().remove_writer(self._sock.fileno())

    def _try_send(self, data: bytes | bytearray) -> int:
        """Bytes sent; a dead child takes everything: its death is reported, and what it was handed comes back."""
        try:
            return self._sock.send(data, _socket.MSG_DONTWAIT)
        except BlockingIOError:
            return 0
        except OSError:
            return len(data)

    def outcomes(self) -> Iterator[wire.OutcomeMessage]:
        """
        The outcomes of each frame that one read of what has arrived makes whole; more is there until `silent`.

        One read, since a child that sends without end must not hold up the others. Raises WireError.
        """
        data = self._receive()
        self.silent = len(data) < _RECEIVE
        buffer, at = self._received, 0
        buffer += data
        try:
            while found := wire.cut(buffer, at):
                kind, start, at = found
                if kind != wire.OUTCOMES or start == at:
                    raise wire.WireError("a child may send outcomes only")
                yield from wire.read_outcomes(bytes(memoryview(buffer)[start:at]))
        finally:
            del buffer[:at]

    def _receive(self) -> bytes:
        """What is there; nothing at the end as well, which `closed` tells."""
        try:
            data = self._sock.recv(_RECEIVE, _socket.MSG_DONTWAIT)
        except BlockingIOError:
            return b""
        except OSError:
            data = b""
        self.closed = not data
        return data
