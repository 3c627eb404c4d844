"""
The daemon's loop, which is supervisor's own, subclassed.

Each turn of the loop, in supervisor's order:

1. poll        until a packet, a request, a signal, or the next deadline
2. transition  start what is due, kill what is late to end
3. reap        programs that ended
4. signals     TERM, INT, QUIT end the daemon, a second one at once; HUP asks for a reload
5. tick        ask the programs whether they are alive, take the next step of a request, then reconcile

Knows processes and the accepted snapshot. No Redis, no task code, no YAML.
"""

from __future__ import annotations

import contextlib
import logging
import signal
import time

from supervisor.medusa import asyncore_25 as asyncore
from supervisor.options import ProcessGroupConfig
from supervisor.states import ProcessStates as State
from supervisor.states import SupervisorStates
from supervisor.supervisord import Supervisor

from fusiond.config.accepted.snapshot import Snapshot
from fusiond.supervise.code_watcher import CODE_WATCHER, CodeWatcher
from fusiond.supervise.liveness import Liveness
from fusiond.supervise.notify import Notify
from fusiond.supervise.process_table import ProcessTable
from fusiond.supervise.releases import Releases
from fusiond.supervise.reload.outcome import Request
from fusiond.supervise.reload.reloads import Reloads
from fusiond.supervise.supervisord.daemon_options import LONGEST_SLEEP, DaemonOptions
from fusiond.supervise.supervisord.rpc import FusionNamespace, supervisor_namespace
from fusiond.supervise.wanted_programs import CARRIERS, PUBLISHER, REDIS, SCHEDULER, WEB, WORKER, RunOptions
from fusiond.supervise.watch import Watcher, targets

#: seconds after which systemd is told READY although a program is not: Redis may be away, which must not fail the start
START_PATIENCE = 20.0
log = logging.getLogger(__name__)


class Daemon(Supervisor):  # type: ignore[misc] # supervisor has no types
    """One daemon: its processes, the requests to it, its control socket."""

    def __init__(self, options: DaemonOptions, accepted: Snapshot, run: RunOptions, notify: Notify) -> None:
        super().__init__(options)
        self.notify = notify
        self.started = time.monotonic()
        #: what systemd was told last; "": it was not told READY yet
        self._status = ""
        self._ending_told = False
        self.processes = ProcessTable(options, lambda: self.process_groups, accepted, run)
        self.liveness = Liveness(self.processes)
        self.reloads = Reloads(self.processes, notify)
        self.releases = Releases(self.processes)
        self.watcher = Watcher(targets, options.waker.wake)
        self.code_watcher = CodeWatcher(options.waker.wake) if run.development else None
        options.process_group_configs = [
            ProcessGroupConfig(options, name, 999, []) for name in (REDIS, SCHEDULER, PUBLISHER, WEB, *CARRIERS, WORKER)
        ]
        options.idle_for = self._idle_for
        fusion = FusionNamespace(self.processes, self.reloads, self.liveness, self.started, lambda: self.ending)
        options.namespaces = [("supervisor", supervisor_namespace(self)), ("fusion", fusion)]

    @property
    def ending(self) -> bool:
        """Whether the daemon was asked to end."""
        return bool(self.options.mood < SupervisorStates.RUNNING)

    def main(self) -> None:
        """Run until the daemon is asked to end and every program has ended."""
        self.options.make_logger()
        self.watcher.watch(self.reloads.last_read.files)
        try:
            with contextlib.suppress(asyncore.ExitNow):
                self.run()
        finally:
            signal.set_wakeup_fd(-1)
            self.watcher.stop()
            if self.code_watcher:
                self.code_watcher.stop()
            self.options.close_httpservers()

    # ---- what supervisor's loop calls

    def tick(self, now: float | None = None) -> None:
        """Called after the events, transitions, ends and signals of a turn."""
        super().tick(now)
        self.notify.tick(time.monotonic())
        self.liveness.tick()
        if self.ending:
            self._tell_ending()
            return
        accepted = self.processes.accepted.config
        if self.watcher.fired():
            self.releases.look()
            if accepted.watch:
                self.reloads.look()
        if self.code_watcher and (groups := self.code_watcher.changed(accepted.workers)):
            self.reloads.ask(Request(CODE_WATCHER, code=groups))
        # Before the step: if the file has changed as well, both are one reload. After it: a reload may have ended.
        self._ask_for_releases()
        self.reloads.tick()
        self._ask_for_releases()
        self.watcher.watch((*self.reloads.last_read.files, *self.releases.files()))
        self.processes.reconcile()
        self._tell_status()

    def handle_signal(self) -> None:
        """Supervisor handles one signal a turn, and restarts everything on SIGHUP."""
        while (received := self.options.get_signal()) is not None:
            if received == signal.SIGHUP and not self.ending:
                self.reloads.ask(Request("SIGHUP"))
            elif received in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
                self._end(signal.Signals(received))

    def ordered_stop_groups_phase_1(self) -> None:
        """Supervisor stops one group after another; here all programs end at once, and redis after them."""
        others = [process for process in self.processes if process.program.part != REDIS]
        unstopped = [process for process in others if process.pid]
        for process in others if unstopped else self.processes:
            if process.state == State.STARTING and process.program.part != REDIS:
                process.end_without_jobs()
            elif process.state in (State.STARTING, State.RUNNING, State.BACKOFF):
                process.end()

    # ---- own

    def _ask_for_releases(self) -> None:
        if not self.reloads.busy and (request := self.releases.request(self.reloads.last)):
            self.reloads.ask(request)

    def _end(self, received: signal.Signals) -> None:
        """At the first signal jobs may end; a second one is passed on, which makes the programs end at once."""
        if not self.ending:
            log.info("%s: the daemon ends when its running jobs have; a second signal ends it now", received.name)
            self.options.mood = SupervisorStates.SHUTDOWN
            return
        log.warning("%s again: ending now", received.name)
        for process in self.processes:
            if process.state == State.STOPPING and process.program.part != REDIS:
                process.signal(signal.SIGTERM)

    def _tell_ending(self) -> None:
        """Once, whether a signal or `supervisorctl shutdown` ended the daemon."""
        if not self._ending_told:
            self._ending_told = True
            self.notify.stopping("ending")
            self.reloads.end()

    def _tell_status(self) -> None:
        """READY=1 once all programs are ready or cannot be, or after START_PATIENCE; then each change of the status."""
        if self._status:
            if (status := self.processes.describe()) != self._status:
                self._status = status
                self.notify.status(status)
        elif self.processes.settled() or time.monotonic() > self.started + START_PATIENCE:
            self._status = self.processes.describe()
            generation, seconds = self.processes.accepted.generation, time.monotonic() - self.started
            level = logging.WARNING if self.processes.unready() else logging.INFO
            log.log(level, "generation %d: %s; %.2f s after the start", generation, self._status, seconds)
            self.notify.ready(self._status)

    def _idle_for(self) -> float:
        """Seconds until the loop has something to do by itself."""
        now = time.monotonic()
        waits = [self.notify.due(now), self.liveness.due(now)]
        waits += [process.wait(time.time()) for process in self.processes]
        waits += [channel.delay for channel in self.options.get_socket_map().values() if getattr(channel, "delay", 0)]
        if not self.ending:
            waits.append(self.reloads.due(now))
            waits.append(LONGEST_SLEEP if self._status else max(0.0, self.started + START_PATIENCE - now))
        return min(waits)
