"""
Supervisor's options, from which it also takes its system calls.

What supervisor does itself, and what this module does instead:

    realize    parses sys.argv and exits            is never called
    usage      prints and exits                     raises
    logger     writes its own files                 writes to `logging`
    poll       sleeps a second at a time            sleeps until the next deadline; signals wake it
    fork       is unsafe beside the watcher thread  asks the program server, or starts a Popen
    http       serves a web page and files          serves XML-RPC and log tails, on one unix socket
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from supervisor import loggers
from supervisor.http import LogWrapper, logtail_handler, supervisor_af_unix_http_server
from supervisor.options import ServerOptions
from supervisor.poller import PollPoller
from supervisor.xmlrpc import SystemNamespaceRPCInterface

from fusiond.errors import FusionError
from fusiond.program import LINK, PRIVATE
from fusiond.supervise.program_server import ProgramServer, Start
from fusiond.supervise.supervisord.channel import Channel, ControlHandler

#: seconds that an idle daemon sleeps at most, so that it meets deadlines in wall-clock time after the clock was set
LONGEST_SLEEP = 60.0
log = logging.getLogger(__name__)


class DaemonOptions(ServerOptions):  # type: ignore[misc] # supervisor has no types
    """The daemon's side of supervisor: no command line, no INI file."""

    def __init__(self, socket: Path, group: int = -1) -> None:
        super().__init__()
        # What the loop and the control socket need of all that realize() sets.
        self.nodaemon, self.first, self.test, self.identifier = True, True, False, "fusiond"
        self.control, self.control_group = socket, group
        #: for fork(), which takes no argument
        self.next_start: Start
        #: None: each program is a new interpreter
        self.program_server: ProgramServer | None = None
        #: seconds until the loop has something to do
        self.idle_for: Callable[[], float] = lambda: LONGEST_SLEEP
        #: name and verbs of each namespace of the control socket
        self.namespaces: list[tuple[str, Any]] = []
        self.waker = Waker(self.get_socket_map())
        self.poller = Poller(self)

    def usage(self, message: str) -> None:
        """Supervisor calls this when it cannot start."""
        raise FusionError(message)

    def make_logger(self) -> None:
        """Supervisor's own messages go into our log."""
        self.logger = Logger()

    def write_pidfile(self) -> None:
        """None: the control socket and systemd know the pid."""

    def setsignals(self) -> None:
        """As in supervisor; each signal also wakes the poller, which no signal interrupts since PEP 475."""
        super().setsignals()
        signal.set_wakeup_fd(self.waker.write_end, warn_on_full_buffer=False)

    def fork(self) -> int:
        """Start the program of `next_start` in a session of its own. Raises OSError."""
        start = self.next_start
        if self.program_server and (pid := self.program_server.fork(start)):
            return pid
        own = {name: value for name, value in os.environ.items() if name not in PRIVATE}
        process = subprocess.Popen(
            [*start.command, *start.arguments],
            stdin=subprocess.DEVNULL,
            env={**own, **start.variables, LINK: str(start.link)},
            pass_fds=(start.link,),
            # It gets no signal from the terminal, and has a process group of its own that can be killed.
            start_new_session=True,
        )
        # Supervisor waits for the pid, so the Popen must not when it is collected.
        process.returncode = 0
        return process.pid

    def close_parent_pipes(self, pipes: dict[str, Any]) -> None:
        """After the end of a process, or of the attempt to start one."""
        pipes["link"].close()

    def close_child_pipes(self, pipes: dict[str, Any]) -> None:
        """After the start of a process, or the attempt."""
        pipes["link"].close_theirs()

    def make_http_servers(self, supervisord: Any) -> list[tuple[dict[str, Any], Any]]:
        """One server, on the unix socket: XML-RPC with a fixed table of verbs, and `supervisorctl tail -f`."""
        mode = 0o600 if self.control_group < 0 else 0o660
        before = os.umask(0o177)  # between bind and chmod, too
        try:
            server = supervisor_af_unix_http_server(
                str(self.control), mode, (-1, self.control_group), logger_object=LogWrapper(self.logger)
            )
        finally:
            os.umask(before)
        server.channel_class = Channel
        namespaces = [*self.namespaces]
        namespaces.append(("system", SystemNamespaceRPCInterface(namespaces)))
        server.install_handler(logtail_handler(supervisord))
        server.install_handler(ControlHandler(supervisord, namespaces))
        return [({"family": server.family, "file": str(self.control)}, server)]


class Poller(PollPoller):  # type: ignore[misc]
    """How long the loop sleeps: supervisor always asks for a second."""

    def poll(self, timeout: float) -> Any:  # noqa: ARG002 - supervisor's second
        """Sleep until something happens, or the next deadline."""
        idle = min(max(self.options.idle_for(), 0.0), LONGEST_SLEEP)
        # poll(2) counts whole milliseconds and must not wake before the deadline.
        return super().poll(idle + 0.001 if idle else 0)


class Waker:
    """A pipe in the loop's map that signals, and other threads, write to."""

    def __init__(self, socket_map: dict[int, Any]) -> None:
        self._read_end, self.write_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        socket_map[self._read_end] = self

    def wake(self) -> None:
        """Make the loop turn once. Safe from any thread and from a signal handler."""
        with contextlib.suppress(BlockingIOError):
            os.write(self.write_end, b"\0")

    def readable(self) -> bool:
        """Always polled."""
        return True

    def writable(self) -> bool:
        """Never."""
        return False

    def handle_read_event(self) -> None:
        """Empty the pipe; the tick that follows finds what there is to do."""
        with contextlib.suppress(BlockingIOError):
            while os.read(self._read_end, 4096):
                pass

    def handle_error(self) -> None:
        """Called when an event of the pipe raises."""
        log.exception("the wake-up pipe failed")  # noqa: LOG004 - called in an except block


class Logger(loggers.Logger):  # type: ignore[misc]
    """Supervisor's logger, writing to `logging`."""

    def __init__(self) -> None:
        # Below it, supervisor logs each byte.
        super().__init__(level=logging.DEBUG)

    def log(self, level: int, message: str, **fields: Any) -> None:
        """Supervisor's levels are those of `logging`. `process.py` logs starts and ends in our words."""
        if message.startswith("reaped unknown pid") and not message.endswith("(exit status 0)"):
            level = logging.WARNING  # such as the helper that reads the file
        elif level == logging.INFO or message.startswith(("exited:", "stopped:")):
            level = logging.DEBUG
        logging.getLogger("fusiond.supervisor").log(level, "%s", message % fields if fields else message)
