"""
The dispatcher's handle of one fork server: request children and kills, read its reports, clean up after its death.

1. request  children and kills, and ask whether it still answers (answers.py)
2. report   what it says
3. end      it if it hangs. When it is dead, this process inherits its children, as a subreaper: they are killed and
            reaped before their jobs are judged, and those that do not end are logged

runtime/forkserver.py describes the commands and the reports.
"""

from __future__ import annotations

import _socket
import asyncio
import contextlib
import errno
import json
import logging
import os
import signal
import socket
from collections import deque
from collections.abc import Callable

from fusiond.worker.pool.fork_server.answers import Answers
from fusiond.worker.pool.fork_server.launch import Launched
from fusiond.worker.pool.fork_server.orphans import LEFT, REAP_WITHIN, kill_children, spared, wait
from fusiond.worker.pool.memory_file import memory_file
from fusiond.worker.pool.output import logged
from fusiond.worker.pool.pool_reports import Died, Left, Lost, Ready, ServerDied, ServerReport, Silent, Survivors
from fusiond.worker.runtime.forkserver import AT_ONCE

#: called with the handle and a report of its fork server
Report = Callable[["ServerHandle", ServerReport], None]

log = logging.getLogger("fusiond.job")

_PACKET = 1 << 16
#: s; a fork server that has closed its socket may take so long to end by itself, so that its own status is known
_BY_ITSELF = 1.0
#: s; between two looks whether what was killed has ended: at first, and at most
_FIRST_LOOK, _LAST_LOOK = 0.002, 0.2


class ServerHandle:
    """One fork server's process, from launch to death."""

    def __init__(self, launched: Launched, report: Report) -> None:
        """Take over a fork server that was launched."""
        self._launched, self._report = launched, report
        #: its process; and what it was started from
        self.pid, self.origin = launched.process.pid, launched.origin
        self._loop = asyncio.get_running_loop()
        #: printed last; it explains a failed start
        self._last_line = ""
        self._problems: dict[str, list[str]] = {}
        #: task → the names of what calls pass by position, with a comma between them, as far as it is known
        self.positional: dict[str, str] = {}
        self._unsent: deque[tuple[bytes, tuple[int, ...]]] = deque()
        self._to_fork: dict[int, tuple[_socket.socket, tuple[int, ...]]] = {}
        #: it has tried to load every task; it does not answer just now
        self.is_ready = self.silent = False
        #: why it was killed, if it hung; and whether this process killed it
        self._hung, self._was_killed = "", False
        #: its end is not reported any more
        self._unheard = False
        self._ending: asyncio.TimerHandle | None = None
        self._answers = Answers(lambda number: self._send(f"ask {number}"), self._on_silent, self._on_hung)
        self._loop.add_reader(launched.control, self._hear)
        self._loop.add_reader(launched.output, self._read_output)
        spared.add(self.pid)

    def fork(self, slot: int, sock: _socket.socket, *fds: int) -> None:
        """
        Ask for a child.

        Args:
            slot: its number.
            sock: the child's end of a socket, closed here later; what is sent on the other end waits for the child.
            fds: descriptors of the slot's pipe and of its page, and of the file of its number, if it has one.
        """
        if not self._to_fork:
            self._loop.call_soon(self._fork_all)
        self._to_fork[slot] = sock, fds

    def _fork_all(self) -> None:
        """Ask for all children wanted since the last call in one request, which costs the fork server least."""
        slots, self._to_fork = list(self._to_fork.items()), {}
        for at in range(0, len(slots), AT_ONCE):
            some = slots[at : at + AT_ONCE]
            self._answers.request()
            lent = [fd for _, (sock, fds) in some for fd in (sock.fileno(), *fds)]
            self._send(" ".join(["fork", *(str(slot) for slot, _ in some)]), *lent)
            for _, (sock, _) in some:
                sock.close()

    def kill(self, slot: int) -> None:
        """Kill the slot's child and its process group; the report Died follows."""
        self._answers.request()
        self._fork_all()
        self._send(f"kill {slot}")

    def set_table(self, table: bytes) -> None:
        """Children forked from now on have this table."""
        fd = memory_file("fusiond-table", table)
        try:
            self._send("table", fd)
        finally:
            os.close(fd)

    def end(self) -> None:
        """Let the server end, children included, while the loop goes on; nothing is reported any more."""
        self._hang_up()
        self._end_after(_BY_ITSELF)

    def close(self) -> None:
        """Let the server end, and wait for a moment; the caller kills what is left. Nothing is reported any more."""
        self._hang_up()
        wait(self._has_ended, _BY_ITSELF)

    def _hang_up(self) -> None:
        self._unheard = True
        self._fork_all()
        if self._ending:
            self._ending.cancel()
        # Closed: the server has died, and what was to be done about it has failed.
        if self._launched.control.fileno() >= 0:
            self._forget()

    def _send(self, text: str, *fds: int) -> None:
        """Send a command with copies of the descriptors; if the socket has no room, send it later, in order."""
        if not self._unsent and self._try_send(text.encode(), fds):
            return
        if not self._unsent:
            self._loop.add_writer(self._launched.control, self._send_rest)
        self._unsent.append((text.encode(), tuple(map(os.dup, fds))))

    def _try_send(self, packet: bytes, fds: tuple[int, ...]) -> bool:
        """Whether it was sent, or the fork server has died and will never read it."""
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
            if self._launched.control.fileno() < 0:  # a report has had it closed
                return
            try:
                packet = self._launched.control.recv(_PACKET)
            except BlockingIOError:
                return
            except ConnectionResetError:
                # It ended before it had read all commands. Linux says so once, ahead of the packets that it had sent.
                continue
            except OSError:
                packet = b""
            if not packet:
                self._lose()
                return
            self._read_report(packet)

    def _read_report(self, packet: bytes) -> None:
        verb, _, rest = packet.partition(b" ")
        if verb == b"answer":
            self._answers.answer(int(rest))
        elif verb == b"loading":
            self._answers.loading()
        elif verb == b"positional":
            task, _, names = rest.decode().partition(" ")
            self.positional[task] = names
        elif verb == b"unloaded":
            self._problems.update(json.loads(rest))
        elif verb == b"ready":
            self._answers.ready()
            self.is_ready = True
            self._report(self, Ready(self._problems, int(rest)))
        elif verb == b"unforked":
            slot, _, reason = rest.decode().partition(" ")
            self._report(self, Died(int(slot), 1, reason))
        elif verb == b"left":
            slot, _, names = rest.decode(errors="replace").partition(" ")
            self._report(self, Left(int(slot), names))
        elif verb == b"died":
            for line in packet.decode().splitlines():
                _, slot, _, status, cpu, peak = line.split()
                used = float(cpu), int(peak) * 1024
                self._report(self, Died(int(slot), os.waitstatus_to_exitcode(int(status)), used=used))

    def _read_output(self) -> None:
        """Write what imports print to the group's log."""
        try:
            data = os.read(self._launched.output, 1 << 16)
        except OSError:
            return
        if not data:
            self._loop.remove_reader(self._launched.output)
        for raw in data.splitlines():
            self._last_line, level, fields = logged(raw)
            log.log(level, "%s", self._last_line, extra=fields)

    # -- its end ------------------------------------------------------------------------------------------------------

    def _on_silent(self, silent: bool, /) -> None:
        self.silent = silent
        self._report(self, Silent(silent))

    def _on_hung(self, what: str) -> None:
        self._hung = f"the fork server {what}, and was killed with all that is below it"
        self._lose()

    def _lose(self) -> None:
        """It is dead, hangs, or has closed its socket: end it and all that it leaves to us, while the loop goes on."""
        self._forget()
        self.silent = False
        self._report(self, Lost(bool(self._hung)))
        self._end_after(0.0 if self._hung else _BY_ITSELF)

    def _end_after(self, seconds: float) -> None:
        """Kill it if it has not ended by itself after so many seconds."""
        self._pause, self._is_told = _FIRST_LOOK, False
        self._kill_at = self._loop.time() + seconds
        self._give_up_at = self._kill_at + REAP_WITHIN
        self._is_reported = False
        self._end()

    def _end(self) -> None:
        """Look whether the server has ended, and then whether its children have; again later until they have."""
        now = self._loop.time()
        if self._has_ended():
            if self._rest_has_ended(now):
                return
        else:
            if now >= self._kill_at:
                self._was_killed = True
                # It may belong to another user, whose processes this one may not kill.
                with contextlib.suppress(PermissionError):
                    self._launched.process.kill()
            # Below it nothing is ours yet. A job there may run on, and its lease must be kept.
            if now >= self._kill_at + REAP_WITHIN and not self._is_told:
                self._is_told = True
                leases = "" if self._unheard else "; its jobs keep their leases"
                log.error("the fork server, process %d, was killed and has not ended%s", self.pid, leases)
            self._give_up_at = now + REAP_WITHIN
        self._pause = min(2 * self._pause, _LAST_LOOK)
        self._ending = self._loop.call_later(self._pause, self._end)

    def _has_ended(self) -> bool:
        """Whether its process has ended; before that it is spared, since its status is lost if others reap it."""
        if self._launched.process.poll() is None:
            return False
        spared.discard(self.pid)
        return True

    def _rest_has_ended(self, now: float) -> bool:
        """Kill and reap what it has left to us. Report its death when all of it has ended, or takes too long."""
        try:
            left, reaped = kill_children()
        except OSError:
            # No descriptor is left to list the children, nor to start another server.
            self._give_up_at = now + REAP_WITHIN
            return False
        is_over = not (left or reaped)  # what was reaped may have left others to us
        if self._is_reported:
            self._report(self, Survivors(left, reaped))
        elif is_over or now >= self._give_up_at:
            self._is_reported = True
            if left:
                what = LEFT if self._unheard else "processes that were killed have not ended"
                log.error("%s: %s", what, ", ".join(map(str, sorted(left))))
            if self._unheard:
                return True
            status = self._launched.process.returncode
            killed = bool(self._hung) or (status == -signal.SIGKILL and not self._was_killed)
            self._report(self, ServerDied(self._reason(), killed, left))
        return is_over

    def _reason(self) -> str:
        if self._hung:
            return self._hung
        status = self._launched.process.returncode
        how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
        return f"the fork server {how}" + (f": {self._last_line}" if self._last_line else "")

    def _forget(self) -> None:
        self._answers.stop()
        self._loop.remove_reader(self._launched.control)
        self._loop.remove_writer(self._launched.control)
        self._loop.remove_reader(self._launched.output)
        self._launched.control.close()
        while self._unsent:
            _close(self._unsent.popleft()[1])
        self._read_output()
        os.close(self._launched.output)


def _close(fds: tuple[int, ...]) -> None:
    for fd in fds:
        os.close(fd)
