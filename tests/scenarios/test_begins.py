"""How often a job may begin by its policy (I15), and until when for the first time (I16), under kills and stops."""

import pytest

from tests.chaos import hunt


@pytest.mark.parametrize("situation", ["jobs that are cut off", "jobs that expire"])
def test_no_job_begins_too_often_or_too_late(situation):
    """The right code stands it; `python -m tests.chaos --bugs` puts mistakes into it that must be found."""
    assert hunt.stand(situation) == []
