"""
One reload or rollback, as a transaction.

1. read     and validate the file in a helper process, and once more if it is wrong and may have been half-written.
            A rollback reads an earlier generation instead, and a release that was switched takes the configuration
            that runs; the further steps are the same
2. plan     what is kept, changed in place, replaced, added, removed; some keys cannot change while the daemon runs
3. try      each new or replaced group, started on the candidate with its claims held, until it is ready
4. commit   the candidate becomes the current snapshot and is added to the history; it is not undone after that
5. apply    processes are told, let go and drained; each program that stays acknowledges

Before step 4, a failure only ends the processes on trial. The steps are a generator that the loop resumes at each turn
and that yields the time of its next deadline: it reads from top to bottom and never blocks.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path

from supervisor.states import ProcessStates as State

from fusiond import paths
from fusiond.config.accepted import history
from fusiond.config.accepted.plan import Plan, compare
from fusiond.config.accepted.snapshot import Snapshot, promote, read_snapshot, write
from fusiond.config.problems import Problem
from fusiond.errors import ConfigError
from fusiond.supervise.code_watcher import CODE_WATCHER
from fusiond.supervise.process_table import ProcessTable
from fusiond.supervise.releases import RELEASE_WATCHER
from fusiond.supervise.reload.outcome import ALL, NoSuchGeneration, Refused, Request
from fusiond.supervise.reload.reading import LastRead, Result, read
from fusiond.supervise.supervisord.process import Process
from fusiond.supervise.wanted_programs import part_of, wanted_programs
from fusiond.supervise.watch import FILE_WATCHER, fingerprint, newest

#: seconds for a program on trial to import its tasks and reach Redis, and for an acknowledgement
TRIAL, ACKNOWLEDGE = 60.0, 10.0
#: a file that was changed while it was read, or in the FRESH seconds before, may have been half-written; it is read
#: again after REREAD seconds
FRESH, REREAD = 1.0, 0.25

#: who asks for a reload although nobody did
WATCHERS = frozenset({FILE_WATCHER, CODE_WATCHER, RELEASE_WATCHER})

#: yields the monotonic time at which to resume it at the latest
Steps = Generator[float, None, None]


class Transaction:
    """
    One reload or rollback; resume `steps()` at each turn of the loop.

    Args:
        requests: one rollback alone, or reloads; more reloads may join while it runs.
        last_read: the file when it was read last; this transaction keeps it up to date.

    Attributes:
        plan: what is changed; None until something is.
        released: the groups that it replaces since their release was switched; each with what was switched.
        warnings: what went wrong although the configuration is accepted.
    """

    def __init__(self, processes: ProcessTable, requests: Sequence[Request], last_read: LastRead) -> None:
        self._processes, self._requests = processes, requests
        self._source, self._state = Path(processes.accepted.source), processes.run.state
        self.last_read = last_read
        self.plan: Plan | None = None
        self.released: dict[str, str] = {}
        self.warnings: tuple[str, ...] = ()
        #: of the file; empty if the file is not read
        self._result = Result()

    def steps(self) -> Steps:
        """The transaction. Closing the generator undoes what is not committed. Raises Refused."""
        accepted = self._processes.accepted
        candidate = paths.candidate_snapshot(self._state, accepted.generation + 1)
        try:
            digest = yield from self._take(candidate)
            self._processes.try_again()
            # ALL among them: each group loads its code again, whether it has changed or not
            code = frozenset().union(*(request.code for request in self._requests if request.who != RELEASE_WATCHER))
            rotated = self._rotated()
            self.released = self._switched()
            if not (code or rotated or self.released) and digest == accepted.hash:
                return
            snapshot = read_snapshot(candidate)
            generations = self._plan(snapshot, code, rotated)
            try:
                yield from self._try(snapshot, generations)
                self._commit(snapshot, generations)
            except BaseException:
                self._processes.end_trials()
                raise
        finally:
            candidate.unlink(missing_ok=True)
        yield from self._apply()

    def _take(self, candidate: Path) -> Generator[float, None, str]:
        """Write the candidate, from the file or from the history. Returns its hash. Raises Refused, ConfigError."""
        if self._requests[0].verb == "rollback":
            return self._restore(candidate, self._requests[0].generation)
        if self._asked_by == {RELEASE_WATCHER}:
            return self._take_again(candidate)
        self.last_read.hash = ""
        self._result = yield from self._read(candidate)
        self.last_read.hash = self._result.hash
        return self._take_again(candidate) if self._stands(self._result.hash) else self._result.hash

    @property
    def _asked_by(self) -> set[str]:
        return {request.who for request in self._requests}

    def _take_again(self, candidate: Path) -> str:
        """What runs, under the next number: nobody asked for the file, and it may be unfinished or rolled back."""
        running = self._processes.accepted
        return write(
            candidate,
            running.config,
            generation=running.generation + 1,
            source=running.source,
            restores=running.restores,
            instead_of=running.instead_of,
        ).hash

    def _rotated(self) -> frozenset[str]:
        """The groups whose environment files have changed, if somebody asked for the reload: they are not watched."""
        if self._asked_by <= WATCHERS:
            return frozenset()
        return self._processes.with_other_environment(self._result.environment_files)

    def _switched(self) -> dict[str, str]:
        """The groups whose release was switched: those that are asked for, or each if somebody asked for the reload."""
        if self._requests[0].verb == "rollback":
            return {}
        asked = frozenset().union(*(request.code for request in self._requests if request.who == RELEASE_WATCHER))
        found = self._processes.with_other_release()
        return {name: words for name, words in found.items() if name in asked or not self._asked_by <= WATCHERS}

    def _restore(self, candidate: Path, generation: int) -> str:
        accepted, kept = self._processes.accepted, paths.history(self._state)
        entries = history.entries(kept, of=accepted.source)
        try:
            entry = history.target(entries, accepted, generation)
        except ConfigError as error:
            raise NoSuchGeneration(str(error)) from None
        restored = write(
            candidate,
            history.config_of(kept, entry.generation),
            generation=accepted.generation + 1,
            source=accepted.source,
            restores=entry.origin,
            instead_of=self.last_read.hash,
        )
        if restored.hash != self.last_read.hash:
            self.warnings += (f"{self._source} differs; it is applied when it changes, or by fusiond reload",)
        if code := history.loaded_code(entries, since=entry.generation):
            self.warnings += (f"only the file goes back, not the code that generation {code[-1]} loaded",)
        return restored.hash

    def _stands(self, digest: str) -> bool:
        """Whether a rollback stays in force: what it replaced was saved again, and nobody asked to apply that."""
        accepted = self._processes.accepted
        stands = bool(accepted.restores) and digest == accepted.instead_of
        stands = stands and self._asked_by <= {FILE_WATCHER, RELEASE_WATCHER}
        if stands:
            self.warnings += (
                f"the rollback to generation {accepted.restores} stays in force; fusiond reload applies the file",
            )
        return stands

    def _read(self, candidate: Path) -> Generator[float, None, Result]:
        """What the helper found, at its second try if the file may have been half-written. Raises Refused."""
        began = time.time()
        result = yield from self._read_once(candidate)
        if not result.hash and newest(self.last_read.files) > began - FRESH:
            again = time.monotonic() + REREAD
            while time.monotonic() < again:
                yield again
            result = yield from self._read_once(candidate)
        if not result.hash:
            raise result.refusal()
        return result

    def _read_once(self, candidate: Path) -> Generator[float, None, Result]:
        last = self.last_read
        last.seen = fingerprint(last.files)
        request = {"out": str(candidate), "generation": self._processes.accepted.generation + 1}
        result = yield from read(self._source, request, development=self._processes.run.development)
        # If the file is refused, new includes are watched as well: the mistake may be in one of them.
        last.add(self._source, result.files if result.hash else (*last.files, *result.files), result.stats)
        return result

    def _plan(self, snapshot: Snapshot, code: frozenset[str], rotated: frozenset[str]) -> dict[str, int]:
        """Part → the generation at which its program is started, under the candidate. Raises Refused."""
        accepted, groups = self._processes.accepted, snapshot.config.workers
        if unknown := sorted(code - {ALL, *groups}):
            raise Refused(f"there is no group '{unknown[0]}'; there are {', '.join(groups)}")
        plan = compare(accepted.config, snapshot.config).replacing(groups if ALL in code else code, "code")
        plan = plan.replacing(rotated, "environment_file").replacing(self.released, "release")
        if plan.refused:
            why = "cannot change while the daemon runs; restart it, or write what it was"
            raise self._refused_at(str(plan), "needs-restart", {key: f"{key} {why}" for key in plan.refused})
        self.plan = plan
        started = {*plan.names("added"), *plan.names("replaced")}
        kept = self._processes.generations
        return {part_of(name): snapshot.generation if name in started else kept[part_of(name)] for name in groups}

    def _try(self, snapshot: Snapshot, generations: Mapping[str, int]) -> Steps:
        """Start the new programs beside those that run, their claims held; wait until all are ready. Raises Refused."""
        wanted = wanted_programs(snapshot, generations, self._processes.run)
        started = {name: program for name, program in wanted.items() if name not in self._processes.wanted}
        deadline = time.monotonic() + TRIAL
        # Processes of a refused trial before, under the same generation, end first.
        while ending := [process for process in self._processes if process.program.name in started]:
            _check_deadline(ending, deadline)
            yield deadline
        trial = [self._processes.add(program, trial=True) for program in started.values()]
        self._processes.keep_stopped()
        while waiting := [process for process in trial if not self._passed(process)]:
            _check_deadline(waiting, deadline)
            yield deadline

    def _passed(self, process: Process) -> bool:
        """
        Whether the process on trial is ready, or an operator wants it stopped anyway.

        Raises Refused if it failed; if tasks do not load, with their places in the file.
        """
        if process.ready or process.stopped_by_operator:
            return True
        if process.ended or process.state == State.BACKOFF:
            why = process.failure or process.spawnerr or process.last_reason
            broken = {f"tasks.{task}.run": f"task '{task}' does not load, see above" for task in process.unloadable}
            raise self._refused_at(f"{process.program.part}: {why}", "broken-module", broken)
        return False

    def _refused_at(self, reason: str, code: str, sentences: Mapping[str, str]) -> Refused:
        """The refusal, with a problem for each key that has a place in the file; `sentences`: key → what is wrong."""
        problems = [
            Problem(*self._result.places[key], "error", code, sentence)
            for key, sentence in sentences.items()
            if key in self._result.places
        ]
        lines = [f"{problem.place}: {problem.message}" for problem in problems]
        return Refused("\n".join([reason, *lines]), problems)

    def _commit(self, snapshot: Snapshot, generations: dict[str, int]) -> None:
        current = paths.current_snapshot(self._state)
        self._processes.keep_stopped()
        promote(snapshot.path, current, paths.last_good_snapshot(self._state))
        self._processes.accept(dataclasses.replace(snapshot, path=current), generations)
        self._processes.reconcile()
        asked_by = dict.fromkeys(request.who for request in self._requests)
        try:
            kept = paths.history(self._state)
            history.record(kept, self._processes.accepted, self.plan, tuple(asked_by), accepted_at=time.time())
        except OSError as error:  # it is committed: a full disk stops nothing any more
            self.warnings += (f"the history could not be written: {(error.strerror or str(error)).lower()}",)

    def _apply(self) -> Steps:
        """Wait for the acknowledgements; a missing one is a warning, since the configuration is accepted."""
        deadline = time.monotonic() + ACKNOWLEDGE
        while silent := self._processes.unacknowledged():
            if time.monotonic() > deadline:
                names = ", ".join(process.program.name for process in silent)
                self.warnings += (f"{names}: did not acknowledge the change within {ACKNOWLEDGE:.0f} s",)
                return
            yield deadline
        self.warnings += next((process.jobs_left for process in self._processes if process.jobs_left), ())


def _check_deadline(waiting: list[Process], deadline: float) -> None:
    if time.monotonic() > deadline:
        names = ", ".join(process.program.part for process in waiting)
        raise Refused(f"{names}: not ready within {TRIAL:.0f} s; see its log")
