"""
Limits for the connections of clients to the control socket; supervisor itself has none.

1. size      a request has at most HEAD bytes of head and BODY bytes of body; a larger one ends the connection
2. answers   while a client leaves ANSWERS of them unread, its further requests are not read
3. number    there are at most CONNECTIONS; at one more, the connection that was quiet for the longest time is closed
4. XML       a body has no declarations, so no entity is ever expanded
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
#: unread answers of one client
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
            # A client that waits for the end of a reload is quiet too, and is closed last.
            min(others, key=lambda channel: (bool(channel.delay), channel.last_used)).hang_up()

    def hang_up(self) -> None:
        """Have the connection end at the loop's next turn: this turn may still use its descriptor."""
        self.discard_buffers()
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)

    def readable(self) -> bool:
        """Not while the client leaves too many answers unread."""
        return len(self.producer_fifo) < ANSWERS and bool(super().readable())

    def collect_incoming_data(self, data: bytes) -> None:
        """A part of a head, or of a body: the length of a body was checked before."""
        if self._refused:
            return
        if self.current_request is None and len(self.in_buffer) + len(data) > HEAD:
            self._refuse(f"a head of more than {HEAD} bytes")
            return
        super().collect_incoming_data(data)

    def set_terminator(self, term: bytes | int) -> None:
        """A number is the length of the body that follows."""
        if isinstance(term, int) and not 0 < term <= BODY:
            self._refuse(f"a body that does not have 1 to {BODY} bytes")
            raise ValueError(term)  # ends what supervisor was about to begin
        super().set_terminator(term)

    def found_terminator(self) -> None:
        """A head or a body is complete."""
        if not self._refused:
            super().found_terminator()

    def _refuse(self, what: str) -> None:
        log.warning("control socket: a request with %s is refused", what)
        self._refused, self.in_buffer = True, b""
        self.close_when_done()

    def handle_error(self) -> None:
        """The client sent something that is not HTTP, or it has gone."""
        log.debug("a request on the control socket failed", exc_info=True)  # noqa: LOG014 - called in an except block
        self.close()


class ControlHandler(supervisor_xmlrpc_handler):  # type: ignore[misc]
    """Calls the verb that a request names."""

    def continue_request(self, data: str, request: Any) -> None:
        """A complete body. Our client and supervisorctl send no declaration, comment or CDATA."""
        if "<!" in data:
            request.error(400)
            return
        super().continue_request(data, request)
