"""A slice of `python -m tests.chaos.resources`: what runs out, and jobs that do as they like, once, under load."""

import functools

import pytest

from tests.chaos import resources, strikes

#: shorter, and a result that fits into a small machine
SHORT = {
    "descriptors": functools.partial(resources.descriptors, seconds=1.0),
    "processes": functools.partial(resources.processes, seconds=1.0),
    "disk": resources.disk,
    "misfits": functools.partial(resources.misfits, mebibytes=64),
}


@pytest.mark.parametrize("name", SHORT)
def test_no_job_comes_to_harm(name):
    """Each job that is counted runs to its end, each misfit ends as it must, and afterwards every place is of use."""
    if not resources.can(name):
        pytest.skip("this user may not do that")
    finding = resources.carry_out(resources.SCENARIOS[name], times=1, strike=SHORT[name])
    print(strikes.row(name, 1, finding))
    assert finding.violations == []
