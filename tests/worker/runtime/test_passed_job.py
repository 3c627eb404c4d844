"""What `pass_job` hands to a task."""

import copy
import json
import pickle
from fractions import Fraction

import pytest

from fusiond.worker.runtime.passed_job import PassedJob


@pytest.fixture
def said():
    return []


@pytest.fixture
def job(said):
    return PassedJob({"id": "x", "meta": {"a": 1}}, lambda share, message: said.append((share, message)))


def test_it_says_how_far_the_job_is(job, said):
    """By any number that is a share."""
    for share in (0, 0.5, 1, Fraction(1, 4)):
        job.progress(share)
    job.progress(1.0, "done")
    assert said == [(0.0, ""), (0.5, ""), (1.0, ""), (0.25, ""), (1.0, "done")]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [((50,), ValueError), ((-0.1,), ValueError), ((float("nan"),), ValueError), (("half",), TypeError),
     ((None,), TypeError), ((10**400,), TypeError), ((0.5, 3), TypeError)],
)  # fmt: skip
def test_wrong_arguments(job, said, arguments, error):
    """The mistake is shown where it is made."""
    with pytest.raises(error, match=r"the share is a number from 0 to 1|the message is a text"):
        job.progress(*arguments)
    assert said == []


def test_copies_are_plain_dicts(job):
    """They may go to other processes, and into JSON."""
    for copied in (pickle.loads(pickle.dumps(job)), copy.copy(job), copy.deepcopy(job), json.loads(json.dumps(job))):
        assert type(copied) is dict
        assert copied == job == {"id": "x", "meta": {"a": 1}}
