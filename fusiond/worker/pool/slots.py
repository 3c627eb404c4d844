"""
The dispatcher's view of a group's children: the slots, and the child in each.

1. slot    a place for one child after another. It keeps what outlives a child: the page and the output pipe. Its
           serials never start again, so that a mark on the page never means a job of an earlier child
2. child   what it was handed, what it has begun, what it may still begin, and why it is killed

Knows one child at a time. What becomes of a job whose child has died is not decided here.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fusiond.worker.pool.child_socket import ChildSocket
from fusiond.worker.pool.launch import memory_file
from fusiond.worker.pool.output import OnLine, Output
from fusiond.worker.runtime import wire

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fusiond.worker.pool.attempt import Attempt, KillReason
    from fusiond.worker.pool.server_handle import ServerHandle


@dataclass(slots=True, eq=False)
class Slot:
    """A place for one child after another."""

    number: int
    #: each child runs one job
    one_job: bool
    output: Output
    page: wire.Page
    page_fd: int
    #: no child is forked here any more; the slot is removed once its child has nothing to do
    retiring: bool = False
    #: of the job handed last; from 1, so that a job that writes 0 to the page never says what is true
    serial: int = 1
    #: monotonic seconds when the last child was asked for
    forked_at: float = 0.0
    #: children in a row that died before any job
    failed_starts: int = 0

    @classmethod
    def make(cls, number: int, on_line: OnLine, *, one_job: bool) -> Slot:
        """A slot without a child; `on_line` is called with each line that a child prints."""
        fd = memory_file(f"fusiond-page-{number}", bytes(wire.PAGE_BYTES))
        return cls(number, one_job, Output(on_line), wire.Page(fd), fd)

    def fork(self, server: ServerHandle, table: bytes) -> ChildHandle:
        """Ask for a child that has this table; jobs sent to it at once wait in its socket. Raises OSError."""
        self.forked_at = time.monotonic()
        socket, theirs = ChildSocket.pair(one_job=self.one_job)
        # A former child may have left any number there; the new one has begun nothing.
        self.page.pid, self.page.words[0] = 0, self.serial
        server.fork(self.number, theirs, self.output.writer, self.page_fd)
        child = ChildHandle(self, server, socket, table, self.serial, self.serial)
        self.output.attempts = child.outstanding
        return child

    def close(self) -> None:
        """Give back page and pipe; the slot has no child any more."""
        self.output.close()
        self.page.close()
        os.close(self.page_fd)


@dataclass(slots=True, eq=False)
class Kill:
    """Why and when a child was killed."""

    #: None: its fork server has died, and all of its children are killed
    reason: KillReason | None
    #: of the job for which it was killed
    serial: int
    #: monotonic ns
    at: int = field(default_factory=time.monotonic_ns)
    #: the log names it as one that has not ended
    is_named: bool = False


@dataclass(slots=True, eq=False)
class ChildHandle:
    """One child, from its fork to its death."""

    slot: Slot
    #: the fork server that forks it
    server: ServerHandle
    socket: ChildSocket
    #: the TABLE frame that it has
    table: bytes
    #: serial of its last outcome
    _told: int
    #: the last mark on the page that was believed
    _begun: int
    #: monotonic ns when that mark was first seen
    seen: int = 0
    #: serial → attempt, in the order handed
    outstanding: dict[int, Attempt] = field(default_factory=dict)
    #: boot ns until when the lease of what it was handed last is trusted; 0: it was handed nothing yet
    handed: int = 0
    kill: Kill | None = None
    #: how it broke the protocol, on the socket or on the page
    broken: str = ""
    #: monotonic ns of the first look that found nothing to wait for but its end or its word; 0: none
    idle_since: int = 0

    @property
    def serves(self) -> bool:
        """It may be handed jobs."""
        return self.kill is None and not self.slot.retiring

    @property
    def owes(self) -> bool:
        """What it was handed last was taken back, and it has not said yet that it has passed over it."""
        return not self.outstanding and self._told < self.slot.serial

    @property
    def spent(self) -> bool:
        """It has had its one job, and is to end; the next job must not meet what that one left behind."""
        return self.slot.one_job and self.handed > 0 and not self.outstanding and self.kill is None

    # -- jobs ---------------------------------------------------------------------------------------------------------

    def send_jobs(self, attempts: Iterable[Attempt], table: bytes) -> None:
        """Send a batch, behind the newest table where the child has an older one."""
        slot, messages = self.slot, []
        for attempt in attempts:
            serial = slot.serial = slot.serial + 1
            slot.page.allow(serial, min(attempt.lease, attempt.expires))
            self.outstanding[serial] = attempt
            self.handed = attempt.lease
            messages.append(
                wire.JobMessage(serial, attempt.attempts, attempt.id, attempt.task, attempt.header, attempt.args)
            )
        if slot.one_job:
            # All that this child prints is this job's; it writes no marks.
            slot.output.attempt = attempt
        frame = wire.jobs_frame(messages)
        self.socket.send(frame if self.table is table else table + frame)
        self.table = table

    def receive(self) -> list[wire.OutcomeMessage]:
        """
        The outcomes in one read of what has arrived.

        A child tells one outcome for each job, in the order handed. What it said before it broke the protocol counts.
        """
        outcomes: list[wire.OutcomeMessage] = []
        try:
            for outcome in self.socket.outcomes():
                if not self._told < outcome.serial <= self.slot.serial:
                    self.broken = "an outcome is of no job that this child was handed, or a second one"
                    break
                self._told, self.idle_since = outcome.serial, 0
                outcomes.append(outcome)
        except wire.WireError as error:
            self.broken = str(error)
        return outcomes

    def end(self, serial: int) -> Attempt | None:
        """Take out the attempt that has ended, as the child told; None: it was taken back before."""
        self._begun = max(self._begun, serial)
        return self.outstanding.pop(serial, None)

    def attempts(self) -> Iterator[Attempt]:
        """What the child has, each marked with whether it has begun."""
        begun = self.begun() if self.outstanding else 0
        for serial, attempt in self.outstanding.items():
            attempt.begun = serial <= begun
            yield attempt

    @property
    def running(self) -> Attempt | None:
        """The attempt that has begun and not ended."""
        return self.outstanding.get(self.begun())

    def begun(self) -> int:
        """
        Serial of the job that was begun last.

        The page belongs to task code as much as to us: a mark that goes back, or ahead of what was handed out, is held
        against the first job that has no outcome.
        """
        mark = self.slot.page.begun
        if mark == self._begun:
            return mark
        if not self._begun < mark <= self.slot.serial:
            self.broken = "its mark on the page cannot be true"
            mark = max(self._begun, next(iter(self.outstanding), 0))
        if mark != self._begun:
            self._begun, self.seen = mark, time.monotonic_ns()
        return mark

    def ran(self, now_ns: int) -> float:
        """Seconds that the running job has run, whatever it says itself; 0 where none runs."""
        if self.begun() not in self.outstanding:
            return 0.0
        return (now_ns - min(self.slot.page.begun_at, self.seen)) / 1e9

    def waiting(self) -> list[int]:
        """Serials handed out and not begun."""
        begun = self.begun()
        return [serial for serial in self.outstanding if serial > begun]

    # -- its end ------------------------------------------------------------------------------------------------------

    def kill_for(self, reason: KillReason | None, serial: int) -> None:
        """Have it killed, and its process group, for this job. It may end that one first, and must begin no other."""
        if self.kill is None:
            self.kill = Kill(reason, serial)
            self.forbid(self.waiting())
            self.server.kill(self.slot.number)

    def forbid(self, serials: Iterable[int]) -> None:
        """It must not begin these any more."""
        for serial in serials:
            self.slot.page.allow(serial, 0)

    @property
    def blamed(self) -> int:
        """Serial of the job that its death is held against: the one it was killed for, else the last begun."""
        return self.kill.serial if self.kill and self.kill.reason else self.begun()
