"""
One program as a process: started, ready, told, ended, started again.

Supervisor's states, as they are meant here:

    STOPPED  -> STARTING   started, not ready yet
    STARTING -> RUNNING    it said {"is": "ready"}
    RUNNING  -> BACKOFF    it ended by itself; started again after a delay that grows, capped, and never given up
    RUNNING  -> EXITED     it ended while draining, or on trial: not started again
    any      -> FATAL      it ended with EX_CONFIG: only a reload, or an operator, starts it again
    any      -> STOPPING -> STOPPED   asked to by an operator or the daemon's end
"""

from __future__ import annotations

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

from fusiond.program import LINK, NAME, TAIL
from fusiond.supervise.link import Link
from fusiond.supervise.programs import REDIS, Program
from fusiond.supervise.standby import Launch

if TYPE_CHECKING:
    from pathlib import Path

    from fusiond.supervise.options import Options

#: sysexits.h: what the program was told to do cannot be done; trying again changes nothing
EX_CONFIG = 78
#: seconds: the first restart is at once, the second after FIRST, each further one after twice as long, to LONGEST
FIRST_DELAY, LONGEST_DELAY = 0.5, 30.0
#: seconds ready, after which earlier deaths are forgotten
STEADY = 60.0
#: supervisor gives up after so many tries: never
NEVER = 2**31
#: seconds from SIGTERM to SIGKILL of a process that has done nothing yet
CONDEMNED = 5.0
log = logging.getLogger(__name__)


class Process(Subprocess):  # type: ignore[misc] # supervisor has no types
    """A program's process. What it said is kept here; `Fleet` reads it and answers, at each tick."""

    def __init__(self, config: Config, group: ProcessGroup, *, trial: bool = False) -> None:
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
        self._begin()

    def _begin(self) -> None:
        """A new life: nothing said, nothing told."""
        self.ready = False
        self.ready_at = 0.0
        #: why it ends with EX_CONFIG, in its own words
        self.failure = ""
        #: jobs that still run; None: it has not said
        self.busy: int | None = None
        #: whether it awaits {"do": "go"}
        self.held = self.trial and self.program.holdable
        #: generation of the snapshot that it was told to read, and that it has read
        self.told = self.applied = self.program.reads
        #: slots that it was told to leave to its predecessor
        self.left = 0

    @property
    def alive(self) -> bool:
        """Whether there is a process."""
        return bool(self.pid)

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

    def command(self) -> list[str]:
        """What is executed."""
        return [*self.program.argv, *(["--held"] if self.held else [])]

    def say(self, **command: Any) -> bool:
        """Send one command over the link; whether it went."""
        return bool(self.pipes) and self.pipes["link"].say(**command)

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
        """Start what had given up."""
        if self.state == State.FATAL:
            self.deaths = 0
            self.spawn()

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
            self.dispatchers: dict[int, Link] = {}
            self.pipes: dict[str, Link] = {}
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
            self._judge()

    def _judge(self) -> None:
        """It ended by itself: again, later, or never."""
        self.spawnerr = self.failure or f"ended with {describe_exit(self.last_exit)}"
        if self.last_exit == EX_CONFIG:
            # EXITED -> FATAL
            self.change_state(State.FATAL)
            log.error("%s cannot run: %s", self.program.name, self.spawnerr)
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
                self.ready, self.ready_at = True, time.monotonic()
                log.info("%s is ready after %.2f s", self.program.name, time.time() - self.laststart)
            case {"is": "failed", "reason": str(reason)}:
                self.failure = reason
            case {"is": "applied", "generation": int(generation)}:
                self.applied = max(self.applied, generation)
            case {"is": "busy", "slots": int(slots)}:
                self.busy = slots
            case _:
                log.debug("%s said %s", self.program.name, message)


class Config(ProcessConfig):  # type: ignore[misc]
    """Supervisor's view on a program."""

    def __init__(self, options: Options, program: Program) -> None:
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

    def make_dispatchers(self, process: Process) -> tuple[dict[int, Link], dict[str, Link]]:
        """Stock makes three pipes; a program has its link alone."""
        link, tail = Link(self.program.name, process.hear), self.program.tail
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

    def __init__(self, options: Options, name: str) -> None:
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


def forget_tail(tail: Path | None) -> None:
    """A program that is gone for good leaves no file."""
    if tail is not None:
        tail.unlink(missing_ok=True)
