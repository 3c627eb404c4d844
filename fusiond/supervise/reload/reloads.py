"""
The one queue for all that concerns the configuration: reloads, rollbacks and plans.

Who asks for a reload: SIGHUP, `fusiond reload`, `systemctl reload`, the file watcher, the code watcher, a release that
was switched.

1. collect   requests. Those for a reload share the next reload, those for a plan the next plan; a rollback is alone
2. run       one request, or those that share, at a time; a step at each turn of the loop
3. report    the outcome to those who asked, to systemd, to the log, to `status`
"""

from __future__ import annotations

import dataclasses
import logging
import math
import time
from collections import Counter
from collections.abc import Generator
from itertools import takewhile
from pathlib import Path
from typing import Any

from fusiond import logs
from fusiond.config.release_marks import marks, release_name
from fusiond.errors import FusionError
from fusiond.status_document import ReloadOutcome, ReloadResult
from fusiond.supervise.notify import Notify
from fusiond.supervise.process_table import ProcessTable
from fusiond.supervise.releases import RELEASE_WATCHER
from fusiond.supervise.reload.outcome import NoSuchGeneration, Refused, Request, headline, outcome
from fusiond.supervise.reload.reading import LastRead, Result, read, watched_files
from fusiond.supervise.reload.transaction import Transaction
from fusiond.supervise.watch import FILE_WATCHER, fingerprint

log = logging.getLogger(__name__)

#: what in a plan says that the code of a group was loaded again
_OF_CODE = frozenset({"code", "release", "directory"})


class Reloads:
    """
    The requests about the configuration of one daemon.

    Attributes:
        last_read: the file when it was read last.
        last: the outcome of the last reload or rollback, or None; not of a rollback to a generation that is not kept.
        taken: the outcome of the last one that changed something, or None.
        counts: result → how many ended so since the daemon's start.
    """

    def __init__(self, processes: ProcessTable, notify: Notify) -> None:
        self._processes, self._notify = processes, notify
        self._waiting: list[Request] = []
        self._serving: list[Request] = []
        self._transaction: Transaction | None = None
        self._steps: Generator[float, None, Any] | None = None
        self._began = self._due = 0.0
        accepted = processes.accepted
        self.last_read = LastRead(watched_files(Path(accepted.source)), hash=accepted.hash)
        self.last: ReloadOutcome | None = None
        self.taken: ReloadOutcome | None = None
        self.counts: Counter[ReloadResult] = Counter()

    def ask(self, request: Request) -> None:
        """Queue the request, which gets an answer. A reload that has read the files as they are now is joined."""
        running = self._transaction
        joins = (
            (request.verb, request.code, self._waiting) == ("reload", frozenset(), [])
            and running is not None
            and running.last_read.seen == fingerprint(running.last_read.files)
            and self._serving[0].verb == "reload"
            # One for a release has not read the file; and a release may have been switched since another one began.
            and any(each.who != RELEASE_WATCHER for each in self._serving)
            and not self._processes.with_other_release()
        )
        (self._serving if joins else self._waiting).append(request)

    def leave_out_file(self, read: Result) -> None:
        """The daemon has started with `--last-good`: say so, and show the file's errors as a refused reload does."""
        accepted = self._processes.accepted
        instead = "generation %d runs instead of %s, which is applied when it changes, or by fusiond reload"
        log.warning(instead, accepted.generation, accepted.source)
        if not read.hash:
            self.last = outcome(accepted, ["fusiond run --last-good"], 0.0, read.refusal())
            self._log(self.last)

    def look(self) -> None:
        """Ask for a reload if the files are not as they were when they were read last."""
        last = self._transaction.last_read if self._transaction else self.last_read
        if fingerprint(last.files) != last.seen and all(request.verb != "reload" for request in self._waiting):
            self.ask(Request(FILE_WATCHER))

    @property
    def busy(self) -> bool:
        """Whether a request is being served."""
        return self._steps is not None

    @property
    def file_differs(self) -> bool:
        """Whether the file says something else than the configuration that runs: it was refused, or rolled back."""
        return self.last_read.hash != self._processes.accepted.hash

    def due(self, now: float) -> float:
        """Seconds until `tick` has something to do by itself."""
        if self._steps is not None:
            return max(0.0, self._due - now)
        return 0.0 if self._waiting else math.inf

    def tick(self) -> None:
        """One step."""
        if self._steps is None and self._waiting:
            self._begin()
        if self._steps is not None:
            self._step(self._steps)

    def end(self) -> None:
        """The daemon ends: undo what is not committed, and refuse every request."""
        if self._steps is not None:
            self._steps.close()
        self._serving += self._waiting
        self._waiting = []
        if self._serving:
            self._finish(Refused("the daemon is ending"))

    def _begin(self) -> None:
        verb = self._waiting[0].verb
        count = 1 if verb == "rollback" else len(list(takewhile(lambda each: each.verb == verb, self._waiting)))
        self._serving, self._waiting = self._waiting[:count], self._waiting[count:]
        self._began = time.monotonic()
        if verb == "plan":
            self._steps = self._plan()
            return
        last_read = dataclasses.replace(self.last_read)
        self._transaction = Transaction(self._processes, self._serving, last_read)
        self._steps = self._transaction.steps()
        self._notify.reloading("reading the file")

    def _plan(self) -> Generator[float, None, dict[str, Any]]:
        """
        What a reload would do: its reading, and nothing after it. No process is touched and no file written.

        The helper reads the file as this daemon's user and with its environment, which a shell does not have.
        """
        accepted = self._processes.accepted
        request = {"against": str(accepted.path)}
        development = self._processes.run.development
        result = yield from read(Path(accepted.source), request, development=development)
        if result.effects is None:
            raise result.refusal()
        rotated = self._processes.with_other_environment(result.environment_files)
        plan = result.effects.plan.replacing(rotated, "environment_file")
        plan = plan.replacing(self._processes.with_other_release(), "release")
        effects = dataclasses.replace(result.effects, plan=plan)
        return {"problems": [problem.to_dict() for problem in result.problems], "effects": dataclasses.asdict(effects)}

    def _step(self, steps: Generator[float, None, Any]) -> None:
        try:
            self._due = next(steps)
        except StopIteration as ended:
            self._finish(plan=ended.value)
        except Refused as refused:
            self._finish(refused)
        except (FusionError, OSError) as error:
            # Such as a full disk, or a snapshot that is gone: nothing was committed.
            self._finish(Refused(str(error)))
        except Exception as error:  # the loop must outlive a mistake of ours
            log.exception("a request failed: %s", self._serving[0])
            self._finish(Refused(f"internal error: {error!r}"))

    def _finish(self, refused: Refused | None = None, plan: dict[str, Any] | None = None) -> None:
        """Answer the requests that are served: a plan with what a reload would do, the others with an outcome."""
        served, self._serving, self._steps = self._serving, [], None
        answer = self._plan_answer(refused, plan or {})
        if any(request.verb != "plan" for request in served):
            ended = self._ended(served, refused)
            if not isinstance(refused, NoSuchGeneration):
                self.last = ended
                self._tell(ended)
            self._notify_ready()
        for request in served:
            request.answer = answer if request.verb == "plan" else ended

    def _plan_answer(self, refused: Refused | None, plan: dict[str, Any]) -> dict[str, Any]:
        accepted = self._processes.accepted
        running = {"generation": accepted.generation, "hash": accepted.hash, "source": accepted.source}
        running |= {"taken": self.taken, "last": self.last}
        if refused:
            problems = [problem.to_dict() for problem in refused.problems]
            return {**running, "problems": problems, "effects": None, "reason": refused.reason}
        return {**running, **plan, "reason": ""}

    def _ended(self, served: list[Request], refused: Refused | None) -> ReloadOutcome:
        done, self._transaction = self._transaction, None
        accepted, asked_by = self._processes.accepted, dict.fromkeys(request.who for request in served)
        plan = done.plan if done and not refused else None
        if done and refused:
            stay = (f"{why}, but group '{name}' stays with the code that it has" for name, why in done.released.items())
            refused = Refused("\n".join([refused.reason, *stay]), refused.problems)
        warnings = done.warnings if done else ()
        ended = outcome(accepted, asked_by, time.monotonic() - self._began, refused, plan=plan, warnings=warnings)
        self.counts[ended["result"]] += 1
        if done:
            self.last_read = done.last_read
        if plan:
            self.taken = ended
            logs.set_level(accepted.config.logging.level)
        self._log(ended)
        return ended

    def _notify_ready(self) -> None:
        """READY=1 must follow RELOADING=1 after a refusal too, or `systemctl reload` waits for ever."""
        refused = self.last and self.last["result"] == "refused"
        self._notify.ready(self._processes.describe() + (" (the last reload was refused)" if refused else ""))

    def _tell(self, ended: ReloadOutcome) -> None:
        """Have it told as an event: by the program that publishes, since the daemon does not know Redis."""
        name = "rollback" if ended["restores"] else f"reload.{ended['result']}"
        who = ", ".join(ended["asked_by"])
        self._processes.tell_event(name, ended["reason"] or headline(ended), who)
        changes = ended["plan"]["groups"] if ended["plan"] else ()
        if loaded := [each["name"] for each in changes if _OF_CODE.intersection(each["because"])]:
            groups = [self._processes.accepted.config.workers[name] for name in loaded]
            said = ((group.name, release_name(group.directory, marks(group.reload_on))) for group in groups)
            self._processes.tell_event(
                "release.loaded", "; ".join(f"{name}: {of or 'code at the same path'}" for name, of in said), who
            )

    def _log(self, ended: ReloadOutcome) -> None:
        level = logging.ERROR if ended["result"] == "refused" else logging.INFO
        log.log(level, "reload, asked by %s: %s", ", ".join(ended["asked_by"]), headline(ended))
        for warning in ended["warnings"]:
            log.warning("warning: %s", warning)
        for line in ended["reason"].splitlines():
            log.error("%s", line)
