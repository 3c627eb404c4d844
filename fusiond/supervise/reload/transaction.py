"""
One reload, as a transaction, a step at a time.

1. read     and validate in a helper process; a file that was just being written is read again before anyone is told.
            A rollback reads an earlier generation instead, and goes the same way from here on
2. plan     what is kept, changed in place, replaced, added, removed; some changes are refused while running
3. try      each new or replaced group, started on the candidate with its claims held, until it is ready
4. commit   the candidate becomes the current snapshot, and a part of the history; from here it only goes forward
5. apply    the fleet tells, lets go, drains; each program that stays acknowledges

Up to 4 a failure costs only the processes on trial. The steps are a generator that the loop resumes at every turn and
that yields the moment of its next deadline: it reads from top to bottom and never blocks.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from supervisor.states import ProcessStates as State

from fusiond import paths
from fusiond.config.accepted import diff, history
from fusiond.config.accepted.snapshot import Snapshot, promote, read_snapshot, write
from fusiond.config.problems import Problem
from fusiond.supervise.code import CODE_WATCHER
from fusiond.supervise.programs import part_of
from fusiond.supervise.reload.outcome import ALL, Refused, Request
from fusiond.supervise.reload.reading import Reading, Result, for_reload, watched
from fusiond.supervise.supervisord.process import Process, describe_exit
from fusiond.supervise.watch import WATCHER, Print, as_read, fingerprint, newest

if TYPE_CHECKING:
    from fusiond.supervise.fleet import Fleet

#: seconds for the helper, for a program on trial to import its tasks and reach Redis, for an acknowledgement
READ, TRIAL, ACKNOWLEDGE = 30.0, 60.0, 10.0
#: a file changed within so many seconds may be half-written; it is read again after REREAD seconds
FRESH, REREAD = 1.0, 0.25

#: yields the monotonic time at which it wants to be resumed at the latest
Steps = Generator[float, None, None]


class Transaction:
    """
    One reload; resume `steps()` at each turn of the loop.

    Args:
        requests: who asks. One for an earlier generation is alone; those for the file may become more while it runs.
        file_hash: of what the file said when it was read last, "" where that was of no use.

    Raises out of its steps:
        Refused: nothing was changed.
    """

    def __init__(
        self,
        fleet: Fleet,
        *,
        state: Path,
        requests: Sequence[Request],
        files: tuple[str, ...],
        file_hash: str,
        foreign: set[int],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fleet, self._foreign, self._clock = fleet, foreign, clock
        self._requests = requests
        self._source = Path(fleet.accepted.source)
        self._state = state
        #: files and globs that the configuration is made of
        self.files = files
        #: of the files, just before they were read
        self.seen: Print = ()
        #: of what they say
        self.file_hash = file_hash
        #: None until there is something to do
        self.plan: diff.Plan | None = None
        self.warnings: tuple[str, ...] = ()
        #: group → digest of its environment files, as they were when the file was read
        self._environment_files: Mapping[str, str] = {}
        #: key → file, line and column, where the file was read
        self._places: Mapping[str, tuple[str, int, int]] = {}

    def steps(self) -> Steps:
        """The transaction. Closing the generator takes back what is not committed."""
        accepted = self._fleet.accepted
        candidate = paths.candidate_snapshot(self._state, accepted.generation + 1)
        try:
            digest = yield from self._take(candidate)
            self._fleet.try_again()
            code = frozenset[str]().union(*(request.code for request in self._requests))
            rotated = self._rotated()
            if not (code or rotated) and (digest == accepted.hash or self._stands(digest)):
                return
            snapshot = read_snapshot(candidate)
            births = self._plan(snapshot, code, rotated)
            try:
                yield from self._try(snapshot, births)
                self._commit(snapshot, births)
            except BaseException:
                self._fleet.condemn_trials()
                raise
        finally:
            candidate.unlink(missing_ok=True)
        yield from self._apply()

    def _take(self, candidate: Path) -> Generator[float, None, str]:
        """Write the candidate, from the file or from the history. Returns its hash. Raises Refused, ConfigError."""
        if self._requests[0].generation is not None:
            return self._restore(candidate, self._requests[0].generation)
        self.file_hash = ""
        result = yield from self._read(candidate)
        self.file_hash, self._environment_files = result.hash, result.environment_files
        self._places = result.places
        return self.file_hash

    def _rotated(self) -> frozenset[str]:
        """The groups whose environment files have changed; they count only where somebody has asked for a reload."""
        if {request.who for request in self._requests} <= {WATCHER, CODE_WATCHER}:
            return frozenset()
        return self._fleet.with_other_environment(self._environment_files)

    def _restore(self, candidate: Path, generation: int) -> str:
        accepted, kept = self._fleet.accepted, paths.history(self._state)
        entry = history.target(history.entries(kept, of=accepted.source), accepted, generation)
        restored = write(
            candidate,
            history.config_of(kept, entry.generation),
            generation=accepted.generation + 1,
            source=accepted.source,
            restores=entry.origin,
            instead_of=self.file_hash,
        )
        if restored.hash != self.file_hash:
            self.warnings += (f"{self._source} says otherwise; it is taken when it changes, or by fusiond reload",)
        return restored.hash

    def _stands(self, digest: str) -> bool:
        """Whether a rollback stands: what was rolled back was only saved again, and nobody asked for it."""
        accepted = self._fleet.accepted
        stands = (
            bool(accepted.restores) and digest == accepted.instead_of and {r.who for r in self._requests} == {WATCHER}
        )
        if stands:
            self.warnings += (f"the rollback to generation {accepted.restores} stands; fusiond reload takes the file",)
        return stands

    def _read(self, candidate: Path) -> Generator[float, None, Result]:
        """The helper's result; read once more where the file may have been half-written. Raises Refused."""
        result = yield from self._read_once(candidate)
        if not result.usable and time.time() - newest(self.files) < FRESH:
            again = self._clock() + REREAD
            while self._clock() < again:
                yield again
            result = yield from self._read_once(candidate)
        if not result.usable:
            raise Refused(result.text, result.plain)
        return result

    def _read_once(self, candidate: Path) -> Generator[float, None, Result]:
        self.seen = fingerprint(self.files)
        deadline = self._clock() + READ
        fleet = self._fleet
        arguments = for_reload(candidate, fleet.accepted.generation + 1, development=fleet.development)
        with closing(Reading(self._source, self._foreign, arguments)) as reading:
            while (result := reading.poll()) is None:
                if self._clock() > deadline:
                    raise Refused(f"{self._source} was not validated within {READ:.0f} s")
                yield deadline
        # Of a file that is refused, the includes count as well: the mistake may be in one that is new.
        files = watched(self._source, result.files if result.usable else (*self.files, *result.files))
        if files != self.files:
            # What is new is watched from now on; what has changed since it was read is read again.
            self.files, self.seen = files, as_read(fingerprint(files), result.stats)
        return result

    def _plan(self, snapshot: Snapshot, code: frozenset[str], rotated: frozenset[str]) -> dict[str, int]:
        """Part → birth under the candidate. Raises Refused."""
        accepted, groups = self._fleet.accepted, snapshot.config.workers
        if unknown := sorted(code - {ALL, *groups}):
            raise Refused(f"there is no group '{unknown[0]}'; there are {', '.join(groups)}")
        plan = diff.plan(accepted.config, snapshot.config).with_code(groups if ALL in code else code)
        plan = plan.with_environment(rotated)
        if plan.refused:
            why = "cannot change while the daemon runs; restart it, or write what it was"
            raise self._refused_at(str(plan), {key: ("needs-restart", f"{key} {why}") for key in plan.refused})
        self.plan = plan
        anew = {part_of(name) for name in (*plan.names("added"), *plan.names("replaced"))}
        parts = [part_of(name) for name in groups]
        return {p: snapshot.generation if p in anew else self._fleet.births[p] for p in parts}

    def _try(self, snapshot: Snapshot, births: Mapping[str, int]) -> Steps:
        """Start what is new beside what runs, its claims held, and wait until all of it is ready. Raises Refused."""
        wanted = self._fleet.programs_of(snapshot, births)
        anew = {name: program for name, program in wanted.items() if name not in self._fleet.wanted}
        deadline = self._clock() + TRIAL
        while ending := [process for process in self._fleet if process.program.name in anew]:
            # Of a trial before, refused under the same number.
            _check_patience(ending, self._clock() > deadline)
            yield deadline
        trial = [self._fleet.try_out(program) for program in anew.values()]
        while waiting := [process for process in trial if not self._may_serve(process)]:
            _check_patience(waiting, self._clock() > deadline)
            yield deadline

    def _may_serve(self, process: Process) -> bool:
        """
        Whether the process on trial is ready, or an operator wants it stopped anyway.

        Raises Refused if it failed; for tasks that do not load, with their places in the file.
        """
        if process.ready or process.stopped_by_operator:
            return True
        if process.ended or process.state == State.BACKOFF:
            why = process.failure or process.spawnerr or f"ended with {describe_exit(process.last_exit)}; see its log"
            said = {f"tasks.{task}.run": f"task '{task}' does not load, see above" for task in process.unloadable}
            what = {key: ("broken-module", sentence) for key, sentence in said.items()}
            raise self._refused_at(f"{process.program.part}: {why}", what)
        return False

    def _refused_at(self, reason: str, what: Mapping[str, tuple[str, str]]) -> Refused:
        """The refusal, with the places in the file; `what`: key → the code of its problem, and the sentence."""
        problems = [
            Problem(*self._places[key], "error", code, sentence)
            for key, (code, sentence) in what.items()
            if key in self._places
        ]
        lines = [f"{problem.place}: {problem.message}" for problem in problems]
        return Refused("\n".join([reason, *lines]), [problem.to_dict() for problem in problems])

    def _commit(self, snapshot: Snapshot, births: dict[str, int]) -> None:
        current = paths.current_snapshot(self._state)
        self._fleet.keep_stopped()
        promote(snapshot.path, current, paths.last_good_snapshot(self._state))
        self._fleet.accept(dataclasses.replace(snapshot, path=current), births)
        self._fleet.reconcile()
        self._record()

    def _record(self) -> None:
        """Keep it in the history; a disk that is full now stops nothing any more."""
        asked_by = dict.fromkeys(request.who for request in self._requests)
        try:
            kept = paths.history(self._state)
            history.record(kept, self._fleet.accepted, self.plan, tuple(asked_by), accepted_at=time.time())
        except OSError as error:
            self.warnings += (f"the history could not be written: {(error.strerror or str(error)).lower()}",)

    def _apply(self) -> Steps:
        """Wait for the acknowledgements; one that does not come is a warning: the file was taken."""
        deadline = self._clock() + ACKNOWLEDGE
        while silent := self._fleet.unacknowledged():
            if self._clock() > deadline:
                names = ", ".join(process.program.name for process in silent)
                self.warnings += (f"{names}: told of the change and not heard of within {ACKNOWLEDGE:.0f} s",)
                return
            yield deadline


def _check_patience(waiting: list[Process], ended: bool) -> None:
    if ended:
        names = ", ".join(process.program.part for process in waiting)
        raise Refused(f"{names}: not ready within {TRIAL:.0f} s; see its log")
