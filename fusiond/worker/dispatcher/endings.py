"""
Settle attempts, each by the policy of its task, with a line in the log.

1. policy   that of the file as it is now: a reload applies to jobs that run
2. verdict  how the attempt ended, by what its child said or how its child died (verdicts.py)
3. log      a line for each that ended or was interrupted
4. settle   with the next round trip (exchange.py)
"""

from __future__ import annotations

import json
import logging
import random
from typing import TYPE_CHECKING

from fusiond.config.model import RETRY_POLICIES, Task
from fusiond.worker.dispatcher import verdicts
from fusiond.worker.pool.attempt import KillReason
from fusiond.worker.runtime.wire import UNLOADED, boot_ns

if TYPE_CHECKING:
    from collections.abc import Callable

    from fusiond.broker.records import Outcome
    from fusiond.config.model import Config, RetryPolicy
    from fusiond.worker.dispatcher.exchange import Exchange
    from fusiond.worker.dispatcher.job_log import JobLog
    from fusiond.worker.pool.attempt import Attempt
    from fusiond.worker.pool.pool_reports import Problems
    from fusiond.worker.runtime.wire import OutcomeMessage

log = logging.getLogger(__name__)

#: s; for so long a job goes back whose task this file does not have: another host's newer one may, during a roll-out
UNKNOWN_DELAY = 5.0
#: s; for so long a job goes back at first whose task does not load; later for longer, as settle.lua has it
UNLOADED_DELAY = 5.0


class Endings:
    """The attempts of one group that end."""

    def __init__(
        self, config: Config, exchange: Exchange, job_log: JobLog, on_not_loaded: Callable[[str, str, str], None]
    ) -> None:
        """`on_not_loaded`: called with a task that does not load, a code and a sentence."""
        self._exchange, self._job_log, self._on_not_loaded = exchange, job_log, on_not_loaded
        self._rand = random.Random()  # noqa: S311 - jitter
        self.set_config(config)

    def set_config(self, config: Config) -> None:
        """Follow tasks and their retry policies."""
        self._policies = {
            name.encode(): (task, config.retry_policies[task.retry]) for name, task in config.tasks.items()
        }
        #: for a task that a reload took out of the file while its job ran
        self._default = Task("", ""), config.retry_policies["standard"]

    def on_outcome(self, attempt: Attempt, message: OutcomeMessage) -> None:
        """It ran to its end, or its function could not be loaded."""
        if attempt.lost:
            return
        if message.kind == UNLOADED:
            payload = verdicts.error_of(message.payload)
            error = json.loads(payload)
            self._on_not_loaded(attempt.task.decode(errors="replace"), error["code"], error["message"])
            self._put_off(attempt, payload)
            return
        task, policy = self._policy(attempt)
        outcome = verdicts.ran(attempt, message, task, policy, self._rand)
        if outcome.kind == "finished":
            self._job_log.finished(attempt, message.duration)
            self._exchange.add_outcome(attempt, outcome)
        else:
            attempt.ran = message.duration
            self._end(attempt, outcome)

    def on_killed(self, attempt: Attempt, reason: KillReason | None, status: int) -> None:
        """Its child died in the middle of it."""
        task, policy = self._policy(attempt)
        outcome = verdicts.killed(attempt, reason, status, task, policy, rand=self._rand)
        if outcome is None:
            log.warning("its lease was lost, its child was killed", extra=self._job_log.fields(attempt))
        else:
            server = "the kill of its fork server, which did not answer"
            self._end(attempt, outcome, "the shutdown" if reason == KillReason.SHUTDOWN else server)

    def on_unheard(self, attempt: Attempt) -> None:
        """It ran, and its outcome died with its child."""
        why = "its child died with another job"
        outcome = verdicts.interrupted(attempt, *self._policy(attempt), why, f"{why} before its outcome was known")
        self._end(attempt, outcome, "the death of its child with another job")

    def release(self, attempt: Attempt, why: str) -> None:
        """It has not begun, and goes back to the queue."""
        self._exchange.add_outcome(attempt, verdicts.released(attempt, why))

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
        elif attempt.task not in self._policies:
            self._exchange.add_outcome(attempt, verdicts.unknown(attempt, UNKNOWN_DELAY))
        elif problem := problems.get(attempt.task.decode(errors="replace")):
            self._put_off(attempt, verdicts.failure(*problem))
        else:
            return False
        return True

    def _put_off(self, attempt: Attempt, error: bytes) -> None:
        """Its task does not load here just now; another host may load it."""
        self._exchange.add_outcome(attempt, verdicts.unloaded(attempt, UNLOADED_DELAY, error))

    def _end(self, attempt: Attempt, outcome: Outcome, interrupted_by: str = "") -> None:
        if outcome.kind == "released":
            log.warning("interrupted by %s, it runs again", interrupted_by, extra=self._job_log.fields(attempt))
        else:
            self._job_log.ended(attempt, outcome)
        self._exchange.add_outcome(attempt, outcome)

    def _policy(self, attempt: Attempt) -> tuple[Task, RetryPolicy]:
        task, policy = self._policies.get(attempt.task, self._default)
        return task, RETRY_POLICIES["none"] if attempt.once else policy
