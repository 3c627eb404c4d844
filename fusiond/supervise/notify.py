"""
Tell systemd the state of the daemon: READY, RELOADING, STOPPING, STATUS, WATCHDOG.

The variables are removed from the environment, so that no program and no job can speak for the daemon.
"""

from __future__ import annotations

import logging
import math
import os
import socket
import time
from collections import deque
from collections.abc import MutableMapping

#: seconds until a full queue is tried again
AGAIN = 0.1
log = logging.getLogger(__name__)


class Notify:
    """sd_notify; does nothing if systemd did not start the daemon."""

    def __init__(self, environment: MutableMapping[str, str] = os.environ) -> None:
        address = environment.pop("NOTIFY_SOCKET", "")
        # A name that begins with @ is in the abstract namespace.
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        usec, pid = environment.pop("WATCHDOG_USEC", ""), environment.pop("WATCHDOG_PID", "")
        #: seconds between pings: half of what systemd waits; 0: none wanted
        self.interval = int(usec) / 2e6 if usec and pid in ("", str(os.getpid())) else 0.0
        self._pinged = time.monotonic()
        #: what systemd's full queue has not taken yet: without READY=1 `systemctl reload` would wait for ever
        self._waiting: deque[bytes] = deque()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)

    def ready(self, status: str) -> None:
        """The daemon serves: after its start, and after each reload, a refused one too."""
        self._send("READY=1", f"STATUS={status}")

    def reloading(self, status: str) -> None:
        """Must be followed by `ready`, or `systemctl reload` waits for ever."""
        self._send("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}", f"STATUS={status}")

    def stopping(self, status: str) -> None:
        """The daemon ends: no job is claimed any more."""
        self._send("STOPPING=1", f"STATUS={status}")

    def status(self, status: str) -> None:
        """One line for `systemctl status`."""
        self._send(f"STATUS={status}")

    def due(self, now: float) -> float:
        """Seconds until `tick` has something to do, or infinity."""
        if self._waiting:
            return AGAIN
        return max(0.0, self._pinged + self.interval - now) if self.interval else math.inf

    def tick(self, now: float) -> None:
        """Ping the watchdog, if it is time. The loop calls it, so a ping proves that the loop turns."""
        self._flush()
        if self.due(now) == 0.0:
            self._pinged = now
            self._send("WATCHDOG=1")

    def _send(self, *lines: str) -> None:
        if self._address:
            self._waiting.append("\n".join(line.replace("\n", " ") for line in lines).encode())
            self._flush()

    def _flush(self) -> None:
        """Send what waits, in order, without blocking the loop."""
        while self._waiting:
            try:
                self._socket.sendto(self._waiting[0], self._address)
            except BlockingIOError:
                return
            except OSError as error:
                log.debug("systemd was not told %s: %s", self._waiting[0], error)
            self._waiting.popleft()
