"""How often a job may begin by its policy (I15), until when for the first time (I16), how many at once (I20)."""

import pytest

from tests.chaos import hunt


@pytest.mark.parametrize("situation", ["jobs that are cut off", "jobs that expire", "limits under kills"])
def test_no_job_begins_too_often_or_too_late_or_beside_too_many(situation):
    """The right code stands it; `python -m tests.chaos --bugs` puts mistakes into it that must be found."""
    assert hunt.stand(situation) == []
