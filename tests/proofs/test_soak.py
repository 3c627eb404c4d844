"""A slice of `python -m tests.soak`, and its verdict, which can fail."""

import pytest

from tests.soak.soak import GROUPS, LIMITS, Plan, grown, soaked

#: 20 values each, as level as a series can be
LEVEL = {name: [100.0] * 20 for name in LIMITS}


@pytest.mark.parametrize("name", LIMITS)
def test_each_series_that_grows_is_named(name):
    """Memory, descriptors, processes, keys or latency that rises past its tolerance is found, and nothing else."""
    limit = LIMITS[name]
    # Above what is allowed, between the middles of the second and the last fifth.
    step = (100 * limit.share + limit.slack) / 6
    growing = [100 + place * step for place in range(20)]
    assert [each.partition(":")[0] for each in grown({**LEVEL, name: growing})] == [name]


def test_a_short_soak_is_judged():
    """Six seconds at a third of full speed under reloads: each job ran once, every series was judged, nothing grew."""
    soak, wrong = soaked(Plan(6, reload=1.5, sample=0.3, window=0.6, calibration=1), say=lambda *_, **__: None)
    # How long a job takes on a busy machine is no promise of a slice; that it was judged is.
    assert [each for each in wrong if "p99" not in each] == []
    assert soak.reloads["applied"] >= 1
    assert min(len(series) for name, series in soak.series.items() if "p99" not in name) >= 5
    assert all(soak.series[f"{group}, p99, ms"] for group in GROUPS)
    assert all(lane.sent > 50 for lane in soak.lanes)
