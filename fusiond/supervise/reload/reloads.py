"""
The one entrance for everyone who wants a reload: SIGHUP, `fusiond reload`, `systemctl reload`, the file watcher; and
`fusiond rollback`, which wants an earlier generation instead of the file.

1. collect   who asks; those who ask for the file while one runs share the next. A rollback is served alone, in its turn
2. run       one transaction at a time, a step at each turn of the loop
3. report    its outcome to whoever asked, to systemd, to the log, to `status`
"""

from __future__ import annotations

import logging
import math
import time
from collections import Counter
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from fusiond.config.problems import Problem
from fusiond.errors import FusionError
from fusiond.supervise.reload.outcome import Refused, ReloadOutcome, Request, Result, Ticket
from fusiond.supervise.reload.reading import watched
from fusiond.supervise.reload.transaction import Steps, Transaction
from fusiond.supervise.watch import WATCHER, Print, fingerprint

if TYPE_CHECKING:
    from collections.abc import Callable

    from fusiond.supervise.fleet import Fleet
    from fusiond.supervise.notify import Notify

log = logging.getLogger(__name__)


class Reloads:
    """
    The reloads of one daemon.

    Attributes:
        files: files and globs whose change means a reload.
        file_hash: of what they said when they were read last; "" where that was of no use.
        last: the outcome of the last one, or None.
        taken: the outcome of the last one that changed something, or None.
        counts: result → how many ended so since the daemon's start.
    """

    def __init__(
        self,
        fleet: Fleet,
        *,
        state: Path,
        notify: Notify,
        foreign: set[int],
        on_accepted: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fleet, self._state, self._notify, self._foreign = fleet, state, notify, foreign
        self._on_accepted, self._clock = on_accepted, clock
        self._asked: list[Request] = []
        self._serving: list[Request] = []
        self._transaction: Transaction | None = None
        self._steps: Steps | None = None
        self._began = self._due = 0.0
        self.files = watched(Path(fleet.accepted.source))
        self.file_hash = fleet.accepted.hash
        self._seen: Print = ()
        self.last: ReloadOutcome | None = None
        self.taken: ReloadOutcome | None = None
        self.counts: Counter[str] = Counter()

    def ask(self, who: str, code: frozenset[str] = frozenset()) -> Ticket:
        """
        Ask for a reload; the ticket gets its outcome. One that has read the files as they are now is joined.

        Args:
            who: asks.
            code: groups to replace because the code behind their paths has changed, `outcome.ALL` for each.
        """
        request = Request(who, code=code)
        running = self._transaction
        joins = not code and not self._asked and running is not None and running.seen == fingerprint(running.files)
        (self._serving if joins else self._asked).append(request)
        return request.ticket

    def ask_back(self, who: str, generation: int = 0) -> Ticket:
        """Ask for what ran as an earlier generation, 0 being the one before."""
        request = Request(who, generation)
        self._asked.append(request)
        return request.ticket

    @property
    def file_differs(self) -> bool:
        """Whether the file, as it was read last, is not what runs: refused, or rolled back."""
        return self.file_hash != self._fleet.accepted.hash

    def look(self) -> None:
        """Ask for a reload if the files are not as they were last read."""
        running = self._transaction
        seen, files = (running.seen, running.files) if running and running.seen else (self._seen, self.files)
        if fingerprint(files) != seen and not any(map(_wants_the_file, self._asked)):
            self.ask(WATCHER)

    def remember(self, files: tuple[str, ...], seen: Print, file_hash: str) -> None:
        """What was read last, and what it said."""
        self.files, self._seen, self.file_hash = files, seen, file_hash

    def due(self, now: float) -> float:
        """Seconds until `tick` has something to do by itself."""
        if self._steps is not None:
            return max(0.0, self._due - now)
        return 0.0 if self._asked else math.inf

    def tick(self) -> None:
        """One step."""
        if self._steps is None and self._asked:
            self._begin()
        if self._steps is not None:
            self._step(self._steps)

    def end(self) -> None:
        """The daemon ends: take back what is not committed, and tell those who wait."""
        if self._steps is not None:
            self._steps.close()
        self._serving += self._asked
        self._asked = []
        if self._serving:
            self._finish("refused", "the daemon is ending")

    def _begin(self) -> None:
        count = 1 if self._asked[0].generation is not None else len(list(takewhile(_wants_the_file, self._asked)))
        self._serving, self._asked = self._asked[:count], self._asked[count:]
        self._began = self._clock()
        self._transaction = Transaction(
            self._fleet,
            state=self._state,
            requests=self._serving,
            files=self.files,
            file_hash=self.file_hash,
            foreign=self._foreign,
            clock=self._clock,
        )
        self._steps = self._transaction.steps()
        self._notify.reloading("reading the file")

    def _step(self, steps: Steps) -> None:
        try:
            self._due = next(steps)
        except StopIteration:
            self._finish("applied" if self._transaction and self._transaction.plan else "unchanged")
        except Refused as refused:
            self._finish("refused", refused.reason, refused)
        except (FusionError, OSError) as error:
            # A full disk, a snapshot that vanished: nothing was committed.
            self._finish("refused", str(error))
        except Exception as error:  # the loop must outlive a mistake of ours
            log.exception("the reload failed")
            self._finish("refused", f"internal error: {error!r}")

    def _finish(self, result: Result, reason: str = "", refused: Refused | None = None) -> None:
        done, served = self._transaction, self._serving
        self._transaction, self._steps, self._serving = None, None, []
        accepted = self._fleet.accepted
        applied = result == "applied"
        self.last = ReloadOutcome(
            result=result,
            generation=accepted.generation,
            hash=accepted.hash,
            asked_by=tuple(dict.fromkeys(request.who for request in served)),
            seconds=self._clock() - self._began,
            reason=reason,
            problems=refused.problems if refused else (),
            plan=done.plan if done and applied else None,
            restores=accepted.restores if applied else 0,
            warnings=done.warnings if done else (),
        )
        self.counts[result] += 1
        if done and done.seen:
            self.remember(done.files, done.seen, done.file_hash)
        if applied:
            self.taken = self.last
            self._on_accepted()
        self._report(self.last)
        for request in served:
            request.ticket.outcome = self.last

    def _report(self, outcome: ReloadOutcome) -> None:
        level = usual = logging.ERROR if outcome.result == "refused" else logging.INFO
        problems = [Problem(**problem) for problem in outcome.problems]
        errors, warnings = (
            tuple(f"{problem.place}: {problem.severity}: " for problem in problems if problem.is_error == is_error)
            for is_error in (True, False)
        )
        for line in f"reload, asked by {', '.join(outcome.asked_by)}: {outcome}".splitlines():
            # The excerpt of a problem follows its sentence, and has its level.
            if warnings and line.startswith(warnings):
                level = logging.WARNING
            elif errors and line.startswith(errors):
                level = usual
            log.log(logging.WARNING if line.startswith("warning: ") else level, "%s", line)
        # READY=1 must follow RELOADING=1 after a refusal too, or `systemctl reload` waits for ever.
        refused = " (the last reload was refused)" if outcome.result == "refused" else ""
        self._notify.ready(self._fleet.describe() + refused)


def _wants_the_file(request: Request) -> bool:
    return request.generation is None
