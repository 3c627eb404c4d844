"""
The dispatcher's hold on its fork server: ask for children, hear of their deaths, survive the server's own.

Commands and reports are those of forkserver.py. When the server dies, its children are ours, since this process is a
subreaper: they are killed and reaped before anything is said of their jobs.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import json
import logging
import os
import signal
import socket
import time
from collections import deque
from typing import TYPE_CHECKING, Protocol

from fusiond.worker.forkserver import AT_ONCE
from fusiond.worker.launch import Launched, memory_file

if TYPE_CHECKING:
    import _socket
    from collections.abc import Callable

log = logging.getLogger("fusiond.job")

_PACKET = 1 << 16
_PR_SET_CHILD_SUBREAPER = 36
#: s; for the kernel to hand over and end what was killed
_REAP_WITHIN = 5.0


class Reports(Protocol):
    """Who hears what the fork server reports."""

    def on_ready(self, problems: dict[str, list[str]]) -> None:
        """Every path was tried; task → [code, message] of those that cannot run."""

    def on_unforked(self, slot: int, reason: str) -> None:
        """The kernel gave no process."""

    def on_died(self, slot: int, status: int) -> None:
        """The slot's child is dead and reaped; `status` as os.waitstatus_to_exitcode gives it."""

    def on_server_died(self, reason: str, *, killed: bool) -> None:
        """The fork server and every child are dead and reaped; `killed`: by SIGKILL, so not by a fault of its own."""


class ForkServer:
    """One fork server's process, from launch to death."""

    def __init__(self, launched: Launched, reports: Reports) -> None:
        self._launched, self._reports = launched, reports
        self._loop = asyncio.get_running_loop()
        self._printed: list[str] = []
        self._unsent: deque[tuple[bytes, tuple[int, ...]]] = deque()
        self._to_fork: dict[int, _socket.socket] = {}
        self._loop.add_reader(launched.control, self._hear)
        self._loop.add_reader(launched.output, self._read_output)

    @classmethod
    def start(cls, launched: Launched, reports: Reports) -> ForkServer:
        """Take over one that was launched, and from now on its orphans."""
        be_subreaper()
        return cls(launched, reports)

    @property
    def pid(self) -> int:
        """The server's process."""
        return self._launched.process.pid

    def add_slot(self, slot: int, output: int, page: int) -> None:
        """Make a slot known, by its output pipe and page."""
        self._send(f"slot {slot}", output, page)

    def drop_slot(self, slot: int) -> None:
        """Forget a slot that has no child."""
        self._fork_all()
        self._send(f"drop {slot}")

    def fork(self, slot: int, sock: _socket.socket) -> None:
        """Ask for a child at this end of a socket, which is taken over; what is sent at the other waits for it."""
        if not self._to_fork:
            self._loop.call_soon(self._fork_all)
        self._to_fork[slot] = sock

    def _fork_all(self) -> None:
        """Ask for what was wanted since, side by side: that costs the fork server less than one after the other."""
        slots, self._to_fork = list(self._to_fork.items()), {}
        for at in range(0, len(slots), AT_ONCE):
            some = slots[at : at + AT_ONCE]
            self._send(" ".join(["fork", *(str(slot) for slot, _ in some)]), *(sock.fileno() for _, sock in some))
            for _, sock in some:
                sock.close()

    def kill(self, slot: int) -> None:
        """Kill the slot's child and its process group; on_died follows."""
        self._fork_all()
        self._send(f"kill {slot}")

    def set_table(self, table: bytes) -> None:
        """Children forked from now on have this table."""
        fd = memory_file("fusiond-table", table)
        try:
            self._send("table", fd)
        finally:
            os.close(fd)

    def close(self) -> None:
        """Let the server end, children included, and wait for it; nothing is reported any more."""
        self._fork_all()
        # Closed: the server has died, and what was to be done about it has failed.
        if self._launched.control.fileno() >= 0:
            self._forget()
        self._reap_all()

    def _send(self, text: str, *fds: int) -> None:
        """Send a command with copies of the descriptors; what the socket has no room for follows in its order."""
        if not self._unsent and self._try_send(text.encode(), fds):
            return
        if not self._unsent:
            self._loop.add_writer(self._launched.control, self._send_rest)
        self._unsent.append((text.encode(), tuple(map(os.dup, fds))))

    def _try_send(self, packet: bytes, fds: tuple[int, ...]) -> bool:
        """Whether it was sent, or nobody is there any more to read it."""
        try:
            socket.send_fds(self._launched.control, [packet], fds)
        except OSError as error:
            # The last two: too many descriptors are on their way, or the kernel has no memory for it just now.
            return error.errno not in (errno.EAGAIN, errno.ETOOMANYREFS, errno.ENOBUFS)
        return True

    def _send_rest(self) -> None:
        while self._unsent and self._try_send(*self._unsent[0]):
            _close(self._unsent.popleft()[1])
        if not self._unsent:
            self._loop.remove_writer(self._launched.control)

    def _hear(self) -> None:
        for _ in range(64):
            try:
                packet = self._launched.control.recv(_PACKET)
            except BlockingIOError:
                return
            except OSError:
                packet = b""
            if not packet:
                self._forget()
                status = self._reap_all()
                self._reports.on_server_died(self._reason(), killed=status == -signal.SIGKILL)
                return
            self._report(packet)

    def _report(self, packet: bytes) -> None:
        verb, _, rest = packet.partition(b" ")
        if verb == b"ready":
            self._reports.on_ready(json.loads(rest))
        elif verb == b"unforked":
            slot, _, reason = rest.decode().partition(" ")
            self._reports.on_unforked(int(slot), reason)
        elif verb == b"died":
            for line in packet.decode().splitlines():
                _, slot, _, status = line.split()
                self._reports.on_died(int(slot), os.waitstatus_to_exitcode(int(status)))

    def _read_output(self) -> None:
        """What imports print goes to the group's log; the last lines explain a server that does not start."""
        try:
            data = os.read(self._launched.output, 1 << 16)
        except OSError:
            return
        if not data:
            self._loop.remove_reader(self._launched.output)
        for line in data.decode(errors="backslashreplace").splitlines():
            self._printed = [*self._printed[-19:], line]
            log.info(line)

    def _reason(self) -> str:
        status = self._launched.process.returncode
        how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
        return f"the fork server {how}" + (f": {self._printed[-1]}" if self._printed else "")

    def _forget(self) -> None:
        self._loop.remove_reader(self._launched.control)
        self._loop.remove_writer(self._launched.control)
        self._loop.remove_reader(self._launched.output)
        self._launched.control.close()
        while self._unsent:
            _close(self._unsent.popleft()[1])
        if self._launched.output >= 0:
            self._read_output()
            os.close(self._launched.output)

    def _reap_all(self) -> int | None:
        """
        Kill and reap the server and all that it leaves to us; bounded, the loop waits.

        Returns:
            how the server ended by itself; None: it did not, it had only closed its socket.
        """
        process = self._launched.process
        deadline = time.monotonic() + _REAP_WITHIN
        _wait(lambda: process.poll() is not None, time.monotonic() + _REAP_WITHIN / 5)
        status = process.poll()
        process.kill()
        process.wait()
        _wait(_no_children, deadline)
        return status


def _close(fds: tuple[int, ...]) -> None:
    for fd in fds:
        os.close(fd)


def be_subreaper() -> None:
    """Inherit the orphans of the fork server, to kill them."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def kill_children() -> None:
    """Kill and reap every child that this process has, orphans that it inherited among them; bounded."""
    _wait(_no_children, time.monotonic() + _REAP_WITHIN)


def _wait(done: Callable[[], bool], deadline: float) -> None:
    while not done() and time.monotonic() < deadline:
        time.sleep(0.002)


def _no_children() -> bool:
    """Kill each child, its group first, and reap what is dead; whether none is left, as far as can be told."""
    pid = os.getpid()
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:  # noqa: PTH123
            children = [int(word) for word in file.read().split()]
    except OSError:  # no descriptor is left
        return False
    for child in children:
        for kill in (os.killpg, os.kill):
            try:
                kill(child, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue
        try:
            os.waitpid(child, os.WNOHANG)
        except ChildProcessError:
            continue
    return not children
