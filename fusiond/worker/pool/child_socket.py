"""
The dispatcher's end of the socket to one child: frames of jobs out, frames of outcomes in.

Never blocks: what does not fit into the socket is sent when there is room. Knows no job.
"""

from __future__ import annotations

import _socket
import asyncio
import socket
import struct
from collections.abc import Iterator

from fusiond.worker.runtime import wire

#: bytes; room for a batch of small jobs without a second send
_SEND_BUFFER = 1 << 18
#: struct timeval, 10 ms; if its job has not come by then, a one-job child prepares for it
_PATIENCE = struct.pack("ll", 0, 10_000)
#: bytes received at once; for more, Python would get memory from the kernel each time, which costs ten times the read
RECEIVE = 1 << 16
#: bytes of why `on_start` has failed
MAX_FAILURE = 2000


class ChildSocket:
    """The socket of one child, from its fork to its end."""

    __slots__ = (
        "_received", "_sock", "_unsent", "closed", "ending", "failure", "reports", "silent", "started", "takes_another"
    )  # fmt: skip

    def __init__(self, sock: _socket.socket) -> None:
        self._sock = sock
        self._received, self._unsent = bytearray(), bytearray()
        #: this process or the child has closed its end
        self.closed = False
        #: nothing more was there to be received
        self.silent = False
        #: the child has said that its `on_start` has ended; that it begins no more jobs; that it takes another one
        self.started = self.ending = self.takes_another = False
        #: how far jobs were at their end, as the frames say that were read last
        self.reports: list[wire.JobReport] = []
        #: why its `on_start` has failed, as it says; "" if it has not
        self.failure = ""

    @classmethod
    def pair(cls, *, one_job: bool) -> tuple[ChildSocket, _socket.socket]:
        """Our end, and the child's, which the caller sends on and closes. Raises OSError."""
        # By _socket: the class socket.socket around each end would cost as much as the pair itself.
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
        """Bytes sent; all of them if the child is dead: the report of its death gives back what it was handed."""
        try:
            return self._sock.send(data, _socket.MSG_DONTWAIT)
        except BlockingIOError:
            return 0
        except OSError:
            return len(data)

    def outcomes(self) -> Iterator[wire.OutcomeMessage]:
        """
        The outcomes in the frames that one read completes; more has arrived unless `silent`.

        It is one read only: a child that sends without end must not hold up the others. Raises WireError.
        """
        data = self._receive()
        self.silent = len(data) < RECEIVE
        buffer, at = self._received, 0
        buffer += data
        try:
            while found := wire.cut(buffer, at):
                kind, start, at = found
                if kind == wire.OUTCOMES and start < at:
                    yield from wire.read_outcomes(bytes(memoryview(buffer)[start:at]))
                elif kind == wire.REPORT:
                    self.reports.append(wire.read_last_report(bytes(buffer[start:at])))
                elif kind == wire.STARTED:
                    self.failure = bytes(buffer[start:at][:MAX_FAILURE]).decode(errors="replace")
                    self.started = not self.failure
                elif kind == wire.ENDING:
                    self.ending = True
                elif kind == wire.ANOTHER:
                    self.takes_another = True
                else:
                    raise wire.WireError("a child may send outcomes only")
        finally:
            del buffer[:at]

    @property
    def is_halfway(self) -> bool:
        """Whether a part of a frame has arrived, and the child may be waiting for room to send the rest."""
        return bool(self._received)

    def _receive(self) -> bytes:
        """The bytes that have arrived; empty at the end too, and then `closed` is set."""
        try:
            data = self._sock.recv(RECEIVE, _socket.MSG_DONTWAIT)
        except BlockingIOError:
            return b""
        except OSError:
            data = b""
        self.closed = not data
        return data
