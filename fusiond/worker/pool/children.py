"""
The lives of a group's children: forked into slots, heard, judged when they die, and replaced.

1. fork     a child into each slot, ahead of the jobs; again when one dies, more slowly when they die at their start
2. hear     the outcomes that children send, each behind what the child printed before it
3. take     back what a child must not begin
4. judge    what a child's death means for each attempt that it held: it was killed, interrupted, or never begun
5. retire   children that are too many, or whose fork server was replaced, once they have no job

Knows slots and sockets. Which fork server there is, which child is handed what, and when one is killed, others say.
"""

from __future__ import annotations

import asyncio
import logging
import select
import signal
import time
from typing import TYPE_CHECKING, Any

from fusiond import logs
from fusiond.worker.pool.attempt import KillReason
from fusiond.worker.pool.pool_reports import Killed, NotBegun, Room, Unheard
from fusiond.worker.pool.run_times import Ahead, RunTimes
from fusiond.worker.pool.slots import Slot
from fusiond.worker.runtime import wire

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from fusiond.worker.pool.attempt import Attempt
    from fusiond.worker.pool.pool_reports import PoolReport
    from fusiond.worker.pool.server_handle import ServerHandle
    from fusiond.worker.pool.slots import ChildHandle, Kill

log = logging.getLogger(__name__)
job_log = logging.getLogger("fusiond.job")

#: reads for what a dead child has sent; more than a socket holds, and few where a stray of its sends on
_LAST_READS = 8
#: s; the longest pause between forks, or fork servers, that die at their start
SLOWEST = 30.0
#: s; a child that has lived for so long has survived its start
_ALIVE = 1.0
#: s; from taking a job back to the look at the child's mark (see wire.py)
_TAKE_BACK = 0.002


class Children:
    """The children of one group."""

    def __init__(
        self,
        group: str,
        report: Callable[[PoolReport], None],
        on_outcome: Callable[[Attempt, wire.OutcomeMessage], None],
        log_fields: Callable[[Attempt], dict[str, Any]],
        *,
        one_job: bool,
    ) -> None:
        """As Pool; `group`: its name, `one_job`: each child runs one job."""
        self._group, self.report, self._on_outcome, self._log_fields = group, report, on_outcome, log_fields
        self._one_job = one_job
        self._loop = asyncio.get_running_loop()
        self.slots: dict[int, Slot] = {}
        #: by the number of its slot
        self.living: dict[int, ChildHandle] = {}
        #: slots that the file wants, and the number of the newest one
        self._wanted = self._newest = 0
        #: the fork server that children are forked from; None: there is none just now
        self.server: ServerHandle | None = None
        #: the newest TABLE frame
        self.table = b""
        #: how long tasks run, and how many jobs end
        self.times, self.ahead = RunTimes(), Ahead()
        # The children's sockets are behind one descriptor of the loop's. With isolation `fork` each lives for one job:
        # to add it to the loop and to take it out again was a fifth of what the dispatcher did for a job.
        self._epoll = select.epoll()
        self._heard: dict[int, ChildHandle] = {}
        self._loop.add_reader(self._epoll.fileno(), self._hear_all)
        #: child → pid: killed, not ended yet, and this process' own since its fork server has died
        self._survivors: dict[ChildHandle, int] = {}

    @property
    def silent(self) -> bool:
        """No fork server answers: what a child is handed now might not be ended by anybody."""
        return self.server is None or self.server.silent

    # -- slots --------------------------------------------------------------------------------------------------------

    def resize(self, wanted: int) -> None:
        """Add slots, or let the surplus go: the idle ones now, the busy ones after their job."""
        self._wanted = wanted
        staying = [slot for slot in self.slots.values() if not slot.retiring]
        for slot in sorted(staying, key=self._load, reverse=True)[wanted:]:
            self._retire(slot)
        for _ in range(wanted - len(staying)):
            self._newest += 1
            slot = self.slots[self._newest] = Slot.make(self._newest, self._line, one_job=self._one_job)
            slot.output.listen(self._loop)
            self._fork(slot)

    def _load(self, slot: Slot) -> int:
        child = self.living.get(slot.number)
        return len(child.outstanding) if child else 0

    def _retire(self, slot: Slot) -> None:
        """Have no other child in it, and let its child go: now, or after its job."""
        slot.retiring = True
        child = self.living.get(slot.number)
        if child is None:
            self._remove(slot)
        elif not (child.outstanding or child.kill):
            self._hang_up(child)

    def _remove(self, slot: Slot) -> None:
        slot.close()
        del self.slots[slot.number]

    def close(self) -> None:
        """Once all children have been killed: give everything back."""
        for child in self.living.values():
            self._hang_up(child)
        for slot in list(self.slots.values()):
            slot.output.drain()
            self._remove(slot)
        self._loop.remove_reader(self._epoll.fileno())
        self._epoll.close()

    def _line(self, attempt: Attempt | None, line: str, level: int, extra: dict[str, Any]) -> None:
        """What a job printed or logged, to the group's log."""
        if job_log.isEnabledFor(level):
            fields = {} if attempt is None else self._log_fields(attempt)
            # A name that `logging` has for itself, in this version of Python, cannot be a field.
            own = {name: value for name, value in extra.items() if name not in logs.STANDARD}
            job_log.log(level, "%s", line, extra={**own, "group": self._group, **fields})

    # -- fork ---------------------------------------------------------------------------------------------------------

    def fork_from(self, server: ServerHandle) -> None:
        """Fork from this server from now on, and at once into each slot without a child."""
        self.server = server
        for slot in list(self.slots.values()):
            self._fork(slot)

    def replace(self, server: ServerHandle) -> None:
        """Fork a new child from this server for each; the children that there are go."""
        self.server = server
        for slot in list(self.slots.values()):
            self._retire(slot)
        self.resize(self._wanted)

    def _fork(self, slot: Slot) -> None:
        if self.server is None or slot.number in self.living or slot.number not in self.slots:
            return
        try:
            child = slot.fork(self.server, self.table)
        except OSError as error:
            self._say_unforked(str(error))
            slot.failed_starts += 1
            self._replace(slot)
            return
        self.living[slot.number] = self._heard[child.socket.fileno()] = child
        self._epoll.register(child.socket.fileno(), select.EPOLLIN)
        self.report(Room())

    def on_died(self, number: int, status: int, unforked: str = "") -> None:
        """The slot's child is dead and reaped, or there was no process for it, for this reason."""
        if unforked:
            self._say_unforked(unforked)
        self._judge(self.living[number], status)
        self._replace(self.slots[number])

    def _say_unforked(self, reason: str) -> None:
        log.warning("group '%s': no child can be forked (%s); trying again", self._group, reason)

    def _replace(self, slot: Slot) -> None:
        """A new child for the slot, unless it is to go."""
        if slot.retiring:
            self._remove(slot)
        elif slot.failed_starts:
            self._loop.call_later(doubled(0.1, slot.failed_starts, SLOWEST), self._fork, slot)
        else:
            self._fork(slot)

    @property
    def all_die_at_start(self) -> bool:
        """Whether each slot's child is one of a row of those that died at their start, or the row's last."""
        soon = time.monotonic() - _ALIVE
        return bool(self.slots) and all(
            slot.number not in self.living or (slot.failed_starts and slot.forked_at >= soon)
            for slot in self.slots.values()
        )

    # -- hear ---------------------------------------------------------------------------------------------------------

    def _hear_all(self) -> None:
        for fd, _event in self._epoll.poll(0):
            if child := self._heard.get(fd):  # else it was hung up on account of another, a moment ago
                self._hear(child)

    def _hear(self, child: ChildHandle) -> None:
        """Take the outcomes that a child has sent; what it printed before them comes first."""
        outcomes = child.receive()
        if child.broken:
            self.kill_hostile(child)
        if outcomes:
            child.slot.output.drain()
            self._take(child, outcomes)
        is_over = child.broken or child.socket.closed or child.spent
        if is_over or not (child.outstanding or child.serves):
            # Its death is reported by the fork server, and only that report counts.
            self._hang_up(child)
        if outcomes:
            self.report(Room())

    def _take(self, child: ChildHandle, outcomes: list[wire.OutcomeMessage]) -> None:
        self.ahead.note(len(outcomes))
        returned = []
        for outcome in outcomes:
            attempt = child.end(outcome.serial)
            if attempt is None:
                continue
            if outcome.kind == wire.RETURNED:
                returned.append(attempt)
            else:
                self.times.note(attempt.task, outcome.duration)
                self._on_outcome(attempt, outcome)
        if returned:
            self.report(NotBegun(returned))

    def _hang_up(self, child: ChildHandle) -> None:
        """Close its socket, which ends it if it has no job. The epoll forgets the socket by itself."""
        self._heard.pop(child.socket.fileno(), None)
        child.socket.close()

    # -- take back ----------------------------------------------------------------------------------------------------

    def take_back_all(self, tasks: Collection[bytes] | None = None) -> None:
        """Take back every job of these tasks that has not begun; None: of all tasks."""
        for child in self.living.values():
            waiting = child.waiting()
            self.take_back(child, [s for s in waiting if tasks is None or child.outstanding[s].task in tasks])

    def take_back(self, child: ChildHandle, serials: list[int]) -> None:
        """Forbid these to begin; those that then have not begun are given back."""
        if serials:
            child.forbid(serials)
            self._loop.call_later(_TAKE_BACK, self._taken_back, child, serials)

    def _taken_back(self, child: ChildHandle, serials: list[int]) -> None:
        if self.living.get(child.slot.number) is child:
            begun = child.begun()
            self._give_back(child, [serial for serial in serials if serial > begun])

    def _give_back(self, child: ChildHandle, serials: Iterable[int]) -> None:
        """These have not begun, and never will."""
        attempts = [attempt for serial in serials if (attempt := child.outstanding.pop(serial, None))]
        if attempts:
            self.report(NotBegun(attempts))

    # -- kill and judge -----------------------------------------------------------------------------------------------

    def kill_hostile(self, child: ChildHandle) -> None:
        """Kill a child that is `broken`."""
        if child.kill is None:
            log.error("group '%s': a child is killed: %s", self._group, child.broken)
            child.kill_for(KillReason.HOSTILE, child.begun())

    def _judge(self, child: ChildHandle, status: int) -> None:
        """Take what a dead child still said, then judge each attempt that it held."""
        slot = child.slot
        del self.living[slot.number]
        for _ in range(_LAST_READS):
            if child.socket.closed:
                break
            self._hear(child)
            if child.socket.silent:
                break
        slot.output.drain()
        self._hang_up(child)
        begun, blamed, reason = child.begun(), child.blamed, child.kill.reason if child.kill else None
        ran = child.ran(time.monotonic_ns())
        slot.failed_starts = 0 if status == 0 or reason or begun in child.outstanding else slot.failed_starts + 1
        for serial in [serial for serial in child.outstanding if serial <= begun]:
            attempt = child.outstanding.pop(serial)
            attempt.ran = ran if serial == begun else None
            self.report(Killed(attempt, reason, status) if serial == blamed else Unheard(attempt))
        self._give_back(child, list(child.outstanding))

    # -- the death of a fork server -----------------------------------------------------------------------------------

    def lose(self, server: ServerHandle, *, hung: bool) -> None:
        """The fork server is being killed with its children: they must begin nothing any more."""
        if server is self.server:
            self.server = None
        for child in self.of(server):
            child.kill_for(KillReason.SERVER if hung else None, child.begun())

    def judge_all_of(self, server: ServerHandle, survivors: Collection[int]) -> None:
        """The fork server is dead, and its children are, but for these pids: a job of theirs keeps its lease."""
        for child in self.of(server):
            pid = child.slot.page.pid
            if pid in survivors and child.running:
                self._survivors[child] = pid
                self._give_back(child, child.waiting())
                continue
            self._judge(child, -signal.SIGKILL)
            if child.slot.retiring:
                self._remove(child.slot)

    def judge_survivors(self, left: Collection[int], reaped: Mapping[int, int]) -> None:
        """Those of the survivors that are not left have ended; as Survivors."""
        for child, pid in list(self._survivors.items()):
            if pid not in left:
                del self._survivors[child]
                self.on_died(child.slot.number, reaped.get(pid, -signal.SIGKILL))

    def name(self, child: ChildHandle, kill: Kill) -> None:
        """Say in the log, once, that a child was killed in its job and has not ended."""
        if (attempt := child.running) and not kill.is_named:
            kill.is_named = True
            log.error(
                "process %d was killed and has not ended; the lease of its job is kept until it has",
                child.slot.page.pid, extra={"group": self._group, **self._log_fields(attempt)},
            )  # fmt: skip

    def of(self, server: ServerHandle) -> list[ChildHandle]:
        """The children that this fork server has forked."""
        return [child for child in self.living.values() if child.server is server]


def doubled(first: float, times: int, longest: float) -> float:
    """The first pause, doubled so many times, or the longest."""
    return min(first * 2.0 ** min(times, 16), longest)
