"""A slice of `python -m tests.soak.storm`."""

from tests.soak.storm import WARM, storm

RELOADS = WARM + 10


def test_reloads_under_load_lose_nothing_and_leave_nothing():
    """Some of them invalid, some during a drain: each job runs once, one runs through all, the daemon does not grow."""
    blown, _, _ = storm(RELOADS, seed=1)
    assert blown.results["applied"] > RELOADS // 2
