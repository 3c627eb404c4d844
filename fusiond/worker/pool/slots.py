"""
The dispatcher's view of a group's children: the slots, and the child in each.

1. slot    a place for one child after another. It keeps what outlives a child: the page and the output pipe. Its
           serials never start again, so that a mark on the page never means a job of an earlier child
2. child   which jobs it was handed, which it has begun, which it may still begin, and why it is killed
3. number  of a group with a `slot_variable`, the one that the child has: its file is locked by a descriptor, which the
           dispatcher and the child have. So it is free once the child is reaped, for all dispatchers of this host
           with the same state directory: those of a group's next generation, of another group, of the next daemon. A
           child that a kill has not ended keeps it, whatever has died above it

Knows one child at a time. children.py decides what happens to a job whose child has died.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import time
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from fusiond import paths
from fusiond.config.model import WorkerGroup
from fusiond.worker.pool.attempt import Attempt, KillReason
from fusiond.worker.pool.child_socket import ChildSocket
from fusiond.worker.pool.fork_server.server_handle import ServerHandle
from fusiond.worker.pool.memory_file import memory_file
from fusiond.worker.pool.output import OnLine, Output
from fusiond.worker.runtime import wire

#: reasons to kill a child that are of all of its jobs
_OF_ALL = frozenset({KillReason.SHUTDOWN, KillReason.PROTOCOL_ERROR, KillReason.SERVER, KillReason.LOOP_STUCK})
#: ns; an event loop that has not turned for so long is kept from it
_STILL = 2_000_000_000
#: ns; a child that has begun nothing for so long is taken for broken, however soon the lease of its job is over
_SLOW = 13_000_000_000


@dataclass(frozen=True, slots=True)
class ChildKind:
    """How each child of a group runs its jobs."""

    #: one job in its whole life, but for programs that leave nothing behind
    one_job: bool
    #: many at once, in threads or in an event loop
    is_concurrent: bool
    #: how many at once
    concurrency: int
    #: it says when it may be sent jobs, since it calls `on_start` first
    tells_start: bool
    #: the files of the numbers that `slot_variable` may have
    numbers: tuple[Path, ...] = ()

    @classmethod
    def of(cls, group: WorkerGroup, state: Path) -> ChildKind:
        """The kind of a group's children; `state`: the daemon's state directory."""
        is_concurrent = group.executor != "sync"
        files = (paths.slot_number(state, group.slot_variable or "", number) for number in range(group.processes))
        numbers = tuple(files) if group.slot_variable else ()
        return cls(group.isolation == "fork", is_concurrent, group.concurrency, group.on_start is not None, numbers)


class Running(NamedTuple):
    """An attempt that has begun and not ended."""

    serial: int
    attempt: Attempt
    #: s
    ran: float


@dataclass(slots=True, eq=False)
class Slot:
    """A place for one child after another."""

    number: int
    kind: ChildKind
    output: Output
    page: wire.Page
    page_fd: int
    #: no child is forked here any more; the slot is removed once its child has nothing to do
    retiring: bool = False
    #: serial of the job handed out last; it starts at 1, so that a 0 on the page is never a valid mark
    serial: int = 1
    #: monotonic seconds when the last child was asked for
    forked_at: float = 0.0
    #: children in a row that died before any job
    failed_starts: int = 0
    #: closes the descriptor of its child's number
    own: ExitStack = field(default_factory=ExitStack)

    @classmethod
    def make(cls, number: int, on_line: OnLine, kind: ChildKind) -> Slot:
        """A slot without a child; `on_line` is called with each line that a child prints."""
        size = wire.page_bytes(kind.concurrency)
        fd = memory_file(f"fusiond-page-{number}", bytes(size))
        return cls(number, kind, Output(on_line), wire.Page(mmap.mmap(fd, size)), fd)

    def fork(self, server: ServerHandle, table: bytes) -> ChildHandle:
        """Ask for a child that has this table; jobs sent to it at once wait in its socket. Raises OSError."""
        self.forked_at = time.monotonic()
        self.own.close()
        number = [self._take_number()] if self.kind.numbers else []
        socket, theirs = ChildSocket.pair(one_job=self.kind.one_job)
        # An earlier child may have left any number there; the new one has begun nothing.
        self.page.reset(self.serial)
        server.fork(self.number, theirs, self.output.writer, self.page_fd, *number)
        self.output.attempt = None
        child = ChildHandle(self, server, socket, table, self.serial)
        self.output.attempts = child.outstanding
        return child

    def _take_number(self) -> int:
        """A descriptor of the lowest free number's file, which it locks; its offset is the number. Raises OSError."""
        for number, path in enumerate(self.kind.numbers):
            path.parent.mkdir(mode=0o700, exist_ok=True)
            fd = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            self.own.callback(os.close, fd)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self.own.close()
                continue
            os.lseek(fd, number, os.SEEK_SET)
            return fd
        raise BlockingIOError("each number of slot_variable belongs to a process that has not ended")

    def close(self) -> None:
        """Close the page and the pipe; the slot has no child any more."""
        self.own.close()
        self.output.close()
        self.page.close()
        os.close(self.page_fd)


@dataclass(slots=True, eq=False)
class Kill:
    """Why and when a child was killed."""

    #: None: its fork server has died, and all of its children are killed
    reason: KillReason | None
    #: serial of the job for which it was killed
    serial: int
    #: monotonic ns
    at: int = field(default_factory=time.monotonic_ns)
    #: the log has said that the child was killed and has not ended
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
    #: the last mark on the page that could be true
    _begun: int
    #: monotonic ns when that mark was first seen
    seen: int = 0
    #: serial → attempt, in the order handed
    outstanding: dict[int, Attempt] = field(default_factory=dict)
    #: serials that were taken back, and of which it has not reported yet that it has passed over them
    taken_back: set[int] = field(default_factory=set)
    #: boot ns by when it must have begun the job handed out last; 0: it was handed nothing yet, or takes another job
    handed: int = 0
    #: CPU seconds of the jobs that it has ended
    cpu: float = 0.0
    kill: Kill | None = None
    #: how it broke the protocol, on the socket or on the page
    broken: str = ""
    #: monotonic ns of the first look at which it had only to end, or to report that it has passed over a job; 0: none
    idle_since: int = 0

    @property
    def serves(self) -> bool:
        """It may be handed jobs."""
        return self.kill is None and not self.slot.retiring and self.started

    @property
    def started(self) -> bool:
        """It has called `on_start`, if its group has one."""
        return not self.slot.kind.tells_start or self.socket.started

    @property
    def owes(self) -> bool:
        """All its jobs were taken back, and it has not reported yet that it has passed over each."""
        return not self.outstanding and bool(self.taken_back)

    @property
    def spent(self) -> bool:
        """It has had its job, and must end: the next job gets a new process."""
        return self.slot.kind.one_job and self.handed > 0 and not self.outstanding and self.kill is None

    # -- jobs ---------------------------------------------------------------------------------------------------------

    def send_jobs(self, attempts: Iterable[Attempt], table: bytes) -> None:
        """Send a batch, behind the newest table where the child has an older one."""
        slot, messages, is_idle = self.slot, [], not self.outstanding
        for attempt in attempts:
            serial = slot.serial = slot.serial + 1
            slot.page.allow(serial, min(attempt.lease, attempt.expires))
            self.outstanding[serial] = attempt
            messages.append((serial, attempt.attempts, attempt.id, attempt.task, attempt.header, attempt.args))
        self.handed = max(attempt.lease, wire.boot_ns() + _SLOW)
        is_lone = is_idle and len(messages) == 1 and not slot.kind.is_concurrent
        if is_lone:
            # Without a mark, which would wake this process before the outcome does.
            slot.output.attempt = attempt
        frame = wire.lone_frame(messages[0]) if is_lone else wire.jobs_frame(messages)
        self.socket.send(frame if self.table is table else table + frame)
        self.table = table

    def receive(self) -> list[wire.OutcomeMessage]:
        """The outcomes in one read of what has arrived. Those that it sent before it broke the protocol count."""
        outcomes: list[wire.OutcomeMessage] = []
        # One more than it owes breaks the protocol. A frame has room for millions, which take seconds to read.
        most = len(self.outstanding) + len(self.taken_back) + 1
        try:
            outcomes.extend(islice(self.socket.outcomes(), most))
        except wire.WireError as error:
            self.broken = str(error)
        while self.socket.reports:
            self._note_report(self.socket.reports.pop(0))
        return outcomes

    def kept(self) -> list[wire.OutcomeMessage]:
        """The outcomes on the page that have not been taken; task code can write to it, too."""
        try:
            outcomes = list(wire.read_outcomes(self.slot.page.kept()))
        except wire.WireError:
            return []
        return [outcome for outcome in outcomes if outcome.serial in self.outstanding]

    def _note_report(self, report: wire.JobReport) -> None:
        if attempt := self.outstanding.get(report.serial):
            attempt.report = report

    def end(self, outcome: wire.OutcomeMessage) -> Attempt | None:
        """
        Remove and return the attempt whose end the child has reported; None: it was taken back before.

        A child sends one outcome for each job that it was handed.
        """
        serial = outcome.serial
        attempt = self.outstanding.pop(serial, None)
        if attempt is None and serial not in self.taken_back:
            self.broken = "an outcome is of no job that this child was handed, or a second one"
            return None
        self.taken_back.discard(serial)
        self._begun, self.idle_since = max(self._begun, serial), 0
        self.cpu += max(0.0, outcome.cpu)
        if self.socket.takes_another:
            self.handed, self.socket.takes_another = 0, False
            # What it prints now is of no job: a thread of its `on_start` does.
            self.slot.output.attempt = None
        return attempt

    def stop(self, running: Running) -> None:
        """Ask the child to end one of its jobs, and to go on with the others."""
        running.attempt.stopped = time.monotonic_ns()
        self.socket.send(wire.stop_frame(running.serial))

    def all_running(self, now_ns: int) -> list[Running]:
        """The attempts that have begun and not ended."""
        begun = self.begun()
        if not self.slot.kind.is_concurrent:
            attempt = self.outstanding.get(begun)
            return [Running(begun, attempt, self.ran(now_ns))] if attempt else []
        return [
            Running(serial, attempt, (now_ns - (attempt.began or now_ns)) / 1e9)
            for serial, attempt in self.outstanding.items()
            if serial <= begun
        ]

    def begun(self) -> int:
        """
        Serial of the job that was begun last.

        Task code can write to the page too. A mark that goes back, or that is ahead of the jobs handed out, counts as
        the beginning of the first job without an outcome.
        """
        mark = self.slot.page.begun
        if mark == self._begun:
            return mark
        if not self._begun < mark <= self.slot.serial:
            self.broken = "its mark on the page cannot be true"
            mark = max(self._begun, next(iter(self.outstanding), 0))
        if mark != self._begun:
            former, self._begun, self.seen = self._begun, mark, time.monotonic_ns()
            if self.slot.kind.is_concurrent:
                for serial in range(former + 1, mark + 1):
                    if attempt := self.outstanding.get(serial):
                        attempt.began = self.seen
        return mark

    def ran(self, now_ns: int) -> float:
        """Seconds that the running job has run, even if it has changed its mark; 0 if none runs."""
        if self.begun() not in self.outstanding:
            return 0.0
        return (now_ns - min(self.slot.page.begun_at, self.seen)) / 1e9

    @property
    def is_alone(self) -> bool:
        """It has a job beside which no other may run."""
        return len(self.outstanding) == 1 and next(iter(self.outstanding.values())).alone

    def work_ahead(self) -> float:
        """Seconds of work, in all, that a further job would wait for; jobs that it would run beside do not count."""
        beyond = islice(self.outstanding.values(), self.slot.kind.concurrency - 1, None)
        return sum(attempt.expected_seconds for attempt in beyond)

    def lags(self, now_ns: int, seconds: float) -> bool:
        """Whether it has not taken up, or passed over, what it was handed so many seconds ago."""
        if self.taken_back:
            return True
        waiting = self.waiting()
        return bool(waiting) and self.outstanding[waiting[0]].handed_at + int(seconds * 1e9) < now_ns

    def waiting(self) -> list[int]:
        """Serials handed out and not begun."""
        begun = self.begun()
        return [serial for serial in self.outstanding if serial > begun]

    def read_reports(self) -> None:
        """Note on each attempt how far it is, as its job has said."""
        for cell in range(self.slot.kind.concurrency):
            if report := self.slot.page.read_report(cell):
                self._note_report(report)

    # -- its end ------------------------------------------------------------------------------------------------------

    def kill_for(self, reason: KillReason | None, serial: int) -> None:
        """Have the child and its process group killed for this job; it must not begin another one."""
        if self.kill is None:
            self.kill = Kill(reason, serial)
            self.forbid(self.waiting())
            self.server.kill(self.slot.number)

    def forbid(self, serials: Iterable[int]) -> None:
        """Do not let it begin the jobs of these serials any more."""
        for serial in serials:
            self.slot.page.allow(serial, 0)

    def is_to_blame(self, serial: int) -> bool:
        """
        Whether the death of the child counts for this job, which has begun.

        That is the job for which it was killed. If none is, it is the job begun last; of many at once it is each, since
        nobody knows which one has ended the child.
        """
        kill, is_concurrent = self.kill, self.slot.kind.is_concurrent
        if kill and kill.reason and not (is_concurrent and kill.reason in _OF_ALL):
            return serial == kill.serial
        return is_concurrent or serial == self.begun()

    def culprit(self, serial: int, now_ns: int) -> tuple[KillReason, int]:
        """
        Why and for which job a child of many jobs must be killed of which this job is over its hard timeout.

        While the event loop does not run, no job of it can be stopped. Then the job is to blame that keeps the loop, if
        that is known; otherwise each.
        """
        page = self.slot.page
        if page.turned + _STILL < now_ns:
            blocker = page.blocker
            if blocker not in self.outstanding:
                return KillReason.LOOP_STUCK, serial
            if blocker != serial:
                return KillReason.BLOCKED_BY_JOB, blocker
        return KillReason.TIMEOUT, serial
