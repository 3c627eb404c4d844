"""
A process that loads what every worker group's program loads, while the file is still being read, and then becomes one.

1. prepare   when a reload begins that is likely to start a group: python and its modules are most of that start
2. become    the first worker that is started: its arguments, its environment and its link follow over a socket
3. dismiss   it, where the reload started none

It is a convenience: whatever is wrong with it, a worker is started without it.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fusiond.supervise.programs import WORKER_MODULE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: never from the daemon's environment into a program's
PRIVATE = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES")
_WORKER = (sys.executable, "-P", "-m", WORKER_MODULE)


@dataclass(frozen=True, slots=True)
class Launch:
    """One program to be started."""

    command: Sequence[str]
    #: the program's end of its link, a descriptor that it inherits
    link: int
    #: in addition to the daemon's own
    environment: Mapping[str, str]


def start(launch: Launch) -> subprocess.Popen[bytes]:
    """Start a program in a session of its own, with the daemon's environment and more. Raises OSError."""
    own = {name: value for name, value in os.environ.items() if name not in PRIVATE}
    return subprocess.Popen(
        launch.command,
        stdin=subprocess.DEVNULL,
        env={**own, **launch.environment},
        pass_fds=(launch.link,),
        # No signal of the terminal's, and a group of its own to kill.
        start_new_session=True,
    )


def detach(process: subprocess.Popen[bytes]) -> int:
    """Its pid, for who waits for pids: a Popen that is collected must not."""
    process.returncode = 0
    return process.pid


class Standby:
    """
    At most one such process.

    Args:
        foreign: the supervisor's list of children that are not its own to reap.
    """

    def __init__(self, foreign: set[int]) -> None:
        self._foreign = foreign
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    def prepare(self) -> None:
        """Have one, from now on."""
        if self._process is not None or len(os.sched_getaffinity(0)) < 2:
            # On a single processor it would only be in the helper's way.
            return
        with contextlib.suppress(OSError):
            self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                command = (*_WORKER, "--standby", str(theirs.fileno()))
                self._process = start(Launch(command, theirs.fileno(), {}))
                self._foreign.add(self._process.pid)

    def become(self, launch: Launch) -> int | None:
        """The pid of the process that is this worker now; None: start another."""
        process, link = self._process, self._socket
        if process is None or link is None or tuple(launch.command[:4]) != _WORKER or process.poll() is not None:
            return None
        told = json.dumps({"arguments": launch.command[4:], "environment": dict(launch.environment)}).encode()
        try:
            socket.send_fds(link, [told], [launch.link], socket.MSG_DONTWAIT)
        except OSError:
            return None
        self._let_go()
        return detach(process)

    def dismiss(self) -> None:
        """Have none."""
        process = self._process
        self._let_go()
        if process is not None:
            process.kill()
            process.wait()

    def _let_go(self) -> None:
        if self._process is not None:
            self._foreign.discard(self._process.pid)
        if self._socket is not None:
            self._socket.close()
        self._process = self._socket = None
