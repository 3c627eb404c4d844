"""`snooze_on` and `retry_after`: an exception that says "not yet" brings the job back, and says when."""

from pathlib import Path

import pytest

from fusiond.config.model import RetryPolicy
from tests.support.cases import few

BOTH = pytest.mark.parametrize("isolation", ["fork", "process"])
SNOOZING = RetryPolicy(max_attempts=1, delay=0.05, jitter_share=0, snooze_on=("jobs.NotReady",))
RETRYING = RetryPolicy(max_attempts=2, delay=60, jitter_share=0)


@BOTH
def test_a_job_comes_back_until_it_is_ready(place, isolation):
    """More often than the policy has attempts; no attempt is counted, and it finishes in its first one."""
    place.start(isolation=isolation, tasks={"wait_for": {"retry": "p"}}, policies={"p": SNOOZING})
    path, ready = place.path(), place.path()
    id_ = place.enqueue("wait_for", path, ready)
    place.until_lines(path, 4)
    Path(ready).touch()
    record = place.until(id_)
    assert (record.status, record.attempts, record.crashes) == ("finished", 1, 0)


@few("isolation", ["fork", "process"])
@pytest.mark.parametrize("policy", [SNOOZING, RETRYING])
def test_the_exception_says_when(place, isolation, policy):
    """`retry_after` stands for the policy's delay, for a snooze and for a retry."""
    place.start(isolation=isolation, tasks={"wait_for": {"retry": "p"}}, policies={"p": policy})
    path, ready = place.path(), place.path()
    id_ = place.enqueue("wait_for", path, ready, 0.4)
    place.until_lines(path, 1)
    Path(ready).touch()
    assert place.until(id_).status == "finished"
    first, second, *_ = (float(line) for line in place.lines(path))
    # The clock of Redis counts whole ms.
    assert 0.398 <= second - first < 30
