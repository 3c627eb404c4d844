"""One limit for nested JSON, on every version of Python."""

import json

import pytest

from fusiond import json_depth
from fusiond.enqueue_options import encoded
from fusiond.errors import BadArguments
from fusiond.worker.runtime import payload


def nested(depth):
    """A list in a list in a list …"""
    value = []
    for _ in range(depth - 1):
        value = [value]
    return value


def depth_of(value):
    """How many containers are inside one another, by walking."""
    if not isinstance(value, (list, dict)):
        return 0
    below = value.values() if isinstance(value, dict) else value
    return 1 + max(map(depth_of, below), default=0)


def test_a_call_and_a_child_refuse_the_same_depth():
    """What `enqueue` takes a child reads, and what a child reads may be returned; one level more is refused by each."""
    most = json_depth.MOST - 2  # arguments stand in [args, kwargs]
    assert payload.arguments(encoded("task", [nested(most)], {})) == ([nested(most)], {}, {})
    with pytest.raises(BadArguments, match="nested deeper than 500 levels"):
        encoded("task", [nested(most + 1)], {})
    with pytest.raises(payload.TaskFailed, match="nested deeper than 500 levels"):
        payload.arguments(json.dumps([[nested(most + 1)], {}]).encode())
    assert json.loads(payload.result_json(nested(json_depth.MOST))) == nested(json_depth.MOST)
    for depth in (json_depth.MOST + 1, 100_000):
        with pytest.raises(payload.TaskFailed, match="nested deeper than 500 levels"):
            payload.result_json(nested(depth))


def test_what_holds_itself_is_refused_in_a_sentence():
    """A circle has no end."""
    circle = []
    circle.append(circle)
    with pytest.raises(BadArguments, match="or holds itself"):
        encoded("task", [circle], {})
