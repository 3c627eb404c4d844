"""
The daemon's loop: supervisor's own, subclassed.

Each turn of the loop, in supervisor's order:

1. poll        until a packet, a request, a signal, or the next deadline
2. transition  start what is due, kill what overran
3. reap        what ended
4. signals     TERM, INT, QUIT end the daemon, a second one at once; HUP asks for a reload
5. tick        ask the programs for signs of life, the reload's next step, then reconcile

Knows processes and the accepted snapshot. No Redis, no task code, no YAML.
"""

from __future__ import annotations

import logging
import resource
import signal
import time
from typing import TYPE_CHECKING

from supervisor.medusa import asyncore_25 as asyncore
from supervisor.states import ProcessStates as State
from supervisor.states import SupervisorStates
from supervisor.supervisord import Supervisor

from fusiond import logs
from fusiond.supervise.code import CODE_WATCHER, Code
from fusiond.supervise.fleet import Fleet
from fusiond.supervise.liveness import Liveness
from fusiond.supervise.programs import PUBLISHER, REDIS, SCHEDULER, WORKER, Places
from fusiond.supervise.reload.plan_requests import PlanRequests
from fusiond.supervise.reload.reloads import Reloads
from fusiond.supervise.supervisord.daemon_options import LONGEST_SLEEP, DaemonOptions
from fusiond.supervise.supervisord.process import GroupConfig
from fusiond.supervise.supervisord.rpc import DaemonFace, FusionFace
from fusiond.supervise.watch import Watcher, view

if TYPE_CHECKING:
    from fusiond.config.accepted.snapshot import Snapshot
    from fusiond.supervise.notify import Notify

#: seconds after which systemd is told READY though a program is not: Redis may be away, which is no reason to give up
START_PATIENCE = 20.0
#: open files wanted: a link and a few sockets for each program, and its programs inherit it
OPEN_FILES = 8192
log = logging.getLogger(__name__)


class Daemon(Supervisor):  # type: ignore[misc] # supervisor has no types
    """One daemon: its fleet of processes, its reloads, its control socket."""

    def __init__(self, options: DaemonOptions, accepted: Snapshot, places: Places, notify: Notify) -> None:
        super().__init__(options)
        self.notify = notify
        self.places = places
        self.started = time.monotonic()
        self._announced = self._ending_said = False
        self._status = ""
        self.fleet = Fleet(options, lambda: self.process_groups, accepted, places)
        self.liveness = Liveness(self.fleet)
        self.reloads = Reloads(
            self.fleet,
            state=places.state,
            notify=notify,
            foreign=options.foreign,
            on_accepted=self._on_accepted,
        )
        self.plan_requests = PlanRequests(self.fleet, options.foreign, lambda: self.reloads.taken)
        self.watcher = Watcher(view, options.waker.wake)
        self.code = Code(options.waker.wake) if places.development else None
        options.process_group_configs = [GroupConfig(options, name) for name in (REDIS, SCHEDULER, PUBLISHER, WORKER)]
        options.idle_for = self._idle_for
        fusion = FusionFace(
            self.fleet,
            self.reloads,
            self.plan_requests,
            self.liveness,
            places=places,
            started=self.started,
            ending=lambda: self.ending,
        )
        options.faces = lambda _: [("supervisor", DaemonFace(self)), ("fusion", fusion)]

    @property
    def ending(self) -> bool:
        """Whether the daemon was asked to end."""
        return bool(self.options.mood < SupervisorStates.RUNNING)

    def main(self) -> None:
        """Run until asked to end, and until every program has ended."""
        _raise_open_files()
        self.options.make_logger()
        self.watcher.watch(self.reloads.files)
        try:
            self.run()
        except asyncore.ExitNow:
            pass
        finally:
            signal.set_wakeup_fd(-1)
            self.watcher.stop()
            if self.code:
                self.code.stop()
            self.options.close_httpservers()

    # ---- what supervisor's loop calls

    def tick(self, now: float | None = None) -> None:
        """After events, transitions, reaping and signals of a turn."""
        super().tick(now)
        self.notify.tick(time.monotonic())
        self.liveness.tick()
        if self.ending:
            self._say_ending()
            return
        if self.watcher.fired() and self.fleet.accepted.config.watch:
            self.reloads.look()
        if self.code and (groups := self.code.changed(self.fleet.accepted.config.workers)):
            self.reloads.ask(CODE_WATCHER, groups)
        self.reloads.tick()
        self.plan_requests.tick()
        self.watcher.watch(self.reloads.files)
        self.fleet.reconcile()
        self._announce()
        self._tell_status()

    def handle_signal(self) -> None:
        """Stock takes one signal a turn, and restarts everything on SIGHUP."""
        while (received := self.options.get_signal()) is not None:
            if received == signal.SIGHUP and not self.ending:
                self.reloads.ask("SIGHUP")
            elif received in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
                self._end(signal.Signals(received))

    def ordered_stop_groups_phase_1(self) -> None:
        """Stock stops one group after another; ours all at once, and redis when all others have ended."""
        others = [process for process in self.fleet if process.program.part != REDIS]
        unstopped = [process for process in others if process.alive]
        for process in others if unstopped else self.fleet:
            if process.state == State.STARTING and process.program.part != REDIS:
                process.condemn()
            elif process.state in (State.STARTING, State.RUNNING):
                process.stop()
            elif process.state == State.BACKOFF:
                process.give_up()

    # ---- own

    def _end(self, received: signal.Signals) -> None:
        """First signal: warm. Second: the programs are told again, which makes them end at once."""
        if not self.ending:
            log.info("%s: the daemon ends when its running jobs have; a second signal ends it now", received.name)
            self.options.mood = SupervisorStates.SHUTDOWN
            return
        log.warning("%s again: ending now", received.name)
        for process in self.fleet:
            if process.state == State.STOPPING and process.program.part != REDIS:
                process.signal(signal.SIGTERM)

    def _say_ending(self) -> None:
        """Once, whoever asked: a signal, `supervisorctl shutdown`."""
        if not self._ending_said:
            self._ending_said = True
            self.notify.stopping("ending")
            self.reloads.end()
            self.plan_requests.end()

    def _on_accepted(self) -> None:
        """What a configuration changes in the daemon itself."""
        logs.set_level(self.fleet.accepted.config.logging.level)

    def _announce(self) -> None:
        """READY=1, once: when all programs are ready, or can't be, or patience ended."""
        if not self._announced and (self.fleet.settled() or time.monotonic() > self.started + START_PATIENCE):
            self._announced = True
            log.info(
                "generation %d: %s; %.2f s after the start",
                self.fleet.accepted.generation,
                self.fleet.describe(),
                time.monotonic() - self.started,
            )
            self.notify.ready(self.fleet.describe())

    def _tell_status(self) -> None:
        """Keep the line that `systemctl status` shows true."""
        if self._announced and (status := self.fleet.describe()) != self._status:
            self._status = status
            self.notify.status(status)

    def _idle_for(self) -> float:
        """Seconds until the loop has something to do by itself."""
        now = time.monotonic()
        waits = [self.notify.due(now), self.liveness.due(now), *(process.wait(time.time()) for process in self.fleet)]
        waits += [channel.delay for channel in self.options.get_socket_map().values() if getattr(channel, "delay", 0)]
        if not self.ending:
            waits += [self.reloads.due(now), self.plan_requests.due(now)]
            waits.append(LONGEST_SLEEP if self._announced else max(0.0, self.started + START_PATIENCE - now))
        return min(waits)


def _raise_open_files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
