"""
A group's children: how many, what each may take, and when one must go.

1. fork     children into slots, ahead of the jobs; again when one dies, more slowly when they die at birth. It is
            ready when the first ones have said that they serve, or one has not. Where no task loads there are none, and
            the fork server is started again; where some do not, a new fork server may take the serving one's place
2. hand     pending attempts to children that may take them (batching.py)
3. watch    what runs (watchdog.py)
4. report   how each attempt ended, and what a death means for each that its child held

Knows processes and sockets. No Redis: whether an attempt is settled, retried or released is its host's to say.
"""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import select
import signal
import time
from typing import TYPE_CHECKING, Any

from fusiond import logs
from fusiond.worker.pool.attempt import Attempt, KillReason
from fusiond.worker.pool.batching import Batching
from fusiond.worker.pool.launch import launch, table
from fusiond.worker.pool.loading import Loading, sentence
from fusiond.worker.pool.orphans import end_children, kill_children
from fusiond.worker.pool.reports import (
    Died,
    Killed,
    Late,
    Lost,
    NotBegun,
    NotEnded,
    NotForked,
    NotLoaded,
    Ready,
    Room,
    ServerDied,
    Silent,
    StartFailed,
    TasksLoaded,
    Unheard,
)
from fusiond.worker.pool.server_handle import ServerHandle
from fusiond.worker.pool.slots import Slot, State
from fusiond.worker.pool.watchdog import Watchdog
from fusiond.worker.runtime import wire

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable, Collection, Iterator

    from fusiond.config.model import Config, WorkerGroup
    from fusiond.worker.pool.launch import Launched
    from fusiond.worker.pool.reports import PoolReport, Problems, ServerReport

log = logging.getLogger(__name__)
job_log = logging.getLogger("fusiond.job")

#: children of isolation `fork` that stand ready beyond the group's processes, at most
AHEAD = 4
#: reads for what a dead child has sent; more than a socket holds, and few where a stray of its sends on
_LAST_READS = 8
#: s; a read of what a child prints that asks for a pause
_LONG_READ = 0.005
#: what the machine lacks just now, whatever the file says: tried again, at the start too
_PASSING = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOBUFS})
#: s; the longest pause between forks, or fork servers, that die at birth
_SLOWEST = 30.0
#: s; the first pause after a fork server that loaded nothing
_EMPTY = 0.5
#: s; for the first children to say that they serve
_ANSWER = 20.0
#: s; a child that has lived for so long has survived its birth
_ALIVE = 1.0
#: s; after which a killed child that has not ended is named, and how often those without a server are looked at
_UNKILLED, _LOOK = 5.0, 1.0


class Pool:
    """The children of one group."""

    def __init__(
        self,
        config: Config,
        group: WorkerGroup,
        report: Callable[[PoolReport], None],
        on_outcome: Callable[[Attempt, wire.OutcomeMessage], None],
        log_fields: Callable[[Attempt], dict[str, Any]],
    ) -> None:
        """
        A pool without a fork server.

        Args:
            config: the accepted configuration.
            group: one of its worker groups.
            report: called with what happens here.
            on_outcome: called with each attempt that ran to its end, and what its child said.
            log_fields: gives the fields of the log lines about an attempt.
        """
        self._config, self.group, self._report, self._log_fields = config, group, report, log_fields
        self._on_outcome = on_outcome
        self._loop = asyncio.get_running_loop()
        self.slots: dict[int, Slot] = {}
        # The children's sockets are behind one descriptor of the loop's. With isolation `fork` each lives for one job:
        # to add it to the loop and to take it out again was a fifth of what the dispatcher did for a job.
        self._epoll = select.epoll()
        self._listening: dict[int, Slot] = {}
        self._loop.add_reader(self._epoll.fileno(), self._hear_all)
        self._numbers = 0
        self._server: ServerHandle | None = None
        self._server_ready, self._server_started, self._server_deaths = False, 0.0, 0
        #: slot → pid of its child, which a dead server has left and the kernel has not ended yet, and whether there
        #: are such processes, of no slot too
        self._kept: dict[int, int] = {}
        self._looks = False
        self._batching = Batching(self.slots)
        #: number of the newest table, and its frame
        self._table_number, self._table_frame = 0, b""
        #: the fork server does not answer: what its children are handed might not end
        self._paused = False
        self._watchdog = Watchdog(self.slots, self.kill, self._kill_hostile, self._give_back, lambda: report(Late()))
        #: first children that have not said yet that they serve, and what the fork server said of the tasks
        self._asked: set[int] = set()
        self._problems: Problems | None = None
        self._loading = Loading(lambda: launch(self._config, self.group), self._adopt)
        #: fork servers that were replaced, and end with their last child
        self._former: list[ServerHandle] = []
        #: fork servers in a row that loaded nothing
        self._empty_starts = 0
        #: why no task can run
        self._nothing_loads = ""
        #: why one of the first children does not serve
        self.start_failure = ""
        #: digest of the environment files that the fork server got; empty: there was none yet
        self.environment = ""
        #: why there is no fork server just now
        self._down = ""
        self.ending = False
        self.set_config(config, group)

    # -- what the file says -------------------------------------------------------------------------------------------

    def set_config(self, config: Config, group: WorkerGroup) -> None:
        """Follow what may change in place: policies, timeouts, the number of processes."""
        self._config, self.group = config, group
        self._batching.set_config(config, group)
        self._loading.keep(config.tasks)
        self._table = json.dumps(table(config, group)).encode()
        frame = wire.frame(wire.TABLE, self._table)
        if frame != self._table_frame:
            # A child that has an older table gets it with its next jobs.
            self._table_number, self._table_frame = self._table_number + 1, frame
            if self._server:
                # To one that still loads as well: it was launched with an older one, and reads this before it forks.
                self._server.set_table(self._table)
        self._resize()

    # -- what the dispatcher asks -------------------------------------------------------------------------------------

    def room(self) -> int:
        """How many jobs may be claimed."""
        return 0 if self._paused else self._batching.room()

    def free(self) -> int:
        """How many children could begin a job now."""
        return 0 if self._paused else self._batching.free()

    @property
    def running(self) -> int:
        """How many slots have a job."""
        return self._batching.running

    def leave(self, slots: int) -> None:
        """Use so many slots less: the group's former generation still uses them."""
        self._batching.left = slots

    def claim_less(self, now: float) -> None:
        """A claimed job found no free child: claim none ahead for a while; `now` in monotonic seconds."""
        self._batching.ahead.stop(now)

    def look(self) -> None:
        """Look at the running jobs at once: a cancel or a lost lease was heard of."""
        self._watchdog.look()

    def take_back(self, tasks: Collection[bytes] | None = None) -> None:
        """Take back every job of these tasks that has not begun; None: of all tasks."""
        self._watchdog.take_back(tasks)

    def attempts(self) -> Iterator[Attempt]:
        """What the children have, each marked with whether it has begun."""
        for slot in self.slots.values():
            yield from slot.attempts()

    def running_attempts(self, now_ns: int) -> Iterator[tuple[Attempt, float]]:
        """What runs, and for how many seconds."""
        for slot in self.slots.values():
            if running := slot.running():
                yield running[1], slot.ran(now_ns)

    @property
    def problems(self) -> Problems:
        """The tasks that do not load."""
        return self._loading.problems

    def note_problem(self, task: str, code: str, message: str) -> None:
        """A child could not load a task that its fork server was not told of."""
        self._loading.note(task, code, message)

    @property
    def _one_job(self) -> bool:
        return self.group.isolation == "fork"

    def _resize(self) -> None:
        """Add slots, or let the surplus go: the idle ones now, the busy ones after their job."""
        wanted = self.group.processes + (min(self.group.processes, AHEAD) if self._one_job else 0)
        staying = [slot for slot in self.slots.values() if not slot.retiring]
        for slot in sorted(staying, key=lambda slot: len(slot.outstanding), reverse=True)[wanted:]:
            self._retire(slot)
        for _ in range(wanted - len(staying)):
            self._numbers += 1
            slot = self.slots[self._numbers] = Slot.make(self._numbers, self._line, one_job=self._one_job)
            self._loop.add_reader(slot.output.reader, self._read, slot)
            self._fork(slot)

    def _retire(self, slot: Slot) -> None:
        slot.retiring = True
        self._asked.discard(slot.number)
        self._tell_ready()
        if slot.state == State.EMPTY:
            self._remove(slot)
        elif slot.state == State.READY and not slot.outstanding:
            self._hang_up(slot)

    def _remove(self, slot: Slot) -> None:
        self._loop.remove_reader(slot.output.reader)
        slot.close()
        del self.slots[slot.number]
        self._close_former()

    def _read(self, slot: Slot) -> None:
        """Read what its child prints. A child that prints much waits after each read for four times as long."""
        started = self._loop.time()
        slot.output.read()
        spent = self._loop.time() - started
        if spent > _LONG_READ or slot.output.has_lines:
            self._loop.remove_reader(slot.output.reader)
            self._loop.call_later(4 * spent, self._read_on, slot)

    def _read_on(self, slot: Slot) -> None:
        if slot.number in self.slots:
            self._loop.add_reader(slot.output.reader, self._read, slot)
            if slot.output.has_lines:
                self._read(slot)

    def _line(self, attempt: Attempt | None, line: str, level: int, extra: dict[str, Any]) -> None:
        """What a job printed or logged, to the group's log."""
        if job_log.isEnabledFor(level):
            fields = {} if attempt is None else self._log_fields(attempt)
            # A name that `logging` has for itself, in this version of Python, cannot be a field.
            own = {name: value for name, value in extra.items() if name not in logs.STANDARD}
            job_log.log(level, "%s", line, extra={**own, "group": self.group.name, **fields})

    # -- fork server and children -------------------------------------------------------------------------------------

    def start(self, launched: Launched | None = None) -> None:
        """Start the fork server, or take over the one that was launched; its children follow when it is ready."""
        if self.ending:
            return
        self._server_ready, self._server_started = False, time.monotonic()
        try:
            launched = launched or launch(self._config, self.group)
            self._server, self.environment = ServerHandle.start(launched, self._on_report), launched.environment
        except (OSError, LookupError) as error:
            reason = f"group '{self.group.name}': its fork server cannot be started: {error}"
            log.error("%s", reason)  # noqa: TRY400 - a sentence, not a traceback
            self._server, self._down = None, f"its fork server cannot be started: {error}"
            if getattr(error, "errno", None) not in _PASSING:
                self._report(StartFailed(reason))
            self._start_again()

    def _on_report(self, server: ServerHandle, report: ServerReport) -> None:
        """What the serving fork server reports, or a replaced one, which ends with its last child."""
        match report:
            case Died(number, status):
                self._on_died(number, status)
            case NotForked(number, reason):
                self._on_not_forked(number, reason)
            case Lost(hung):
                self._on_lost(server, hung=hung)
            case NotEnded():
                # Nothing below it could be killed either.
                for slot in self._slots_of(server):
                    self._name(slot)
            case ServerDied(reason, killed, survivors):
                if server is self._server:
                    self._on_server_died(server, reason, killed, survivors)
                else:
                    log.error("group '%s': a replaced fork server: %s", self.group.name, reason)
                    self._former.remove(server)
                    self._judge_attempts_of(server, survivors)
            case Ready(problems, loaded) if server is self._server:
                self._on_ready(problems, loaded)
            case Silent(silent) if server is self._server:
                self._on_silent(silent=silent)

    def _on_ready(self, problems: Problems, loaded: int) -> None:
        """The server has loaded the tasks, or some of them; whether children live, the first of them show."""
        if problems and not loaded:
            self._end_empty_server(problems)
            return
        self._empty_starts, self._nothing_loads = 0, ""
        self._loading.begin(problems)
        self._server_ready, self._problems, self.start_failure, self._down = True, problems, "", ""
        self._paused = False
        for slot in list(self.slots.values()):
            self._fork(slot)
        self._asked = {slot.number for slot in self.slots.values() if slot.state == State.READY}
        for number in self._asked:
            if socket := self.slots[number].socket:
                socket.ask()
        self._loop.call_later(_ANSWER, self._note_late_start, problems)
        self._tell_ready()

    @property
    def nothing_loads(self) -> str:
        """Why no task of the group can run; "" where one can."""
        return self._nothing_loads

    @property
    def unloaded(self) -> str:
        """Which tasks cannot run, and why; "" where all can."""
        return self._nothing_loads or sentence(self._loading.problems)

    def _end_empty_server(self, problems: Problems) -> None:
        """Nothing loads: no child is forked and no job is claimed until a later fork server loads something."""
        reason = f"no task loads: {sentence(problems)}"
        pause = min(_EMPTY * 2.0 ** min(self._empty_starts, 16), _SLOWEST)
        if reason != self._nothing_loads:
            log.error("group '%s': %s; trying again until one does", self.group.name, reason)
        self._empty_starts, self._nothing_loads = self._empty_starts + 1, reason
        server, self._server = self._server, None
        if server:
            server.end()
        self._report(TasksLoaded(problems))
        if not self.ending:
            self._loop.call_later(pause, self.start)

    def _adopt(self, server: ServerHandle, problems: Problems) -> None:
        """Fork from this server from now on; children of the serving one end when they have no job."""
        if self.ending or not self._server or not self._server_ready:
            # One that loads now will say itself what it does not load.
            server.end()
            return
        former, self._server = self._server, server
        self._former.append(former)
        server.report_to(self._on_report)
        server.set_table(self._table)
        # The former one may be silent, and says no more.
        self._paused, self.environment = False, server.environment
        self._loading.begin(problems)
        for slot in list(self.slots.values()):
            self._retire(slot)
        self._resize()
        self._close_former()
        self._report(TasksLoaded(problems))

    def _close_former(self) -> None:
        """End the replaced fork servers that have no child any more."""
        for server in list(self._former):
            if not any(slot.server is server for slot in self.slots.values()):
                self._former.remove(server)
                server.end()

    def _note_late_start(self, problems: Problems) -> None:
        if problems is self._problems:
            self._note_failed_start(f"has not said within {_ANSWER:g} s that it serves")

    def _note_failed_start(self, why: str) -> None:
        """One of the first children does not serve: that is known now, and nobody waits for the others."""
        if self._problems is not None:
            self._asked.clear()
            self.start_failure = f"group '{self.group.name}': a child {why}"
            log.error("%s", self.start_failure)
            self._tell_ready()

    def _tell_ready(self) -> None:
        """Once for each fork server, when nobody is waited for."""
        if self._problems is not None and not self._asked:
            problems, self._problems = self._problems, None
            self._report(TasksLoaded(problems))
            self._report(Room())

    def _on_silent(self, *, silent: bool) -> None:
        """Its children may be killed with it soon: they get no more jobs, and give back what they have not begun."""
        self._paused = silent
        if silent:
            log.warning("group '%s': the fork server does not answer; its children get no more jobs", self.group.name)
            self._watchdog.take_back()
        else:
            self._report(Room())

    def _on_lost(self, server: ServerHandle, *, hung: bool) -> None:
        """Its children must begin nothing any more. Where it hangs, that is why they are killed."""
        if server is self._server:
            self._loading.stop()
            self._paused = True
        for slot in self._slots_of(server):
            if hung and slot.state == State.READY:
                slot.set_kill_reason(KillReason.SERVER, slot.begun())
            slot.forbid()

    def _on_server_died(self, server: ServerHandle, reason: str, killed: bool, survivors: set[int]) -> None:
        """Every child died with it, killed and reaped by us, but for the survivors: their jobs keep their leases."""
        self._server, self._problems, self._down = None, None, reason
        log.error("group '%s': %s", self.group.name, reason)
        self._judge_attempts_of(server, survivors)
        # What ends by itself while it loads will again. A kill, the OOM killer's say, is no fault of the file.
        if not self._server_ready and not killed:
            self._report(StartFailed(f"group '{self.group.name}': {reason}"))
        self._server_ready = False
        self._start_again()

    def _keep(self, slot: Slot) -> None:
        """Its child lives on, though it was killed: keep the job that it runs, and take back the others."""
        slot.state = State.DYING
        self._name(slot)
        self._kept[slot.number] = slot.page.pid
        back = [attempt for serial in slot.waiting() if (attempt := slot.end(serial))]
        self._give_back(back)

    def _look_after(self, survivors: set[int]) -> None:
        """Until the last of them has ended."""
        if survivors:
            log.error("group '%s': killed and not ended: %s", self.group.name, _pids(survivors))
            if not self._looks:
                self._looks = True
                self._loop.call_later(_LOOK, self._look_at_survivors)

    def _look_at_survivors(self) -> None:
        try:
            left, reaped = kill_children()
        except OSError:  # no descriptor is left
            self._loop.call_later(_LOOK, self._look_at_survivors)
            return
        for number, pid in list(self._kept.items()):
            if pid not in left:
                del self._kept[number]
                self._on_died(number, reaped.get(pid, -signal.SIGKILL))
        self._looks = bool(left or reaped)  # what was reaped may have left others to us
        if self._looks:
            self._loop.call_later(_LOOK, self._look_at_survivors)

    def unkilled(self) -> list[Attempt]:
        """What children run that were killed and have not ended."""
        return [found[1] for slot in self.slots.values() if slot.unkilled and (found := slot.running())]

    def _check_killed(self, slot: Slot, serial: int) -> None:
        """Name a child that the kernel does not end; a fork server that does not answer has not killed it yet."""
        if slot.state != State.DYING or slot.killed_for != serial or slot.unkilled or slot.number not in self.slots:
            return
        if self._paused:
            self._loop.call_later(_UNKILLED, self._check_killed, slot, serial)
        else:
            self._name(slot)

    def _name(self, slot: Slot) -> None:
        if (found := slot.running()) and not slot.unkilled:
            slot.unkilled = slot.page.pid or -1
            fields = {"group": self.group.name, **self._log_fields(found[1])}
            log.error(
                "process %d was killed and has not ended; the lease of its job is kept until it has",
                slot.page.pid, extra=fields,
            )  # fmt: skip

    def _slots_of(self, server: ServerHandle | None) -> list[Slot]:
        """The slots whose children are this fork server's, or that have had none."""
        return [slot for slot in self.slots.values() if slot.server is server or slot.server is None]

    def _judge_attempts_of(self, server: ServerHandle | None, survivors: set[int]) -> None:
        """The children of a fork server that is dead."""
        for slot in self._slots_of(server):
            if slot.page.pid in survivors and slot.running():
                self._keep(slot)
                continue
            if slot.state != State.EMPTY:
                self._judge_attempts(slot, -9)
            if slot.retiring:
                self._remove(slot)
        self._look_after(survivors)

    def _start_again(self) -> None:
        """At once after a death out of long health; after one soon after another, later each time."""
        if not self.ending:
            quick = time.monotonic() - self._server_started < _SLOWEST
            self._server_deaths = self._server_deaths + 1 if quick else 0
            self._loop.call_later(_pause(self._server_deaths - 1), self.start)

    @property
    def trouble(self) -> str:
        """Why no child can be handed a job just now; "" where one can."""
        if self._server is None or not self._server_ready:
            return self._nothing_loads or self._down or "its fork server loads the tasks"
        if self._paused:
            return "its fork server does not answer"
        if not self.slots or any(map(_lives, self.slots.values())):
            return ""
        return self.start_failure or "its children die at their start; see its log"

    def _fork(self, slot: Slot) -> None:
        """Ask for a child; it may be handed jobs at once, they wait in its socket."""
        if slot.state != State.EMPTY or slot.number not in self.slots:
            return
        if not self._server or self._server.lost or not self._server_ready or self.ending:
            return
        try:
            theirs = slot.connect()
        except OSError as error:
            self._on_not_forked(slot.number, str(error))
            return
        slot.table, slot.forked, slot.server = self._table_number, time.monotonic(), self._server
        self._server.fork(slot.number, theirs, slot.output.writer, slot.page_fd)
        self._listen(slot)
        self._report(Room())

    def _on_not_forked(self, number: int, reason: str) -> None:
        """No process, or no socket for it, was to be had; try again, later each time."""
        slot = self.slots[number]
        log.warning("group '%s': no child can be forked (%s); trying again", self.group.name, reason)
        back = [attempt for serial in list(slot.outstanding) if (attempt := slot.end(serial))]
        self._empty(slot)
        self._give_back(back)
        slot.failed_starts += 1
        if number in self._asked:
            self._note_failed_start(f"cannot be forked: {reason}")
        self._replace(slot)

    def _on_died(self, number: int, status: int) -> None:
        """The slot's child is dead and reaped."""
        slot = self.slots[number]
        self._judge_attempts(slot, status)
        if number in self._asked:
            how = f"ended with status {status}" if status >= 0 else f"was killed by signal {-status}"
            self._note_failed_start(f"{how} at its start; see its log")
        self._replace(slot)

    def _replace(self, slot: Slot) -> None:
        """A new child for the slot, unless it is to go."""
        if slot.retiring:
            self._remove(slot)
        elif slot.failed_starts:
            self._loop.call_later(_pause(slot.failed_starts), self._fork, slot)
        else:
            self._fork(slot)

    def _judge_attempts(self, slot: Slot, status: int) -> None:
        """Take what a dead child still said, then judge each attempt that it held."""
        for _ in range(0 if slot.spent else _LAST_READS):
            self._hear(slot)
            if slot.broken or slot.socket is None or slot.socket.closed or slot.socket.silent:
                break
        slot.output.drain()
        begun, blamed, kill_reason = slot.begun(), slot.blamed, slot.kill_reason
        ran = slot.ran(time.monotonic_ns())
        back = []
        slot.failed_starts = 0 if status == 0 or kill_reason or begun in slot.outstanding else slot.failed_starts + 1
        for serial in list(slot.outstanding):
            attempt = slot.end(serial)
            assert attempt  # noqa: S101 - it was in the list
            attempt.ran = ran if serial == begun else None
            if serial > begun:
                back.append(attempt)
            elif serial == blamed:
                self._report(Killed(attempt, kill_reason, status))
            else:
                self._report(Unheard(attempt))
        self._empty(slot)
        self._give_back(back)

    def _empty(self, slot: Slot) -> None:
        self._hang_up(slot)
        slot.state = State.EMPTY

    def _hang_up(self, slot: Slot) -> None:
        self._stop_listening(slot)
        slot.hang_up()

    def kill(self, slot: Slot, kill_reason: KillReason, serial: int) -> None:
        """Kill the slot's child and its process group, for this job; what it held is judged once it is dead."""
        if slot.kill_reason is None and slot.server:
            slot.set_kill_reason(kill_reason, serial)
            slot.server.kill(slot.number)
            self._loop.call_later(_UNKILLED, self._check_killed, slot, serial)

    def kill_all(self) -> None:
        """Kill each child that runs a job."""
        for slot in self.slots.values():
            if slot.outstanding:
                self.kill(slot, KillReason.SHUTDOWN, slot.begun())

    def close(self) -> None:
        """End the fork server and all that is under it."""
        self.ending = True
        self._loading.stop()
        for server in (*self._former, *([self._server] if self._server else [])):
            server.close()
        end_children()
        self._former.clear()
        for slot in list(self.slots.values()):
            self._hang_up(slot)
            slot.output.drain()
            self._remove(slot)
        self._loop.remove_reader(self._epoll.fileno())
        self._epoll.close()

    # -- jobs out, outcomes in ----------------------------------------------------------------------------------------

    def hand_out(self, pending: deque[Attempt], reserved: int = 0) -> None:
        """Hand out what is pending, as far as there is room; the rest stays. `reserved`: children to keep free."""
        if not pending:
            return
        if not self._paused:
            for slot, batch in self._batching.batches(pending, reserved):
                slot.send_jobs(batch, self._table_frame if slot.table != self._table_number else None)
                slot.table = self._table_number
                if slot.one_job:
                    # All that this child prints is this job's; it writes no marks.
                    slot.printing = batch[0]
        self._watchdog.keep_on()

    def _listen(self, slot: Slot) -> None:
        self._epoll.register(slot.fileno(), select.EPOLLIN)
        self._listening[slot.fileno()] = slot

    def _stop_listening(self, slot: Slot) -> None:
        """Before its socket is closed: the descriptor's number may soon be another's."""
        if self._listening.pop(slot.fileno(), None):
            self._epoll.unregister(slot.fileno())

    def _hear_all(self) -> None:
        for fd, _event in self._epoll.poll(0):
            if slot := self._listening.get(fd):  # else it was removed on account of another, a moment ago
                self._hear(slot)

    def _hear(self, slot: Slot) -> None:
        """Take the outcomes that a child has sent; what it printed before them comes first."""
        outcomes = slot.receive()
        if slot.broken:
            self._kill_hostile(slot)
        if slot.number in self._asked and slot.socket and slot.socket.answered:
            self._asked.discard(slot.number)
            self._tell_ready()
        if outcomes:
            self._take(slot, outcomes)
        if slot.broken or slot.spent or (slot.socket and slot.socket.closed):
            # Its death is reported by the fork server, and only that report counts.
            self._stop_listening(slot)

    def _give_back(self, attempts: list[Attempt]) -> None:
        if attempts:
            self._report(NotBegun(attempts))

    def _take(self, slot: Slot, outcomes: list[wire.OutcomeMessage]) -> None:
        slot.output.drain()
        self._batching.ahead.note(len(outcomes))
        back = [attempt for outcome in outcomes if (attempt := self._end(slot, outcome))]
        self._give_back(back)
        leaves = slot.number in self._kept or (slot.retiring and slot.state == State.READY)
        if leaves and not slot.outstanding:
            self._hang_up(slot)
        self._report(Room())

    def _kill_hostile(self, slot: Slot) -> None:
        if slot.kill_reason is None:
            log.error("group '%s': a child is killed: %s", self.group.name, slot.broken)
            self.kill(slot, KillReason.HOSTILE, slot.begun())

    def _end(self, slot: Slot, outcome: wire.OutcomeMessage) -> Attempt | None:
        """Pass an outcome on; returns the attempt if it was not begun."""
        attempt = slot.end(outcome.serial, told=True)
        if attempt is None:
            return None
        if outcome.kind == wire.RETURNED:
            return attempt
        if outcome.kind == wire.UNLOADED:
            self._report(NotLoaded(attempt, outcome.payload))
            return None
        self._batching.times.note(attempt.task, outcome.duration)
        self._on_outcome(attempt, outcome)
        return None


def _lives(slot: Slot) -> bool:
    """Whether the slot has a child that does not belong to a row of those that die at their start."""
    return slot.state != State.EMPTY and (not slot.failed_starts or time.monotonic() - slot.forked > _ALIVE)


def _pids(pids: set[int]) -> str:
    return ", ".join(f"process {pid}" for pid in sorted(pids))


def _pause(deaths: int) -> float:
    """Seconds before the next try, after so many deaths at birth in a row."""
    return 0.0 if deaths <= 0 else min(0.1 * 2.0 ** min(deaths, 16), _SLOWEST)
