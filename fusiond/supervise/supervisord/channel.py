"""
A client's connection to the control socket, and what it may ask, within limits; supervisor's own has none.

1. head      of a request HEAD bytes, a body BODY; more is an error, and the end of the connection
2. answers   not read by the client: no more requests of its are read meanwhile
3. number    CONNECTIONS at once; one more, and the one that was quiet longest is hung up on
4. XML       without declarations: no entity is ever expanded
"""

from __future__ import annotations

import contextlib
import logging
import socket
from typing import Any

from supervisor.http import deferring_http_channel
from supervisor.xmlrpc import supervisor_xmlrpc_handler

#: bytes
HEAD, BODY = 16 << 10, 64 << 10
#: answers that wait for the client to read
ANSWERS = 16
CONNECTIONS = 64
log = logging.getLogger(__name__)


class Channel(deferring_http_channel):  # type: ignore[misc] # supervisor has no types
    """One connection."""

    def __init__(self, server: Any, conn: Any, addr: Any) -> None:
        super().__init__(server, conn, addr)
        self._refused = False
        others = [channel for channel in self._map.values() if type(channel) is Channel and channel is not self]
        if len(others) >= CONNECTIONS:
            # Who waits for the answer to a reload is quiet too, and goes last.
            min(others, key=lambda channel: (bool(channel.delay), channel.last_used)).hang_up()

    def hang_up(self) -> None:
        """Have it end at the loop's next turn: this turn's map still has its descriptor."""
        self.discard_buffers()
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)

    def readable(self) -> bool:
        """Not while the client leaves its answers unread."""
        return len(self.producer_fifo) < ANSWERS and bool(super().readable())

    def collect_incoming_data(self, data: bytes) -> None:
        """A part of a head, or of a body, whose length is limited already."""
        if self._refused:
            return
        if self.current_request is None and len(self.in_buffer) + len(data) > HEAD:
            self._refuse(f"a head of more than {HEAD} bytes")
            return
        super().collect_incoming_data(data)

    def set_terminator(self, term: bytes | int) -> None:
        """A number: the length of the body that follows."""
        if isinstance(term, int) and not 0 < term <= BODY:
            self._refuse(f"a body that has not between 1 and {BODY} bytes")
            raise ValueError(term)  # ends what the stock caller was about to begin
        super().set_terminator(term)

    def found_terminator(self) -> None:
        """A head or a body is whole."""
        if not self._refused:
            super().found_terminator()

    def _refuse(self, what: str) -> None:
        log.warning("control socket: %s is refused", what)
        self._refused, self.in_buffer = True, b""
        self.close_when_done()

    def handle_error(self) -> None:
        """What was sent is not HTTP, or the client is gone."""
        log.debug("a request on the control socket has failed", exc_info=True)  # noqa: LOG014 - called in an except block
        self.close()


class ControlHandler(supervisor_xmlrpc_handler):  # type: ignore[misc]
    """What is called by a request."""

    def continue_request(self, data: str, request: Any) -> None:
        """A whole body. What our client and supervisorctl send has no declaration, comment or CDATA."""
        if "<!" in data:
            request.error(400)
            return
        super().continue_request(data, request)
