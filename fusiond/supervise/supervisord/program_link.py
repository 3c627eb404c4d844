"""
The supervisor's end of a program's link; the other end is `fusiond/program.py`.

It is the one channel of a process that supervisor polls: there are no output pipes, programs log by themselves.
"""

from __future__ import annotations

import json
import logging
import socket
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_PACKET = 64 * 1024
log = logging.getLogger(__name__)


class ProgramLink:
    """What supervisor calls a dispatcher: it is asked `readable()` before each poll and told when it is."""

    def __init__(self, name: str, on_message: Callable[[dict[str, Any]], None]) -> None:
        self._name, self._on_message = name, on_message
        self._ours, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._ours.setblocking(False)
        self.closed = False

    def fileno(self) -> int:
        """The descriptor that is polled."""
        return self._ours.fileno()

    def say(self, **command: Any) -> bool:
        """Send one command, never blocking; whether it went. A program that is gone is no error."""
        try:
            self._ours.send(json.dumps(command).encode(), socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        except OSError as error:
            log.debug("%s was not told %s: %s", self._name, command, error)
            return False
        return True

    def close(self) -> None:
        """Hang up: the program ends, if it has not."""
        self.closed = True
        self._ours.close()

    def close_theirs(self) -> None:
        """The program has its end."""
        self.theirs.close()

    def readable(self) -> bool:
        """Whether to poll for packets."""
        return not self.closed

    def writable(self) -> bool:
        """Never polled for: a send that would block is not made."""
        return False

    def handle_read_event(self) -> None:
        """Take in what has come."""
        while not self.closed:
            try:
                packet = self._ours.recv(_PACKET)
            except BlockingIOError:
                return
            except OSError:
                packet = b""
            if not packet:
                # The program ended; its wait status says how.
                self.closed = True
                return
            self._on_message(json.loads(packet))

    def handle_write_event(self) -> None:
        """Part of the face of a dispatcher."""

    def handle_error(self) -> None:
        """A program that speaks nonsense: not heard any more, its death is still noticed."""
        log.exception("%s sent what cannot be read", self._name)  # noqa: LOG004 - called in an except block
        self.closed = True
