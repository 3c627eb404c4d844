"""A slice of `python -m tests.chaos.redis`: each way in which Redis fails, once, under load. I1 to I8 hold."""

import pytest

from tests.chaos import redis, strikes
from tests.support.redis_server import has_compiler

#: what each must have met, of the daemon's log; nothing where it does not notice
NOTICED = {
    "killed": "Redis is back",
    "readonly": "Redis is back",
    "loading": "Redis is back",
    "misconf": "MISCONF",
    "busy": "BUSY",
}


CLOCK = pytest.mark.skipif(not has_compiler(), reason="the clock is set by a small library, which gcc makes")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[CLOCK] * each.clocked) for name, each in redis.SCENARIOS.items()]
)
def test_no_job_comes_to_harm(name):
    """No acknowledged job is lost or ends twice or runs again unexplained; jobs begin within 2 s of the return."""
    scenario = redis.SCENARIOS[name]
    finding = redis.carry_out(scenario, times=1)
    print(strikes.row(name, 1, finding))
    assert finding.violations == []
    assert NOTICED.get(name, "") in finding.text
