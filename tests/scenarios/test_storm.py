"""A slice of `python -m tests.reload_storm`."""

import pytest

from tests.reload_storm import GROWTH, WARM, storm

RELOADS = WARM + 20


@pytest.mark.timeout(240)
def test_reloads_under_load_lose_nothing_and_leave_nothing():
    """Some of them invalid, some during a drain: each job runs once, one runs through all, the daemon does not grow."""
    blown, warm, end = storm(RELOADS, seed=1)
    assert blown.results["refused"] == RELOADS // 10
    assert blown.results["applied"] > RELOADS // 2
    assert blown.draining >= RELOADS // 10
    # The first main has ended with its job: dispatcher, fork server and two children.
    assert end.processes < warm.processes
    assert end.descriptors <= warm.descriptors
    assert end.memory < warm.memory + GROWTH
