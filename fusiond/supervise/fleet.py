"""
Make the processes match the accepted configuration, at every tick, from what is wanted and what is there.

1. add      what is wanted and not there
2. retire   what is there and not wanted: it drains, without a deadline, and goes when its last job ends
3. gate     nothing starts before redis is ready
4. tell     each process what it has not been told: apply, leave, go

Level-triggered: nothing here remembers a difference, so a file that goes there and back during a drain cannot lose a
group. A candidate's processes are on trial: they are there, not wanted, and left alone until `accept` or `condemn`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from supervisor.states import ProcessStates as State

from fusiond.supervise.programs import REDIS, Places, Program, part_of, programs
from fusiond.supervise.supervisord.process import Process, ProgramConfig
from fusiond.supervise.tails import forget_tail

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from fusiond.config.accepted.snapshot import Snapshot
    from fusiond.supervise.supervisord.daemon_options import DaemonOptions

log = logging.getLogger(__name__)


class Fleet:
    """
    The wanted programs and the actual processes.

    Args:
        groups: gives supervisor's own map of groups, which it makes as the daemon starts.
    """

    def __init__(
        self, options: DaemonOptions, groups: Callable[[], Mapping[str, Any]], accepted: Snapshot, places: Places
    ) -> None:
        self._options, self._groups, self._places = options, groups, places
        self.accepted = accepted
        #: whether files are taken as `fusiond dev` takes them
        self.development = places.development
        #: part → generation at which its program was started
        self.births = {part_of(name): accepted.generation for name in accepted.config.workers}
        self.wanted: dict[str, Program] = programs(accepted, self.births, places)

    def __iter__(self) -> Iterator[Process]:
        """All processes, those on trial and those that drain among them."""
        for group in list(self._groups().values()):
            yield from list(group.processes.values())

    def reconcile(self) -> None:
        """One look at everything; cheap where nothing is to be done."""
        present = {process.program.name: process for process in self}
        for name, program in self.wanted.items():
            process = present.get(name)
            if process is None:
                self.add(program)
            elif process.program is not program:
                process.adopt(program)
        for name, process in present.items():
            if name not in self.wanted and not process.trial:
                self._retire(process)
        self._gate()
        self._tell()

    def add(self, program: Program, *, trial: bool = False) -> Process:
        """A process for the program; the loop starts it."""
        group = self._groups()[program.name.partition(":")[0]]
        process = Process(ProgramConfig(self._options, program), group, trial=trial)
        group.processes[process.config.name] = process
        return process

    def try_out(self, program: Program) -> Process:
        """A process on trial; where an operator stopped its predecessor, it stays stopped as well."""
        before = self.serving(program.part)
        process = self.add(program, trial=True)
        if before is not None and before.stopped_by_operator:
            process.config.autostart, process.administrative_stop = False, True
        return process

    def keep_stopped(self) -> None:
        """Stop on trial what an operator has stopped since its trial began."""
        for process in self:
            before = self.serving(process.program.part) if process.trial else None
            if before is not None and before.stopped_by_operator and not process.stopped_by_operator:
                process.config.autostart = False
                process.stop()

    def condemn_trials(self) -> None:
        """End what was tried for a candidate that is not accepted."""
        for process in self:
            if process.trial and process.program.name not in self.wanted:
                process.condemn()

    def try_again(self) -> None:
        """Start what had given up: a reload asks for another try, whatever the file says."""
        for process in self:
            if process.program.name in self.wanted:
                process.try_again()

    def accept(self, snapshot: Snapshot, births: dict[str, int]) -> None:
        """From now on `snapshot` is what is wanted. What was tried for it stays, what it leaves out goes."""
        self.accepted, self.births = snapshot, births
        self.wanted = programs(snapshot, births, self._places)

    def programs_of(self, snapshot: Snapshot, births: Mapping[str, int]) -> dict[str, Program]:
        """What would run for a candidate, reading the candidate's own file."""
        return programs(snapshot, births, self._places)

    def serving(self, part: str) -> Process | None:
        """The process that serves the part now, or None."""
        return next((p for p in self if p.program.part == part and p.program.name in self.wanted), None)

    def settled(self) -> bool:
        """Whether each wanted program is ready, cannot be, or is stopped by an operator."""
        present = {process.program.name: process for process in self}
        return all(name in present and (present[name].ready or present[name].ended) for name in self.wanted)

    def ready(self) -> bool:
        """Whether each wanted program serves now."""
        return not self._not_serving()

    def unready(self) -> dict[str, str]:
        """The wanted programs that do not serve now, and why."""
        return {name: _why(process) for name, process in self._not_serving().items()}

    def with_other_environment(self, digests: Mapping[str, str]) -> frozenset[str]:
        """
        The groups whose environment files say something else than what the group has loaded.

        Args:
            digests: group → digest of its environment files as they are now.
        """
        serving = {name: self.serving(part_of(name)) for name in digests}
        return frozenset(
            name
            for name, process in serving.items()
            if process is not None and process.environment and process.environment != digests[name]
        )

    def unacknowledged(self) -> list[Process]:
        """Programs that serve, were told of the newest snapshot and have not said that they read it."""
        newest = self.accepted.generation
        return [p for p in self if p.ready and p.applied < newest and p.program.name in self.wanted and p.appliable]

    def describe(self) -> str:
        """One line: how many of the wanted programs are ready, and why each other one is not."""
        absent = [f"{name} {why}" for name, why in self.unready().items()]
        return "; ".join([f"{len(self.wanted) - len(absent)} of {len(self.wanted)} programs ready", *absent])

    def _not_serving(self) -> dict[str, Process | None]:
        """The wanted programs that do not serve now; None: there is no process yet."""
        present = {process.program.name: process for process in self}
        found = {name: present.get(name) for name in self.wanted}
        return {name: process for name, process in found.items() if process is None or not process.serves}

    def _retire(self, process: Process) -> None:
        if process.state == State.BACKOFF:
            # BACKOFF -> STOPPED
            process.stop()
        if not process.alive and process.state != State.STARTING:
            del process.group.processes[process.config.name]
            forget_tail(process.program.tail)
        elif not process.ready and not process.draining:
            # It has no job, and may be stuck in an import where it hears nothing.
            process.condemn()
        else:
            process.tell_drain()

    def _gate(self) -> None:
        """Redis comes first; it is there at once where the broker is not ours."""
        redis = next((process for process in self if process.program.part == REDIS), None)
        for process in self:
            process.may_start = redis is None or process is redis or redis.ready

    def _tell(self) -> None:
        for process in self:
            if process.ready and not process.trial and not process.draining and process.appliable:
                self._tell_one(process)

    def _tell_one(self, process: Process) -> None:
        newest = self.accepted.generation
        if process.told < newest and process.say(do="apply", snapshot=str(self.accepted.path), generation=newest):
            process.told = newest
        leaving = self._slots_of_predecessors(process.program.part) if process.program.holdable else 0
        if leaving != process.left and process.say(do="leave", slots=leaving):
            process.left = leaving
        # After `leave`, so that the two together never run more than the group's share.
        if process.held and process.left == leaving and process.say(do="go"):
            process.held = False

    def _slots_of_predecessors(self, part: str) -> int:
        """Jobs that draining processes of the part still run: all they could, until they say."""
        drain = [p for p in self if p.draining and p.alive and not p.held and p.program.part == part]
        return sum(p.program.slots if p.busy is None else p.busy for p in drain)


def _why(process: Process | None) -> str:
    if process is None:
        return "not started"
    return process.why_not()
