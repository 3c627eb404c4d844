"""What an input may say."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusiond.web.inputs import BadInput, Input, gathered, moment, read_json

LIMIT = Input("limit", "how many", form="number", default=50, least=1, most=500)
STATE = Input("state", "of jobs", words=("queued", "failed"), many=True)
NAME = Input("name", "a name", pattern="[a-z]+", required=True)


def test_inputs_are_read_as_they_are_declared():
    """What is missing or empty has its default."""
    said = {"limit": ["20"], "state": ["queued", "failed"], "name": ["x"]}
    assert gathered((LIMIT, STATE, NAME), said) == {"limit": 20, "state": ["queued", "failed"], "name": "x"}
    assert gathered((LIMIT, STATE), {"limit": [""]}) == {"limit": 50, "state": []}


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"limit": ["501"]}, "limit: '501' is no whole number from 1 to 500"),
        ({"limit": ["-1"]}, "limit"),
        ({"limit": ["1e3"]}, "limit"),
        ({"limit": ["٣"]}, "limit"),
        ({"limit": ["1", "2"]}, "limit: given 2 times"),
        ({"state": ["lost"]}, "state: 'lost' is none of queued, failed"),
        ({"state": ["queued"] * 101}, "state: given 101 times"),
        ({"name": ["X"]}, "name"),
        ({"name": ["x" * 300]}, "name: at most 200 characters"),
        ({"other": ["x"]}, "'other' is no input of this page"),
    ],
)
def test_what_is_outside_its_bounds_is_refused(said, why):
    """With one sentence that begins with the input's name."""
    with pytest.raises(BadInput, match=why):
        gathered((LIMIT, STATE, NAME), {"name": ["x"]} | said)


def test_what_is_required_must_be_there():
    """The sentence says what is missing."""
    with pytest.raises(BadInput, match="name is missing: a name"):
        gathered((NAME,), {})


def test_moments():
    """A duration is so long ago; an ISO time is UTC unless it names a zone."""
    assert moment("since", "90s", now=1000) == 910_000
    assert moment("since", "1970-01-01T00:01", now=0) == 60_000
    assert moment("since", "1970-01-01T00:01+01:00", now=0) == -3_540_000
    for said in ("yesterday", "12", "9999999-01-01"):
        with pytest.raises(BadInput):
            moment("since", said, now=0)


@given(st.text(max_size=300))
def test_any_text_is_read_or_refused(said):
    """Nothing but BadInput is raised, whatever somebody types."""
    for each in (LIMIT, STATE, NAME, Input("at", "a time", form="moment"), Input("body", "JSON", form="json")):
        with contextlib.suppress(BadInput):
            each.read(said)


def test_json_that_is_too_deep_is_refused():
    """As everywhere else in fusiond."""
    with pytest.raises(BadInput, match="nested"):
        read_json("body", "[" * 600 + "]" * 600)
