"""What an input may say."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusiond.web.inputs import BadInput, Input, gathered, moment, read_json, texts_of

LIMIT = Input("limit", "how many", form="number", default=50, least=1, most=500)
STATE = Input("state", "of jobs", words=("queued", "failed"), many=9)
NAME = Input("name", "a name", pattern="[a-z]+", required=True)
ARGS = Input("args", "a list", form="array", longest=1000)


def test_inputs_are_read_as_they_are_declared():
    """What is missing or empty has its default."""
    said = {"limit": ["20"], "state": ["queued", "failed"], "name": ["x"]}
    assert gathered((LIMIT, STATE, NAME), said) == {"limit": 20, "state": ["queued", "failed"], "name": "x"}
    assert gathered((LIMIT, STATE), {"limit": [""]}) == {"limit": 50, "state": []}


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"limit": ["501"]}, "limit: '501' is not a whole number from 1 to 500"),
        ({"limit": ["-1"]}, "limit"),
        ({"limit": ["1e3"]}, "limit"),
        ({"limit": ["٣"]}, "limit"),
        ({"limit": ["1", "2"]}, "limit: given 2 times"),
        ({"state": ["lost"]}, "state: 'lost' is none of queued, failed"),
        ({"state": ["queued"] * 101}, "state: given 101 times"),
        ({"name": ["X"]}, "name"),
        ({"name": ["x" * 300]}, "name: at most 200 characters"),
        ({"other": ["x"]}, "this page has no parameter 'other'"),
    ],
)
def test_what_is_outside_its_bounds_is_refused(said, why):
    """With one sentence that begins with the input's name."""
    with pytest.raises(BadInput, match=why):
        gathered((LIMIT, STATE, NAME), {"name": ["x"]} | said)


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
    for each in (LIMIT, STATE, NAME, Input("at", "a time", form="moment"), ARGS):
        with contextlib.suppress(BadInput):
            each.read(said)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=5).map(lambda v: [v]))
def test_json_in_a_body_is_not_read_twice(value):
    """A list of texts is one list, whatever is written in the texts."""
    assert gathered((ARGS,), texts_of((ARGS,), {"args": value})) == {"args": value}


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ({"limit": 7}, {"limit": 7}),
        ({"limit": "7"}, {"limit": 7}),
        ({"limit": None}, {"limit": 50}),
        ({"state": []}, {"state": []}),
        ({"state": "failed"}, {"state": ["failed"]}),
        ({"state": ["failed", "queued"]}, {"state": ["failed", "queued"]}),
    ],
)
def test_a_body_may_say_each_value_in_json(said, found):
    """A number as a number or a text; one value or a list where several are allowed."""
    [name] = said
    inputs = tuple(each for each in (LIMIT, STATE) if each.name == name)
    assert gathered(inputs, texts_of(inputs, said)) == found


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"args": "[1]"}, 'args: "\\[1\\]" is no JSON array'),
        ({"args": {}}, "args: {} is no JSON array"),
        ({"limit": ["7"]}, 'limit: \\["7"\\] is not a single value'),
        ({"limit": {}}, "limit: {} is not a single value"),
        ({"state": [["failed"]]}, "state: .* is not a single value"),
        ({"other": [1]}, "this page has no parameter 'other'"),
    ],
)
def test_a_value_of_the_wrong_type_is_refused(said, why):
    """With the name of the input, and the type that it should have."""
    inputs = (LIMIT, STATE, ARGS)
    with pytest.raises(BadInput, match=why):
        gathered(inputs, texts_of(inputs, said))


def test_json_that_is_too_deep_is_refused():
    """As everywhere else in fusiond."""
    with pytest.raises(BadInput, match="nested"):
        read_json("body", "[" * 600 + "]" * 600)
