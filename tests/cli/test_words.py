import argparse
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusiond.cli.enqueue import words
from fusiond.errors import BadArguments

#: deeper than JSON may be nested
DEEP = "[" * 5000 + "]" * 5000


@pytest.mark.parametrize(
    ("typed", "args", "kwargs"),
    [
        (["+49123", "code=1234"], ["+49123"], {"code": "1234"}),
        (["n:=3", "on:=true", "tags:=[1, 2]"], [], {"n": 3, "on": True, "tags": [1, 2]}),
        (["text="], [], {"text": ""}),
        (["url=https://x.org/?a=b"], [], {"url": "https://x.org/?a=b"}),
        (["https://x.org/?a=b", "1=2", "-x=1", ""], ["https://x.org/?a=b", "1=2", "-x=1", ""], {}),
        (["größe=3", "zwei\nzeilen=a\nb"], ["zwei\nzeilen=a\nb"], {"größe": "3"}),
    ],
)
def test_words_split_into_arguments_and_keywords(typed, args, kwargs):
    """ARG stays a string, NAME=VALUE is a keyword, NAME:=JSON keeps its type; a URL is no keyword."""
    assert words.split(typed) == (args, kwargs)


def test_help_says_how_a_string_with_an_equals_sign_is_passed():
    """It would be a keyword; --args takes it as it is."""
    parser = argparse.ArgumentParser()
    words.add_options(parser)
    assert "pass a string such as a=b with --args" in " ".join(parser.format_help().split())
    assert words.arguments(parser.parse_args(["--args", '["a=b"]', "c=d"])) == (["a=b"], {"c": "d"})


@given(st.dictionaries(st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True), st.text() | st.integers() | st.none()))
def test_any_keyword_survives_being_typed(kwargs):
    """Whatever the value, NAME:=JSON hands over the same value."""
    assert words.split([f"{name}:={json.dumps(value)}" for name, value in kwargs.items()]) == ([], kwargs)


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        (["n:=x"], "n:=x is not JSON"),
        ([f"n:={DEEP}"], "nested deeper than 500 levels; write n=… for a string"),
        (["n=1", "n:=1"], "'n' is given twice"),
    ],
)
def test_a_wrong_word_is_one_sentence(typed, says):
    """What cannot be meant is refused with the word and the remedy."""
    with pytest.raises(BadArguments, match=says):
        words.split(typed)


def test_args_come_before_words_and_keywords_only_once():
    """--args are the first arguments; a keyword in --kwargs and as a word is refused."""
    options = argparse.Namespace(words=["b", "x=1"], args=["a"], kwargs={"y": 2})
    assert words.arguments(options) == (["a", "b"], {"x": "1", "y": 2})
    options.kwargs["x"] = 3
    with pytest.raises(BadArguments, match="'x' is given twice"):
        words.arguments(options)


@pytest.mark.parametrize("text", ["{", '{"a": 1}', "3", ""])
def test_args_must_be_a_json_array(text):
    """--args takes an array and nothing else."""
    with pytest.raises(argparse.ArgumentTypeError, match="JSON array"):
        words.json_list(text)


def test_what_is_nested_too_deep_is_refused_in_a_short_sentence():
    """Not a traceback, nor all of the brackets."""
    with pytest.raises(argparse.ArgumentTypeError, match=r"^.{1,80} nested deeper than 500 levels"):
        words.json_list(DEEP)
