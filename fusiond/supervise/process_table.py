"""
Make the processes match the accepted configuration: at every tick, from what is wanted and what is there.

1. add      a process for each wanted program that has none
2. retire   a process that is not wanted: it drains, without a deadline, and goes when its last job ends
3. gate     nothing starts before redis is ready
4. tell     each process what it has not been told: apply, leave, go, and whether it may claim

Nothing here remembers a difference between two configurations, so a file that changes and changes back during a drain
cannot lose a group. The processes on trial for a candidate are there but not wanted: they are left alone until `accept`
or `end_trials`.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from supervisor.states import ProcessStates as State

from fusiond.config.accepted.snapshot import Snapshot
from fusiond.config.model import serves
from fusiond.config.release_marks import in_words, marks
from fusiond.event_spool import EventSpool
from fusiond.link_messages import Apply, DaemonEvent
from fusiond.status_document import Drained
from fusiond.supervise.supervisord.daemon_options import DaemonOptions
from fusiond.supervise.supervisord.process import Process
from fusiond.supervise.supervisord.program_config import ProgramConfig
from fusiond.supervise.wanted_programs import (
    PUBLISHER,
    REDIS,
    SCHEDULER,
    WEB,
    Program,
    RunOptions,
    is_carrier,
    part_of,
    wanted_programs,
)

log = logging.getLogger(__name__)


class ProcessTable:
    """
    The wanted programs and the actual processes.

    Args:
        groups: returns supervisor's own map of process groups, which it makes when the daemon starts.
        accepted: the configuration that runs.
    """

    def __init__(
        self, options: DaemonOptions, groups: Callable[[], Mapping[str, Any]], accepted: Snapshot, run: RunOptions
    ) -> None:
        self._options, self._groups, self.run = options, groups, run
        self._spool = EventSpool(run.state)
        #: None: the groups of this host claim
        self.drained: Drained | None = None
        self.accept(accepted, {part_of(name): accepted.generation for name in accepted.config.workers})

    def accept(self, snapshot: Snapshot, generations: dict[str, int]) -> None:
        """From now on run `snapshot`: processes on trial for it stay, and those that it leaves out are retired."""
        self.accepted = snapshot
        #: part → the generation at which its program was started
        self.generations = generations
        self.wanted = wanted_programs(snapshot, generations, self.run)

    def __iter__(self) -> Iterator[Process]:
        """All processes, with those on trial and those that drain."""
        for group in list(self._groups().values()):
            yield from list(group.processes.values())

    def reconcile(self) -> None:
        """Do what is missing between the wanted programs and the processes; cheap if nothing is."""
        present = self._by_name()
        for name, program in self.wanted.items():
            process = present.get(name)
            if process is None:
                self.add(program)
            elif process.program is not program:
                process.use_program(program)
        for name, process in present.items():
            if name not in self.wanted and not process.trial:
                self._retire(process)
        # An embedded redis comes first.
        redis_ready = all(process.ready for process in self if process.program.part == REDIS)
        for process in self:
            process.may_start = redis_ready or process.program.part == REDIS
            if process.pid and process.program.slots:
                # As soon as it is started: it must not claim before it knows.
                process.tell_claims(on=self.drained is None)
            if process.ready and not process.trial and not process.draining and process.program.part != REDIS:
                self._tell_one(process)

    def drain(self, who: str, *, on: bool) -> None:
        """Have the groups of this host claim nothing, or undo that."""
        if on == (self.drained is not None):
            pass
        elif on:
            log.info("the worker groups of this host claim nothing from now on, asked by %s", who)
            self.drained = {"by": who, "since": time.time()}
            self.tell_event("drain.begun", "the worker groups of this host claim nothing", who)
        else:
            log.info("the worker groups of this host claim again, asked by %s", who)
            self.drained = None
            self.tell_event("drain.ended", "the worker groups of this host claim again", who)
        self.reconcile()

    def drained_queues(self) -> list[str]:
        """The queues from which the groups of this host would claim, if it were not drained; none, if it is not."""
        config, parts = self.accepted.config, {program.part for program in self.wanted.values()}
        groups = [group for name, group in config.workers.items() if self.drained and part_of(name) in parts]
        return [queue for queue in config.queues if any(serves(group.queues, queue) for group in groups)]

    def add(self, program: Program, *, trial: bool = False) -> Process:
        """A process for the program; supervisor's loop starts it."""
        group = self._groups()[program.name.partition(":")[0]]
        process = Process(ProgramConfig(self._options, program), group, trial=trial)
        group.processes[process.config.name] = process
        return process

    def keep_stopped(self) -> None:
        """Do not start, or stop, each process on trial whose predecessor an operator has stopped."""
        for process in self:
            before = self.serving(process.program.part) if process.trial else None
            if before is not None and before.stopped_by_operator and not process.stopped_by_operator:
                process.config.autostart = False
                process.stop()

    def end_trials(self) -> None:
        """End the processes on trial for a candidate that was not accepted."""
        for process in self:
            if process.trial and process.program.name not in self.wanted:
                process.end_without_jobs()

    def try_again(self) -> None:
        """Start each program that is FATAL or waits for its next start: a reload asks for another try."""
        for process in self:
            if process.program.name in self.wanted:
                process.try_again()

    def serving(self, part: str) -> Process | None:
        """The wanted process of the part, if there is one."""
        return next((p for p in self if p.program.part == part and p.program.name in self.wanted), None)

    def tell_event(self, event: str, message: str, who: str) -> None:
        """Have the program that publishes tell an event, whenever it runs: this process does not know Redis."""
        if self.accepted.config.events is None:
            return
        noted: DaemonEvent = {"event": event, "message": message[:1000], "who": who}
        is_kept = self._spool.put(noted)
        program = self.serving(SCHEDULER) or self.serving(PUBLISHER)
        if program is not None:
            program.say({"do": "tell"} if is_kept else {"do": "tell", "event": noted})

    def settled(self) -> bool:
        """Whether each wanted program is ready, cannot be, or was stopped by an operator."""
        present = self._by_name()
        return all(name in present and (present[name].ready or present[name].ended) for name in self.wanted)

    def unready(self) -> dict[str, str]:
        """The wanted programs that do not serve now, and why; jobs run without the dashboard, sinks and outboxes."""
        present = self._by_name()
        names = [name for name, program in self.wanted.items() if program.part != WEB and not is_carrier(program)]
        why = {name: present[name].why_not_serving() if name in present else "not started" for name in names}
        return {name: reason for name, reason in why.items() if reason}

    def with_other_environment(self, digests: Mapping[str, str]) -> frozenset[str]:
        """
        The groups whose environment files differ from what the group has loaded.

        Args:
            digests: group → digest of its environment files as they are now.
        """
        serving = {name: self.serving(part_of(name)) for name in digests}
        return frozenset(
            name for name, process in serving.items() if process and process.environment not in ("", digests[name])
        )

    def with_other_release(self) -> dict[str, str]:
        """The groups whose `reload_on` leads elsewhere now than when they loaded their code; each with what it says."""
        found = {}
        for name, group in self.accepted.config.workers.items():
            process = self.serving(part_of(name)) if group.reload_on else None
            words = in_words(process.release or {}, marks(group.reload_on)) if process else ""
            if words:
                found[name] = words
        return found

    def unacknowledged(self) -> list[Process]:
        """The ready programs that were told to read the newest snapshot and have not answered yet."""
        ready = (p for p in self if p.ready and p.program.name in self.wanted and p.program.part != REDIS)
        return [process for process in ready if process.applied < self.accepted.generation]

    def describe(self) -> str:
        """One line: how many of the wanted programs are ready, and why the others are not; groups of other hosts."""
        unready = self.unready()
        absent = [f"{name} {why}" for name, why in unready.items()]
        absent += [f"{name} is for other hosts" for name in self.of_other_hosts()]
        return "; ".join([f"{len(self.wanted) - len(unready)} of {len(self.wanted)} programs ready", *absent])

    def of_other_hosts(self) -> list[str]:
        """The worker groups whose `hosts` leave this host out."""
        return [name for name, group in self.accepted.config.workers.items() if not self.run.is_host_of(group)]

    def _by_name(self) -> dict[str, Process]:
        return {process.program.name: process for process in self}

    def _retire(self, process: Process) -> None:
        if process.state == State.BACKOFF:
            process.end()  # BACKOFF -> STOPPED
        if not process.pid and process.state != State.STARTING:
            del process.group.processes[process.config.name]
            self._keep_tail(process.program)
        elif not process.ready and not process.draining:
            # It has no job, and may hang in an import, where it reads no command.
            process.end_without_jobs()
        else:
            process.tell_drain()

    def _keep_tail(self, program: Program) -> None:
        """Keep what the generation before has logged, for `group logs`; of a refused one nothing."""
        with contextlib.suppress(OSError):
            if program.name == program.part or program.reads > self.accepted.generation:
                program.tail.unlink()
            else:
                program.tail.replace(program.tail_before)

    def _tell_one(self, process: Process) -> None:
        newest = self.accepted.generation
        apply: Apply = {"do": "apply", "snapshot": str(self.accepted.path), "generation": newest}
        if process.told < newest and process.say(apply):
            process.told = newest
        left = self._slots_of_predecessors(process.program.part) if process.program.slots else 0
        if left != process.left and process.say({"do": "leave", "slots": left}):
            process.left = left
        # After `leave`, so that the two together never run more jobs than the group may.
        if process.held and not process.stopped_by_operator and process.left == left and process.say({"do": "go"}):
            process.held = False

    def _slots_of_predecessors(self, part: str) -> int:
        """Jobs that draining processes of the part still run; of one that has not said, all that it may run."""
        draining = [p for p in self if p.draining and p.pid and not p.held and p.program.part == part]
        return sum(p.program.slots if p.left_slots is None else p.left_slots for p in draining)
