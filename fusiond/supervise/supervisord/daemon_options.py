"""
What supervisord takes its options and system calls from, fed by us.

Stock behaviour that is replaced, and why:

    realize    parses sys.argv and exits; never called
    usage      prints and exits; raises
    logger     into `logging`
    poll       sleeps a second at a time; sleeps until the next deadline, and signals wake it
    fork       is unsafe beside the watcher's thread; Popen
    waitpid    takes any child's status, the validating helper's too; asks for each known child
    http       serves a web page, files and basic auth; XML-RPC and tails only, on one unix socket
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import signal
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from supervisor.http import LogWrapper, logtail_handler, supervisor_af_unix_http_server
from supervisor.loggers import LevelsByName
from supervisor.options import ServerOptions
from supervisor.poller import PollPoller
from supervisor.xmlrpc import SystemNamespaceRPCInterface

from fusiond.errors import FusionError
from fusiond.supervise.supervisord.channel import Channel, ControlHandler

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

#: seconds that an idle daemon sleeps at most; deadlines in wall-clock time survive a set clock
LONGEST_SLEEP = 60.0
#: never from the daemon's environment into a program's
PRIVATE = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES")
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Launch:
    """One program to be started."""

    command: Sequence[str]
    #: the program's end of its link, a descriptor that it inherits
    link: int
    #: in addition to the daemon's own
    environment: Mapping[str, str]


class DaemonOptions(ServerOptions):  # type: ignore[misc] # supervisor has no types
    """The daemon's side of supervisor: no command line, no INI file."""

    def __init__(self, socket: Path, group: int = -1) -> None:
        super().__init__()
        # What realize() does, less sys.argv and the INI file.
        for name, value in self.default_map.items():
            if getattr(self, name, None) is None:
                setattr(self, name, value)
        self.nodaemon, self.silent, self.first, self.test = True, True, True, False
        self.identifier, self.logfile, self.pidfile, self.serverurl = "fusiond", None, None, f"unix://{socket}"
        self.control, self.control_group = socket, group
        #: set by make_dispatchers just before fork(), which takes no argument
        self.launch: Launch | None = None
        #: pids whose status someone else waits for
        self.foreign: set[int] = set()
        #: seconds until the loop has something to do
        self.idle_for: Callable[[], float] = lambda: LONGEST_SLEEP
        #: (namespace, what answers its verbs)
        self.faces: Callable[[Any], list[tuple[str, Any]]] = lambda _: []
        self.waker = Waker(self.get_socket_map())
        self.poller = Poller(self)

    def usage(self, message: str) -> None:
        """Supervisor's way to complain."""
        raise FusionError(message)

    def make_logger(self) -> None:
        """Supervisor's own lines go where ours do."""
        self.logger = Logger()

    def write_pidfile(self) -> None:
        """Who needs the pid asks the control socket, or systemd."""

    def setsignals(self) -> None:
        """As stock, and each signal wakes the poller: since PEP 475 it does not interrupt it."""
        super().setsignals()
        signal.set_wakeup_fd(self.waker.write_end, warn_on_full_buffer=False)

    def waitpid(self) -> tuple[int | None, int | None]:
        """One child that ended, of those that supervisor started; as PID 1 of the orphans too."""
        for pid in list(self.pidhistory):
            with contextlib.suppress(ChildProcessError):
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended:
                    return ended, status
        return self._waitpid_orphan() if os.getpid() == 1 else (None, None)

    def _waitpid_orphan(self) -> tuple[int | None, int | None]:
        """Look before taking: the status of the validating helper belongs to who started it."""
        with contextlib.suppress(ChildProcessError):
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended and ended.si_pid not in self.foreign:
                return os.waitpid(ended.si_pid, os.WNOHANG)
        return None, None

    def fork(self) -> int:
        """Start what `launch` says, in a session of its own. Raises OSError."""
        launch, self.launch = self.launch, None
        if launch is None:
            raise OSError(errno.EINVAL, "nothing is to be started")
        own = {name: value for name, value in os.environ.items() if name not in PRIVATE}
        process = subprocess.Popen(
            launch.command,
            stdin=subprocess.DEVNULL,
            env={**own, **launch.environment},
            pass_fds=(launch.link,),
            # No signal of the terminal's, and a group of its own to kill.
            start_new_session=True,
        )
        # Supervisor waits for the pid; a Popen that is collected must not.
        process.returncode = 0
        return process.pid

    def close_parent_pipes(self, pipes: dict[str, Any]) -> None:
        """After the end of a process, or of the attempt to start one."""
        if pipes:
            pipes["link"].close()

    def close_child_pipes(self, pipes: dict[str, Any]) -> None:
        """After the start of a process, or the attempt."""
        if pipes:
            pipes["link"].close_theirs()

    def make_http_servers(self, supervisord: Any) -> list[tuple[dict[str, Any], Any]]:
        """XML-RPC, with a fixed table of verbs, and `supervisorctl tail -f`; on a unix socket, nothing else."""
        mode = 0o600 if self.control_group < 0 else 0o660
        before = os.umask(0o177)  # between bind and chmod, too
        try:
            server = supervisor_af_unix_http_server(
                str(self.control), mode, (-1, self.control_group), logger_object=LogWrapper(self.logger)
            )
        finally:
            os.umask(before)
        server.channel_class = Channel
        faces = self.faces(supervisord)
        faces.append(("system", SystemNamespaceRPCInterface(faces)))
        server.install_handler(logtail_handler(supervisord))
        server.install_handler(ControlHandler(supervisord, faces))
        return [({"family": server.family, "file": str(self.control)}, server)]


class Poller(PollPoller):  # type: ignore[misc]
    """The one seam of timing: the stock loop always asks for a second."""

    def poll(self, timeout: float) -> tuple[list[int], list[int]]:  # noqa: ARG002 - the loop's own idea
        """Sleep until something happens, or the next deadline."""
        idle = min(max(self.options.idle_for(), 0.0), LONGEST_SLEEP)
        # poll(2) counts whole milliseconds and must not wake before the deadline.
        ready: tuple[list[int], list[int]] = super().poll(idle + 0.001 if idle else 0)
        return ready


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
        """Empty the pipe; what to do is seen by who does it."""
        with contextlib.suppress(BlockingIOError):
            while os.read(self._read_end, 4096):
                pass

    def handle_error(self) -> None:
        """Part of the face of a dispatcher."""
        log.exception("the wake-up pipe failed")  # noqa: LOG004 - called in an except block


class Logger:
    """What supervisor logs through, into `logging`."""

    # fmt: off
    _LEVELS = {  # noqa: RUF012 - a constant
        LevelsByName.CRIT: logging.CRITICAL, LevelsByName.ERRO: logging.ERROR, LevelsByName.WARN: logging.WARNING,
        LevelsByName.INFO: logging.DEBUG, LevelsByName.DEBG: logging.DEBUG,
    }
    # fmt: on

    def __init__(self) -> None:
        self._log = logging.getLogger("fusiond.supervisor")
        self.handlers: list[Any] = []
        self.level = LevelsByName.INFO

    def log(self, level: int, message: str, **fields: Any) -> None:
        """Below DEBUG, supervisor tells of each byte: left out. Starts and ends `process.py` tells in our words."""
        ours = self._LEVELS.get(level)
        if ours == logging.WARNING and message.startswith(("exited:", "stopped:")):
            ours = logging.DEBUG
        if ours:
            self._log.log(ours, "%s", message % fields if fields else message)

    def close(self) -> None:
        """Part of the face."""

    def critical(self, message: str, **fields: Any) -> None:
        """Part of the face, as all below."""
        self.log(LevelsByName.CRIT, message, **fields)

    def error(self, message: str, **fields: Any) -> None:
        """See critical."""
        self.log(LevelsByName.ERRO, message, **fields)

    def warn(self, message: str, **fields: Any) -> None:
        """See critical."""
        self.log(LevelsByName.WARN, message, **fields)

    def info(self, message: str, **fields: Any) -> None:
        """See critical."""
        self.log(LevelsByName.INFO, message, **fields)

    def debug(self, message: str, **fields: Any) -> None:
        """See critical."""
        self.log(LevelsByName.DEBG, message, **fields)

    def trace(self, message: str, **fields: Any) -> None:
        """Left out."""

    def blather(self, message: str, **fields: Any) -> None:
        """Left out."""
