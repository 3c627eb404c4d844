"""
Settle attempts, each by the policy of its task, with a line in the log.

1. policy   that of the file as it is now: a reload applies to jobs that run
2. verdict  how the attempt ended, by what its child said or how its child died (verdicts.py)
3. log      a line for each that ended or was interrupted
4. settle   with the next round trip (outcomes.py)
"""

from __future__ import annotations

import json
import logging
import random
import socket
import time
from collections.abc import Callable

from fusiond.broker.records import Outcome
from fusiond.config.model import RETRY_POLICIES, RetryPolicy, Task
from fusiond.worker.dispatcher.ends import verdicts
from fusiond.worker.dispatcher.ends.job_log import JobLog
from fusiond.worker.dispatcher.ends.outcomes import Outcomes
from fusiond.worker.pool.attempt import Attempt, KillReason
from fusiond.worker.pool.call_options import NO_CALL_OPTIONS, call_options
from fusiond.worker.pool.group_config import GroupConfig
from fusiond.worker.pool.pool_reports import Problems
from fusiond.worker.runtime.wire import STOPPED, UNLOADED, OutcomeMessage, boot_ns

log = logging.getLogger(__name__)

#: s; for so long a job goes back that cannot run here, where so many tasks are unknown that it is not held for its own
UNKNOWN_DELAY = 5.0
#: by what a job was interrupted that runs again, for its line in the log
_INTERRUPTED_BY: dict[KillReason | None, str] = {
    KillReason.SHUTDOWN: "the shutdown",
    KillReason.SERVER: "the kill of its fork server, which did not answer",
}


class AttemptSettler:
    """The attempts of one group that end."""

    def __init__(
        self, conf: GroupConfig, outcomes: Outcomes, job_log: JobLog, on_not_loaded: Callable[[str, str, str], None]
    ) -> None:
        """`on_not_loaded`: called with a task that does not load, a code and a sentence."""
        self._conf, self._outcomes, self._job_log, self._on_not_loaded = conf, outcomes, job_log, on_not_loaded
        self._rand, self._host = random.Random(), socket.gethostname()  # noqa: S311 - jitter

    def on_outcome(self, attempt: Attempt, message: OutcomeMessage) -> None:
        """It ran to its end, or its function could not be loaded."""
        if attempt.lost:
            return
        if message.kind == UNLOADED:
            payload = verdicts.error_of(message.payload)
            error = json.loads(payload)
            self._on_not_loaded(attempt.task.decode(errors="replace"), error["code"], error["message"])
            self._settle(attempt, verdicts.unknown(attempt, UNKNOWN_DELAY, payload))
            return
        attempt.ran = message.duration
        attempt.cpu = message.cpu if message.cpu >= 0 else None
        attempt.peak = message.peak * 1024 or None
        task, policy = self._policy(attempt)
        if message.kind == STOPPED:
            # Its child, which runs other jobs too, was asked to end it: it was canceled, or its lease is over.
            self.on_cut_off(attempt, KillReason.LOST, 0, "it was stopped")
            return
        outcome = verdicts.outcome_of_run(attempt, message, task, policy, self._rand)
        outcome = verdicts.in_time(attempt, outcome, task, boot_ns())
        if outcome.kind == "finished":
            self._job_log.finished(attempt)
            if self._conf.config.events:
                outcome = verdicts.with_event_fields(attempt, outcome, time.monotonic_ns())
            self._outcomes.add(attempt, outcome)
        else:
            self._end(attempt, outcome)

    def on_cut_off(self, attempt: Attempt, reason: KillReason | None, status: int, how: str) -> None:
        """Its child died in the middle of it, or has stopped it; `how`, for the log."""
        task, policy = self._policy(attempt)
        outcome = verdicts.killed(attempt, reason, status, task, policy, rand=self._rand)
        if outcome is None:
            log.warning("its lease was lost, %s", how, extra=self._job_log.fields(attempt))
        else:
            outcome = verdicts.in_time(attempt, outcome, task, boot_ns())
            self._end(attempt, outcome, _INTERRUPTED_BY.get(reason, ""))

    def on_unheard(self, attempt: Attempt) -> None:
        """It ran, and its outcome died with its child."""
        why = "its child died with another job"
        outcome = verdicts.interrupted(attempt, *self._policy(attempt), why, f"{why} before its outcome was known")
        self._end(attempt, outcome, "the death of its child with another job")

    def release(self, attempt: Attempt, why: str) -> None:
        """It has not begun, and goes back to the queue."""
        self._settle(attempt, verdicts.released(attempt, why))

    def on_full(self, attempt: Attempt, *, held: bool) -> None:
        """A pool has too little for it; `held`: by its task, or else it goes back to its old place."""
        self._settle(attempt, verdicts.refused(attempt, UNKNOWN_DELAY if held else 0.0))

    def refuse(self, attempt: Attempt, problems: Problems, *, draining: bool) -> bool:
        """
        Settle a job that must not begin here; whether it is so.

        Args:
            attempt: it has not begun.
            problems: the tasks that do not load.
            draining: nothing may begin here any more.
        """
        boot = boot_ns()
        if attempt.canceled:
            self._end(attempt, verdicts.canceled(attempt, self._policy(attempt)[0]))
        elif attempt.expires <= boot:
            self._end(attempt, verdicts.expired(attempt, self._policy(attempt)[0]))
        elif draining or attempt.lease <= boot:
            self.release(attempt, "not begun")
        elif attempt.task not in self._conf.tasks:
            self._settle(attempt, verdicts.unknown(attempt, UNKNOWN_DELAY))
        elif problem := problems.get(attempt.task.decode(errors="replace")):
            self._settle(attempt, verdicts.unknown(attempt, UNKNOWN_DELAY, verdicts.failure(*problem)))
        else:
            return False
        return True

    def _end(self, attempt: Attempt, outcome: Outcome, interrupted_by: str = "") -> None:
        if outcome.kind == "released":
            log.warning("interrupted by %s, it runs again", interrupted_by, extra=self._job_log.fields(attempt))
        else:
            self._job_log.ended(attempt, outcome)
        self._settle(attempt, outcome)

    def _settle(self, attempt: Attempt, outcome: Outcome) -> None:
        """Settle an attempt that has not finished, with what the job's history will say of it."""
        now = time.monotonic_ns()
        outcome = verdicts.with_history(attempt, outcome, now, self._host)
        if self._conf.config.events:
            outcome = verdicts.with_event_fields(attempt, outcome, now)
        self._outcomes.add(attempt, outcome)

    def _policy(self, attempt: Attempt) -> tuple[Task, RetryPolicy]:
        """What the file and the job's call say of the attempt's end."""
        task, policy = self._conf.task(attempt.task)
        own = call_options(attempt.header)
        if own is not NO_CALL_OPTIONS:
            named = self._conf.config.retry_policies
            if own.retry is not None and own.retry not in named:
                message = "its call names retry policy %r, which this file does not have; that of its task holds"
                log.warning(message, own.retry, extra=self._job_log.fields(attempt))
            task, policy = own.applied(task, policy, named)
        return task, RETRY_POLICIES["none"] if attempt.once else policy
