"""
How an attempt ends: what its child said, or how its child died, by the task's policy, as the broker's Outcome.

Pure. Each function is one row of the state machine in job.py.

An exception is a failure, and max_attempts counts it. A crash (a signal, the hard timeout, an exit in mid-job) is
counted apart, by max_crashes. After a hard timeout the job waits as after a failure: what was too slow has often met a
neighbour in trouble. After any other crash it runs again at once.
"""

from __future__ import annotations

import json
import math
import signal
from random import Random

from fusiond.broker.records import Outcome, undeclared
from fusiond.config.model import RetryPolicy, Task
from fusiond.job import NOT_LOADED
from fusiond.worker.pool.attempt import TAIL, Attempt, KillReason
from fusiond.worker.runtime import wire

#: `last_outcome` of a job whose child a drain or a reload killed
_SHUTDOWN = "shutdown"
#: characters of an error in a job's history
_SHORT_ERROR = 500


def outcome_of_run(
    attempt: Attempt, message: wire.OutcomeMessage, task: Task, policy: RetryPolicy, rand: Random
) -> Outcome:
    """What a child said. STARTED -> FINISHED | SCHEDULED | FAILED."""
    if message.kind == wire.FINISHED:
        return Outcome(attempt.id, attempt.token, "finished", ms(task.result_ttl), ran_with(attempt), message.payload)
    error = error_of(message.payload)
    # Releases and snoozes undo their attempt; what is left besides failures are crashes and rescues.
    failures = attempt.attempts - attempt.crashes - attempt.rescues
    if message.follows == wire.SNOOZE and not policy.at_most_once:
        wait = _wait(error, policy, 1, rand)
        longest = f"{ms(policy.max_snooze)} {ms(task.failure_ttl)}"
        return Outcome(attempt.id, attempt.token, "snoozed", ms(wait), longest, error)
    if message.follows != wire.RETRY or failures >= policy.max_attempts:
        return _failed(attempt, task, error)
    return Outcome(attempt.id, attempt.token, "retry", ms(_wait(error, policy, failures, rand)), 0, error)


def ran_with(attempt: Attempt) -> str:
    """
    `<CPU ms>,<peak MiB>,<generation>,<release>`, each empty where it is not known.

    In steps of 10 ms and of 1 MiB: outcomes of a batch that differ in nothing but their results are settled together,
    and so quick jobs do not differ in this.
    """
    cpu = "" if attempt.cpu is None else 10 * round(attempt.cpu * 100)
    peak = "" if attempt.peak is None else -(-attempt.peak // 1_048_576)
    generation = "" if attempt.generation is None else attempt.generation
    return f"{cpu},{peak},{generation},{attempt.release}"


def _wait(error: bytes, policy: RetryPolicy, failures: int, rand: Random) -> float:
    """Seconds until the next attempt: what the exception asks for, at most `max_delay`; else by the policy."""
    asked = json.loads(error).get("retry_after")
    return backoff(policy, failures, rand) if asked is None else min(asked, policy.max_delay)


def error_of(payload: bytes) -> bytes:
    """The error that a child has sent, or one that says that it cannot be read."""
    return payload if _is_error(payload) else failure("EXCEPTION", "its error cannot be read")


def _is_error(payload: bytes) -> bool:
    """Whether a child has sent what an error is made of; task code can write to its socket too."""
    try:
        error = json.loads(payload)
        delay = error.get("retry_after", 0)
        texts = all(isinstance(error[name], str) for name in ("code", "type", "message", "traceback"))
        return texts and type(delay) in (int, float) and 0 <= delay < math.inf
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return False


def killed(
    attempt: Attempt, reason: KillReason | None, status: int, task: Task, policy: RetryPolicy, *, rand: Random
) -> Outcome | None:
    """
    What a child's death in the middle of the job means; None: nothing, its lease is lost or will expire.

    STARTED -> CANCELED | QUEUED (interrupted) | SCHEDULED (a crash that may be tried again) | FAILED.

    Args:
        attempt: the one that had begun.
        reason: why we killed the child, if we did.
        status: signal as a negative number, or exit status.
        task: whose ttl holds.
        policy: whose max_crashes and delays hold.
        rand: where jitter comes from.
    """
    if attempt.lost:
        return None
    if reason == KillReason.CANCELED or attempt.canceled:
        return canceled(attempt, task)
    if reason == KillReason.LOST:
        return None
    if reason == KillReason.SHUTDOWN:
        return interrupted(attempt, task, policy, _SHUTDOWN, "the daemon stopped before it had ended")
    if reason == KillReason.SERVER:
        why = "its fork server did not answer and was killed"
        return interrupted(attempt, task, policy, reason.value, why)
    crashes, wait = attempt.crashes + 1, 0.0
    if reason == KillReason.TIMEOUT:
        error = failure("TIMEOUT", f"ran longer than its hard timeout, {attempt.hard_timeout:g} s, and was killed")
        why, ended = "timeout", max(1, attempt.attempts - attempt.rescues)
        wait = backoff(policy, ended, rand)
    else:
        how = how_it_died(status) if reason is None else f"its child was killed: {reason.value}"
        error, why = failure("WORKER_CRASHED", how), "crashed"
    if crashes > policy.max_crashes:
        return _failed(attempt, task, error, why, crash=1)
    return Outcome(attempt.id, attempt.token, "retry", ms(wait), 1, error, why)


def interrupted(attempt: Attempt, task: Task, policy: RetryPolicy, why: str, message: str) -> Outcome:
    """
    It had begun, and was cut off by no fault of its own. STARTED -> QUEUED, or FAILED if it may begin once only.

    Args:
        attempt: the one that had begun.
        task: whose ttl holds.
        policy: says whether the job may begin again.
        why: what `last_outcome` will say.
        message: a sentence for the error of a job that fails.
    """
    if policy.at_most_once:
        error = failure("INTERRUPTED", f"{message}, and its retry policy lets it begin once only")
        return _failed(attempt, task, error, why)
    # A drain or reload of ours must not have the job expire.
    return Outcome(attempt.id, attempt.token, "released", 0, 0, b"drained" if why == _SHUTDOWN else b"begun", why)


def expired(attempt: Attempt, task: Task) -> Outcome:
    """It was claimed, and not begun in time. STARTED -> FAILED."""
    return _failed(attempt, task, failure("EXPIRED", "it had not begun when it expired"), "expired")


def in_time(attempt: Attempt, outcome: Outcome, task: Task, boot: int) -> Outcome:
    """
    The outcome, or a failure if the next attempt would begin after the job has expired. SCHEDULED -> FAILED.

    The error stays what the attempt came to, with another code and the reason why nothing follows.
    """
    if outcome.kind not in ("retry", "snoozed") or boot + outcome.ms * 1_000_000 < attempt.expires:
        return outcome
    error = json.loads(outcome.payload)
    message = "; ".join(filter(None, (error["message"], "not retried: that would be after `expires`")))
    payload = json.dumps(error | {"code": "EXPIRED", "message": message}).encode()
    return _failed(attempt, task, payload, "expired", crash=int(outcome.extra == 1))


def canceled(attempt: Attempt, task: Task) -> Outcome:
    """STARTED -> CANCELED."""
    error = failure("CANCELED", "it was canceled")
    return Outcome(attempt.id, attempt.token, "canceled", ms(task.failure_ttl), 0, error)


def released(attempt: Attempt, why: str) -> Outcome:
    """It has not begun. STARTED -> QUEUED, attempt undone."""
    return Outcome(attempt.id, attempt.token, "released", 0, 0, b"", why)


def with_history(attempt: Attempt, outcome: Outcome, now_ns: int, host: str) -> Outcome:
    """
    The outcome with what the job's history will say of the attempt: when and where it ran, why it failed.

    Times are in ms from its claim, whose time Redis has stored by its own clock: an outcome may reach it much later.

    Args:
        attempt: it has ended, or goes back.
        outcome: any but `finished`.
        now_ns: monotonic ns.
        host: this one's name.
    """
    about: dict[str, str | int] = {"host": host, "ended": (now_ns - attempt.claimed) // 1_000_000}
    if attempt.ran is not None:
        about["began"] = max(0, int(about["ended"]) - ms(attempt.ran))
        about["with"] = ran_with(attempt)
    if outcome.payload and outcome.kind != "released":
        error = json.loads(outcome.payload)
        words = (error["code"] if error["code"] != "EXCEPTION" else "", error["type"], error["message"])
        about["error"] = ": ".join(filter(None, words))[:_SHORT_ERROR]
    said = b"".join(b",%b:%b" % (_json(name), _json(value)) for name, value in about.items())
    is_failure = outcome.kind in ("retry", "failed")
    tail = (attempt.output_tail or b"")[-TAIL:].decode(errors="ignore") if is_failure else ""
    return outcome._replace(about=said, printed=_json(tail) if tail else b"")


def with_event_fields(attempt: Attempt, outcome: Outcome, now_ns: int) -> Outcome:
    """The outcome with what its event says of when the attempt began and how long it ran, if it has begun."""
    if attempt.ran is None:
        return outcome
    ran = int(attempt.ran * 1000)
    gap = max(0, (now_ns - attempt.claimed) // 1_000_000 - ran)
    return outcome._replace(said=b" w%d g%d d%d" % (attempt.waited_ms + gap, gap, ran))


def _json(value: str | int) -> bytes:
    """As JSON, in one line."""
    return json.dumps(value, ensure_ascii=False).encode(errors="replace")


def backoff(policy: RetryPolicy, attempt: int, rand: Random) -> float:
    """
    Seconds to wait before attempt + 1.

    Args:
        policy: gives the form, the delays in seconds and the jitter.
        attempt: 1 after the first failure.
        rand: where jitter comes from.

    Returns:
        fixed: delay; linear: delay · attempt; exponential: delay · 2**(attempt-1), the last two at most max_delay;
        list: delays[attempt-1], the last one repeats. Then ± jitter, and never below 0.
    """
    base = policy.delay_after(attempt)
    spread = policy.jitter or base * policy.jitter_share
    return max(0.0, base + rand.uniform(-spread, spread))


def unknown(attempt: Attempt, delay: float, error: bytes = b"") -> Outcome:
    """STARTED -> HELD, attempt undone, until a dispatcher has its task; `error`: why it does not load here."""
    none = failure("TASK_NOT_FOUND", undeclared(attempt.task.decode(errors="replace")))
    why = NOT_LOADED if error else "unknown task"
    return Outcome(attempt.id, attempt.token, "unknown", ms(delay), 0, error or none, why)


def refused(attempt: Attempt, delay: float) -> Outcome:
    """STARTED -> HELD by its task, or with 0 QUEUED, as if it had not been claimed: a pool has too little for it."""
    return Outcome(attempt.id, attempt.token, "refused", ms(delay))


def _failed(attempt: Attempt, task: Task, error: bytes, why: str = "", *, crash: int = 0) -> Outcome:
    return Outcome(attempt.id, attempt.token, "failed", ms(task.failure_ttl), crash, error, why)


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
