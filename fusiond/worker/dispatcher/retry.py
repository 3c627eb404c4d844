"""
What follows a failed attempt. Pure: policy, counts and chance go in, what next comes out.

An exception is a failure and spends one of max_attempts. A crash (a signal, the hard timeout, an exit in mid-job) is
counted apart, by max_crashes. After a hard timeout the job waits as after a failure: what was too slow has often met a
neighbour in trouble. After any other crash it runs again at once.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

    from fusiond.config.model import RetryPolicy


def backoff(policy: RetryPolicy, attempt: int, rand: Random) -> timedelta:
    """
    How long to wait before attempt + 1.

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
    return timedelta(seconds=max(0.0, base + rand.uniform(-spread, spread)))


def after_failure(policy: RetryPolicy, failures: int, *, may_retry: bool, rand: Random) -> timedelta | None:
    """
    The wait before the next attempt, or None: the job has failed.

    Args:
        policy: of the job's task.
        failures: attempts that ended in an exception, this one included.
        may_retry: whether the exception is one that the policy retries.
        rand: where jitter comes from.
    """
    if not may_retry or failures >= policy.max_attempts:
        return None
    return backoff(policy, failures, rand)


def after_crash(policy: RetryPolicy, crashes: int) -> timedelta | None:
    """The wait before the next attempt, none, or None: `crashes`, this one included, are above max_crashes."""
    return timedelta(0) if crashes <= policy.max_crashes else None


def after_hard_timeout(policy: RetryPolicy, crashes: int, attempt: int, *, rand: Random) -> timedelta | None:
    """
    The wait before the next attempt, or None: the job has failed.

    Args:
        policy: of the job's task.
        crashes: this one included.
        attempt: how many attempts have failed or crashed, this one included.
        rand: where jitter comes from.
    """
    return backoff(policy, attempt, rand) if crashes <= policy.max_crashes else None
