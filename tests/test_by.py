"""Arguments that `by` names and a caller gives by position."""

import dataclasses
import json

import pytest

from fusiond.by import named
from fusiond.enqueue_options import NO_OPTIONS
from fusiond.errors import BadArguments
from fusiond.producer.new_jobs import JobMaker

RUN = f"{__name__}.sync"


def sync(account, since=None, *rest, deep=False):
    return account, since, rest, deep


@pytest.mark.parametrize(
    ("by", "args", "kwargs", "expected"),
    [
        (["kwargs.account"], ("acme",), {}, ((), {"account": "acme"})),
        (["kwargs.account"], ("acme", 3), {"deep": True}, ((), {"account": "acme", "since": 3, "deep": True})),
        (["kwargs.since"], ("acme", 3), {}, (("acme",), {"since": 3})),
        (["kwargs.account"], (), {"account": "acme"}, ((), {"account": "acme"})),
    ],
)
def test_they_are_passed_by_name(by, args, kwargs, expected):
    """With what stands behind them; the function gets the same."""
    found = named(by, RUN, args, kwargs)
    assert found == expected
    assert sync(*found[0], **found[1]) == sync(*args, **kwargs)


@pytest.mark.parametrize(
    ("by", "run", "args", "kwargs"),
    [
        (["kwargs.account"], "no.such.module", ("acme",), {}),
        (["kwargs.account"], f"{__name__}.missing", ("acme",), {}),
        (["args.0", "kwargs.since"], RUN, ("acme", 3), {}),
        (["kwargs.account"], RUN, ("acme", 3, 4), {}),
        (["kwargs.account"], RUN, ("acme",), {"account": "other"}),
        (["kwargs.deep"], RUN, ("acme",), {}),
        ([], RUN, ("acme",), {}),
    ],
)
def test_where_that_cannot_be_the_call_stays_as_it_is(by, run, args, kwargs):
    """An unknown function, positions that count, more than the function names, one that is given twice."""
    assert named(by, run, args, kwargs) == (args, kwargs)


def test_a_limited_job_may_be_enqueued_by_position(broker):
    """Its limit counts by the name that the function gives the argument; by an unknown function the remedy is said."""
    for path in (RUN, "elsewhere.sync"):
        tasks = {"sync": {"queue": "q", "priority": 1, "run": path, "limit_by": ["kwargs.account"]}}
        maker = JobMaker(broker)
        maker._catalogue, maker._read_at = dataclasses.replace(maker._catalogue, tasks=tasks), float("inf")
        if path == RUN:
            _, job, _ = maker._make(NO_OPTIONS, ("sync", ("acme", 3), {}))
            assert json.loads(job.args) == [[], {"account": "acme", "since": 3}]
        else:
            with pytest.raises(BadArguments, match=r"kwargs.account is missing; pass it by name"):
                maker._make(NO_OPTIONS, ("sync", ("acme", 3), {}))
