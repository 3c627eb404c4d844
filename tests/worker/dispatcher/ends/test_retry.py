"""What follows a failed attempt, for every policy."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from fusiond.config.model import RetryPolicy, Task
from fusiond.worker.dispatcher.ends import verdicts
from fusiond.worker.dispatcher.ends.verdicts import backoff
from fusiond.worker.pool.attempt import Attempt, KillReason

TASK = Task("t", "m.f")

SECONDS = st.floats(0, 1e6)
POLICIES = st.builds(
    RetryPolicy,
    max_attempts=st.integers(1, 100),
    backoff=st.sampled_from(["fixed", "linear", "exponential", "list"]),
    delay=SECONDS,
    delays=st.lists(SECONDS, min_size=1, max_size=5).map(tuple),
    max_delay=SECONDS,
    jitter_share=st.floats(0, 1),
    jitter=st.just(0.0) | SECONDS,
    max_crashes=st.integers(0, 10),
)


class Middle(Random):
    """No jitter."""

    def uniform(self, a, b):
        return (a + b) / 2


def attempt(number, crashes=0):
    return Attempt("q", b"id", "token", b"t", b"[]", b"", number, crashes, 0, 0, 0)


def waits(policy, count):
    return [backoff(policy, attempt, Middle()) for attempt in range(1, count + 1)]


def test_the_forms():
    """Each form as its documentation says, the last two capped, the list's last one repeated."""
    assert waits(RetryPolicy(backoff="fixed", delay=3), 3) == [3, 3, 3]
    assert waits(RetryPolicy(backoff="linear", delay=3, max_delay=8), 4) == [3, 6, 8, 8]
    assert waits(RetryPolicy(backoff="exponential", delay=2, max_delay=10), 5) == [2, 4, 8, 10, 10]
    assert waits(RetryPolicy(backoff="list", delays=(5, 1)), 4) == [5, 1, 1, 1]


@given(POLICIES, st.integers(1, 10_000), st.integers())
def test_a_wait_is_never_below_nothing_nor_far_above_the_form(policy, attempt, seed):
    """Jitter moves it by its share at most, or by its seconds; no attempt is too late for the sum."""
    wait = backoff(policy, attempt, Random(seed))
    middle = backoff(policy, attempt, Middle())
    spread = policy.jitter or middle * policy.jitter_share
    assert 0 <= wait <= middle + spread + 1e-5
    assert wait >= middle - spread - 1e-5


def test_what_a_lease_that_is_over_means():
    """Canceled counts first; else it is not ours to say."""
    ended = lambda each: verdicts.killed(each, KillReason.LOST, 0, TASK, RetryPolicy(), rand=Middle())  # noqa: E731
    each = attempt(1)
    assert ended(each) is None
    each.canceled = True
    assert ended(each).kind == "canceled"
    each.lost = True
    assert ended(each) is None
