"""
A group's children: how many, what each may take, and when one must go.

1. fork     children into slots, ahead of the jobs; again when one dies, more slowly when they die at birth. It is
            ready when the first ones have said that they serve, or one has not
2. hand     pending attempts to children that may take them (handout.py)
3. watch    what runs (watch.py)
4. report   how each attempt ended, and what a death means for each that its child held

Knows processes and sockets. No Redis: whether an attempt is settled, retried or released is its host's to say.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from typing import TYPE_CHECKING

from fusiond.worker import wire
from fusiond.worker.children import ForkServer
from fusiond.worker.epoll import Epoll
from fusiond.worker.handout import HandOut
from fusiond.worker.launch import launch, table
from fusiond.worker.slots import Attempt, Doom, Slot, State
from fusiond.worker.watch import Watch

if TYPE_CHECKING:
    from collections import deque

    from fusiond.config.model import Config, WorkerGroup
    from fusiond.worker.host import Host
    from fusiond.worker.launch import Launched

log = logging.getLogger(__name__)
job_log = logging.getLogger("fusiond.job")

#: children of isolation `fork` that stand ready beyond the group's processes, at most
AHEAD = 4
#: reads for what a dead child has sent; more than a socket holds, and few where a stray of its sends on
_LAST_READS = 8
#: s; a read of what a child prints that asks for a pause
_LONG_READ = 0.005
#: s; the longest pause between forks, or fork servers, that die at birth
_SLOWEST = 30.0
#: s; for the first children to say that they serve
_ANSWER = 20.0


class Pool:
    """The children of one group."""

    def __init__(self, config: Config, group: WorkerGroup, host: Host) -> None:
        self._config, self.group, self._host = config, group, host
        self._loop = asyncio.get_running_loop()
        self.slots: dict[int, Slot] = {}
        self._epoll = Epoll(self._loop, self._hear)
        self._numbers = 0
        self._server: ForkServer | None = None
        self._server_ready, self._server_started, self._server_deaths = False, 0.0, 0
        self.handout = HandOut(self.slots)
        self.watch = Watch(self.slots, self.kill, self._kill_hostile, host.on_back)
        #: first children that have not said yet that they serve, and what the fork server said of the tasks
        self._asked: set[int] = set()
        self._problems: dict[str, list[str]] | None = None
        #: why one of the first children does not serve
        self.stillborn = ""
        self.ending = False
        self.set_config(config, group)

    # -- what the file says -------------------------------------------------------------------------------------------

    def set_config(self, config: Config, group: WorkerGroup) -> None:
        """Follow what may change in place: policies, timeouts, the number of processes."""
        self._config, self.group = config, group
        self.handout.set_config(config, group)
        content = json.dumps(table(config, group)).encode()
        if self.handout.set_table(content) and self._server:
            # To one that still loads as well: it was launched with an older one, and reads this before it forks.
            self._server.set_table(content)
        self._resize()

    @property
    def _forks(self) -> bool:
        return self.group.isolation == "fork"

    def _resize(self) -> None:
        """Add slots, or let the surplus go: the idle ones now, the busy ones after their job."""
        wanted = self.group.processes + (min(self.group.processes, AHEAD) if self._forks else 0)
        staying = [slot for slot in self.slots.values() if not slot.retiring]
        for slot in sorted(staying, key=lambda slot: len(slot.outstanding), reverse=True)[wanted:]:
            self._retire(slot)
        for _ in range(wanted - len(staying)):
            self._numbers += 1
            slot = self.slots[self._numbers] = Slot.make(self._numbers, self._line, once=self._forks)
            self._loop.add_reader(slot.output.reader, self._read, slot)
            self._introduce(slot)

    def _retire(self, slot: Slot) -> None:
        slot.retiring = True
        self._asked.discard(slot.number)
        self._tell_ready()
        if slot.state == State.EMPTY:
            self._remove(slot)
        elif slot.state == State.READY and not slot.outstanding:
            self._hang_up(slot)

    def _remove(self, slot: Slot) -> None:
        if self._server and self._server_ready:
            self._server.drop_slot(slot.number)
        self._loop.remove_reader(slot.output.reader)
        slot.close()
        del self.slots[slot.number]

    def _read(self, slot: Slot) -> None:
        """Take what its child prints; one that prints without end waits, and leaves us most of our time."""
        started = self._loop.time()
        slot.output.read()
        spent = self._loop.time() - started
        if spent > _LONG_READ:
            self._loop.remove_reader(slot.output.reader)
            self._loop.call_later(4 * spent, self._read_on, slot)

    def _read_on(self, slot: Slot) -> None:
        if slot.number in self.slots:
            self._loop.add_reader(slot.output.reader, self._read, slot)

    def _line(self, attempt: Attempt | None, line: str) -> None:
        """What a job printed, to the group's log."""
        fields = {"group": self.group.name}
        if attempt is not None:
            fields |= {"job": attempt.name, "task": attempt.task.decode(), "attempt": str(attempt.attempts)}
        job_log.info("%s", line, extra=fields)

    # -- fork server and children -------------------------------------------------------------------------------------

    def start(self, launched: Launched | None = None) -> None:
        """Start the fork server, or take over the one that was launched; its children follow when it is ready."""
        if self.ending:
            return
        self._server_ready, self._server_started = False, time.monotonic()
        try:
            self._server = ForkServer.start(launched or launch(self._config, self.group), self)
        except (OSError, LookupError) as error:
            reason = f"group '{self.group.name}': its fork server cannot be started: {error}"
            log.error("%s", reason)  # noqa: TRY400 - a sentence, not a traceback
            self._host.on_start_failed(reason)
            self._start_again()

    def on_ready(self, problems: dict[str, list[str]]) -> None:
        """The server has loaded the tasks; whether children live, the first of them show."""
        self._server_ready, self._problems, self.stillborn = True, problems, ""
        for slot in list(self.slots.values()):
            self._introduce(slot)
        self._asked = {slot.number for slot in self.slots.values() if slot.state == State.READY}
        for number in self._asked:
            self.slots[number].ask(self._loop)
        self._loop.call_later(_ANSWER, self._doubt_late, problems)
        self._tell_ready()

    def _doubt_late(self, problems: dict[str, list[str]]) -> None:
        if problems is self._problems:
            self._doubt(f"has not said within {_ANSWER:g} s that it serves")

    def _doubt(self, why: str) -> None:
        """One of the first children does not serve: that is known now, and nobody waits for the others."""
        if self._problems is not None:
            self._asked.clear()
            self.stillborn = f"group '{self.group.name}': a child {why}"
            log.error("%s", self.stillborn)
            self._tell_ready()

    def _tell_ready(self) -> None:
        """Once for each fork server, when nobody is waited for."""
        if self._problems is not None and not self._asked:
            problems, self._problems = self._problems, None
            self._host.on_ready(problems)
            self._host.on_room()

    def on_server_died(self, reason: str, *, killed: bool) -> None:
        """Every child died with it, killed and reaped by us."""
        self._server, self._problems = None, None
        log.error("group '%s': %s", self.group.name, reason)
        for slot in list(self.slots.values()):
            if slot.state != State.EMPTY:
                self._bury(slot, -9)
            if slot.retiring:
                self._remove(slot)
        # What ends by itself while it loads will again. A kill, the OOM killer's say, is no fault of the file.
        if not self._server_ready and not killed:
            self._host.on_start_failed(f"group '{self.group.name}': {reason}")
        self._server_ready = False
        self._start_again()

    def _start_again(self) -> None:
        """At once after a death out of long health; after one soon after another, later each time."""
        if not self.ending:
            quick = time.monotonic() - self._server_started < _SLOWEST
            self._server_deaths = self._server_deaths + 1 if quick else 0
            self._loop.call_later(_pause(self._server_deaths - 1), self.start)

    def _introduce(self, slot: Slot) -> None:
        if self._server and self._server_ready:
            self._server.add_slot(slot.number, slot.output.writer, slot.page_fd)
            self._fork(slot)

    def _fork(self, slot: Slot) -> None:
        """Ask for a child; it may be handed jobs at once, they wait in its socket."""
        if slot.state != State.EMPTY or slot.number not in self.slots:
            return
        if not self._server or not self._server_ready or self.ending:
            return
        try:
            theirs = slot.connect()
        except OSError as error:
            self.on_unforked(slot.number, str(error))
            return
        slot.table, slot.forked = self.handout.table, time.monotonic()
        self._server.fork(slot.number, theirs)
        self._epoll.add(slot)
        self._host.on_room()

    def on_unforked(self, number: int, reason: str) -> None:
        """No process, or no socket for it, was to be had; try again, later each time."""
        slot = self.slots[number]
        log.warning("group '%s': no child can be forked (%s); trying again", self.group.name, reason)
        back = [attempt for serial in list(slot.outstanding) if (attempt := slot.end(serial))]
        self._empty(slot)
        self._host.on_back(back)
        slot.stillborn += 1
        if number in self._asked:
            self._doubt(f"cannot be forked: {reason}")
        self._replace(slot)

    def on_died(self, number: int, status: int) -> None:
        """The slot's child is dead and reaped."""
        slot = self.slots[number]
        self._bury(slot, status)
        if number in self._asked:
            how = f"ended with status {status}" if status >= 0 else f"was killed by signal {-status}"
            self._doubt(f"{how} at its start; see its log")
        self._replace(slot)

    def _replace(self, slot: Slot) -> None:
        """A new child for the slot, unless it is to go."""
        if slot.retiring:
            self._remove(slot)
        elif slot.stillborn:
            self._loop.call_later(_pause(slot.stillborn), self._fork, slot)
        else:
            self._fork(slot)

    def _bury(self, slot: Slot, status: int) -> None:
        """Take what a dead child still said, then judge each attempt that it held."""
        for _ in range(0 if slot.spent else _LAST_READS):
            self._hear(slot)
            if slot.closed or slot.broken or slot.silent:
                break
        slot.output.drain()
        begun, blamed, doom = slot.begun(), slot.blamed, slot.doom
        back = []
        slot.stillborn = 0 if status == 0 or doom or begun in slot.outstanding else slot.stillborn + 1
        for serial in list(slot.outstanding):
            attempt = slot.end(serial)
            assert attempt  # noqa: S101 - it was in the list
            if serial > begun:
                back.append(attempt)
            elif serial == blamed:
                self._host.on_killed(attempt, doom, status)
            else:
                self._host.on_unheard(attempt)
        self._empty(slot)
        if back:
            self._host.on_back(back)

    def _empty(self, slot: Slot) -> None:
        self._hang_up(slot)
        slot.state = State.EMPTY

    def _hang_up(self, slot: Slot) -> None:
        self._epoll.remove(slot)
        slot.hang_up(self._loop)

    def kill(self, slot: Slot, doom: Doom, serial: int) -> None:
        """Kill the slot's child and its process group, for this job; what it held is judged once it is dead."""
        if slot.doom is None and self._server:
            slot.condemn(doom, serial)
            self._server.kill(slot.number)

    def kill_all(self) -> None:
        """Kill each child that runs a job."""
        for slot in self.slots.values():
            if slot.outstanding:
                self.kill(slot, Doom.SHUTDOWN, slot.begun())

    def close(self) -> None:
        """End the fork server and all that is under it."""
        self.ending = True
        if self._server:
            self._server.close()
        for slot in list(self.slots.values()):
            self._hang_up(slot)
            slot.output.drain()
            self._remove(slot)
        self._epoll.close()

    # -- jobs out, outcomes in ----------------------------------------------------------------------------------------

    def hand(self, pending: deque[Attempt]) -> None:
        """Hand out what is pending, as far as there is room; the rest stays."""
        if pending:
            self.handout.hand(pending, self._loop)
            self.watch.keep_on()

    def _hear(self, slot: Slot) -> None:
        """Take the outcomes that a child has sent; what it printed before them comes first."""
        outcomes = slot.receive()
        if slot.broken:
            self._kill_hostile(slot)
        if slot.answered and slot.number in self._asked:
            self._asked.discard(slot.number)
            self._tell_ready()
        if outcomes:
            self._take(slot, outcomes)
        if slot.closed or slot.broken or slot.spent:
            # Its death is reported by the fork server, and only that report counts.
            self._epoll.remove(slot)

    def _take(self, slot: Slot, outcomes: list[wire.OutcomeMessage]) -> None:
        slot.output.drain()
        back = [attempt for outcome in outcomes if (attempt := self._end(slot, outcome))]
        if back:
            self._host.on_back(back)
        if slot.retiring and not slot.outstanding and slot.state == State.READY:
            self._hang_up(slot)
        self._host.on_room()

    def _kill_hostile(self, slot: Slot) -> None:
        if slot.doom is None:
            log.error("group '%s': a child is killed: %s", self.group.name, slot.broken)
            self.kill(slot, Doom.HOSTILE, slot.begun())

    def _end(self, slot: Slot, outcome: wire.OutcomeMessage) -> Attempt | None:
        """Pass an outcome on; returns the attempt if it was not begun."""
        attempt = slot.end(outcome.serial, told=True)
        if attempt is None:
            return None
        if outcome.kind == wire.RETURNED:
            return attempt
        self.handout.times.note(attempt.task, outcome.duration)
        self._host.on_outcome(attempt, outcome)
        return None


def _pause(deaths: int) -> float:
    """Seconds before the next try, after so many deaths at birth in a row."""
    return 0.0 if deaths <= 0 else min(0.1 * 2.0 ** min(deaths, 16), _SLOWEST)
