"""
The supervisor's end of a program's link; the other end is `fusiond/program.py`.

Supervisor polls this one channel of a process: there are no output pipes, since programs write their own logs.
"""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Callable
from typing import Any

from fusiond.link_messages import Command

_PACKET = 64 * 1024
log = logging.getLogger(__name__)


class ProgramLink:
    """A dispatcher, as supervisor calls it: its loop polls what is `readable()` and calls `handle_read_event`."""

    def __init__(self, name: str, on_message: Callable[[dict[str, Any]], None]) -> None:
        self._name, self._on_message = name, on_message
        self._ours, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._ours.setblocking(False)
        self.closed = False

    def fileno(self) -> int:
        """The descriptor that is polled."""
        return self._ours.fileno()

    def say(self, command: Command) -> bool:
        """Send one command without blocking; whether it was sent. A program that has ended is not an error."""
        try:
            self._ours.send(json.dumps(command).encode(), socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        except OSError as error:
            log.debug("%s was not told %s: %s", self._name, command, error)
            return False
        return True

    def close(self) -> None:
        """Close our end: the program ends, if it still runs."""
        self.closed = True
        self._ours.close()

    def close_theirs(self) -> None:
        """Close our copy of the program's end, once the program has its own."""
        self.theirs.close()

    def readable(self) -> bool:
        """Whether to poll for packets."""
        return not self.closed

    def writable(self) -> bool:
        """Never: a message that would block is not sent."""
        return False

    def handle_read_event(self) -> None:
        """Pass on each packet that has arrived."""
        while not self.closed:
            try:
                packet = self._ours.recv(_PACKET)
            except BlockingIOError:
                return
            except ConnectionResetError:
                # The program ended before it had read all that it was told. Linux says so once, ahead of the packets
                # that the program had sent, which follow.
                continue
            except OSError:
                packet = b""
            if not packet:
                # The program ended; its wait status says how.
                self.closed = True
                return
            self._on_message(json.loads(packet))

    def handle_error(self) -> None:
        """The program sent something that is not a message: read no more from it. Its end is still noticed."""
        log.exception("%s sent a message that cannot be read", self._name)  # noqa: LOG004 - called in an except block
        self.closed = True
