"""
The children of a group, from fork to death: fork them into slots, receive outcomes, judge deaths, replace the dead.

1. fork     a child into each slot before there are jobs; another when it dies, more slowly if they die at their start
2. hear     the outcomes that children send, at once or with their deaths; lines printed before are passed on first
3. take     back the jobs that a child must not begin
4. judge    what a child's death means for each attempt that it had: it was killed, interrupted, or never begun
5. retire   children that are too many, or whose fork server was replaced, once they have no job

Knows slots. fork_servers.py provides the fork server, child_reader.py reads the sockets, pool.py hands out jobs,
watchdog.py decides on kills.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from fusiond import logs
from fusiond.worker.pool.attempt import Attempt, KillReason
from fusiond.worker.pool.child_reader import ChildReader
from fusiond.worker.pool.child_socket import RECEIVE
from fusiond.worker.pool.fork_server.server_handle import ServerHandle
from fusiond.worker.pool.pool_reports import Killed, NotBegun, PoolReport, Room, Unheard
from fusiond.worker.pool.run_times import PrefetchBudget, RunTimes
from fusiond.worker.pool.slots import ChildHandle, ChildKind, Kill, Slot
from fusiond.worker.runtime import wire

log = logging.getLogger(__name__)
job_log = logging.getLogger("fusiond.job")

#: reads of what a dead child has sent: more than the largest outcome, which a socket holds where the host's
#: `net.core.wmem_default` is large, and few enough if one of its descendants sends on
_LAST_READS = 2 * wire.MAX_PAYLOAD // RECEIVE
#: s; the longest pause between forks, or fork servers, that die at their start
SLOWEST = 30.0
#: s; a child that dies sooner has died at its start
_ALIVE = 1.0
#: s; from taking back a job to the look at the child's mark (see wire.py)
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
        on_printed: Callable[[Attempt, str], None],
        kind: ChildKind,
    ) -> None:
        """As Pool; `group`: its name; `on_printed`: called with an attempt and a line that it has printed or logged."""
        self._group, self.report, self._on_outcome, self._log_fields = group, report, on_outcome, log_fields
        self._on_printed, self._kind = on_printed, kind
        self._loop = asyncio.get_running_loop()
        self.slots: dict[int, Slot] = {}
        #: by the number of its slot
        self.living: dict[int, ChildHandle] = {}
        #: how many slots the file wants, how many there may be, and the number of the newest slot
        self._wanted, self._limit, self._newest = 0, sys.maxsize, 0
        #: the fork server from which children are forked; None: there is none just now
        self.server: ServerHandle | None = None
        #: the newest TABLE frame
        self.table = b""
        #: how long tasks run, and how many jobs end
        self.times, self.ahead = RunTimes(), PrefetchBudget()
        #: reads what children send
        self.reader = ChildReader(self._hear_living, may_wait=kind.one_job and not kind.tells_start)
        #: whether a report that there is room is due in the loop's next turn
        self._is_room_due = False
        #: child → pid, of killed children that have not ended and whose fork server has died
        self._survivors: dict[ChildHandle, int] = {}

    @property
    def silent(self) -> bool:
        """No fork server answers, so nobody could kill a child that is handed a job now."""
        return self.server is None or self.server.silent

    # -- slots --------------------------------------------------------------------------------------------------------

    def resize(self, wanted: int, limit: int = sys.maxsize) -> None:
        """
        Add slots, or retire those that are too many: idle ones now, busy ones after their job.

        Args:
            wanted: how many there should be.
            limit: how many there may be with those that are retiring. Above it, a slot is added once another is gone.
        """
        self._wanted, self._limit = wanted, limit
        for slot in sorted(self._staying(), key=self._load, reverse=True)[wanted:]:
            self._retire(slot)
        self._add_slots()

    def _staying(self) -> list[Slot]:
        return [slot for slot in self.slots.values() if not slot.retiring]

    def _add_slots(self) -> None:
        """As many as are wanted and may be there."""
        for _ in range(min(self._wanted - len(self._staying()), self._limit - len(self.slots))):
            self._newest += 1
            slot = self.slots[self._newest] = Slot.make(self._newest, self._line, self._kind)
            slot.output.listen(self._loop)
            self._fork(slot)

    def _load(self, slot: Slot) -> int:
        child = self.living.get(slot.number)
        return len(child.outstanding) if child else 0

    def _retire(self, slot: Slot) -> None:
        """Fork no other child into the slot, and let its child end now, or after its job."""
        slot.retiring = True
        child = self.living.get(slot.number)
        if child is None:
            self._remove(slot)
        elif not (child.outstanding or child.kill):
            self.reader.close_socket(child)

    def renew(self, slot: Slot) -> None:
        """Let the slot's child end after its jobs, and fork another beside it, into a slot of its own."""
        if not slot.retiring:
            self._retire(slot)
            self._add_slots()

    def renew_older_than(self, seconds: float) -> None:
        """Renew the oldest child, if it is older, once the others serve: so they are replaced one after the other."""
        serving = self._staying()
        oldest = min(serving, key=lambda slot: slot.forked_at, default=None)
        all_serve = len(serving) >= self._wanted and all(slot.page.pid for slot in serving)
        if oldest and all_serve and time.monotonic() - oldest.forked_at > seconds:
            self.renew(oldest)

    def _remove(self, slot: Slot) -> None:
        slot.close()
        del self.slots[slot.number]
        self._add_slots()

    def close(self) -> None:
        """Close all sockets and slots; the children have been killed."""
        self._wanted = 0
        for child in self.living.values():
            self.reader.close_socket(child)
        for slot in list(self.slots.values()):
            slot.output.drain()
            self._remove(slot)
        self.reader.close()

    def _line(self, attempt: Attempt | None, line: str, level: int, extra: dict[str, Any]) -> None:
        """Write what a job printed or logged to the group's log."""
        if attempt is not None:
            logger = extra.get("job_logger")
            text = f"{logging.getLevelName(level)} {logger}: {line}" if logger else line
            said = "\n".join(filter(None, (text, extra.get(logs.EXCEPTION))))
            self._on_printed(attempt, said)
        if job_log.isEnabledFor(level):
            fields = {} if attempt is None else self._log_fields(attempt)
            job_log.log(level, "%s", line, extra={**extra, "group": self._group, **fields})

    def say_left(self, number: int, names: str) -> None:
        """Log which processes were killed that a dead child of the slot has left; -1: the slot is not known."""
        slot = self.slots.get(number)
        attempt = slot.output.attempt if slot and slot.kind.one_job else None
        fields = {} if attempt is None else self._log_fields(attempt)
        what = "killed what the job has left" if attempt else "killed what a child and its jobs have left"
        job_log.info("%s: %s", what, names, extra={"group": self._group, **fields})

    # -- fork ---------------------------------------------------------------------------------------------------------

    def fork_from(self, server: ServerHandle) -> None:
        """Fork all children from this server from now on; fork one into each slot without a child at once."""
        self.server = server
        for slot in list(self.slots.values()):
            self._fork(slot)

    def replace(self, server: ServerHandle) -> None:
        """Fork all children from this server from now on, and retire those that there are."""
        self.server = server
        for slot in list(self.slots.values()):
            self._retire(slot)
        self._add_slots()

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
        self.living[slot.number] = child
        self.reader.add(child)
        self._report_room_soon()

    def on_died(self, number: int, status: int, unforked: str = "", used: tuple[float, int] | None = None) -> None:
        """The slot's child is dead and reaped, and has `used` so much; or it is `unforked`, for that reason."""
        if unforked:
            self._say_unforked(unforked)
        self._judge(self.living[number], status, used)
        self._replace(self.slots[number])

    def _say_unforked(self, reason: str) -> None:
        log.warning("group '%s': no child can be forked (%s); trying again", self._group, reason)

    def _replace(self, slot: Slot) -> None:
        """Fork a new child into the slot, or remove it if it is retiring."""
        if slot.retiring:
            self._remove(slot)
        elif slot.failed_starts:
            self._loop.call_later(doubled(0.1, slot.failed_starts, SLOWEST), self._fork, slot)
        else:
            self._fork(slot)

    @property
    def all_die_at_start(self) -> bool:
        """Whether in each slot the last children have died at their start, and none has lived longer since."""
        soon = time.monotonic() - _ALIVE
        return bool(self.slots) and all(
            (child := self.living.get(slot.number)) is None
            or (slot.failed_starts and (slot.forked_at >= soon or not child.started))
            for slot in self.slots.values()
        )

    # -- hear ---------------------------------------------------------------------------------------------------------

    def _hear_living(self, child: ChildHandle) -> None:
        if self._hear(child):
            self.report(Room())

    def _hear(self, child: ChildHandle) -> bool:
        """
        Take the outcomes that a child has sent; first pass on what it printed before them.

        Returns whether there is room for jobs that was not there before.
        """
        started, outcomes = child.started, child.receive()
        if outcomes or started != child.started:
            child.slot.output.drain()
        if outcomes:
            self._take(child, outcomes)
        if child.socket.is_halfway or not child.handed:
            self.reader.read_soon()
        if child.broken:
            self.kill_hostile(child)
        # A dead one is replaced in any case.
        if child.socket.ending and self.living.get(child.slot.number) is child:
            self.renew(child.slot)
        is_over = child.broken or child.socket.closed or child.spent
        if is_over or not (child.outstanding or child.serves):
            # Its death is reported by the fork server, and only that report counts.
            self.reader.close_socket(child)
        return bool(outcomes) or started != child.started

    def take_kept(self, child: ChildHandle) -> None:
        """Take the outcomes that a child has not sent, since it runs a long job or has died in one."""
        if outcomes := child.kept():
            child.slot.output.drain()
            self._take(child, outcomes)
            child.taken_back.update(outcome.serial for outcome in outcomes)  # it sends them as well, if it lives on
            self._report_room_soon()

    def _report_room_soon(self) -> None:
        """Report once that there is room, however many children die and are forked just now."""
        if not self._is_room_due:
            self._is_room_due = True
            self._loop.call_soon(self._report_room)

    def _report_room(self) -> None:
        self._is_room_due = False
        if not self.reader.closed:
            self.report(Room())

    def _take(self, child: ChildHandle, outcomes: list[wire.OutcomeMessage]) -> None:
        self.ahead.note(len(outcomes))
        returned = []
        for outcome in outcomes:
            attempt = child.end(outcome)
            if child.broken:
                break
            if attempt is None:
                continue
            if outcome.kind == wire.RETURNED:
                returned.append(attempt)
            else:
                self.times.note(attempt.task, outcome.duration)
                self._on_outcome(attempt, outcome)
        if returned:
            self.report(NotBegun(returned))

    # -- take back ----------------------------------------------------------------------------------------------------

    def take_back_all(self, tasks: Collection[bytes] | None = None) -> None:
        """Take back every job of these tasks that has not begun; None: of all tasks."""
        for child in self.living.values():
            waiting = child.waiting()
            self.take_back(child, [s for s in waiting if tasks is None or child.outstanding[s].task in tasks])

    def take_back(self, child: ChildHandle, serials: list[int]) -> None:
        """Forbid these jobs to begin, and give back those that have not begun a moment later."""
        if serials:
            child.forbid(serials)
            self._loop.call_later(_TAKE_BACK, self._taken_back, child, serials)

    def _taken_back(self, child: ChildHandle, serials: list[int]) -> None:
        if self.living.get(child.slot.number) is child:
            begun = child.begun()
            self._give_back(child, [serial for serial in serials if serial > begun])

    def _give_back(self, child: ChildHandle, serials: Iterable[int]) -> None:
        """Report that these jobs have not begun; they cannot begin any more."""
        attempts = {serial: attempt for serial in serials if (attempt := child.outstanding.pop(serial, None))}
        if attempts:
            child.slot.output.forget(attempts.values())
            child.taken_back.update(attempts)
            self.report(NotBegun([*attempts.values()]))

    # -- kill and judge -----------------------------------------------------------------------------------------------

    def kill_hostile(self, child: ChildHandle) -> None:
        """Kill a child that has broken the protocol."""
        if child.kill is None:
            log.error("group '%s': a child is killed: %s", self._group, child.broken)
            child.kill_for(KillReason.PROTOCOL_ERROR, child.begun())

    def _judge(self, child: ChildHandle, status: int, used: tuple[float, int] | None = None) -> None:
        """Take the last outcomes of a dead child, then judge each attempt that it still had."""
        slot = child.slot
        del self.living[slot.number]
        for _ in range(_LAST_READS):
            if child.socket.closed:
                break
            if self._hear(child):
                self._report_room_soon()
            if child.socket.silent:
                break
        self.take_kept(child)
        slot.output.drain()
        self.reader.close_socket(child)
        slot.own.close()
        reason = child.kill.reason if child.kill else None
        if used and slot.kind.one_job:
            for attempt in child.outstanding.values():
                attempt.cpu, attempt.peak = max(0.0, used[0] - child.cpu), used[1]
        # Nearly every child has reported the end of each of its jobs by then.
        ran = bool(child.outstanding) and self._judge_jobs(child, reason, status)
        slot.failed_starts = 0 if status == 0 or reason or ran else slot.failed_starts + 1

    def _judge_jobs(self, child: ChildHandle, reason: KillReason | None, status: int) -> bool:
        """Judge each attempt that the dead child had; whether one of them was running."""
        child.read_reports()
        begun = child.begun()
        running = {each.serial: each for each in child.all_running(time.monotonic_ns())}
        for serial in [serial for serial in child.outstanding if serial <= begun]:
            attempt = child.outstanding.pop(serial)
            attempt.ran = running[serial].ran if serial in running else None
            self.report(Killed(attempt, reason, status) if child.is_to_blame(serial) else Unheard(attempt))
        self._give_back(child, list(child.outstanding))
        return bool(running)

    # -- the death of a fork server -----------------------------------------------------------------------------------

    def lose(self, server: ServerHandle, *, hung: bool) -> None:
        """The fork server is being killed with its children: they must not begin another job."""
        if server is self.server:
            self.server = None
        for child in self.of(server):
            child.kill_for(KillReason.SERVER if hung else None, child.begun())

    def judge_all_of(self, server: ServerHandle, survivors: Collection[int]) -> None:
        """The fork server and its children are dead, except these pids; a job that one of them runs keeps its lease."""
        for child in self.of(server):
            pid = child.slot.page.pid
            if pid in survivors and child.all_running(time.monotonic_ns()):
                self._survivors[child] = pid
                self._give_back(child, child.waiting())
                continue
            self._judge(child, -signal.SIGKILL)
            if child.slot.retiring:
                self._remove(child.slot)

    def judge_survivors(self, left: Collection[int], reaped: Mapping[int, int]) -> None:
        """Judge the survivors that have ended; the arguments are those of the report Survivors."""
        for child, pid in list(self._survivors.items()):
            if pid not in left:
                del self._survivors[child]
                self.on_died(child.slot.number, reaped.get(pid, -signal.SIGKILL))

    def name(self, child: ChildHandle, kill: Kill) -> None:
        """Log once that a child was killed while it ran a job, and has not ended."""
        if (running := child.all_running(time.monotonic_ns())) and not kill.is_named:
            kill.is_named = True
            log.error(
                "process %d was killed and has not ended; the lease of its job is kept until it has",
                child.slot.page.pid, extra={"group": self._group, **self._log_fields(running[0].attempt)},
            )  # fmt: skip

    def of(self, server: ServerHandle) -> list[ChildHandle]:
        """The children that this fork server has forked."""
        return [child for child in self.living.values() if child.server is server]


def doubled(first: float, times: int, longest: float) -> float:
    """The first pause doubled so many times, but at most the longest one."""
    return min(first * 2.0 ** min(times, 16), longest)
