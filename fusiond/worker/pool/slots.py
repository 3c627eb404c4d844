"""
The dispatcher's view of its children: what each was handed, what it has begun, what it may still take.

A slot outlives its children: page and output pipe are the slot's, the socket is one child's. Serials grow over the
slot's whole life, so that a mark on the page never means an earlier child's job.
"""

from __future__ import annotations

import _socket
import enum
import os
import socket
import struct
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fusiond.worker.pool.launch import memory_file
from fusiond.worker.pool.output import Output
from fusiond.worker.runtime import wire

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable, Iterator

    from fusiond.worker.pool.attempt import Attempt, KillReason
    from fusiond.worker.pool.server_handle import ServerHandle

#: bytes; room for a batch of small jobs without a second send
_SEND_BUFFER = 1 << 18
#: struct timeval, 10 ms; a one-job child whose job has not come by then makes ready for it meanwhile
_PATIENCE = struct.pack("ll", 0, 10_000)
#: bytes taken at once; memory for more comes from the kernel each time, which costs ten times the read
_RECEIVE = 1 << 16


class State(enum.Enum):
    """Of a slot's child."""

    EMPTY = "empty"
    READY = "ready"
    DYING = "dying"


@dataclass(slots=True, eq=False)
class Slot:
    """A place for one child."""

    number: int
    output: Output
    page: wire.Page
    page_fd: int
    state: State = State.EMPTY
    kill_reason: KillReason | None = None
    #: serial of the job for which its child is killed
    killed_for: int = 0
    #: serial → attempt, in the order handed
    outstanding: dict[int, Attempt] = field(default_factory=dict)
    #: seconds of expected work outstanding
    work: float = 0.0
    #: which table its child has
    table: int = 0
    #: closed once its child has nothing to do
    retiring: bool = False
    #: each child of it runs one job
    one_job: bool = False
    #: boot ns until when the lease is trusted of what its child was handed last; 0: it was handed nothing yet
    handed: int = 0
    #: monotonic ns of the first look at which its child was to end or to answer, and had said nothing since; 0: none
    spent_at: int = 0
    #: the fork server that has its child
    server: ServerHandle | None = None
    #: monotonic seconds when its child was asked for, and deaths in a row before any job
    forked: float = 0.0
    failed_starts: int = 0
    #: pid of its child, once that was killed, has not ended for long, and was named in the log
    unkilled: int = 0
    #: its child has said that it serves
    answered: bool = False
    #: its child has closed the socket
    closed: bool = False
    #: nothing more was there to be read
    silent: bool = False
    #: how its child broke the protocol, on the socket or on the page
    broken: str = ""
    #: the attempt whose lines come out of the pipe
    printing: Attempt | None = None
    #: of the job handed last; from 1, so that a job that writes 0 to the page never says what is true
    _serial: int = 1
    #: its child was asked whether it serves, and has not answered yet
    _asked: bool = False
    #: serial of the last outcome
    _told: int = 0
    #: the last mark that was believed, and monotonic ns when it was first seen
    _begun: int = 0
    seen: int = 0
    _sock: _socket.socket | None = None
    _reader: wire.FrameReader = field(default_factory=wire.FrameReader)
    _unsent: bytearray = field(default_factory=bytearray)

    @classmethod
    def make(
        cls, number: int, on_line: Callable[[Attempt | None, str, int, dict[str, Any]], None], *, one_job: bool = False
    ) -> Slot:
        """A slot without a child; `on_line` gets each line that is printed, whose it is, its level and its fields."""
        fd = memory_file(f"fusiond-page-{number}", bytes(wire.PAGE_BYTES))
        slot = cls(number, Output(), wire.Page(fd), fd, one_job=one_job)
        slot.output.on_mark = slot.mark
        slot.output.on_line = lambda line, level, fields: on_line(slot.printing, line, level, fields)
        return slot

    def mark(self, serial: int) -> None:
        """Lines that follow are this job's. A serial that was never handed out is only something that a job printed."""
        if serial <= self._serial:
            self.printing = self.outstanding.get(serial)

    # -- the child's life ---------------------------------------------------------------------------------------------

    def connect(self) -> _socket.socket:
        """A new socket for a new child; returns the child's end, which the caller sends on and closes."""
        # Without the class that the module socket puts around each, which costs as much as the pair.
        ours, theirs = _socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        if self.one_job:
            theirs.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _PATIENCE)
        else:
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
            theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
        self._sock = ours
        self.kill_reason, self.state, self.closed, self.broken, self.answered = None, State.READY, False, "", False
        self._asked, self.handed, self.spent_at, self.unkilled = False, 0, 0, 0
        self.page.pid = 0
        # A child may have left any number there; a new one has begun nothing.
        self.page.words[0] = self._begun = self._told = self._serial
        return theirs

    def fileno(self) -> int:
        """The socket's descriptor; -1 without one."""
        return self._sock.fileno() if self._sock else -1

    def hang_up(self, loop: asyncio.AbstractEventLoop) -> None:
        """Close the socket: an idle child ends, a dead one is forgotten."""
        if self._sock:
            if self._unsent:
                loop.remove_writer(self._sock.fileno())
            self._sock.close()
            self._sock = None
            # Half a frame may be as long as a whole one.
            self._reader, self._unsent = wire.FrameReader(), bytearray()

    def close(self) -> None:
        """Give back page and pipe; the slot has no child any more."""
        self.output.close()
        self.page.close()
        os.close(self.page_fd)

    @property
    def serves(self) -> bool:
        """It has a child that may be handed jobs."""
        return self.state is State.READY and not self.retiring

    @property
    def owes(self) -> bool:
        """Its child was handed something that was taken back, and has not said yet that it has passed over it."""
        return not self.outstanding and self._told < self._serial

    @property
    def spent(self) -> bool:
        """Its child has had its one job, and is to end; the next job must not meet what that one left behind."""
        return self.one_job and self.handed > 0 and not self.outstanding and self.state == State.READY

    # -- jobs ---------------------------------------------------------------------------------------------------------

    def ask(self, loop: asyncio.AbstractEventLoop) -> None:
        """Have the child say that it serves; `answered` is true once it has."""
        self._asked = True
        self._send(wire.jobs_frame(()), loop)

    def send_jobs(self, attempts: Iterable[Attempt], table: bytes | None, loop: asyncio.AbstractEventLoop) -> None:
        """Send a batch to the child, behind a new table where it has an older one."""
        messages = []
        for attempt in attempts:
            serial = self._serial = self._serial + 1
            self.page.allow(serial, min(attempt.lease, attempt.expires))
            self.outstanding[serial] = attempt
            self.handed = attempt.lease
            self.work += attempt.cost
            messages.append(
                wire.JobMessage(serial, attempt.attempts, attempt.id, attempt.task, attempt.header, attempt.args)
            )
        self._send((table or b"") + wire.jobs_frame(messages), loop)

    def _send(self, data: bytes, loop: asyncio.AbstractEventLoop) -> None:
        assert self._sock  # noqa: S101 - only a ready slot is handed jobs
        if self._unsent:
            self._unsent += data
            return
        sent = self._try_send(data)
        if sent < len(data):
            self._unsent += data[sent:]
            loop.add_writer(self._sock.fileno(), self._send_rest, loop)

    def _send_rest(self, loop: asyncio.AbstractEventLoop) -> None:
        assert self._sock  # noqa: S101 - hang_up takes the writer away
        del self._unsent[: self._try_send(self._unsent)]
        if not self._unsent:
            loop.remove_writer(self._sock.fileno())

    def _try_send(self, data: bytes | bytearray) -> int:
        """Bytes sent; a dead child takes everything: its death is reported, and what it was handed comes back."""
        assert self._sock  # noqa: S101
        try:
            return self._sock.send(data, _socket.MSG_DONTWAIT)
        except BlockingIOError:
            return 0
        except OSError:
            return len(data)

    def receive(self) -> list[wire.OutcomeMessage]:
        """
        The outcomes in one read of what has arrived; more is there until `silent`.

        One read, since a child that sends without end must not hold up the others. What it said before it broke the
        protocol counts.
        """
        outcomes: list[wire.OutcomeMessage] = []
        data = self._receive()
        self.silent = len(data) < _RECEIVE
        try:
            for kind, body in self._reader.feed(data):
                if kind != wire.OUTCOMES:
                    self.broken = "a child may send outcomes only"
                    break
                outcomes.extend(self._believed(body))
        except wire.WireError as error:
            self.broken = str(error)
        return outcomes

    def _believed(self, body: bytes) -> Iterator[wire.OutcomeMessage]:
        """What a frame says: one outcome for each job, in the order handed, so no more than that. Raises WireError."""
        self.spent_at = 0
        if not body:
            if not self._asked:
                raise wire.WireError("an answer that nobody has asked for")
            self._asked, self.answered = False, True
        for outcome in wire.read_outcomes(body):
            if not self._told < outcome.serial <= self._serial:
                raise wire.WireError("an outcome is of no job that this child was handed, or a second one")
            self._told = outcome.serial
            yield outcome

    def _receive(self) -> bytes:
        """What is there; nothing at the end as well, which `closed` tells."""
        try:
            data = self._sock.recv(_RECEIVE, _socket.MSG_DONTWAIT) if self._sock else b""
        except BlockingIOError:
            return b""
        except OSError:
            data = b""
        self.closed = not data
        return data

    def end(self, serial: int, *, told: bool = False) -> Attempt | None:
        """Take an attempt out that has ended, as its child told, or is taken back; None: it was taken back before."""
        if told and self._begun < serial <= self._serial:
            self._begun = serial
        attempt = self.outstanding.pop(serial, None)
        if attempt is not None:
            self.work = self.work - attempt.cost if self.outstanding else 0.0
        return attempt

    def attempts(self) -> Iterator[Attempt]:
        """What its child has, each marked with whether it has begun."""
        begun = self.begun() if self.outstanding else 0
        for serial, attempt in self.outstanding.items():
            attempt.begun = serial <= begun
            yield attempt

    def running(self) -> tuple[int, Attempt] | None:
        """Serial and attempt of the job that has begun and not ended."""
        serial = self.begun()
        attempt = self.outstanding.get(serial)
        return None if attempt is None else (serial, attempt)

    def begun(self) -> int:
        """
        Serial of the job that was begun last.

        The page belongs to task code as much as to us: a mark that goes back, or ahead of what was handed out, is held
        against the first job that has no outcome.
        """
        mark = self.page.begun
        if mark == self._begun:
            return mark
        if not self._begun < mark <= self._serial:
            self.broken = "its mark on the page cannot be true"
            mark = max(self._begun, next(iter(self.outstanding), 0))
        if mark != self._begun:
            self._begun, self.seen = mark, time.monotonic_ns()
        return mark

    def ran(self, now_ns: int) -> float:
        """Seconds that the running job has run, whatever it says itself; 0 where none runs."""
        if self.begun() not in self.outstanding:
            return 0.0
        return (now_ns - min(self.page.begun_at, self.seen)) / 1e9

    def set_kill_reason(self, kill_reason: KillReason, serial: int) -> None:
        """Its child is being killed, for this job. It may end that one before it dies, and must begin no other."""
        self.kill_reason, self.killed_for, self.state = kill_reason, serial, State.DYING
        self.forbid()

    def forbid(self) -> None:
        """Its child must begin nothing any more."""
        for waiting in self.waiting():
            self.page.allow(waiting, 0)

    @property
    def blamed(self) -> int:
        """Serial of the job that its child's death is held against: the one it was killed for, else the last begun."""
        return self.killed_for if self.kill_reason else self.begun()

    def waiting(self) -> list[int]:
        """Serials handed out and not begun."""
        begun = self.begun()
        return [serial for serial in self.outstanding if serial > begun]
