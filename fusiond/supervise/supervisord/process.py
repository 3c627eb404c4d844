"""
One program as a process: started, ready, told, asked, ended, started again.

What supervisor's states mean here:

    STOPPED  -> STARTING   started, not ready yet
    STARTING -> RUNNING    it said {"is": "ready"}
    RUNNING  -> BACKOFF    it ended by itself; it is started again after a delay that grows up to a limit, for ever
    RUNNING  -> EXITED     it ended while it drained or was on trial: not started again
    any      -> FATAL      it ended with EX_CONFIG and was never ready: only a reload or an operator starts it again.
                           A program that was ready once can be ready again, so it is started again for ever
    any      -> STOPPING -> STOPPED   an operator stopped it, or the daemon ends
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import random
import signal
import time
from pathlib import Path
from typing import Any

from supervisor.options import signame
from supervisor.process import ProcessGroup, Subprocess
from supervisor.states import ProcessStates as State
from supervisor.states import getProcessStateDescription

from fusiond.config.release_marks import Mark
from fusiond.link_messages import Command
from fusiond.program import EX_CONFIG
from fusiond.status_document import ChildNumbers
from fusiond.supervise import tree
from fusiond.supervise.supervisord.program_config import ProgramConfig
from fusiond.supervise.supervisord.program_link import ProgramLink
from fusiond.supervise.wanted_programs import Program

#: seconds: the first restart is at once, the second after FIRST, each further one after twice as long, to LONGEST
FIRST_DELAY, LONGEST_DELAY = 0.5, 30.0
#: seconds; a program that was ready for longer has its earlier deaths forgotten
STEADY = 60.0
#: seconds from SIGTERM to SIGKILL of a process that has no job
STOP_WITHOUT_JOBS = 5.0
#: seconds after a question from which on a program that has not answered does not count as serving
UNANSWERED = 1.5
#: lines that `fusiond status` shows of a program that is down, characters of a line, and bytes read to find them
LINES, WIDTH, LAST_BYTES = 5, 300, 8192
log = logging.getLogger(__name__)


class Process(Subprocess):  # type: ignore[misc] # supervisor has no types
    """
    The process of one program. It keeps what the program said; `ProcessTable` reads that and answers, each tick.

    `ProgramStatus` explains the attributes that `fusiond status` shows.
    """

    def __init__(self, config: ProgramConfig, group: ProcessGroup, *, trial: bool = False) -> None:
        super().__init__(config)
        self.group = group
        self.program: Program = config.program
        self.trial = trial
        self.draining = False
        #: whether redis, which it needs, is ready; set by ProcessTable
        self.may_start = True
        self.last_exit: int | None = None
        self.deaths = 0
        #: whether it was ready at least once: then its configuration is good, and whatever ends it may pass
        self.was_ready = False
        #: the last lines of its log, once it has ended by itself
        self.last_lines: tuple[str, ...] = ()
        #: why it ended, if it did so by itself
        self.last_reason = ""
        self._forget_run()

    def _forget_run(self) -> None:
        """A new process starts: it has said nothing and was told nothing."""
        self.ready = False
        #: in monotonic seconds
        self.ready_at = 0.0
        #: why it ends, in its own words
        self.failure = ""
        #: its tasks that do not load, if that is why it ends
        self.unloadable: tuple[str, ...] = ()
        #: numbers of the last question, of the last question that it answered, and of the last question after which
        #: it said whether it can serve
        self.asked = self.answered = self.checked = 0
        #: monotonic seconds of the first question since its last answer; infinite: no question is open
        self._unanswered_since = math.inf
        #: why it cannot serve now although it is ready, in its own words
        self.trouble = ""
        self._drain_told = False
        #: whether it may claim, as it was told last
        self._claims_told = True
        self.unloaded = self.warning = ""
        #: of the scheduler: which jobs wait for what the last change has removed
        self.jobs_left: tuple[str, ...] = ()
        #: of one that drains: slots that it needs; None: it has not said
        self.left_slots: int | None = None
        self.busy: int | None = None
        self.waits_for_redis = False
        self.scaled: ChildNumbers = {}
        #: whether it claims nothing until {"do": "go"}
        self.held = self.trial and self.program.slots > 0
        #: generation of the snapshot that it was told to read, and of the one that it has read
        self.told = self.applied = self.program.reads
        #: digest of the variables that it got from environment files; empty: it has not said
        self.environment = ""
        #: what the paths of its group's `reload_on` led to when it loaded its code; None: it has not said
        self.release: dict[str, Mark | None] | None = None
        #: slots that it was told to leave to its predecessor
        self.left = 0

    @property
    def serves(self) -> bool:
        """Whether it is ready, has said that it can serve, and has not left the next question unanswered."""
        return self.ready and not self.trouble and time.monotonic() - self._unanswered_since < UNANSWERED

    @property
    def due(self) -> bool:
        """Whether it has yet to be started for the first time."""
        return bool(self.state == State.STOPPED and not self.laststart and self.config.autostart)

    @property
    def ended(self) -> bool:
        """Whether there is no process, and only an operator or a reload will start one."""
        return self.state in (State.STOPPED, State.EXITED, State.FATAL) and not self.due

    @property
    def stopped_by_operator(self) -> bool:
        """Whether `supervisorctl stop` ended it, which holds until an operator starts it again."""
        return bool(self.administrative_stop and self.state in (State.STOPPED, State.STOPPING))

    @property
    def state_name(self) -> str:
        """As `supervisorctl status` shows it."""
        return str(getProcessStateDescription(self.state))

    @property
    def reason(self) -> str:
        """What is wrong with it, or why it ended the last time; "" if nothing is wrong."""
        return str(self.trouble or self.failure or self.spawnerr or ("" if self.ready else self.last_reason))

    def why_not_serving(self) -> str:
        """Why it does not serve, in a few words; "" if it does."""
        if self.serves:
            return ""
        if self.stopped_by_operator:
            return "stopped by the operator"
        if not self.ready:
            return self.reason or self.state_name.lower()
        return self.trouble or f"has not answered for {self.silent_for(time.monotonic()):.0f} s"

    def wait(self, now: float) -> float:
        """
        Seconds until the loop has to look at it.

        Args:
            now: epoch seconds, as supervisor counts.
        """
        if self.state == State.STOPPING or (self.state == State.BACKOFF and self.may_start):
            return max(0.0, self.delay - now)
        at_once = (self.due and self.may_start) or (self.state == State.STARTING and self.ready)
        return 0.0 if at_once else math.inf

    @property
    def retry_in(self) -> float | None:
        """Seconds until it is started again; None: it does not wait for that."""
        return max(0.0, self.delay - time.time()) if self.state == State.BACKOFF else None

    def use_program(self, program: Program) -> None:
        """Follow an accepted configuration: its snapshot at the next start, its drain_timeout at a stop."""
        self.program = self.config.program = program
        self.config.stopwaitsecs = program.stop_seconds
        self.trial = False

    # ---- what it is told and asked

    def say(self, command: Command) -> bool:
        """Send one command over the link; whether it was sent."""
        return bool(self.pipes) and self.pipes["link"].say(command)

    def tell_drain(self) -> None:
        """Have it end when its last job ends. If the link is full now, it is told at a later turn."""
        self.draining = True
        self._drain_told = self._drain_told or self.say({"do": "drain"})

    def tell_claims(self, *, on: bool) -> None:
        """Have it claim, or claim nothing and say how many jobs still run."""
        if on != self._claims_told and self.say({"do": "claims", "on": on}):
            self._claims_told, self.busy, self.waits_for_redis = on, None, False

    def ask(self, now: float) -> None:
        """Ask whether it is alive; at monotonic seconds `now`."""
        if self.pid:
            self.asked += 1
            self._unanswered_since = min(self._unanswered_since, now)
            self.say({"do": "answer", "n": self.asked})

    def ask_again(self, now: float) -> None:
        """Ask, and count its silence from now on: the silence before may be the fault of this loop."""
        self._unanswered_since = math.inf
        self.ask(now)

    def silent_for(self, now: float) -> float:
        """Seconds since the first question that it has not answered; 0 if none is open."""
        return max(0.0, now - self._unanswered_since) if self.pid else 0.0

    # ---- how it is ended and started

    def kill_silent(self, now: float) -> frozenset[tree.Member]:
        """Kill it, since it gives no sign of life; returns the processes that were below it."""
        self.failure = f"gave no sign of life for {self.silent_for(now):.0f} s and was killed"
        log.error("%s %s", self.program.name, self.failure)
        members = tree.below(self.pid)
        self._unanswered_since = math.inf
        with contextlib.suppress(ProcessLookupError):
            self.config.options.kill(-self.pid, signal.SIGKILL)
        return members

    def end(self) -> None:
        """Ask it to end, as `stop` does, though no operator has."""
        self.stop()
        self.administrative_stop = False

    def end_without_jobs(self) -> None:
        """End a process that has no job: it was on trial, or never ready."""
        self.trial, self.draining = False, True
        self.config.stopwaitsecs = STOP_WITHOUT_JOBS
        if self.state in (State.STARTING, State.RUNNING):
            self.end()

    def try_again(self) -> None:
        """Start it now if it is FATAL or waits for its next start."""
        if self.state == State.FATAL:
            self.deaths = 0
            self.spawn()
        elif self.state == State.BACKOFF:
            self.deaths, self.delay = 0, 0.0

    # ---- what supervisor calls

    def get_execv_args(self) -> tuple[str, list[str]]:
        """Supervisor's own splits a command line; `DaemonOptions.fork` gets the list of ours."""
        return self.program.command[0], []

    def spawn(self) -> int | None:
        """STOPPED, BACKOFF, EXITED, FATAL -> STARTING."""
        self._forget_run()
        pid: int | None = super().spawn()
        if pid:
            log.info("%s started, pid %d", self.program.name, pid)
        else:
            # Supervisor leaves closed descriptors here: the loop would poll them, or others that got their numbers.
            self.dispatchers: dict[int, ProgramLink] = {}
            self.pipes: dict[str, ProgramLink] = {}
        return pid

    def transition(self) -> None:
        """Start it if it is due, kill it if it is late; STARTING ends when it is ready here, never after a time."""
        if self.state == State.STARTING and not self.ready:
            return
        if self.pid or self.may_start:
            super().transition()

    def change_state(self, new_state: int, expected: bool = True) -> None:
        """Supervisor adds a second to the delay at each try; here it doubles, up to LONGEST_DELAY."""
        super().change_state(new_state, expected)
        if new_state == State.BACKOFF:
            self.deaths += 1
            delay = 0.0 if self.deaths == 1 else min(FIRST_DELAY * 2.0 ** (self.deaths - 2), LONGEST_DELAY)
            delay *= random.uniform(0.8, 1.2)  # noqa: S311 - spreads restarts, guards no secret
            # Supervisor takes a delay that is longer than `backoff` seconds for a clock that was set back.
            self.backoff = math.ceil(delay) + 1
            self.delay = time.time() + delay

    def finish(self, pid: int, status: int) -> None:
        """The process ended. Supervisor keeps -1 for every signal; `last_exit` keeps which."""
        asked = self.killing
        self.last_exit = os.waitstatus_to_exitcode(status)
        if self.ready and time.monotonic() - self.ready_at > STEADY:
            self.deaths = 0
        super().finish(pid, status)
        self.ready = False
        if asked or self.draining:
            log.info("%s ended with %s", self.program.name, describe_exit(self.last_exit))
        if asked:
            self.last_reason = ""  # how an earlier process ended is no reason for this end
        else:
            self.last_lines = _last_lines(self.program.tail)
            self._judge(self.failure or f"ended with {describe_exit(self.last_exit)}")

    def _judge(self, reason: str) -> None:
        """Decide whether a process that ended by itself is started again."""
        self.spawnerr = self.last_reason = reason
        if self.last_exit == EX_CONFIG and not self.was_ready:
            # EXITED -> FATAL
            self.change_state(State.FATAL)
            if not self.trial:  # otherwise the refused reload gives the reason, and the process goes with its candidate
                log.error("%s cannot run: %s; it is tried again at the next reload", self.program.name, reason)
        elif not (self.draining or self.trial):
            # EXITED -> BACKOFF
            self.change_state(State.BACKOFF)
            delay = max(0.0, self.delay - time.time())
            log.warning("%s %s; it is started again in %.1f s", self.program.name, reason, delay)

    # ---- what the program says

    def on_message(self, message: dict[str, Any]) -> None:
        """Keep what a packet says; an unknown one comes from another version and is ignored."""
        match message:
            case {"is": "ready"}:
                self._note_ready(time.time() - self.laststart)
            case {"is": "failed", "reason": str(reason)}:
                self.failure, self.unloadable = reason, tuple(message.get("tasks", ()))
            case {"is": "applied", "generation": int(generation)}:
                self.applied = max(self.applied, generation)
                self.jobs_left = tuple(message.get("left", ()))
            case {"is": "unloaded" | "warning" as what, "reason": str(reason)}:
                setattr(self, what, reason)
            case {"is": "loaded", "environment": str(digest), "release": dict(found)}:
                self.environment = digest
                self.release = {path: mark and Mark(*mark) for path, mark in found.items()}
            case {"is": "busy", "slots": int(slots), "jobs": int(jobs), "waits": bool(waits)}:
                self.left_slots, self.busy, self.waits_for_redis = slots, jobs, waits
            case {"is": "scaled", "numbers": dict()}:
                self.scaled = message["numbers"]
            case {"is": "alive", "n": int(number)}:
                self._note_alive(number)
            case {"is": "checked", "n": int(number), "trouble": str(trouble)}:
                self._note_trouble(trouble)
                self.checked = max(self.checked, number)
            case _:
                log.debug("%s said %s", self.program.name, message)

    def _note_alive(self, number: int) -> None:
        """It has answered the question of this number."""
        self.answered = max(self.answered, number)
        if self.answered >= self.asked:
            self._unanswered_since = math.inf

    def _note_ready(self, seconds: float) -> None:
        """It has started. If it has said why it cannot serve, such as that no task loads, it is not logged as ready."""
        self.ready, self.ready_at, self.was_ready = True, time.monotonic(), True
        if self.trouble:
            log.warning("%s started after %.2f s and cannot serve: %s", self.program.name, seconds, self.trouble)
        else:
            log.info("%s is ready after %.2f s", self.program.name, seconds)

    def _note_trouble(self, trouble: str) -> None:
        """Log each change."""
        if trouble and not self.trouble and self.ready:
            log.warning("%s cannot serve: %s", self.program.name, trouble)
        elif self.trouble and not trouble:
            log.info("%s can serve again", self.program.name)
        self.trouble = trouble


def _last_lines(tail: Path) -> tuple[str, ...]:
    """The last lines that a program logged; none if there is no file."""
    try:
        with tail.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - LAST_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return ()
    return tuple(line[:WIDTH] for line in text.splitlines()[-LINES:])


def describe_exit(code: int) -> str:
    """`status 3`, `SIGKILL`: how a process ended."""
    return f"status {code}" if code >= 0 else str(signame(-code))
