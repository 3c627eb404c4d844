"""
The dispatcher's view of its children: what each was handed, what it has begun, what it may still take.

A slot outlives its children: page and output pipe are the slot's, the socket is one child's. Serials grow over the
slot's whole life, so that a mark on the page never means an earlier child's job.
"""

from __future__ import annotations

import enum
import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fusiond.worker.pool.child_socket import ChildSocket
from fusiond.worker.pool.launch import memory_file
from fusiond.worker.pool.output import Output
from fusiond.worker.runtime import wire

if TYPE_CHECKING:
    import _socket
    from collections.abc import Callable, Iterable, Iterator

    from fusiond.worker.pool.attempt import Attempt, KillReason
    from fusiond.worker.pool.server_handle import ServerHandle


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
    #: how its child broke the protocol, on the socket or on the page
    broken: str = ""
    #: the attempt whose lines come out of the pipe
    printing: Attempt | None = None
    #: of the job handed last; from 1, so that a job that writes 0 to the page never says what is true
    _serial: int = 1
    #: serial of the last outcome
    _told: int = 0
    #: the last mark that was believed, and monotonic ns when it was first seen
    _begun: int = 0
    seen: int = 0
    #: its child's; None: it has no child, or nothing more is to be said to it
    socket: ChildSocket | None = None

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
        """Make a socket for a new child; returns the child's end, which the caller sends on and closes."""
        self.socket, theirs = ChildSocket.pair(one_job=self.one_job)
        self.kill_reason, self.state, self.broken = None, State.READY, ""
        self.handed, self.spent_at, self.unkilled = 0, 0, 0
        self.page.pid = 0
        # A child may have left any number there; a new one has begun nothing.
        self.page.words[0] = self._begun = self._told = self._serial
        return theirs

    def fileno(self) -> int:
        """The socket's descriptor; -1 without one."""
        return self.socket.fileno() if self.socket else -1

    def hang_up(self) -> None:
        """Close the socket: an idle child ends, a dead one is forgotten."""
        if self.socket:
            self.socket.close()
            self.socket = None

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

    def send_jobs(self, attempts: Iterable[Attempt], table: bytes | None) -> None:
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
        assert self.socket  # noqa: S101 - only a ready slot is handed jobs
        self.socket.send((table or b"") + wire.jobs_frame(messages))

    def receive(self) -> list[wire.OutcomeMessage]:
        """
        The outcomes in one read of what has arrived.

        A child tells one outcome for each job, in the order handed. What it said before it broke the protocol counts.
        """
        outcomes: list[wire.OutcomeMessage] = []
        try:
            for outcome in self.socket.outcomes() if self.socket else ():
                self.spent_at = 0
                if outcome is None:
                    continue
                if not self._told < outcome.serial <= self._serial:
                    self.broken = "an outcome is of no job that this child was handed, or a second one"
                    break
                self._told = outcome.serial
                outcomes.append(outcome)
        except wire.WireError as error:
            self.broken = str(error)
        return outcomes

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
