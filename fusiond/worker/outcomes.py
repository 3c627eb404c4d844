"""
How an attempt ends: what its child said, or how its child died, by the task's policy, as the broker's Outcome.

Pure. Each function is one row of the state machine in job.py.
"""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING

from fusiond.broker.records import Outcome
from fusiond.worker import retry, wire
from fusiond.worker.slots import Attempt, Doom

if TYPE_CHECKING:
    from random import Random

    from fusiond.config.model import RetryPolicy, Task


def ran(attempt: Attempt, message: wire.OutcomeMessage, task: Task, policy: RetryPolicy, rand: Random) -> Outcome:
    """What a child said. STARTED -> FINISHED | SCHEDULED | FAILED."""
    if message.kind == wire.FINISHED:
        return Outcome(attempt.id, attempt.token, "finished", ms(task.result_ttl), 0, message.payload)
    error = message.payload if _is_error(message.payload) else failure("EXCEPTION", "its error cannot be read")
    # Releases undo their attempt; what is left besides failures are crashes and rescues.
    failures = attempt.attempts - attempt.crashes - attempt.rescues
    wait = retry.after_failure(policy, failures, may_retry=message.retry, rand=rand)
    if wait is None:
        return Outcome(attempt.id, attempt.token, "failed", ms(task.failure_ttl), 0, error)
    return Outcome(attempt.id, attempt.token, "retry", ms(wait.total_seconds()), 0, error)


def _is_error(payload: bytes) -> bool:
    """Whether a child has sent what an error is made of; task code can write to its socket too."""
    try:
        error = json.loads(payload)
        return all(isinstance(error[name], str) for name in ("code", "type", "message", "traceback"))
    except (ValueError, TypeError, LookupError, RecursionError):
        return False


def killed(attempt: Attempt, doom: Doom | None, status: int, task: Task, policy: RetryPolicy) -> Outcome | None:
    """
    What a child's death in the middle of the job means; None: nothing, the lease is somebody else's.

    STARTED -> CANCELED | QUEUED (released at shutdown, or a crash that may be tried again) | FAILED.

    Args:
        attempt: the one that had begun.
        doom: why we killed the child, if we did.
        status: signal as a negative number, or exit status.
        task: whose ttl holds.
        policy: whose max_crashes holds.
    """
    if doom == Doom.LOST or attempt.lost:
        return None
    if doom == Doom.CANCELED or attempt.canceled:
        return canceled(attempt, task)
    if doom == Doom.SHUTDOWN:
        return released(attempt, "shutdown", begun=True)
    if doom == Doom.TIMEOUT:
        error = failure("TIMEOUT", f"ran longer than its hard timeout, {attempt.hard:g} s, and was killed")
    else:
        error = failure(
            "WORKER_CRASHED", how_it_died(status) if doom is None else f"its child was killed: {doom.value}"
        )
    wait = retry.after_crash(policy, attempt.crashes + 1)
    why = "timeout" if doom == Doom.TIMEOUT else "crashed"
    if wait is None:
        return Outcome(attempt.id, attempt.token, "failed", ms(task.failure_ttl), 1, error, why)
    return Outcome(attempt.id, attempt.token, "retry", ms(wait.total_seconds()), 1, error, why)


def canceled(attempt: Attempt, task: Task) -> Outcome:
    """STARTED -> CANCELED."""
    error = failure("CANCELED", "it was canceled")
    return Outcome(attempt.id, attempt.token, "canceled", ms(task.failure_ttl), 0, error)


def released(attempt: Attempt, why: str, delay: float = 0.0, *, begun: bool = False) -> Outcome:
    """STARTED -> QUEUED, attempt undone; or SCHEDULED, after `delay` seconds. What had begun expires no more."""
    return Outcome(attempt.id, attempt.token, "released", ms(delay), 0, b"begun" if begun else b"", why)


def unknown(attempt: Attempt, delay: float) -> Outcome:
    """STARTED -> SCHEDULED, attempt undone; or FAILED, where no host had the task for an hour, as settle.lua knows."""
    error = failure("TASK_NOT_FOUND", f"no task '{attempt.task.decode(errors='replace')}' is declared")
    return Outcome(attempt.id, attempt.token, "unknown", ms(delay), 0, error, "unknown task")


def failure(code: str, message: str) -> bytes:
    """The error of a job whose child cannot tell, as JSON."""
    return json.dumps({"code": code, "type": "", "message": message, "traceback": ""}).encode()


def how_it_died(status: int) -> str:
    """A wait status, as os.waitstatus_to_exitcode gives it, in words."""
    if status >= 0:
        return f"its process ended in the middle of the job with exit status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    return f"its process was killed by {name}" + (" (out of memory?)" if status == -signal.SIGKILL else "")


def ms(seconds: float) -> int:
    """Whole milliseconds."""
    return round(seconds * 1000)
