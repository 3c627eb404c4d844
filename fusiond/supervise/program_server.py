"""
A process that has the modules of the programs, and forks them: they start at once, and share its memory.

1. begin   the daemon forks it at the end of its start, the last moment at which it has one thread. The pages of memory
           that the daemon has written to by then are shared, and each that it writes to later is copied. By then it has
           loaded what the programs need
2. ask     the daemon sends a program's entry point, arguments and variables, and the program's end of the link
3. fork    twice: the process in between ends at once, and the daemon, a subreaper meanwhile, becomes the new parent
4. end     when the daemon ends

A program gets from the daemon no descriptor but its link, and no thread; of the daemon's memory it uses the modules
alone. This process never runs a program itself. If it has ended, or does not answer, programs are new interpreters,
which take more memory.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import logging
import os
import pkgutil
import select
import signal
import socket
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from io import RawIOBase
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from fusiond.program import EX_SOFTWARE, LINK, NAME, PRIVATE

#: seconds that the daemon's loop waits for an answer
PATIENCE = 5.0
#: seconds until it is killed where it does not end with its socket
_LAST = 1.0
_PACKET = 64 * 1024
#: characters of the name that `top` shows
_COMM = 15
# From <linux/prctl.h>.
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_libc = ctypes.CDLL(None)
log = logging.getLogger(__name__)


class Start(NamedTuple):
    """One start of a program."""

    #: module:function; it returns the exit status
    entry: str
    #: a new interpreter that does the same, and what either finds in `sys.argv`
    command: Sequence[str]
    arguments: Sequence[str]
    #: descriptor of the program's end of its link
    link: int
    #: of the environment, in addition to the daemon's
    variables: Mapping[str, str]


class ProgramServer:
    """The daemon's handle of it."""

    def __init__(self) -> None:
        """Fork it from this process, which has one thread, and has loaded what the programs need."""
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.settimeout(PATIENCE)
        keep_shared()
        daemon, pid = os.getpid(), os.fork()
        if not pid:
            _become_server(theirs, daemon)
        theirs.close()
        self._process = os.pidfd_open(pid)
        self._ended = False

    def fork(self, start: Start) -> int | None:
        """
        Start a program; it becomes a child of this process.

        Returns:
            its pid; None: this process has to start it in another way.

        Raises:
            OSError: it could not be forked, or it is not known whether it was: then it ends when its link is closed.
        """
        request = {"entry": start.entry, "arguments": start.arguments, "variables": dict(start.variables)}
        with _subreaper():
            try:
                socket.send_fds(self._socket, [json.dumps(request).encode()], [start.link])
            except OSError as error:
                self._give_up(str(error))
                return None
            try:
                reply = json.loads(self._socket.recv(_PACKET))
            except (OSError, ValueError) as error:
                self._give_up(str(error))
                raise OSError("the program server has not answered") from error
        if "pid" not in reply:
            raise OSError(*reply["error"])
        return int(reply["pid"])

    def close(self) -> None:
        """End it: nothing of a daemon that has ended may be left."""
        self._socket.close()
        if not select.select([self._process], [], [], _LAST)[0]:
            signal.pidfd_send_signal(self._process, signal.SIGKILL)

    def _give_up(self, why: str) -> None:
        if not self._ended:
            log.warning("the program server has ended or hangs (%s): from now on a program takes more memory", why)
        self._ended = True
        self._socket.close()
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._process, signal.SIGKILL)


def keep_shared() -> None:
    """Before a fork: have neither process write without need to the memory that they will share."""
    if sys.version_info < (3, 12):
        # Python's cache of methods refers to their names, which are all over the memory: a page is copied for an entry
        # that makes way for another one. Later versions do not count references to names.
        sys._clear_type_cache()  # noqa: SLF001 - documented, and has no other name
    # Otherwise the next collection in either process would copy all pages.
    gc.collect()
    gc.freeze()


@contextlib.contextmanager
def _subreaper() -> Iterator[None]:
    """This process inherits orphans meanwhile."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


# ---- in the process itself


def _become_server(daemon: socket.socket, parent: int) -> NoReturn:
    """Serve until the daemon has closed its end."""
    try:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == parent:
            _leave_the_daemon(daemon)
            while _serve(daemon):
                pass
    except BaseException:  # noqa: BLE001 - no exception may reach the daemon's code in this process
        traceback.print_exc()
    finally:
        os._exit(0)


def _leave_the_daemon(daemon: socket.socket) -> None:
    """Keep no descriptor, and no variable, that a new interpreter would not get."""
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - names
        with contextlib.suppress(OSError):
            # libffi maps code for ctypes from its own descriptor, and would map what else got that number.
            path = os.readlink(f"/proc/self/fd/{name}")  # noqa: PTH115 - `pipe:[1]` is no path
            if int(name) not in (0, 1, 2, daemon.fileno()) and "/libffi." not in path:
                os.close(int(name))
    for name in PRIVATE:
        os.environ.pop(name, None)
    _set_title("program server")


def _serve(daemon: socket.socket) -> bool:
    """Do what one packet asks; False: the daemon has ended."""
    packet, links, *_ = socket.recv_fds(daemon, _PACKET, 1)
    if not packet:
        return False
    daemon.send(_start(daemon, links[0], json.loads(packet)))
    os.close(links[0])
    return True


def _start(daemon: socket.socket, link: int, request: dict[str, Any]) -> bytes:
    """Fork a process that forks the program and ends; the reply for the daemon."""
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb", buffering=0) as replies:
        with os.fdopen(writer, "wb", buffering=0) as reply:
            try:
                between = os.fork()
            except OSError as error:
                return _failed(error)
            if not between:
                daemon.close()
                replies.close()
                _fork_program(reply, link, request)
        os.waitpid(between, 0)
        return replies.read(_PACKET) or _failed(ChildProcessError("the program was killed at its start"))


def _fork_program(reply: RawIOBase, link: int, request: dict[str, Any]) -> NoReturn:
    """In the process between."""
    try:
        if not os.fork():
            # It gets no signal from the terminal, and has a process group of its own that can be killed.
            os.setsid()
            reply.write(json.dumps({"pid": os.getpid()}).encode())
            reply.close()
            _become_program(link, request["entry"], request["arguments"], request["variables"])
    except OSError as error:
        reply.write(_failed(error))
    finally:
        os._exit(0)


def _failed(error: OSError) -> bytes:
    return json.dumps({"error": error.args}).encode()


def _become_program(link: int, entry: str, arguments: list[str], variables: dict[str, str]) -> NoReturn:
    """Run the program in this process, and end with its status."""
    status: object = EX_SOFTWARE
    try:
        _set_title(variables[NAME])
        os.environ.update({**variables, LINK: str(link)})
        sys.argv = [entry, *arguments]
        status = pkgutil.resolve_name(entry)()
    except SystemExit as end:
        status = end.code
    except BaseException:  # noqa: BLE001 - as in _become_server
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
        os._exit(status if isinstance(status, int) else EX_SOFTWARE)


def _set_title(name: str) -> None:
    """What `ps` and `top` show: the name, and behind it the daemon's own arguments, as far as there is room."""
    with contextlib.suppress(OSError):
        Path("/proc/self/comm").write_text(name[:_COMM])
        fields = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
        begin, end = int(fields[45]), int(fields[46])  # arg_start and arg_end of proc(5)
        text = os.fsencode(" ".join([f"fusiond {name}:", *sys.argv[1:]]))[: max(0, end - begin - 1)]
        ctypes.memset(begin, 0, end - begin)
        ctypes.memmove(begin, text, len(text))
