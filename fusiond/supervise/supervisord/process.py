"""
One program as a process: started, ready, told, asked, ended, started again.

Supervisor's states, as they are meant here:

    STOPPED  -> STARTING   started, not ready yet
    STARTING -> RUNNING    it said {"is": "ready"}
    RUNNING  -> BACKOFF    it ended by itself; started again after a delay that grows, capped, and never given up
    RUNNING  -> EXITED     it ended while draining, or on trial: not started again
    any      -> FATAL      it ended with EX_CONFIG before it was ready for the first time: only a reload, or an
                           operator, starts it again. What was ready once can be so again: it is tried for ever
    any      -> STOPPING -> STOPPED   asked to by an operator or the daemon's end
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import random
import signal
import time
from typing import TYPE_CHECKING, Any

from supervisor.options import ProcessConfig, ProcessGroupConfig
from supervisor.process import ProcessGroup, Subprocess
from supervisor.states import ProcessStates as State
from supervisor.states import getProcessStateDescription

from fusiond.program import EX_CONFIG, LINK, NAME, TAIL
from fusiond.supervise import tree
from fusiond.supervise.programs import REDIS, Program
from fusiond.supervise.supervisord.daemon_options import Launch
from fusiond.supervise.supervisord.program_link import ProgramLink
from fusiond.supervise.tails import last_words

if TYPE_CHECKING:
    from fusiond.supervise.supervisord.daemon_options import DaemonOptions

#: seconds: the first restart is at once, the second after FIRST, each further one after twice as long, to LONGEST
FIRST_DELAY, LONGEST_DELAY = 0.5, 30.0
#: seconds ready, after which earlier deaths are forgotten
STEADY = 60.0
#: supervisor gives up after so many tries: never
NEVER = 2**31
#: seconds from SIGTERM to SIGKILL of a process that has done nothing yet
CONDEMNED = 5.0
#: seconds after a question from which on a program that has not answered does not count as serving
UNANSWERED = 1.5
log = logging.getLogger(__name__)


class Process(Subprocess):  # type: ignore[misc] # supervisor has no types
    """A program's process. What it said is kept here; `Fleet` reads it and answers, at each tick."""

    def __init__(self, config: ProgramConfig, group: ProcessGroup, *, trial: bool = False) -> None:
        super().__init__(config)
        self.group = group
        self.program: Program = config.program
        #: started for a candidate configuration, not accepted yet
        self.trial = trial
        #: told to end when its last job ends
        self.draining = False
        #: whether redis, which it needs, is ready; kept by Fleet
        self.may_start = True
        #: exit status, or minus the signal
        self.last_exit: int | None = None
        self.deaths = 0
        #: whether it was ready at least once: its configuration is good, so whatever ends it may pass
        self.proved = False
        #: the last lines of its log, when it has ended by itself
        self.last_words: tuple[str, ...] = ()
        #: why it ended by itself the last time
        self.last_reason = ""
        self._begin()

    def _begin(self) -> None:
        """A new life: nothing said, nothing told."""
        self.ready = False
        self.ready_at = 0.0
        #: why it ends, in its own words
        self.failure = ""
        #: tasks that it ends for, since they do not load
        self.unloadable: tuple[str, ...] = ()
        #: numbers of the last question, of the last one that it answered, and of the last one after which it said
        #: whether it can serve
        self.asked = self.answered = self.checked = 0
        #: monotonic s of the first question since its last answer; infinite: it owes none
        self._owes_since = math.inf
        #: why it cannot serve just now though it is ready, in its own words
        self.trouble = ""
        #: whether it was told to drain
        self._drain_told = False
        #: which of its tasks do not load, and why
        self.unloaded = ""
        #: jobs that still run; None: it has not said
        self.busy: int | None = None
        #: whether it awaits {"do": "go"}
        self.held = self.trial and self.program.holdable
        #: generation of the snapshot that it was told to read, and that it has read
        self.told = self.applied = self.program.reads
        #: digest of the variables that it got from environment files; empty: it has not said
        self.environment = ""
        #: slots that it was told to leave to its predecessor
        self.left = 0

    @property
    def alive(self) -> bool:
        """Whether there is a process."""
        return bool(self.pid)

    @property
    def serves(self) -> bool:
        """Whether it is ready, has said that it can serve, and has not left that question unanswered since."""
        return self.ready and not self.trouble and time.monotonic() - self._owes_since < UNANSWERED

    @property
    def ended(self) -> bool:
        """Whether there is none, and nobody but an operator or a reload will start one."""
        return self.state in (State.STOPPED, State.EXITED, State.FATAL) and not (
            self.state == State.STOPPED and self.due
        )

    @property
    def due(self) -> bool:
        """Whether it has yet to be started for the first time."""
        return bool(self.state == State.STOPPED and not self.laststart and self.config.autostart)

    @property
    def stopped_by_operator(self) -> bool:
        """`supervisorctl stop` outranks the file until it is undone."""
        return bool(self.administrative_stop and self.state in (State.STOPPED, State.STOPPING))

    @property
    def appliable(self) -> bool:
        """Whether it reads the snapshot; redis does not."""
        return bool(self.program.part != REDIS)

    @property
    def state_name(self) -> str:
        """As `supervisorctl status` shows it."""
        return str(getProcessStateDescription(self.state))

    @property
    def reason(self) -> str:
        """What is wrong with it, or was when it ended the last time; "" where nothing is."""
        return str(self.trouble or self.failure or self.spawnerr or ("" if self.ready else self.last_reason))

    def why_not(self) -> str:
        """Why it does not serve, in a few words; "" where it does."""
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

    def retry_in(self) -> float | None:
        """Seconds until it is started again; None: it is not waiting for that."""
        return max(0.0, self.delay - time.time()) if self.state == State.BACKOFF else None

    def command(self) -> list[str]:
        """What is executed."""
        return [*self.program.argv, *(["--held"] if self.held else [])]

    def say(self, **command: Any) -> bool:
        """Send one command over the link; whether it went."""
        return bool(self.pipes) and self.pipes["link"].say(**command)

    def tell_drain(self) -> None:
        """Have it end when its last job ends. Where the link takes no more just now, it is told at a later turn."""
        self.draining = True
        self._drain_told = self._drain_told or self.say(do="drain")

    def ask(self, now: float) -> None:
        """Ask whether it is alive; at monotonic seconds `now`."""
        if self.alive and self.pipes:
            self.asked += 1
            self._owes_since = min(self._owes_since, now)
            self.say(do="answer", n=self.asked)

    def ask_anew(self, now: float) -> None:
        """Ask again, and count its silence from now on: what it owed until now may be the asker's own fault."""
        self._owes_since = math.inf
        self.ask(now)

    def silent_for(self, now: float) -> float:
        """Seconds since the first question that it has not answered; 0 where it owes no answer."""
        return max(0.0, now - self._owes_since) if self.alive else 0.0

    def end_silent(self, now: float) -> frozenset[tree.Member]:
        """Kill it, since it gives no sign of life; returns the processes that were below it."""
        self.failure = f"gave no sign of life for {self.silent_for(now):.0f} s and was killed"
        log.error("%s %s", self.program.name, self.failure)
        members = tree.below(self.pid)
        self._owes_since = math.inf
        with contextlib.suppress(ProcessLookupError):
            self.config.options.kill(-self.pid, signal.SIGKILL)
        return members

    def adopt(self, program: Program) -> None:
        """Go by an accepted configuration from here on: its snapshot at the next start, its drain_timeout at a stop."""
        self.program = self.config.program = program
        self.config.stopwaitsecs = program.stop_seconds
        self.trial = False

    def condemn(self) -> None:
        """End a process that has no job: on trial, or never ready."""
        self.trial, self.draining = False, True
        self.config.stopwaitsecs = CONDEMNED
        if self.state in (State.STARTING, State.RUNNING):
            self.stop()

    def try_again(self) -> None:
        """Start now what had given up, or waits for its next try."""
        if self.state == State.FATAL:
            self.deaths = 0
            self.spawn()
        elif self.state == State.BACKOFF:
            self.deaths, self.delay = 0, 0.0

    # ---- what supervisor calls

    def get_execv_args(self) -> tuple[str, list[str]]:
        """Stock splits a command line; ours is a list already."""
        return self.program.argv[0], self.command()

    def spawn(self) -> int | None:
        """STOPPED, BACKOFF, EXITED, FATAL -> STARTING."""
        self._begin()
        pid: int | None = super().spawn()
        if pid:
            log.info("%s started, pid %d", self.program.name, pid)
        else:
            # Stock leaves descriptors here that it has closed: a busy loop, or another's descriptor under our name.
            self.dispatchers: dict[int, ProgramLink] = {}
            self.pipes: dict[str, ProgramLink] = {}
        return pid

    def transition(self) -> None:
        """Start what is due and kill what overran; STARTING ends with `ready` here, never with time."""
        if self.state == State.STARTING and not self.ready:
            return
        if self.alive or self.may_start:
            super().transition()

    def change_state(self, new_state: int, expected: bool = True) -> None:
        """Stock adds a second to the delay at each try; ours doubles, and is capped."""
        super().change_state(new_state, expected)
        if new_state == State.BACKOFF:
            self.deaths += 1
            delay = 0.0 if self.deaths == 1 else min(FIRST_DELAY * 2.0 ** (self.deaths - 2), LONGEST_DELAY)
            delay *= random.uniform(0.8, 1.2)  # noqa: S311 - spreads restarts, guards no secret
            # Stock takes a delay longer than `backoff` seconds for a clock that was set back.
            self.backoff = math.ceil(delay) + 1
            self.delay = time.time() + delay

    def finish(self, pid: int, status: int) -> None:
        """The process ended. Stock keeps -1 for every signal; we keep which."""
        asked = self.killing
        self.last_exit = os.waitstatus_to_exitcode(status)
        if self.ready and time.monotonic() - self.ready_at > STEADY:
            self.deaths = 0
        super().finish(pid, status)
        self.ready = False
        if asked or self.draining:
            log.info("%s ended with %s", self.program.name, describe_exit(self.last_exit))
        if not asked:
            self.last_words = last_words(self.program.tail)
            self._judge()

    def _judge(self) -> None:
        """It ended by itself: again, later, or never."""
        self.spawnerr = self.last_reason = self.failure or f"ended with {describe_exit(self.last_exit)}"
        if self.last_exit == EX_CONFIG and not self.proved:
            # EXITED -> FATAL
            self.change_state(State.FATAL)
            log.error("%s cannot run: %s; it is tried again at the next reload", self.program.name, self.spawnerr)
        elif not (self.draining or self.trial):
            # EXITED -> BACKOFF
            self.change_state(State.BACKOFF)
            delay = max(0.0, self.delay - time.time())
            log.warning("%s %s; it is started again in %.1f s", self.program.name, self.spawnerr, delay)

    # ---- what the program says

    def hear(self, message: dict[str, Any]) -> None:
        """Keep what a packet says; an unknown one is of another version and passed over."""
        match message:
            case {"is": "ready"}:
                self.ready, self.ready_at, self.proved = True, time.monotonic(), True
                self._log_ready(time.time() - self.laststart)
            case {"is": "failed", "reason": str(reason)}:
                self.failure, self.unloadable = reason, tuple(message.get("tasks", ()))
            case {"is": "applied", "generation": int(generation)}:
                self.applied = max(self.applied, generation)
            case {"is": "unloaded", "reason": str(reason)}:
                self.unloaded = reason
            case {"is": "environment", "digest": str(digest)}:
                self.environment = digest
            case {"is": "busy", "slots": int(slots)}:
                self.busy = slots
            case {"is": "alive", "n": int(number)}:
                self.answered = max(self.answered, number)
                if self.answered >= self.asked:
                    self._owes_since = math.inf
            case {"is": "checked", "n": int(number), "trouble": str(trouble)}:
                self._note_trouble(trouble)
                self.checked = max(self.checked, number)
            case _:
                log.debug("%s said %s", self.program.name, message)

    def _log_ready(self, after: float) -> None:
        """It has started; it is not ready where it has said why it cannot serve: none of its tasks loads, for one."""
        if self.trouble:
            log.warning("%s started after %.2f s and cannot serve: %s", self.program.name, after, self.trouble)
        else:
            log.info("%s is ready after %.2f s", self.program.name, after)

    def _note_trouble(self, trouble: str) -> None:
        """Log each change."""
        if trouble and not self.trouble and self.ready:
            log.warning("%s cannot serve: %s", self.program.name, trouble)
        elif self.trouble and not trouble:
            log.info("%s can serve again", self.program.name)
        self.trouble = trouble


class ProgramConfig(ProcessConfig):  # type: ignore[misc]
    """Supervisor's view on a program."""

    def __init__(self, options: DaemonOptions, program: Program) -> None:
        name = program.name.partition(":")[2] or program.name
        # fmt: off
        super().__init__(
            options, name=name, uid=None, command=program.argv[0], directory=None, umask=None, priority=999,
            autostart=True, autorestart=False, startsecs=0, startretries=NEVER,
            # What `supervisorctl tail` opens; the program writes it.
            stdout_logfile=program.tail and str(program.tail), stdout_capture_maxbytes=0, stdout_events_enabled=False,
            stdout_syslog=False, stdout_logfile_backups=0, stdout_logfile_maxbytes=0,
            stderr_logfile=None, stderr_capture_maxbytes=0, stderr_logfile_backups=0, stderr_logfile_maxbytes=0,
            stderr_events_enabled=False, stderr_syslog=False,
            stopsignal=signal.SIGTERM, stopwaitsecs=program.stop_seconds, stopasgroup=False, killasgroup=True,
            exitcodes=[0], redirect_stderr=True, environment=None, serverurl=None,
        )
        # fmt: on
        self.program = program

    def make_dispatchers(self, process: Process) -> tuple[dict[int, ProgramLink], dict[str, ProgramLink]]:
        """Stock makes three pipes; a program has its link alone."""
        link, tail = ProgramLink(self.program.name, process.hear), self.program.tail
        self.options.launch = Launch(
            process.command(),
            link.theirs.fileno(),
            {
                LINK: str(link.theirs.fileno()),
                NAME: self.program.name,
                TAIL: str(tail) if tail else "",
            },
        )
        return {link.fileno(): link}, {"link": link}


class Group(ProcessGroup):  # type: ignore[misc]
    """Programs of a kind; which ones, Fleet says."""

    def removelogs(self) -> None:
        """Tails are the programs' own."""


class GroupConfig(ProcessGroupConfig):  # type: ignore[misc]
    """A group that begins empty."""

    def __init__(self, options: DaemonOptions, name: str) -> None:
        super().__init__(options, name, 999, [])

    def make_group(self) -> Group:
        """Called as the daemon starts."""
        return Group(self)


def describe_exit(code: int | None) -> str:
    """`status 3`, `SIGKILL`: how a process ended."""
    if code is None:
        return "no status"
    if code >= 0:
        return f"status {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
