"""The history of jobs that real groups run: where and when an attempt ran, how it ended, and what it has printed."""

import socket
import time

import pytest

from fusiond.config.model import RetryPolicy
from tests.support.past import contradictions

EACH = pytest.mark.parametrize(
    "group",
    [{"isolation": "fork"}, {"isolation": "process"}, {"executor": "asyncio", "concurrency": 2}],
    ids=lambda group: group.get("executor") or group["isolation"],
)
ONCE_MORE = RetryPolicy(max_attempts=2, delay=0.0, jitter_share=0.0, max_crashes=3)


@EACH
def test_an_attempt_that_failed(place, group):
    """Also one whose process has died: what it printed before is there."""
    place.start(**group, tasks={"say_and_end": {"retry": "p"}}, policies={"p": ONCE_MORE})
    before = time.time() * 1000 - 1000
    path = place.path()
    record = place.until(place.enqueue("say_and_end", path))
    assert (record.status, record.attempts) == ("failed", 3)
    assert [*contradictions(record)] == []
    outcomes = [(past.attempt, past.outcome, past.host, past.crash) for past in record.history]
    host = socket.gethostname()
    assert outcomes == [(1, "retry", host, False), (2, "crashed", host, True), (3, "failed", host, False)]
    assert record.history[0].error == "ValueError: attempt 1"
    assert "exit status 3" in record.history[1].error
    for one, two in zip(record.history, record.history[1:], strict=False):
        assert before <= one.began_at <= one.ended_at <= two.began_at
    assert record.printed_attempt == 3
    assert record.printed.endswith("line 1999 of attempt 3\n")
    assert 32_000 < len(record.printed) <= 32_768
